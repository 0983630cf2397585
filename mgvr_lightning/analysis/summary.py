"""Everything that a set of comparable runs comes to."""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from mgvr_lightning.analysis import rows
from mgvr_lightning.analysis.arm import arms
from mgvr_lightning.analysis.comparable import check
from mgvr_lightning.analysis.comparison import BITS, Comparison
from mgvr_lightning.analysis.figures import draw_comparison, draw_loss, draw_metric, draw_times
from mgvr_lightning.analysis.file_name import file_name
from mgvr_lightning.analysis.onset import Onset
from mgvr_lightning.analysis.pair import LOSS
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.analysis.table import Table
from mgvr_lightning.analysis.tables import arms_table, gains_table, proof_table, times_table, verdicts_table
from mgvr_lightning.analysis.timing import Timing, timings
from mgvr_lightning.errors import InputError


class Summary:
    """Arms, the comparisons of all others with one of them, and their onsets.

    Args:
        runs: the runs.
        reference: label of the reference; None for the first run's arm.
        allow: names of facts in which runs may differ; see `comparable.check`.
        time_ratio: r of every comparison; None for that of the runs' own median step times.
        onsets: onsets to look for beside the known ones.
        labels: run folder → label of its arm; None to name arms by what they differ in.

    Raises:
        InputError: the runs aren't comparable, or there is no such arm.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        reference: str | None = None,
        allow: Collection[str] = (),
        time_ratio: float | None = None,
        onsets: Sequence[Onset] = (),
        labels: Mapping[Path, str] | None = None,
    ) -> None:
        for run in runs:
            if not run.series(LOSS):
                raise InputError(f"{run.folder}: no {LOSS} logged yet. Let it run first, or leave it out.")
        found = arms(runs, labels)
        names = [arm.label for arm in found]
        if reference is not None and reference not in names:
            raise InputError(f"reference: no arm named {reference}. There are: {', '.join(names)}.")
        self.arms = sorted(found, key=lambda arm: arm.label != (reference or names[0]))
        check(self.arms, allow)
        self.time_ratio, self.onsets = time_ratio, onsets

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Of every other arm with the reference."""
        return [Comparison(arm, self.arms[0], LOSS, self.time_ratio) for arm in self.arms[1:]]

    @cached_property
    def timings(self) -> dict[str, list[Timing]]:
        """What is looked for → its times in each arm."""
        return timings(self.arms, self.onsets)

    @property
    def metrics(self) -> list[str]:
        """Losses and shares of the validation that every run has logged."""
        keys = set.intersection(*(run.metrics for run in self.runs))
        return [LOSS, *([BITS] if BITS in keys else []), *sorted(k for k in keys if _is_share(k))]

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for arm in self.arms for run in arm.runs.values()]

    @cached_property
    def tables(self) -> list[Table]:
        """For the eye."""
        found: list[Table] = [arms_table(self.arms)]
        if self.comparisons:
            found += [gains_table(self.comparisons), verdicts_table(self.comparisons)]
        if self.timings:
            found.append(times_table(self.arms, self.timings))
        if self.comparisons:
            found.append(proof_table(self.comparisons))
        return found

    @cached_property
    def csv(self) -> dict[str, str]:
        """File name → the numbers."""
        found = {"losses.csv": rows.losses(self.arms, self.metrics)}
        if self.comparisons:
            found["steps_saved.csv"] = rows.matching(self.comparisons)
            found["differences.csv"] = rows.differences(self.comparisons)
        if self.timings:
            found["onsets.csv"] = rows.times(self.arms, self.timings)
        return found

    @cached_property
    def figures(self) -> dict[str, dict[str, bytes]]:
        """Name → the picture as `svg` and `png`."""
        if self.comparisons:
            found = {"comparison": draw_comparison(self.arms, self.comparisons)}
        else:
            found = {"loss": draw_loss(self.arms)}
        for metric in self.metrics:
            if _is_share(metric):
                found[metric.removeprefix("val/")] = draw_metric(self.arms, metric)
        for event, own in self.timings.items():
            if any(timing.reached for timing in own):
                found[f"onset_{file_name(event)}"] = draw_times(event, self.arms, own)
        return found


def _is_share(key: str) -> bool:
    return key.startswith("val/") and key.endswith("_accuracy") and "/" not in key.removeprefix("val/")
