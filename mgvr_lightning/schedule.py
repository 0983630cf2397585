"""Learning-rate schedules, counted in optimizer steps: update 1 is the first, `total` the last.

During warm-up, update u has the factor u / warmup: the first is above 0, the peak is reached at u = warmup
exactly. Every schedule that decays reaches its final factor at the last update exactly.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, get_args

from mgvr_lightning.errors import InputError

Counted = Literal["after_warmup", "run"]


@dataclass
class Schedule(ABC):
    """A factor on the learning rate.

    Args:
        warmup: updates of linear warm-up; fewer where the run is shorter.
    """

    warmup: int = 40

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise InputError(
                f"schedule.warmup: {self.warmup} is negative. Expected 0 or more optimizer steps."
            )

    def factor(self, update: int, total: int) -> float:
        """The factor of update `update`, from 1, of `total`."""
        warmup = min(self.warmup, total)
        return update / warmup if update < warmup else self.after(update - warmup, total - warmup)

    def decay_start(self, total: int) -> float:
        """Updates done when the factor begins to fall for good; `total` where it never does."""
        return total

    @abstractmethod
    def after(self, update: int, total: int) -> float:
        """The factor `update` updates after warm-up, of `total`."""


@dataclass
class Constant(Schedule):
    """Constant after warm-up.

    Args:
        warmup: updates of linear warm-up.
    """

    def after(self, update: int, total: int) -> float:
        """Always 1."""
        return 1.0


@dataclass
class Cosine(Schedule):
    """Half a cosine from 1 to `final` after warm-up.

    Args:
        warmup: updates of linear warm-up.
        final: factor of the last update.
    """

    final: float = 0.1

    def after(self, update: int, total: int) -> float:
        """Half a cosine."""
        share = update / total if total else 0.0
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * share)) / 2

    def decay_start(self, total: int) -> float:
        """The end of warm-up."""
        return min(self.warmup, total)


@dataclass
class WarmupStableDecay(Schedule):
    """Constant after warm-up, then linear to `final` over the last `decay` of the updates.

    Args:
        warmup: updates of linear warm-up.
        decay: share of the updates that decay.
        final: factor of the last update.
        share_of: what `decay` is a share of: after_warmup for the updates after warm-up; run for all updates,
            rounded to whole ones, as in arXiv 2606.02780. Warm-up is never cut short for it.
    """

    decay: float = 0.4
    final: float = 0.05
    share_of: Counted = "after_warmup"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.decay <= 1:
            raise InputError(f"schedule.decay: {self.decay} is outside [0, 1].")
        if self.share_of not in get_args(Counted):
            raise InputError(
                f"schedule.share_of: no {self.share_of!r}. Expected one of {', '.join(get_args(Counted))}."
            )

    def after(self, update: int, total: int) -> float:
        """1, then a straight line."""
        length = self._length(total)
        left = total - update
        return 1.0 if left >= length else self.final + (1 - self.final) * left / length

    def decay_start(self, total: int) -> float:
        """Where the straight line starts."""
        return total - self._length(total - min(self.warmup, total))

    def _length(self, total: int) -> float:
        """Updates of the straight line, of `total` after warm-up."""
        if self.share_of == "after_warmup":
            return self.decay * total
        return min(total, round(self.decay * (total + self.warmup)))
