"""What arms and comparisons come to, as tables."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.comparable import shared_tensors
from mgvr_lightning.analysis.comparison import BITS, Comparison, Difference
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.analysis.statistics import Interval
from mgvr_lightning.analysis.table import Table
from mgvr_lightning.analysis.timing import Timing

NONE = "–"
Format = Callable[[float], str]


def percent(value: float) -> str:
    """A share with one digit of a per cent."""
    return f"{100 * value:.1f}%".replace("-", "−")


def factor(value: float) -> str:
    """A ratio with three digits behind the point."""
    return f"{value:.3f}"


def signed(value: float) -> str:
    """A difference of losses."""
    return f"{value:+.4f}".replace("-", "−")


def count(value: float) -> str:
    """Steps."""
    return f"{value:,.0f}"


def with_interval(interval: Interval | None, form: Format) -> str:
    """The estimate, and its interval below it."""
    if interval is None:
        return "not reached"
    if math.isnan(interval.estimate):
        return NONE
    if not any(map(math.isfinite, (interval.low, interval.high))):
        return form(interval.estimate)
    ends = [form(end) if math.isfinite(end) else NONE for end in (interval.low, interval.high)]
    return f"{form(interval.estimate)}\n{ends[0]} to {ends[1]}"


def arms_table(arms: Sequence[Arm]) -> Table:
    """The arms: how many seeds, how far, what loss."""
    rows = []
    for arm in arms:
        runs = list(arm.runs.values())
        seconds = [second for run in runs if (second := run.step_seconds()) is not None]
        rows.append(
            (
                arm.label,
                f"{runs[0].provenance['network']['parameters']:,}",
                str(len(runs)),
                "\n".join(sorted({progress(run) for run in runs})),
                mean_and_deviation([last(run, "val/loss") for run in runs], 4),
                mean_and_deviation([last(run, BITS) for run in runs], 4),
                f"{np.median(seconds):.3f}" if seconds else NONE,
            )
        )
    columns = ("arm", "parameters", "seeds", "steps", "loss, nats", "bits/byte", "s/step")
    note = "Losses: means over seeds at each run's last validation, ± their standard deviation."
    return Table("Arms", columns, rows, note)


def progress(run: Run) -> str:
    """How far a run is."""
    if run.finished:
        return count(run.step)
    planned = run.planned_steps
    return f"{count(run.step)} of {NONE if planned is None else count(planned)}"


def last(run: Run, metric: str) -> float:
    """The last value of a metric; NaN if it was never logged."""
    return run.value(metric, max(run.series(metric), default=0))


def mean_and_deviation(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation, the latter where there is one."""
    if any(map(math.isnan, values)):
        return NONE
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean}\n± {np.std(values, ddof=1):.{digits}f}"


def gains_table(comparisons: Sequence[Comparison]) -> Table:
    """What each variant saves."""
    rows = []
    for comparison in comparisons:
        end = comparison.at_end
        by_name = {found.name.split(" at ")[0]: found for found in comparison.differences[:2]}
        bits = by_name.get(BITS)
        rows.append(
            (
                comparison.variant.label,
                str(len(comparison.pairs)),
                with_interval(end.saved, percent),
                with_interval(end.compute, factor) if end.compute else NONE,
                NONE if comparison.time_ratio is None else factor(comparison.time_ratio),
                with_interval(comparison.differences[0].interval, signed),
                with_interval(bits.interval, signed) if bits else NONE,
            )
        )
    columns = ("arm", "pairs", "steps saved", "compute", "step time", "nats", "bits/byte")
    note = (
        "95% intervals, paired by seeds. Steps saved and effective compute: for the lowest loss that both of "
        "a pair reach. Step time: over the reference's. Differences: at the last common step."
    )
    return Table(f"Against {comparisons[0].reference.label}", columns, rows, note)


def verdicts_table(comparisons: Sequence[Comparison]) -> Table:
    """What the intervals say."""
    rows: list[Sequence[str]] = []
    for comparison in comparisons:
        rows.append((comparison.variant.label, "", "", "", ""))
        rows += [
            (
                f"  {found.name.removeprefix('val/')}",
                with_interval(found.interval, signed),
                found.verdict,
                {True: "yes", False: "no", None: NONE}[found.exceeds_spread],
                needed(found),
            )
            for found in comparison.differences
        ]
    columns = ("difference in", "mean", "verdict", "> spread", "needed")
    note = (
        "Lower or higher: the interval leaves out 0. Spread: the reference's standard deviation over seeds. "
        "Needed: pairs that find this difference with 80% power at the 5% level."
    )
    return Table("What the intervals say", columns, rows, note)


def needed(found: Difference) -> str:
    """Pairs needed, as a text."""
    if found.interval.count == 1:
        return NONE
    return "> 1,000" if found.needed is None else str(found.needed)


def times_table(arms: Sequence[Arm], timings: Mapping[str, Sequence[Timing]]) -> Table:
    """How soon each arm reaches what is looked for; the first arm is the reference."""
    rows: list[Sequence[str]] = []
    for event, found in timings.items():
        if not any(timing.reached for timing in found):
            rows.append(
                (event, f"0 of {sum(len(timing.times) for timing in found)}", "not reached", NONE, NONE)
            )
            continue
        rows.append((event, "", "", "", ""))
        for index, (arm, timing) in enumerate(zip(arms, found, strict=True)):
            p_value = None if index == 0 else timing.p_value(found[0])
            ratio = None if index == 0 else timing.ratio(found[0])
            rows.append(
                (
                    f"  {arm.label}",
                    f"{timing.reached} of {len(timing.times)}",
                    f"{timing.stopped} stopped before"
                    if timing.stopped
                    else with_interval(timing.median, count),
                    with_interval(ratio, factor) if ratio else NONE,
                    NONE if p_value is None else f"{p_value:.3f}",
                )
            )
    columns = ("onset", "reached", "median step", "ratio", "log-rank p")
    note = (
        "Medians by Kaplan and Meier; runs that didn't get there are censored. Ratio: to the reference's "
        "step, mean over pairs, where all got there."
    )
    return Table("Onsets", columns, rows, note)


def proof_table(comparisons: Sequence[Comparison]) -> Table:
    """What the runs of each pair have in common."""
    rows = []
    for comparison in comparisons:
        for pair in comparison.pairs:
            equal, common = shared_tensors(pair.run, pair.reference)
            hashes = pair.run.series("data/hash"), pair.reference.series("data/hash")
            same = [step for step in hashes[0] if hashes[1].get(step) == hashes[0][step]]
            seeds = pair.run.seeds
            rows.append(
                (
                    comparison.variant.label,
                    str(seeds[0]) if seeds[0] == seeds[1] else f"{seeds[0]}, data {seeds[1]}",
                    f"{equal} of {common}",
                    f"to step {max(same):,}" if same else "not shown",
                )
            )
    columns = ("arm", "seed", "equal tensors", "same data")
    return Table(
        "Proof",
        columns,
        rows,
        "Shared tensors that start equal bit for bit; until when both saw the same tokens in the same order.",
    )
