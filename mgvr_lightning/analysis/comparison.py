"""A variant against the reference, over seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.pair import LOSS, Pair
from mgvr_lightning.analysis.statistics import Interval, bootstrap, paired_t, seeds_needed
from mgvr_lightning.analysis.survival import Time, median
from mgvr_lightning.errors import InputError

BITS = "val/bits_per_byte"


@dataclass(frozen=True)
class Matched:
    """What a variant needs for the loss that the reference has at a step.

    Attributes:
        step: s.
        ratios: s'/s of each pair, or what it is above.
        saved: 1 − s'/s, from the mean of the logarithms; its median by Kaplan and Meier where a pair isn't
            there yet, and None where half of them aren't.
        check: the same from the bootstrap; None where a pair isn't there yet.
        compute: (s/s') / r, from the pairs' own r; None without r, or where a pair isn't there yet.
    """

    step: float
    ratios: list[Time]
    saved: Interval | None
    check: Interval | None
    compute: Interval | None

    @property
    def censored(self) -> int:
        """Pairs that aren't there yet."""
        return sum(not ratio.reached for ratio in self.ratios)


@dataclass(frozen=True)
class Difference:
    """A difference between variant and reference.

    Attributes:
        name: of what, and where.
        interval: the mean over pairs, below 0 where the variant has less.
        check: the same from the bootstrap.
        spread: standard deviation of the reference over seeds; NaN with one.
        needed: pairs that would show this difference with 80% power at this spread; None if above 1,000.
    """

    name: str
    interval: Interval
    check: Interval
    spread: float
    needed: int | None

    @property
    def verdict(self) -> str:
        """`lower`, `higher` or `inconclusive`: whether the interval leaves out zero."""
        if not self.interval.excludes(0):
            return "inconclusive"
        return "lower" if self.interval.estimate < 0 else "higher"

    @property
    def exceeds_spread(self) -> bool | None:
        """Whether it is larger than the reference's standard deviation over seeds; None with one seed."""
        return None if math.isnan(self.spread) else abs(self.interval.estimate) > self.spread


class Comparison:
    """A variant against the reference, paired by seeds.

    Args:
        variant: the variant.
        reference: the reference.
        metric: the loss that is compared.
        time_ratio: r, if it isn't to be that of the runs' own median step times.

    Raises:
        InputError: no pair of seeds, or no validation, is common to both.
    """

    def __init__(
        self, variant: Arm, reference: Arm, metric: str = LOSS, time_ratio: float | None = None
    ) -> None:
        self.variant, self.reference, self.metric = variant, reference, metric
        self.pairs = [Pair(run, other, metric, time_ratio) for run, other in variant.paired(reference)]
        if not self.pairs:
            raise InputError(
                f"{variant.label} and {reference.label} have no seeds in common: {sorted(variant.runs)} and "
                f"{sorted(reference.runs)} (of weights and of data). Pairs of the same seeds are compared."
            )
        common = set.intersection(*(set(pair.common_steps) for pair in self.pairs))
        if not common:
            raise InputError(
                f"{variant.label} and {reference.label} have no step in common at which all runs have logged "
                f"{metric}."
            )
        self.last_step = max(common)

    @cached_property
    def time_ratio(self) -> float | None:
        """The geometric mean of the pairs' r; None where one can't be told."""
        ratios = [pair.time_ratio for pair in self.pairs]
        known = [ratio for ratio in ratios if ratio is not None]
        return math.exp(np.mean(np.log(known))) if len(known) == len(ratios) else None

    @cached_property
    def matching(self) -> list[Matched]:
        """One for each step at which all of the reference's runs were evaluated."""
        grids = [set(pair.reference_curve.steps) for pair in self.pairs]
        found = []
        for step in sorted(set.intersection(*grids)):
            ratios = [pair.matched(float(step)) for pair in self.pairs] if step > 0 else [None]
            known = [ratio for ratio in ratios if ratio is not None]
            if len(known) == len(ratios):
                found.append(self._matched(float(step), known))
        return found

    def _matched(self, step: float, ratios: list[Time]) -> Matched:
        if any(not ratio.reached for ratio in ratios):
            middle = median(ratios)
            return Matched(step, ratios, None if middle is None else middle.map(_saved), None, None)
        logs = [math.log(ratio.step) for ratio in ratios]
        compute = None
        if self.time_ratio is not None:
            times = [math.log(pair.time_ratio or math.nan) for pair in self.pairs]
            compute = paired_t([-log - time for log, time in zip(logs, times, strict=True)]).map(math.exp)
        saved, check = (interval.map(math.exp).map(_saved) for interval in (paired_t(logs), bootstrap(logs)))
        return Matched(step, ratios, saved, check, compute)

    @cached_property
    def at_end(self) -> Matched:
        """For the lowest loss that both runs of a pair have reached: the number to quote."""
        return self._matched(self.last_step, [Time(pair.ratio_at_end(), reached=True) for pair in self.pairs])

    @property
    def differences(self) -> list[Difference]:
        """At the last common step, in nats and bits per byte; at equal FLOPs; at equal seconds."""
        found = [self._at_last_step(self.metric, self.metric)]
        if all(BITS in pair.run.metrics & pair.reference.metrics for pair in self.pairs):
            found.append(self._at_last_step(BITS, BITS))
        found.append(self._at_cost("FLOPs", lambda pair: pair.flops_ratio))
        if self.time_ratio is not None:
            found.append(self._at_cost("seconds", lambda pair: pair.time_ratio or math.nan))
        return found

    def _at_last_step(self, metric: str, name: str) -> Difference:
        values = [
            [run.value(metric, int(self.last_step)) for run in (pair.run, pair.reference)]
            for pair in self.pairs
        ]
        references = [other for _, other in values]
        return difference(
            f"{name} at step {self.last_step:,.0f}", [own - other for own, other in values], references
        )

    def _at_cost(self, name: str, ratio: Callable[[Pair], float]) -> Difference:
        values = [pair.losses_at(ratio(pair)) for pair in self.pairs]
        return difference(
            f"{self.metric} at equal {name}",
            [own - other for own, other in values],
            [other for _, other in values],
        )


def difference(name: str, values: Sequence[float], references: Sequence[float]) -> Difference:
    """The difference of paired numbers.

    Args:
        name: of what.
        values: one difference for each pair.
        references: the reference's own numbers.
    """
    many = len(values) > 1
    spread = float(np.std(references, ddof=1)) if many else math.nan
    deviation = float(np.std(values, ddof=1)) if many else math.nan
    needed = seeds_needed(float(np.mean(values)), deviation)
    return Difference(name, paired_t(values), bootstrap(values), spread, needed)


def _saved(ratio: float) -> float:
    return 1.0 - ratio
