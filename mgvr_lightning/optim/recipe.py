"""The settings of arXiv 2606.02780: Muon for matrices, AdamW by role for everything else."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from mgvr_lightning.errors import InputError
from mgvr_lightning.optim.groups import ParameterGroups
from mgvr_lightning.optim.mixed import MuonAdamWOptimizer
from mgvr_lightning.optim.spec import (
    Optimizer,
    RunFacts,
    check_averages,
    check_not_negative,
    check_rate,
    check_roles,
)
from mgvr_lightning.values import Role

Precision = Literal["bfloat16", "float32", "float64"]


class RoleRecipe(NamedTuple):
    """AdamW's settings of a role: its rate at the reference width, and the power of width this goes with."""

    rate: float
    betas: tuple[float, float]
    weight_decay: float
    width_power: float = 0.0


RECIPE = {
    Role.EMBEDDING: RoleRecipe(0.3, (0.8, 0.995), 0.001, -0.5),
    Role.HEAD: RoleRecipe(0.008, (0.8, 0.96), 0.01, -0.5),
    Role.TABLE: RoleRecipe(0.15, (0.8, 0.995), 0.01, -0.5),
    Role.OWN_SCALAR: RoleRecipe(0.005, (0.8, 0.95), 0.05),
    Role.SOURCE_SCALAR: RoleRecipe(0.5, (0.96, 0.95), 0.0),
    Role.TOKEN_DEPENDENT: RoleRecipe(2e-3, (0.8, 0.95), 0.0, -1.0),
}
"""The paper's settings by role; token_dependent, which it doesn't have, is this project's."""

UNNAMED = RoleRecipe(math.nan, (0.8, 0.95), 0.0)
"""Of a role that AdamW is given although the recipe leaves it to Muon: its rate must be given."""


@dataclass
class MuonAdamW(Optimizer):
    """Muon for the matrices of some roles, AdamW for the rest: the recipe of arXiv 2606.02780.

    Its options have other names than those of the `AdamW` here: where the command line puts one class in the
    other's place, it keeps the values of options that both have.

    Args:
        muon: roles that Muon updates. All of their parameters must be matrices.
        muon_rate: Muon's peak learning rate; times √(rows / columns) for a matrix taller than wide.
        muon_decay: Muon's weight decay at the start, of entries that have the sign of their update; falls to
            0 over the run as half a cosine.
        momentum: Muon's at the first update, at its peak, and at the end of the learning rate's decay.
        momentum_warmup: updates from the first momentum to the peak.
        beta: decay rate of the second moment that normalises Muon's rows.
        dtype: what Muon orthogonalises in: bfloat16, float32 or float64.
        rates: role → AdamW's peak rate at the reference width and batch, in place of the recipe's.
        betas: role → AdamW's decay rates of the first and the second moment, in place of the recipe's.
        decays: role → AdamW's weight decay, in place of the recipe's.
        adamw_eps: AdamW's, added to the root of the second moment.
        reference_width: width at which the rates hold. AdamW's go with (width / this)^-½ for embedding, head
            and table, with its inverse for token_dependent. Null to leave them as they are.
        reference_batch: tokens of a step at which the rates hold; all go with √(tokens / this). Null to leave
            them as they are.
        reference_tokens: tokens of the run at which Muon's weight decay holds. It goes with
            √(tokens of a step / reference_batch) · this / tokens of the run. Null to leave it as it is.
            In nanochat's scripts/base_train.py, where the rule is from, both are one multiple of the
            parameters in matrices and head, however long the run: give muon_decay itself for that.
    """

    muon: list[str] = field(default_factory=lambda: [Role.MATRIX.value])
    muon_rate: float = 0.02
    muon_decay: float = 0.28
    momentum: tuple[float, float, float] = (0.85, 0.97, 0.90)
    momentum_warmup: int = 400
    beta: float = 0.9
    dtype: Precision = "bfloat16"
    rates: dict[str, float] = field(default_factory=dict)
    betas: dict[str, tuple[float, float]] = field(default_factory=dict)
    decays: dict[str, float] = field(default_factory=dict)
    adamw_eps: float = 1e-10
    reference_width: int | None = 768
    reference_batch: int | None = 2**19
    reference_tokens: float | None = None

    def __post_init__(self) -> None:
        check_roles("muon", self.muon)
        check_rate("muon_rate", self.muon_rate)
        given: dict[str, dict[str, Any]] = {"rates": self.rates, "betas": self.betas, "decays": self.decays}
        for option, values in given.items():
            check_roles(option, values)
            for role in values.keys() & set(self.muon):
                raise InputError(
                    f"optimizer.{option}: {role} is updated by Muon, which has no such setting by role. "
                    "Give muon_rate, momentum or muon_decay, or take the role out of optimizer.muon."
                )
        for role, rate in self.rates.items():
            check_rate(f"rates.{role}", rate)
        for role, pair in self.betas.items():
            check_averages(f"betas.{role}", pair)
        for role, decay in self.decays.items():
            check_not_negative(f"decays.{role}", decay)
        check_averages("momentum", self.momentum)
        check_averages("beta", [self.beta])
        for option in ("muon_decay", "momentum_warmup", "adamw_eps"):
            check_not_negative(option, getattr(self, option))
        for option in ("reference_width", "reference_batch", "reference_tokens"):
            reference = getattr(self, option)
            if reference is not None and not 0 < reference < math.inf:
                raise InputError(
                    f"optimizer.{option}: {reference}. Expected a positive number, or null for no scaling."
                )
        if self.reference_tokens is not None and self.reference_batch is None:
            raise InputError(
                "optimizer.reference_tokens: weight decay goes with the batch too. "
                "Expected optimizer.reference_batch beside it."
            )
        if self.dtype not in get_args(Precision):
            raise InputError(
                f"optimizer.dtype: no {self.dtype!r}. Expected one of {', '.join(get_args(Precision))}."
            )

    def build(self, groups: ParameterGroups, facts: RunFacts) -> MuonAdamWOptimizer:
        """Builds the optimizer, one group per role.

        Raises:
            InputError: a role of Muon's has a parameter that is no matrix, or one of AdamW's has no rate.
        """
        batch = math.sqrt(facts.batch_tokens / self.reference_batch) if self.reference_batch else 1.0
        options = []
        for role, parameters in groups.items():
            if role.value in self.muon:
                for name, parameter in parameters.items():
                    if parameter.ndim != 2:
                        raise InputError(
                            f"optimizer.muon: {name}, whose role is {role.value}, has shape "
                            f"{tuple(parameter.shape)}. Muon updates matrices; leave that role out."
                        )
                group = self._muon_options(batch, facts)
            else:
                group = self._adamw_options(role, batch, facts)
            options.append({"params": list(parameters.values()), "role": role.value, **group})
        ids = [id(parameter) for option in options for parameter in option["params"]]
        assert len(ids) == len(set(ids)), "a parameter has two roles"
        return MuonAdamWOptimizer(options)

    def _muon_options(self, batch: float, facts: RunFacts) -> dict[str, Any]:
        horizon = batch * self.reference_tokens / facts.tokens if self.reference_tokens else 1.0
        return {
            "rule": "muon",
            "lr": self.muon_rate * batch,
            "weight_decay": self.muon_decay * horizon,
            "momentum": tuple(self.momentum),
            "momentum_warmup": self.momentum_warmup,
            "beta": self.beta,
            "dtype": self.dtype,
            "steps": facts.steps,
            "decay_start": facts.decay_start,
        }

    def _adamw_options(self, role: Role, batch: float, facts: RunFacts) -> dict[str, Any]:
        recipe = RECIPE.get(role, UNNAMED)
        rate = self.rates.get(role.value, recipe.rate)
        if math.isnan(rate):
            raise InputError(
                f"optimizer.rates: the recipe has no rate of AdamW for {role.value}. "
                "Give one, or put the role into optimizer.muon."
            )
        width = (facts.width / self.reference_width) ** recipe.width_power if self.reference_width else 1.0
        return {
            "rule": "adamw",
            "lr": rate * width * batch,
            "betas": tuple(self.betas.get(role.value, recipe.betas)),
            "eps": self.adamw_eps,
            "weight_decay": self.decays.get(role.value, recipe.weight_decay),
            "fused": True,
        }
