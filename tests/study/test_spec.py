from typing import Any

import pytest

from mgvr_lightning.errors import InputError
from mgvr_lightning.study.spec import Judge, Pilot, Study, Tuning

ARMS = {"transformer": ["configs/transformer.yaml"], "mgvr": ["configs/mgvr.yaml"]}
RATE = "model.optimizer.init_args.learning_rate"


def study(**changes: Any) -> Study:
    return Study(**{"arms": ARMS, "seeds": [0, 1], **changes})


def trials(transformer: int, mgvr: int) -> dict[str, list[dict[str, Any]]]:
    counts = {"transformer": transformer, "mgvr": mgvr}
    return {arm: [{RATE: 10.0**-number} for number in range(count)] for arm, count in counts.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": {}}, "arms: none"),
        ({"arms": {"a/b": []}}, "can't name a folder"),
        ({"seeds": []}, "seeds: "),
        ({"seeds": [1, 1]}, "each once"),
        ({"grid": {RATE: []}}, "no value"),
        ({"tuning": Tuning([2], trials(2, 3))}, "transformer 2, mgvr 3. Expected the same number"),
        ({"tuning": Tuning([2], trials(0, 0))}, "transformer 0, mgvr 0"),
        ({"tuning": Tuning([1], trials(2, 2))}, r"tuning.seeds: \[1\] are reported too"),
        ({"tuning": Tuning([2], {"mgvr": [{}]})}, "transformer is not both"),
        ({"tuning": Tuning([2], {**trials(1, 1), "bov": [{}]})}, "bov is not both"),
        ({"grid": {RATE: [0.1]}, "tuning": Tuning([2], trials(1, 1))}, "is in the grid, too"),
        ({"pilot": Pilot("bov", [7, 8], 0.1)}, "no arm named bov"),
        ({"pilot": Pilot("mgvr", [7], 0.1)}, "one seed has no spread"),
        ({"pilot": Pilot("mgvr", [0, 7], 0.1)}, r"pilot.seeds: \[0\] are reported too"),
        ({"pilot": Pilot("mgvr", [7, 8], 0.0)}, "effect above 0"),
        ({"pilot": Pilot("mgvr", [7, 8], 1.0), "judge": Judge("val/accuracy", 0.9)}, "share of steps"),
    ],
)
def test_what_would_not_be_fair_or_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        study(**changes)


def test_equal_numbers_of_trials_on_their_own_seeds_pass() -> None:
    study(tuning=Tuning([2, 3], trials(2, 2)), pilot=Pilot("transformer", [7, 8], 0.1))
