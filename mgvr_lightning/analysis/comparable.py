"""Whether runs can be compared: what they were trained and evaluated on."""

from collections.abc import Collection, Sequence
from typing import Any

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.errors import InputError

NAMES = {
    "tokenizer": "tokenizer",
    "validation_tokens": "validation set",
    "validation_windows": "number of validation windows",
    "validation_sequences": "number of validation sequences",
    "train_tokens": "training tokens",
    "context": "context",
    "global_batch": "sequences of a step",
    "data_seed": "data seed",
}
ORDER = "data_order"
STEPS = "planned_steps"


def check(arms: Sequence[Arm], allow: Collection[str] = ()) -> None:
    """Refuses runs that differ in more than their configuration and their seeds.

    Args:
        arms: all that are compared.
        allow: names of facts that may differ: `data_order`, `planned_steps`, or a key of `data` in
            provenance.json.

    Raises:
        InputError: two runs differ, or their data order can't be told.
    """
    runs = [run for arm in arms for run in arm.runs.values()]
    known = {ORDER, STEPS, *(key for run in runs for key in run.provenance["data"])}
    for name in allow:
        if name not in known:
            raise InputError(f"allow: no fact named {name}. There are: {', '.join(sorted(known))}.")
    for run in runs[1:]:
        same_facts(runs[0], run, {"data_seed", *allow})
        if STEPS not in allow:
            refuse_unless_equal(
                runs[0], run, STEPS, "number of steps", *(r.planned_steps for r in (runs[0], run))
            )
    for arm in arms[1:]:
        for run, reference in arm.paired(arms[0]):
            same_facts(reference, run, set(allow))
            if ORDER not in allow:
                same_order(reference, run)


def same_facts(run: Run, other: Run, allow: Collection[str]) -> None:
    """Refuses runs whose data aren't the same."""
    ours, theirs = run.provenance["data"], other.provenance["data"]
    for key in dict.fromkeys([*ours, *theirs]):
        if key not in allow:
            refuse_unless_equal(run, other, key, NAMES.get(key, key), ours.get(key), theirs.get(key))


def refuse_unless_equal(run: Run, other: Run, key: str, name: str, one: Any, two: Any) -> None:
    """Refuses what differs, naming it."""
    if one != two:
        raise InputError(
            f"{other.folder}: not comparable to {run.folder}.\n"
            f"Its {name} is {two}, the other's {one}. Leave one out, or allow it: --allow [{key}]."
        )


def same_order(run: Run, other: Run) -> None:
    """Refuses runs that had not consumed the same tokens by some step, or of which that can't be told."""
    ours, theirs = run.series("data/hash"), other.series("data/hash")
    steps = [step for step in ours if step in theirs]
    hint = f"Leave one out, or allow it: --allow [{ORDER}]."
    if not steps:
        raise InputError(
            f"{other.folder}: no validation at the same step as in {run.folder}, so whether both saw the "
            f"same tokens in the same order can't be told. {hint}"
        )
    for step in steps:
        if ours[step] != theirs[step]:
            raise InputError(
                f"{other.folder}: not comparable to {run.folder}.\nBy step {step} it had trained on other "
                f"tokens, or on the same in another order (their hash is {theirs[step]}, the other's "
                f"{ours[step]}). {hint}"
            )


def shared_tensors(run: Run, other: Run) -> tuple[int, int]:
    """Initial tensors that start equal bit for bit, and those that both runs have."""
    ours, theirs = run.provenance["initial_tensors"], other.provenance["initial_tensors"]
    common = [name for name in ours if name in theirs]
    return sum(ours[name] == theirs[name] for name in common), len(common)
