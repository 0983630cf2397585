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
from mgvr_lightning.errors import InputError


@dataclass(frozen=True)
class Timing:
    """The times of one arm.

    Attributes:
        times: seeds → when.
        stopped: runs that were told to stop before they got there, having shown something else.
    """

    times: dict[Seeds, Time]
    stopped: int = 0

    @cached_property
    def median(self) -> Interval | None:
        """By Kaplan and Meier; None where half of the runs didn't get there, or some were stopped before.

        A run that is stopped for what it has reached is not censored by chance, as these methods suppose.
        """
        return median(list(self.times.values())) if self.times and not self.stopped else None

    @property
    def reached(self) -> int:
        """Runs that got there."""
        return sum(time.reached for time in self.times.values())

    def p_value(self, reference: "Timing") -> float | None:
        """Of the log-rank test against the reference; None where it can't be made."""
        if not self.times or not reference.times or self.stopped or reference.stopped:
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

    Raises:
        InputError: a run hasn't logged the metric of a given onset.
    """
    logged = set.intersection(*(run.metrics for arm in arms for run in arm.runs.values()))
    for onset in given:
        if onset.metric not in logged:
            known = ", ".join(sorted(name for name in logged if name.startswith("val/")))
            raise InputError(f"onsets: not every run has logged {onset.metric}. All have: {known}.")
    wanted: list[Onset | Gap] = [onset for onset in (*KNOWN, *given) if onset.metric in logged]
    wanted += [gap for gap in GAPS if {gap.start.metric, gap.end.metric} <= logged]
    found = {str(event): [_timing(event, arm) for arm in arms] for event in wanted}
    return {event: own for event, own in found.items() if any(timing.times for timing in own)}


def _timing(event: Onset | Gap, arm: Arm) -> Timing:
    found = {seeds: _time(event, run) for seeds, run in arm.runs.items()}
    times = {seeds: time for seeds, time in found.items() if time is not None}
    return Timing(times, sum(not time.reached and arm.runs[seeds].stopped for seeds, time in times.items()))


def _time(event: Onset | Gap, run: Run) -> Time | None:
    if isinstance(event, Onset):
        return event.time(run.curve(event.metric))
    return event.time(run.curve(event.start.metric), run.curve(event.end.metric))
