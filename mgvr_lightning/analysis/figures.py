"""Pictures of curves over seeds; the same runs give the same bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.canvas import canvas, rendered
from mgvr_lightning.analysis.comparison import Comparison
from mgvr_lightning.analysis.curve import Curve
from mgvr_lightning.analysis.pair import LOSS
from mgvr_lightning.analysis.timing import Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#4d4d4d", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31")
"""The first is the reference's; told apart with any colour vision (Okabe and Ito)."""
SMALLEST, LARGEST = 0.02, 0.98


def colour(index: int) -> str:
    """Of the arm of that number; the reference is 0."""
    return COLOURS[index % len(COLOURS)]


def draw_metric(arms: Sequence[Arm], metric: str) -> dict[str, bytes]:
    """A metric of every arm against optimizer steps."""
    with canvas() as (figure, axes):
        plot_metric(axes, arms, metric, metric)
        return rendered(figure)


def draw_comparison(arms: Sequence[Arm], comparisons: Sequence[Comparison]) -> dict[str, bytes]:
    """The loss of every arm, and beside it the steps saved."""
    with canvas(10.4, 3.9, columns=2) as (figure, (left, right)):
        plot_metric(left, arms, LOSS, "validation loss, nats per token")
        plot_matching(right, comparisons)
        return rendered(figure)


def draw_loss(arms: Sequence[Arm]) -> dict[str, bytes]:
    """The loss of every arm."""
    with canvas() as (figure, axes):
        plot_metric(axes, arms, LOSS, "validation loss, nats per token")
        return rendered(figure)


def plot_metric(axes: "Axes", arms: Sequence[Arm], metric: str, name: str) -> None:
    """A metric against optimizer steps: means over seeds, and thin lines for single runs."""
    tops, bottoms = [], []
    for index, arm in enumerate(arms):
        curves = [run.curve(metric) for run in arm.runs.values()]
        for curve in curves:
            axes.plot(curve.steps, curve.losses, color=colour(index), linewidth=0.6, alpha=0.35)
        steps, means = mean_curve(curves)
        label = f"{arm.label} ({len(curves)} seed{'s' if len(curves) > 1 else ''})"
        axes.plot(steps, means, "o-", markersize=2.5, color=colour(index), label=label)
        finite = means[np.isfinite(means)]
        if len(finite):
            tops.append(float(np.quantile(finite, LARGEST)))
            bottoms.append(float(finite.min()))
    if tops and metric.endswith("loss"):
        low, high = min(bottoms), max(tops)
        axes.set_ylim(low - 0.05 * (high - low) - 1e-9, high + 1e-9)
    axes.set(xlabel="optimizer step", ylabel=name)
    axes.legend(frameon=False)


def mean_curve(curves: Sequence[Curve]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The steps, (n,), that all curves have, and the means there."""
    steps = np.array(sorted(set.intersection(*(set(curve.steps) for curve in curves))))
    values = [curve.losses[np.isin(curve.steps, steps)] for curve in curves]
    return steps, np.mean(values, axis=0)


def plot_matching(axes: "Axes", comparisons: Sequence[Comparison]) -> None:
    """Steps saved at the reference's loss at each of its steps, with 95% bands and the break-even lines.

    Where a pair isn't there yet, a hollow mark stands for the median; nothing where half of them aren't.
    """
    axes.axhline(0, color=colour(0), linewidth=1)
    for index, comparison in enumerate(comparisons, 1):
        known = [match for match in comparison.matching if match.saved is not None]
        steps = [match.step for match in known]
        saved = [100 * match.saved.estimate for match in known if match.saved]
        axes.plot(steps, saved, "-", color=colour(index), label=comparison.variant.label)
        for censored in (False, True):
            here = [i for i, match in enumerate(known) if bool(match.censored) == censored]
            face = "none" if censored else colour(index)
            marks = ([steps[i] for i in here], [saved[i] for i in here])
            axes.plot(*marks, "o", markersize=3.5, color=colour(index), markerfacecolor=face)
        draw_band(axes, comparison, index)
        if comparison.time_ratio is not None:
            even = 100 * (1 - 1 / comparison.time_ratio)
            label = f"its break-even at {comparison.time_ratio:.3f} × the step time"
            axes.axhline(even, linewidth=0.9, linestyle="--", color=colour(index), label=label)
    frame(axes, comparisons)
    axes.set(
        xlabel=f"step s of {comparisons[0].reference.label}",
        ylabel="steps saved at its loss at step s, %",
    )
    axes.legend(frameon=False, fontsize="small")


def draw_band(axes: "Axes", comparison: Comparison, index: int) -> None:
    """The intervals where all pairs got there."""
    inside = [match for match in comparison.matching if match.saved is not None and not match.censored]
    steps = [match.step for match in inside]
    lows = [100 * match.saved.low for match in inside if match.saved]
    highs = [100 * match.saved.high for match in inside if match.saved]
    axes.fill_between(steps, lows, highs, color=colour(index), alpha=0.15, linewidth=0)


def frame(axes: "Axes", comparisons: Sequence[Comparison]) -> None:
    """Limits that a few wide intervals at the first steps don't set."""
    saved = [
        100 * match.saved.estimate
        for comparison in comparisons
        for match in comparison.matching
        if match.saved is not None
    ]
    if saved:
        low, high = (float(end) for end in np.quantile([*saved, 0.0], [SMALLEST, LARGEST]))
        room = 0.6 * (high - low) + 1
        axes.set_ylim(low - room, high + room)


def draw_times(event: str, arms: Sequence[Arm], timings: Sequence[Timing]) -> dict[str, bytes]:
    """When each run of each arm reached something; hollow triangles are runs that didn't."""
    with canvas(height=1.2 + 0.4 * len(arms)) as (figure, axes):
        for index, timing in enumerate(timings):
            for reached, mark in ((True, "o"), (False, ">")):
                steps = [time.step for time in timing.times.values() if time.reached == reached]
                face = colour(index) if reached else "none"
                axes.plot(steps, [index] * len(steps), mark, color=colour(index), markerfacecolor=face)
        axes.set_yticks(range(len(arms)), [arm.label for arm in arms])
        axes.set_ylim(len(arms) - 0.5, -0.5)
        axes.set_xlabel(f"step of: {event}")
        return rendered(figure)
