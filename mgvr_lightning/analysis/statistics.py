"""Intervals of paired differences, and how many pairs a difference needs."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 2_000
MOST_SEEDS = 1_000


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval.

    Attributes:
        estimate: the estimate.
        low: lower end; NaN if one observation gives no interval.
        high: upper end; NaN if one observation gives no interval.
        count: independent observations behind it.
    """

    estimate: float
    low: float
    high: float
    count: int

    def excludes(self, value: float) -> bool:
        """Whether a value lies outside; never without an interval."""
        return value < self.low or value > self.high

    def map(self, function: Callable[[float], float]) -> "Interval":
        """The interval of an increasing or decreasing function of the estimated quantity."""
        one, other = function(self.low), function(self.high)
        return Interval(function(self.estimate), min(one, other), max(one, other), self.count)


def paired_t(differences: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Student's interval of the mean of differences between pairs.

    Args:
        differences: one for each pair; for ratios, their logarithms.
        confidence: of the interval.

    Raises:
        ValueError: there is no difference.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values):
        raise ValueError("paired_t: no pairs. Expected one difference or more.")
    mean, low, high = float(values.mean()), math.nan, math.nan
    if len(values) > 1:
        half = (
            stats.t.ppf((1 + confidence) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
        )
        low, high = mean - float(half), mean + float(half)
    return Interval(mean, low, high, len(values))


def bootstrap(differences: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Percentile bootstrap of the mean, from fixed random numbers.

    A check beside `paired_t`, no replacement: with 3 to 8 pairs it is too narrow.
    """
    values = np.asarray(differences, dtype=np.float64)
    mean, low, high = float(values.mean()), math.nan, math.nan
    if len(values) > 1:
        picks = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
        means = values[picks].mean(axis=1)
        low, high = (float(end) for end in np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2]))
    return Interval(mean, low, high, len(values))


def seeds_needed(
    difference: float, deviation: float, power: float = 0.8, confidence: float = CONFIDENCE
) -> int | None:
    """Pairs with which a two-sided paired t-test finds a difference.

    Args:
        difference: the true mean of the differences between pairs.
        deviation: their standard deviation.
        power: probability of finding it.
        confidence: 1 − the level of the test.

    Returns:
        The number, at least 2; None if it is above 1,000.
    """
    if difference == 0 or not math.isfinite(deviation):
        return None
    effect = abs(difference) / deviation if deviation > 0 else math.inf
    counts = range(2, MOST_SEEDS + 1)
    first = bisect_left(counts, power, key=lambda count: _power(effect, count, confidence))
    return counts[first] if first < len(counts) else None


def _power(effect: float, count: int, confidence: float) -> float:
    """Probability that a paired t-test of `count` pairs finds an effect, in standard deviations."""
    critical = stats.t.ppf((1 + confidence) / 2, count - 1)
    return float(stats.nct.sf(critical, count - 1, min(effect * math.sqrt(count), 1e3)))
