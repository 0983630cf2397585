import math

import numpy as np
import pytest
from recorded import recorded

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.comparison import Comparison, difference
from mgvr_lightning.errors import InputError

STEPS = [10.0, 20.0, 30.0, 40.0]
LOSSES = [5.0, 4.0, 3.0, 2.0]  # straight, so that interpolation is exact


def arm(name: str, curves: list[list[float]], steps: list[float] = STEPS, **changes: object) -> Arm:
    runs = {
        (seed, seed): recorded(name, seed, steps, losses, **changes) for seed, losses in enumerate(curves)
    }  # type: ignore[arg-type]
    return Arm(name, runs)


def ahead(steps: float) -> list[float]:
    """The loss that the reference has so many steps later."""
    return [6.0 - (step + steps) / 10 for step in STEPS]


def test_a_run_against_itself_saves_nothing() -> None:
    comparison = Comparison(arm("same", [LOSSES] * 3), arm("reference", [LOSSES] * 3))
    assert [match.saved.estimate for match in comparison.matching if match.saved] == [0, 0, 0, 0]
    assert comparison.at_end.saved is not None
    assert comparison.at_end.saved.estimate == 0
    assert [found.interval.estimate for found in comparison.differences] == [0, 0, 0]
    assert {found.verdict for found in comparison.differences} == {"inconclusive"}


def test_steps_saved_are_means_of_ratios_over_pairs() -> None:
    comparison = Comparison(arm("variant", [ahead(4), ahead(8)]), arm("reference", [LOSSES] * 2))
    end = comparison.at_end
    ratios = [36 / 40, 32 / 40]
    assert [ratio.step for ratio in end.ratios] == pytest.approx(ratios)
    assert end.saved is not None
    assert end.saved.estimate == pytest.approx(1 - math.sqrt(ratios[0] * ratios[1]))
    last = comparison.matching[-1]
    assert (last.step, last.censored) == (40.0, 0)
    assert [ratio.step for ratio in last.ratios] == pytest.approx(ratios)


def test_effective_compute_divides_by_each_pairs_own_step_time() -> None:
    comparison = Comparison(arm("variant", [ahead(4)], seconds=0.2), arm("reference", [LOSSES], seconds=0.1))
    assert comparison.time_ratio == pytest.approx(2.0)
    assert comparison.at_end.compute is not None
    assert comparison.at_end.compute.estimate == pytest.approx(40 / 36 / 2)
    given = Comparison(arm("variant", [ahead(4)]), arm("reference", [LOSSES]), time_ratio=1.25)
    assert given.at_end.compute is not None
    assert given.at_end.compute.estimate == pytest.approx(40 / 36 / 1.25)


def test_other_machines_give_no_step_time() -> None:
    variant, reference = arm("variant", [ahead(4)]), arm("reference", [LOSSES])
    variant.runs[0, 0].provenance["machine"] = {"device": "another"}
    comparison = Comparison(variant, reference)
    assert comparison.time_ratio is None
    assert comparison.at_end.compute is None
    assert not any("seconds" in found.name for found in comparison.differences)


def test_a_variant_that_is_behind_is_censored_at_a_step_and_measured_at_the_end() -> None:
    behind = [6.0 - (step - 10) / 10 for step in STEPS]
    comparison = Comparison(arm("variant", [behind] * 2), arm("reference", [LOSSES] * 2))
    last = comparison.matching[-1]
    assert last.censored == 2
    assert last.saved is None
    assert [(ratio.step, ratio.reached) for ratio in last.ratios] == [(1.0, False)] * 2
    assert comparison.at_end.saved is not None
    assert comparison.at_end.saved.estimate == pytest.approx(1 - 40 / 30)


def test_the_median_stands_where_a_minority_is_not_there_yet() -> None:
    behind = [6.0 - (step - 10) / 10 for step in STEPS]
    comparison = Comparison(arm("variant", [ahead(4), ahead(8), behind]), arm("reference", [LOSSES] * 3))
    last = comparison.matching[-1]
    assert last.censored == 1
    assert last.saved is not None
    assert last.saved.estimate == pytest.approx(1 - 36 / 40)
    assert last.compute is None


def test_losses_at_equal_cost() -> None:
    variant = arm("variant", [ahead(4)], seconds=0.2, flops_per_token=1200)
    comparison = Comparison(variant, arm("reference", [LOSSES], seconds=0.1))
    found = {one.name: one.interval.estimate for one in comparison.differences}
    assert found["val/loss at step 40"] == pytest.approx(-0.4)
    # at twice the cost it has made 20 steps when the reference has made 40
    assert found["val/loss at equal FLOPs"] == pytest.approx(ahead(4)[1] - LOSSES[3])
    assert found["val/loss at equal seconds"] == pytest.approx(ahead(4)[1] - LOSSES[3])


def test_runs_still_going_are_compared_as_far_as_both_are() -> None:
    variant = arm("variant", [ahead(4)[:2]], STEPS[:2], planned=40)
    comparison = Comparison(variant, arm("reference", [LOSSES]))
    assert comparison.last_step == 20
    assert comparison.differences[0].interval.estimate == pytest.approx(-0.4)
    assert comparison.at_end.ratios[0].step == pytest.approx(20 / 24)


def test_forked_runs_are_matched_where_they_were_evaluated() -> None:
    fork = arm("fork", [ahead(4)[1:]], STEPS[1:])
    comparison = Comparison(fork, arm("reference", [LOSSES]))
    assert [match.step for match in comparison.matching] == [
        30.0,
        40.0,
    ]  # its loss at step 20 is passed unseen


def test_without_common_seeds_or_steps_there_is_no_comparison() -> None:
    other = Arm("other", {(7, 7): recorded("other", 7, STEPS, LOSSES)})
    with pytest.raises(InputError, match="no seeds in common"):
        Comparison(other, arm("reference", [LOSSES]))
    with pytest.raises(InputError, match="no step in common"):
        Comparison(arm("variant", [LOSSES], [11.0, 21.0, 31.0, 41.0]), arm("reference", [LOSSES]))


def test_verdicts_name_the_direction_and_the_pairs_needed() -> None:
    lower = difference("loss", [-0.1, -0.11, -0.09], [4.0, 4.01, 3.99])
    assert (lower.verdict, lower.exceeds_spread) == ("lower", True)
    assert lower.needed == 3
    higher = difference("loss", [0.1, 0.11, 0.09], [4.0, 4.5, 3.5])
    assert (higher.verdict, higher.exceeds_spread) == ("higher", False)
    unclear = difference("loss", [0.1, -0.11, 0.05], [4.0, 4.5, 3.5])
    assert unclear.verdict == "inconclusive"
    assert unclear.needed is None or unclear.needed > 3
    one = difference("loss", [0.1], [4.0])
    assert (one.verdict, one.exceeds_spread, one.needed) == ("inconclusive", None, None)
    assert np.isnan(one.spread)


def test_a_run_that_changed_machines_has_no_step_time() -> None:
    variant, reference = arm("variant", [ahead(4)]), arm("reference", [LOSSES])
    run = variant.runs[0, 0]
    run.records.extend({"step": step, "run/machine": name} for step, name in ((0, "x"), (20, "x")))
    assert Comparison(variant, reference).time_ratio == 1
    run.records.append({"step": 30, "run/machine": "y"})
    assert Comparison(variant, reference).time_ratio is None
