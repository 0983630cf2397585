"""What every optimizer's settings have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from mgvr_lightning.errors import InputError
from mgvr_lightning.optim.groups import ParameterGroups
from mgvr_lightning.values import Role


@dataclass(frozen=True)
class RunFacts:
    """What an optimizer may need to know of the run.

    Args:
        width: channels of the residual stream.
        batch_tokens: tokens of one optimizer step, over all processes.
        steps: optimizer steps of the whole run.
        decay_start: steps done when the learning rate begins to fall; `steps` where it never does.
    """

    width: int
    batch_tokens: int
    steps: int
    decay_start: float

    @property
    def tokens(self) -> int:
        """Tokens of the whole run."""
        return self.steps * self.batch_tokens


class Optimizer(ABC):
    """How the parameters of a network are optimised."""

    @abstractmethod
    def build(self, groups: ParameterGroups, facts: RunFacts) -> torch.optim.Optimizer:
        """Builds the optimizer: one group per role, which it names under `role`."""


def check_roles(option: str, names: Iterable[str]) -> None:
    """Refuses names that aren't a role's.

    Raises:
        InputError: one isn't.
    """
    roles = [role.value for role in Role]
    for name in names:
        if name not in roles:
            raise InputError(f"optimizer.{option}: no role named {name!r}. Roles: {', '.join(roles)}.")


def check_rate(option: str, rate: float) -> None:
    """Refuses a learning rate that can't train.

    Raises:
        InputError: it can't.
    """
    if not 0 < rate < math.inf:
        raise InputError(f"optimizer.{option}: {rate}. Expected a positive, finite number.")


def check_not_negative(option: str, value: float) -> None:
    """Refuses negative and infinite numbers.

    Raises:
        InputError: it is one.
    """
    if not 0 <= value < math.inf:
        raise InputError(f"optimizer.{option}: {value}. Expected a finite number, 0 or more.")


def check_averages(option: str, rates: Sequence[float]) -> None:
    """Refuses decay rates of moving averages that forget nothing or grow.

    Raises:
        InputError: one does.
    """
    if not all(0 <= rate < 1 for rate in rates):
        raise InputError(f"optimizer.{option}: {', '.join(map(str, rates))}. Expected within [0, 1).")
