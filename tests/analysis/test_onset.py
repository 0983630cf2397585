import numpy as np
import pytest

from mgvr_lightning.analysis.curve import Curve
from mgvr_lightning.analysis.onset import Gap, Onset
from mgvr_lightning.analysis.survival import Time


def curve(*values: float) -> Curve:
    return Curve(np.arange(10.0, 10.0 * (len(values) + 1), 10.0), np.array(values))


ACCURACY = Onset("val/copy_accuracy", 0.9)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.1, 0.5, 0.92, 0.95), Time(30, reached=True)),
        ((0.1, 0.91, 0.5, 0.92, 0.93), Time(40, reached=True)),  # fell back too far
        ((0.1, 0.91, 0.86, 0.92), Time(20, reached=True)),  # within the hysteresis
        ((0.1, 0.5, 0.95), Time(20, reached=False)),  # nothing confirms it yet
        ((0.95,), Time(0, reached=False)),
        ((0.95, 0.95), Time(10, reached=True)),
        ((0.1, 0.2, 0.3), Time(30, reached=False)),
        ((0.1, float("nan"), 0.95, 0.95), Time(30, reached=True)),
        ((), Time(0, reached=False)),
    ],
)
def test_the_first_evaluation_that_others_confirm(values: tuple[float, ...], expected: Time) -> None:
    assert ACCURACY.time(curve(*values)) == expected


def test_hold_counts_the_confirming_evaluations() -> None:
    long = Onset("val/copy_accuracy", 0.9, hold=3)
    assert long.time(curve(0.95, 0.95, 0.2, 0.95, 0.95, 0.95)) == Time(40, reached=True)
    assert long.time(curve(0.2, 0.95, 0.95)) == Time(10, reached=False)


def test_losses_reach_theirs_from_above() -> None:
    falling = Onset("val/loss", 4.0)
    assert falling.time(curve(5.0, 4.1, 3.9, 3.8)) == Time(30, reached=True)
    assert str(falling) == "loss ≤ 4"
    assert str(ACCURACY) == "copy_accuracy ≥ 0.9"


def test_a_gap_ends_after_it_begins_or_before_or_never() -> None:
    gap = Gap("gap", Onset("val/prefix_matching/max", 0.5), ACCURACY)
    pattern = curve(0.1, 0.6, 0.7, 0.8, 0.8)
    assert gap.time(pattern, curve(0.1, 0.2, 0.3, 0.95, 0.95)) == Time(20, reached=True)
    assert gap.time(pattern, curve(0.95, 0.95, 0.95, 0.95, 0.95)) == Time(-10, reached=True)
    assert gap.time(pattern, curve(0.1, 0.2, 0.3, 0.3, 0.3)) == Time(30, reached=False)
    assert gap.time(curve(0.1, 0.2), curve(0.95, 0.95)) is None
