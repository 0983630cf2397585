"""Parameter groups by role, and the optimizers that are built from them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import nn

from mgvr_lightning.errors import InputError
from mgvr_lightning.values import Role, declarations

ParameterGroups = dict[Role, dict[str, nn.Parameter]]


def role_groups(module: nn.Module) -> ParameterGroups:
    """Sorts the parameters of a module by role: every trainable one is in exactly one group.

    Args:
        module: a module all of whose parameters are declared.

    Returns:
        Role → qualified name → parameter, without empty groups.
    """
    parameters = dict(module.named_parameters())
    groups: ParameterGroups = {}
    for name, declaration in declarations(module):
        groups.setdefault(declaration.role, {})[name] = parameters.pop(name)
    assert not parameters, f"undeclared parameters: {sorted(parameters)}"
    return groups


def parameter_counts(module: nn.Module) -> dict[str, int]:
    """Number of parameters by role."""
    return {role.value: sum(p.numel() for p in group.values()) for role, group in role_groups(module).items()}


class Optimizer(ABC):
    """How the parameters of a network are optimised."""

    @abstractmethod
    def build(self, groups: ParameterGroups) -> torch.optim.Optimizer:
        """Builds the optimizer; each of its groups names its role under `role`."""


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
        roles = [role.value for role in Role]
        for option, given in (("decayed", self.decayed), ("multipliers", self.multipliers)):
            for name in given:
                if name not in roles:
                    raise InputError(
                        f"optimizer.{option}: no role named {name!r}. Roles: {', '.join(roles)}."
                    )
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(
                f"optimizer.learning_rate: {self.learning_rate}. Expected a positive, finite number."
            )

    def build(self, groups: ParameterGroups) -> torch.optim.AdamW:
        """Builds the optimizer, one group per role."""
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
