from pathlib import Path

import pytest
from recorded import recorded

from mgvr_lightning.analysis.arm import arms
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.errors import InputError

STEPS, LOSSES = [10.0, 20.0], [5.0, 4.0]


def run(name: str, seed: int, settings: dict[str, object] | None = None, *configs: str) -> Run:
    found = recorded(name, seed, STEPS, LOSSES)
    found.settings.update(settings or {})
    if configs:
        files = [part for config in configs for part in ("--config", f"configs/{config}.yaml")]
        found.provenance["command"] = ["fit", *files]
    return found


def test_runs_of_a_configuration_are_an_arm_whatever_their_seeds_and_places() -> None:
    runs = [run("a", 1), run("b", 0), run("a", 0)]
    runs[0].settings.update({"run": "elsewhere", "trainer.devices": 4, "data.init_args.cache": "/tmp"})
    found = arms(runs)
    assert [(arm.label, list(arm.runs)) for arm in found] == [("a", [(0, 0), (1, 1)]), ("b", [(0, 0)])]


def test_arms_that_files_do_not_tell_apart_are_named_by_their_options() -> None:
    rate = "model.optimizer.init_args.learning_rate"
    found = arms([run("a", 0, {rate: 0.001}), run("a", 1, {rate: 0.003}), run("b", 0, {rate: 0.001})])
    assert [arm.label for arm in found] == ["a (learning_rate=0.001)", "a (learning_rate=0.003)", "b"]


def test_files_that_all_have_in_common_name_nothing() -> None:
    found = arms([run("a", 0, None, "mgvr", "induction"), run("b", 0, None, "transformer", "induction")])
    assert [arm.label for arm in found] == ["mgvr", "transformer"]
    assert [arm.label for arm in arms([run("a", 0, None, "mgvr", "induction")])] == ["mgvr-induction"]


def test_data_are_told_apart_by_what_they_are() -> None:
    other = run("a", 1)
    other.provenance["data"]["context"] = 64
    assert [arm.label for arm in arms([run("a", 0), other])] == ["a (context=32)", "a (context=64)"]


def test_the_same_seeds_twice_are_refused() -> None:
    twin = run("a", 0)
    twin.folder = Path("checkpoints/again/version_0")
    with pytest.raises(InputError, match=r"again/version_0: the same configuration and seeds as .*a-0"):
        arms([run("a", 0), twin])
    assert len(arms([run("a", 0), run("a", 0)])) == 1  # the same folder twice is one run


def test_given_labels_tell_equal_configurations_apart_and_hide_no_difference() -> None:
    twin, other = run("a", 0), run("a", 1)
    twin.folder = Path("checkpoints/again/version_0")
    first = run("a", 0)
    found = arms([first, twin], {first.folder: "A", twin.folder: "B"})
    assert [arm.label for arm in found] == ["A", "B"]
    other.settings["model.values.layers"] = "last_third"
    with pytest.raises(InputError, match=r"a-1/version_0: has other options than .*a-0.*layers=last_third"):
        arms([first, other], {first.folder: "A", other.folder: "A"})
