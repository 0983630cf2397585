"""Seconds of several things, measured in turn, and their ratios."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """A median with its 95% interval.

    Attributes:
        median: the median.
        low: lower end, from the order of the values alone.
        high: upper end.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Seconds) -> "Spread":
        """The median of values, whatever their distribution."""
        if len(values) < 2:
            return cls(*[float(np.median(values))] * 3)
        ends = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
        low, high = (
            float(extreme if np.isnan(end) else end)
            for end, extreme in ((ends.low, values.min()), (ends.high, values.max()))
        )
        return cls(float(np.median(values)), low, high)

    def facts(self) -> dict[str, float]:
        """As plain JSON, to 6 significant digits."""
        return {name: float(f"{value:.6g}") for name, value in vars(self).items()}


def interleaved(
    things: Mapping[str, Callable[[], object]], rounds: int, device: torch.device
) -> dict[str, Seconds]:
    """Times each thing once in every round, in an order that turns around from round to round.

    Args:
        things: name → what is timed.
        rounds: how often.
        device: waited for before and after.

    Returns:
        Name → (rounds,) seconds.
    """
    found: dict[str, list[float]] = {name: [] for name in things}
    for number in range(rounds):
        names = list(things)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            wait(device)
            start = time.perf_counter()
            things[name]()
            wait(device)
            found[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in found.items()}


def ratio(seconds: Seconds, reference: Seconds) -> Spread:
    """The ratio of two things that were timed in the same rounds."""
    return Spread.of(seconds / reference)


def wait(device: torch.device) -> None:
    """Waits until a device has done what it was told to."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
