import pytest
from recorded import recorded

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.onset import Onset
from mgvr_lightning.analysis.timing import timings
from mgvr_lightning.errors import InputError

STEPS = [10.0, 20.0, 30.0, 40.0]


def arm(name: str, one_hop: list[float], two_hop: list[list[float]]) -> Arm:
    runs = {}
    for seed, values in enumerate(two_hop):
        extra = [
            {"step": int(step), "val/one_hop_accuracy": one, "val/two_hop_accuracy": two}
            for step, one, two in zip(STEPS, one_hop, values, strict=True)
        ]
        runs[seed, seed] = recorded(name, seed, STEPS, [4.0, 3.0, 2.0, 1.0], extra=extra)
    return Arm(name, runs)


FAST = [0.2, 0.95, 0.99, 0.99]
SLOW = [0.2, 0.3, 0.95, 0.99]
NEVER = [0.2, 0.2, 0.2, 0.2]


def test_known_metrics_are_looked_for_and_arms_compared() -> None:
    arms = [arm("reference", [0.95] * 4, [SLOW, SLOW, SLOW]), arm("variant", [0.95] * 4, [FAST, FAST, SLOW])]
    found = timings(arms)
    reference, variant = found["two_hop_accuracy ≥ 0.9"]
    assert [time.step for time in reference.times.values()] == [30, 30, 30]
    assert variant.median is not None
    assert variant.median.estimate == 20
    ratio = variant.ratio(reference)
    assert ratio is not None
    assert ratio.estimate == pytest.approx((2 / 3) ** (2 / 3))
    assert not any("copy_accuracy" in event for event in found)


def test_runs_that_did_not_get_there_are_kept_and_left_to_the_logrank_test() -> None:
    arms = [arm("reference", [0.95] * 4, [NEVER] * 6), arm("variant", [0.95] * 4, [FAST] * 6)]
    reference, variant = timings(arms)["two_hop_accuracy ≥ 0.9"]
    assert (reference.reached, reference.median) == (0, None)
    assert variant.ratio(reference) is None
    assert variant.p_value(reference) < 0.01  # type: ignore[operator]


def test_the_plateau_lies_between_one_hop_and_two() -> None:
    plateau = timings([arm("a", [0.95] * 4, [FAST, SLOW, NEVER])])["plateau, one hop to two"][0]
    assert [(time.step, time.reached) for time in plateau.times.values()] == [
        (10, True),
        (20, True),
        (30, False),
    ]


def test_other_thresholds_can_be_asked_for() -> None:
    found = timings([arm("a", [0.95] * 4, [FAST])], [Onset("val/loss", 2.5)])
    assert found["loss ≤ 2.5"][0].times[0, 0].step == 30


def test_runs_that_were_stopped_for_something_else_are_not_called_slow() -> None:
    reference = arm("reference", [0.95] * 4, [SLOW, SLOW])
    variant = arm("variant", [0.95] * 4, [[0.2, 0.91, 0.95, 0.95], [0.2, 0.91, 0.95, 0.95]])
    for run in variant.runs.values():
        run.records[-1]["run/finished"] = "onset of two_hop_accuracy ≥ 0.9"
    late = timings([reference, variant])["two_hop_accuracy ≥ 0.99"][1]
    assert (late.stopped, late.reached, late.median, late.p_value(late)) == (2, 0, None, None)
    early = timings([reference, variant])["two_hop_accuracy ≥ 0.9"][1]
    assert early.stopped == 0
    assert early.median is not None


def test_an_onset_of_a_metric_that_was_not_logged_is_refused() -> None:
    with pytest.raises(InputError, match=r"not every run has logged val/lost\. All have: .*val/loss"):
        timings([arm("a", [0.95] * 4, [FAST])], [Onset("val/lost", 2.5)])
