"""A run and the reference's run of the same seeds."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mgvr_lightning.analysis.curve import Curve
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.analysis.survival import Time

LOSS = "val/loss"


@dataclass(frozen=True)
class Pair:
    """Two runs that differ in their configuration alone.

    Attributes:
        run: the variant's.
        reference: the reference's.
        metric: the loss that is compared.
        given_ratio: the variant's step time over the reference's, where it isn't to be that of these runs.
    """

    run: Run
    reference: Run
    metric: str = LOSS
    given_ratio: float | None = None

    @cached_property
    def curve(self) -> Curve:
        """The variant's loss."""
        return self.run.curve(self.metric)

    @cached_property
    def reference_curve(self) -> Curve:
        """The reference's loss."""
        return self.reference.curve(self.metric)

    @property
    def common_steps(self) -> list[float]:
        """Steps at which both were evaluated."""
        ours = set(self.curve.steps)
        return [float(step) for step in self.reference_curve.steps if step in ours]

    @cached_property
    def time_ratio(self) -> float | None:
        """r, the ratio of step times; None where the machines differ or nothing was timed."""
        return self.given_ratio or time_ratio(self.run, self.reference)

    @property
    def flops_ratio(self) -> float:
        """The ratio of training FLOPs per step."""
        return flops_per_step(self.run) / flops_per_step(self.reference)

    def matched(self, step: float) -> Time | None:
        """s'/s for the loss that the reference has at step s.

        Returns:
            The ratio, or one that it is above; None where the reference has no finite loss there, or the
            variant had passed it before its first evaluation.
        """
        level = float(self.reference_curve.losses[self.reference_curve.steps == step][0])
        if not np.isfinite(level) or not len(self.curve.steps):
            return None
        reached = self.curve.steps_to(level)
        if reached is not None:
            return Time(reached / step, reached=True)
        passed = (self.curve.losses <= level).any()
        return None if passed else Time(float(self.curve.steps[-1]) / step, reached=False)

    def ratio_at_end(self) -> float:
        """Steps of the variant over the reference's for the lowest loss that both have reached.

        Where the variant is ahead that is the reference's last loss, otherwise its own; so it is known either
        way, and of a run against itself it is as often above 1 as below.
        """
        ours, theirs = self.curve, self.reference_curve
        if not all(np.isfinite(curve.losses).any() for curve in (ours, theirs)):
            return math.nan
        level = max(float(np.nanmin(ours.losses)), float(np.nanmin(theirs.losses)))
        one, other = ours.steps_to(level), theirs.steps_to(level)
        return math.nan if one is None or not other else one / other

    def losses_at(self, cost_ratio: float) -> tuple[float, float]:
        """The variant's loss and the reference's, once both have spent what the cheaper run spent in all.

        Args:
            cost_ratio: cost of the variant's step over the reference's; 1 for equal steps.
        """
        ours, theirs = self.curve, self.reference_curve
        budget = min(float(ours.steps[-1]) * cost_ratio, float(theirs.steps[-1]))  # in the reference's steps
        one = float(np.interp(budget / cost_ratio, ours.steps, ours.losses))
        return one, float(np.interp(budget, theirs.steps, theirs.losses))


def flops_per_step(run: Run) -> float:
    """Training FLOPs of an optimizer step."""
    return float(run.provenance["network"]["flops_per_token"] * run.tokens_per_step)


def time_ratio(run: Run, reference: Run) -> float | None:
    """r, the ratio of median step times; None where machines differ or nothing was timed."""
    ours, theirs = run.step_seconds(), reference.step_seconds()
    same = run.provenance["machine"] == reference.provenance["machine"]
    if ours is None or theirs is None or not (same and run.one_machine and reference.one_machine):
        return None
    return ours / theirs
