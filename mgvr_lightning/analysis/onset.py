"""When a metric reached a threshold for good."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mgvr_lightning.analysis.curve import Curve
from mgvr_lightning.analysis.survival import Time

FALLING = ("loss", "bits_per_byte", "perplexity")


@dataclass(frozen=True)
class Onset:
    """The first evaluation at which a metric has reached a threshold and keeps it.

    Losses reach theirs from above, everything else from below.

    Attributes:
        metric: name of the metric.
        threshold: what it reaches.
        hysteresis: how far it may fall back at the evaluations that confirm it.
        hold: evaluations that must confirm it, the first among them.
    """

    metric: str
    threshold: float
    hysteresis: float = 0.05
    hold: int = 2

    def __str__(self) -> str:
        return f"{self.metric.removeprefix('val/')} {'≤' if self.falling else '≥'} {self.threshold:g}"

    @property
    def falling(self) -> bool:
        """Whether less is better."""
        return self.metric.endswith(FALLING)

    def time(self, curve: Curve) -> Time:
        """When it happened on a curve.

        A crossing that too few evaluations follow is not sure: the onset then is later than the evaluation
        before it.
        """
        sign = -1.0 if self.falling else 1.0
        values, threshold = sign * curve.losses, sign * self.threshold
        kept = np.nan_to_num(values, nan=-np.inf) >= threshold - self.hysteresis
        for i in np.flatnonzero(np.nan_to_num(values, nan=-np.inf) >= threshold):
            window = kept[i : i + self.hold]
            if window.all():
                if len(window) == self.hold:
                    return Time(float(curve.steps[i]), reached=True)
                return Time(float(curve.steps[i - 1]) if i else 0.0, reached=False)
        return Time(float(curve.steps[-1]) if len(curve.steps) else 0.0, reached=False)


@dataclass(frozen=True)
class Gap:
    """The steps from one onset to another.

    Attributes:
        name: what it is called.
        start: where it begins.
        end: where it ends.
    """

    name: str
    start: Onset
    end: Onset

    def __str__(self) -> str:
        return self.name

    def time(self, start: Curve, end: Curve) -> Time | None:
        """Its length, which is negative where the end came first; None where it didn't begin."""
        first, last = self.start.time(start), self.end.time(end)
        return Time(last.step - first.step, last.reached) if first.reached else None


def onsets(metric: str, thresholds: Sequence[float]) -> list[Onset]:
    """The onsets of a metric at several thresholds."""
    return [Onset(metric, threshold) for threshold in thresholds]


SHARES = (0.5, 0.9, 0.99)
KNOWN = [
    *onsets("val/prefix_matching/max", (0.3, 0.5, 0.7)),
    *onsets("val/copy_accuracy", SHARES),
    *onsets("val/one_hop_accuracy", SHARES),
    *onsets("val/two_hop_accuracy", SHARES),
    *onsets("induction/prefix_matching/max", (0.3, 0.5, 0.7)),
    *onsets("induction/copy_accuracy", SHARES),
]
"""What is looked for in every run that logs it."""

GAPS = [
    Gap(
        "pattern to copying",
        Onset("val/prefix_matching/max", 0.5),
        Onset("val/copy_accuracy", 0.9),
    ),
    Gap(
        "pattern to copying, in text",
        Onset("induction/prefix_matching/max", 0.5),
        Onset("induction/copy_accuracy", 0.9),
    ),
    Gap(
        "plateau, one hop to two",
        Onset("val/one_hop_accuracy", 0.9),
        Onset("val/two_hop_accuracy", 0.9),
    ),
]
