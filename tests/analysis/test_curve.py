import numpy as np
import pytest

from mgvr_lightning.analysis.curve import Curve, Match, matches

NAN = float("nan")


def _curve(steps: list[float], losses: list[float]) -> Curve:
    return Curve(np.array(steps, dtype=np.float64), np.array(losses, dtype=np.float64))


@pytest.mark.parametrize(
    ("level", "step"),
    [(5.0, 10.0), (4.5, 15.0), (4.0, 20.0), (3.25, 35.0), (3.0, 40.0), (9.0, None), (2.9, None)],
)
def test_a_level_is_reached_between_two_points(level: float, step: float | None) -> None:
    assert _curve([10, 20, 40], [5, 4, 3]).steps_to(level) == step


def test_a_single_point_reaches_its_own_level_alone() -> None:
    assert _curve([10], [5]).steps_to(5.0) == 10
    assert _curve([10], [5]).steps_to(6.0) is None
    assert _curve([10], [5]).steps_to(4.9) is None


def test_a_curve_without_points_reaches_nothing() -> None:
    assert _curve([], []).steps_to(5.0) is None
    assert matches(_curve([], []), _curve([1], [1])) == []


def test_the_first_crossing_counts_where_the_loss_rises_again() -> None:
    curve = _curve([1, 2, 3, 4, 5], [5, 3, 4, 2, 1])
    assert curve.steps_to(3.0) == 2
    assert curve.steps_to(4.0) == 1.5
    assert curve.steps_to(2.5) == 3.75


def test_a_gap_reaches_nothing_and_is_not_interpolated_over() -> None:
    curve = _curve([1, 2, 3, 4], [5, NAN, 3, 2])
    assert curve.steps_to(4.0) == 3
    assert curve.steps_to(2.5) == 3.5
    assert _curve([1, 2], [NAN, NAN]).steps_to(5.0) is None


def test_a_plateau_is_reached_at_its_beginning() -> None:
    assert _curve([1, 2, 3], [4, 3, 3]).steps_to(3.0) == 2


def test_a_curve_against_itself_saves_nothing() -> None:
    curve = _curve([40, 80, 120, 160], [5, 4.1, 3.7, 3.5])
    found = matches(curve, curve)
    assert [match.step for match in found] == [40, 80, 120, 160]
    assert [match.steps_saved for match in found] == [0, 0, 0, 0]
    assert [match.effective_compute(1.0) for match in found] == [1, 1, 1, 1]


def test_a_planted_saving_is_recovered() -> None:
    steps = np.arange(10, 2001, 10, dtype=np.float64)
    reference = Curve(steps, 3 + 20 / np.sqrt(steps))
    variant = Curve(steps, 3 + 20 / np.sqrt(steps / 0.8))
    late = [match for match in matches(variant, reference) if match.step >= 200]
    assert late[-1].step == 2000
    assert [match.steps_saved for match in late] == pytest.approx([0.2] * len(late), abs=1e-3)
    assert late[-1].effective_compute(1.043) == pytest.approx(1.25 / 1.043, rel=1e-3)


def test_a_saving_does_not_depend_on_the_grid_of_the_variant() -> None:
    reference = _curve([100, 200, 300, 400], [8, 6, 4, 2])
    fine, coarse = np.arange(7, 400, 7, dtype=np.float64), np.array([30.0, 390.0])
    for grid in (fine, coarse):
        found = matches(Curve(grid, 10 - 2 * grid / 80), reference)
        assert [match.steps_saved for match in found] == pytest.approx([0.2] * len(found))
        assert len(found) == 4


def test_levels_that_are_not_reached_are_left_out() -> None:
    found = matches(_curve([10, 20], [5, 4]), _curve([10, 20, 30], [5.5, 4.5, 3.5]))
    assert [match.step for match in found] == [20]
    assert matches(_curve([10], [9]), _curve([10], [8])) == []


def test_gaps_of_the_reference_and_step_zero_match_nothing() -> None:
    reference = _curve([0, 10, 20], [9, NAN, 4])
    assert [match.step for match in matches(_curve([0, 10, 20], [9, 5, 4]), reference)] == [20]


def test_a_slower_variant_has_a_negative_saving() -> None:
    match = Match(step=100, reached=125)
    assert match.steps_saved == -0.25
    assert match.effective_compute(0.5) == 1.6
