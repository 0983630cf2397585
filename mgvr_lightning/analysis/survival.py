"""Times until something is reached, where some runs ended before it was."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from mgvr_lightning.analysis.statistics import CONFIDENCE, Interval


@dataclass(frozen=True)
class Time:
    """When a run reached something.

    Attributes:
        step: the step at which it was reached, or the last one by which it certainly wasn't.
        reached: which of the two.
    """

    step: float
    reached: bool

    def __str__(self) -> str:
        return f"{self.step:,.0f}" if self.reached else f"> {self.step:,.0f}"


def median(times: Sequence[Time]) -> Interval | None:
    """The median time, by Kaplan and Meier, with the interval by Brookmeyer and Crowley.

    Where the survival function is one half between two events, the median is the middle between them.

    Returns:
        The median, the ends of its interval infinite where they weren't reached; None where half of the runs
        didn't reach it.
    """
    survival = stats.ecdf(_censored(times)).sf
    left = survival.probabilities
    events = survival.quantiles
    below = np.flatnonzero(left < 0.5 - 1e-9)
    at = np.flatnonzero(np.isclose(left, 0.5))
    if not len(below):
        return None
    middle = float(events[below[0]])
    if len(at):
        middle = (float(events[at[0]]) + middle) / 2
    low, high = -math.inf, math.inf
    if len(times) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # it is undefined before the first event
            bands = survival.confidence_interval(CONFIDENCE, method="log-log")
        low, high = (
            _first_below_half(band, start) for band, start in ((bands.low, -math.inf), (bands.high, math.inf))
        )
    return Interval(middle, low, high, len(times))


def logrank(times: Sequence[Time], others: Sequence[Time]) -> float | None:
    """The p-value of the two-sided log-rank test; None where it can't be made, as of times all equal."""
    if not any(time.reached for time in (*times, *others)):
        return None
    with np.errstate(invalid="ignore"):
        found = float(stats.logrank(_censored(times), _censored(others)).pvalue)
    return None if math.isnan(found) else found


def _first_below_half(band: Any, otherwise: float) -> float:
    found = np.flatnonzero(np.nan_to_num(band.probabilities, nan=1.0) <= 0.5)
    return float(band.quantiles[found[0]]) if len(found) else otherwise


def _censored(times: Sequence[Time]) -> stats.CensoredData:
    return stats.CensoredData(
        uncensored=[time.step for time in times if time.reached],
        right=[time.step for time in times if not time.reached],
    )
