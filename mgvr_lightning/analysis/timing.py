"""How soon the arms reach something, over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mgvr_lightning.analysis.arm import Arm, Seeds
from mgvr_lightning.analysis.onset import GAPS, KNOWN, Gap, Onset
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.analysis.statistics import Interval, paired_t
from mgvr_lightning.analysis.survival import Time, logrank, median


@dataclass(frozen=True)
class Timing:
    """The times of one arm.

    Attributes:
        times: seeds → when.
    """

    times: dict[Seeds, Time]

    @cached_property
    def median(self) -> Interval | None:
        """By Kaplan and Meier; None where half of the runs didn't get there."""
        return median(list(self.times.values())) if self.times else None

    @property
    def reached(self) -> int:
        """Runs that got there."""
        return sum(time.reached for time in self.times.values())

    def p_value(self, reference: "Timing") -> float | None:
        """Of the log-rank test against the reference; None where it can't be made."""
        if not self.times or not reference.times:
            return None
        return logrank(list(self.times.values()), list(reference.times.values()))

    def ratio(self, reference: "Timing") -> Interval | None:
        """The mean ratio to the reference's time, paired by seeds.

        None unless every run of a pair got there; what is censored is left to the log-rank test.
        """
        pairs = [
            (time, reference.times[seeds]) for seeds, time in self.times.items() if seeds in reference.times
        ]
        if not pairs or not all(time.reached and time.step > 0 for pair in pairs for time in pair):
            return None
        return paired_t([math.log(one.step / other.step) for one, other in pairs]).map(math.exp)


def timings(arms: Sequence[Arm], given: Sequence[Onset] = ()) -> dict[str, list[Timing]]:
    """What is looked for → its times in each arm.

    Args:
        arms: the arms.
        given: onsets to look for beside those of `KNOWN` and `GAPS` whose metrics were logged.
    """
    logged = set.intersection(*(run.metrics for arm in arms for run in arm.runs.values()))
    wanted: list[Onset | Gap] = [onset for onset in (*KNOWN, *given) if onset.metric in logged]
    wanted += [gap for gap in GAPS if {gap.start.metric, gap.end.metric} <= logged]
    found = {str(event): [Timing(_times(event, arm)) for arm in arms] for event in wanted}
    return {event: own for event, own in found.items() if any(timing.times for timing in own)}


def _times(event: Onset | Gap, arm: Arm) -> dict[Seeds, Time]:
    found = {seeds: _time(event, run) for seeds, run in arm.runs.items()}
    return {seeds: time for seeds, time in found.items() if time is not None}


def _time(event: Onset | Gap, run: Run) -> Time | None:
    if isinstance(event, Onset):
        return event.time(run.curve(event.metric))
    return event.time(run.curve(event.start.metric), run.curve(event.end.metric))
