"""AdamW for every role."""

from dataclasses import dataclass, field

import torch

from mgvr_lightning.optim.groups import ParameterGroups
from mgvr_lightning.optim.spec import (
    Optimizer,
    RunFacts,
    check_averages,
    check_not_negative,
    check_rate,
    check_roles,
)
from mgvr_lightning.values import Role


@dataclass
class AdamW(Optimizer):
    """AdamW, arXiv 1711.05101.

    Args:
        learning_rate: peak learning rate.
        betas: decay rates of the first and the second moment.
        eps: added to the root of the second moment.
        weight_decay: decoupled weight decay of the roles that are decayed.
        decayed: roles whose parameters decay; gates and mixes don't.
        multipliers: role → factor on the learning rate; 1 where none is given.
    """

    learning_rate: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    decayed: list[str] = field(default_factory=lambda: [Role.MATRIX.value, Role.HEAD.value])
    multipliers: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_roles("decayed", self.decayed)
        check_roles("multipliers", self.multipliers)
        check_rate("learning_rate", self.learning_rate)
        check_averages("betas", self.betas)
        check_not_negative("eps", self.eps)
        check_not_negative("weight_decay", self.weight_decay)
        for role, factor in self.multipliers.items():
            check_not_negative(f"multipliers.{role}", factor)

    def build(self, groups: ParameterGroups, facts: RunFacts | None = None) -> torch.optim.AdamW:
        """Builds the optimizer, one group per role; nothing in it depends on the run."""
        options = [
            {
                "params": list(parameters.values()),
                "role": role.value,
                "lr": self.learning_rate * self.multipliers.get(role.value, 1.0),
                "weight_decay": self.weight_decay if role.value in self.decayed else 0.0,
            }
            for role, parameters in groups.items()
        ]
        return torch.optim.AdamW(options, betas=self.betas, eps=self.eps, fused=True)
