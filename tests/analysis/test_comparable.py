from collections.abc import Callable

import pytest
from recorded import recorded

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.comparable import check, shared_tensors
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.errors import InputError

STEPS, LOSSES = [10.0, 20.0], [5.0, 4.0]


def pair(change: Callable[[Run], object]) -> list[Arm]:
    runs = [recorded(name, 0, STEPS, LOSSES) for name in ("reference", "variant")]
    change(runs[1])
    return [Arm(run.folder.parent.name, {run.seeds: run}) for run in runs]


def fact(key: str, value: object) -> Callable[[Run], object]:
    return lambda run: run.provenance["data"].update({key: value})


def other_order(run: Run) -> None:
    next(record for record in run.records if record.get("data/hash") == "h0-20")["data/hash"] = "other"


def other_steps(run: Run) -> None:
    run.records.append({"step": 0, "run/planned_steps": 40})


def no_common_step(run: Run) -> None:
    for record in run.records:
        if "data/hash" in record:
            record["step"] += 1


REFUSALS = {
    "tokenizer": (fact("tokenizer", "other"), "Its tokenizer is other, the other's is|the other's t0"),
    "validation_tokens": (fact("validation_tokens", "other"), "Its validation set is other"),
    "validation_windows": (fact("validation_windows", 9), "Its number of validation windows is 9"),
    "context": (fact("context", 64), "Its context is 64, the other's 32"),
    "global_batch": (fact("global_batch", 8), "Its sequences of a step is 8|sequences of a step"),
    "data_order": (other_order, "By step 20 it had trained on other tokens"),
    "planned_steps": (other_steps, "Its number of steps is 40, the other's 20"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_differs_is_named_and_refused_unless_allowed(name: str) -> None:
    change, message = REFUSALS[name]
    with pytest.raises(InputError, match=message) as error:
        check(pair(change))
    assert f"--allow [{name}]" in str(error.value)
    assert "variant-0" in str(error.value)
    assert "reference-0" in str(error.value)
    check(pair(change), [name])


def test_equal_runs_pass_and_seeds_may_differ() -> None:
    check(pair(lambda run: None))
    runs = [recorded(name, seed, STEPS, LOSSES) for name in ("a", "b") for seed in (0, 1)]
    check([Arm("a", {run.seeds: run for run in runs[:2]}), Arm("b", {run.seeds: run for run in runs[2:]})])


def test_an_order_that_cannot_be_told_is_refused() -> None:
    with pytest.raises(InputError, match="can't be told"):
        check(pair(no_common_step))


def test_an_unknown_allowance_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no fact named kontext. There are: context, .*data_order"):
        check(pair(lambda run: None), ["kontext"])


def test_shared_tensors_are_counted() -> None:
    one, other = (recorded(name, seed, STEPS, LOSSES) for name, seed in (("a", 0), ("b", 0)))
    assert shared_tensors(one, other) == (1, 1)
    other.provenance["initial_tensors"]["embedding.weight"] = "changed"
    assert shared_tensors(one, other) == (0, 1)
