"""Loss curves, and matching one against another."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Curve:
    """A loss at increasing steps.

    Args:
        steps: (n,) optimizer steps.
        losses: (n,) losses.
    """

    steps: NDArray[np.float64]
    losses: NDArray[np.float64]

    def steps_to(self, level: float) -> float | None:
        """The first step at which the loss is at most `level`.

        Interpolates linearly between neighbouring points; a NaN reaches nothing and isn't interpolated over.

        Returns:
            The step, or None if the level isn't reached, or was passed before the first point: when, nobody
            measured.
        """
        reached = np.flatnonzero(self.losses <= level)
        if not len(reached):
            return None
        i = int(reached[0])
        if i == 0:
            return float(self.steps[0]) if self.losses[0] == level else None
        above, below = self.losses[i - 1], self.losses[i]
        if not np.isfinite(above):
            return float(self.steps[i])
        share = (above - level) / (above - below)
        return float(self.steps[i - 1] + share * (self.steps[i] - self.steps[i - 1]))


@dataclass(frozen=True)
class Match:
    """How soon a variant reaches the loss that the reference has at `step`.

    Args:
        step: s, a step at which the reference was evaluated.
        reached: s', the variant's first step at or below that loss.
    """

    step: float
    reached: float

    @property
    def steps_saved(self) -> float:
        """1 − s'/s: the share of the reference's steps that the variant doesn't need."""
        return 1.0 - self.reached / self.step

    def effective_compute(self, time_ratio: float) -> float:
        """(s/s') / r, with r the variant's step time over the reference's; above 1 the variant is ahead."""
        return self.step / self.reached / time_ratio


def matches(variant: Curve, reference: Curve) -> list[Match]:
    """Matches every point of the reference whose loss the variant has reached so far."""
    found = []
    for step, loss in zip(reference.steps, reference.losses, strict=True):
        reached = variant.steps_to(float(loss))
        if reached is not None and step > 0 and reached > 0:
            found.append(Match(float(step), reached))
    return found
