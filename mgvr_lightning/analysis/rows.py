"""The numbers behind tables and figures, as CSV."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.comparison import Comparison
from mgvr_lightning.analysis.statistics import Interval
from mgvr_lightning.analysis.timing import Timing

Cell = str | float | int | None


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """CSV with a header; numbers to 6 significant digits, nothing for None and NaN."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_cell(cell) for cell in row] for row in rows])
    return buffer.getvalue()


def _cell(cell: Cell) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def ends(interval: Interval | None) -> tuple[Cell, Cell, Cell]:
    """Estimate, low and high."""
    return (None, None, None) if interval is None else (interval.estimate, interval.low, interval.high)


def losses(arms: Sequence[Arm], metrics: Sequence[str]) -> str:
    """Every validation of every run."""
    rows = []
    for arm in arms:
        for (weights, order), run in arm.runs.items():
            series = [run.series(metric) for metric in metrics]
            steps = sorted(set().union(*series))
            rows += [(arm.label, weights, order, step, *(one.get(step) for one in series)) for step in steps]
    return as_csv(("arm", "seed", "data_seed", "step", *metrics), rows)


def matching(comparisons: Sequence[Comparison]) -> str:
    """Steps saved at every step of the reference, over pairs and for each pair."""
    rows: list[Sequence[Cell]] = []
    for comparison in comparisons:
        for match in [*comparison.matching, comparison.at_end]:
            at = "end" if match is comparison.at_end else ""
            numbers = (*ends(match.saved), *ends(match.check)[1:], *ends(match.compute), match.censored)
            rows.append((comparison.variant.label, at, match.step, "all", None, *numbers))
            for pair, ratio in zip(comparison.pairs, match.ratios, strict=True):
                saved = 1 - ratio.step
                rows.append(
                    (
                        comparison.variant.label,
                        at,
                        match.step,
                        *pair.run.seeds,
                        saved,
                        *[None] * 7,
                        int(not ratio.reached),
                    )
                )
    columns = ("arm", "at", "step", "seed", "data_seed", "saved", "low", "high")
    checks = ("bootstrap_low", "bootstrap_high", "compute", "compute_low", "compute_high", "censored")
    return as_csv((*columns, *checks), rows)


def differences(comparisons: Sequence[Comparison]) -> str:
    """Differences to the reference."""
    rows = [
        (
            comparison.variant.label,
            found.name,
            found.interval.count,
            *ends(found.interval),
            *ends(found.check)[1:],
            found.spread,
            found.verdict,
            found.needed,
        )
        for comparison in comparisons
        for found in comparison.differences
    ]
    columns = ("arm", "difference", "pairs", "mean", "low", "high", "bootstrap_low", "bootstrap_high")
    return as_csv((*columns, "seed_spread", "verdict", "pairs_needed"), rows)


def times(arms: Sequence[Arm], timings: Mapping[str, Sequence[Timing]]) -> str:
    """When each run reached what is looked for."""
    rows = [
        (event, arm.label, *seeds, time.step, int(time.reached), int(arm.runs[seeds].stopped))
        for event, found in timings.items()
        for arm, timing in zip(arms, found, strict=True)
        for seeds, time in timing.times.items()
    ]
    return as_csv(("onset", "arm", "seed", "data_seed", "step", "reached", "stopped"), rows)
