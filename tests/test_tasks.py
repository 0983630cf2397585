import json
import math
import pickle
from collections.abc import Callable
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from documents import KEPT
from helpers import CONFIGS, PRESETS, TASKS
from runs import arguments, checkpoint, command, saved
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader

from mgvr_lightning.__main__ import main
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.data.batch import Batch, TrainBatches, digest
from mgvr_lightning.data.layout import Layout
from mgvr_lightning.data.tasks.induction import Induction
from mgvr_lightning.data.tasks.mqar import MQAR
from mgvr_lightning.data.tasks.task import Task
from mgvr_lightning.data.tasks.two_hop import TwoHop
from mgvr_lightning.model.loss import IGNORE

MAKERS: dict[str, Callable[..., Task]] = {"induction": Induction, "mqar": MQAR, "two_hop": TwoHop}
PASSED = {"induction": "val/copy_accuracy", "mqar": "val/accuracy", "two_hop": "val/two_hop_accuracy"}
TINY: dict[str, dict[str, Any]] = {
    "induction": {"symbols": 9, "period_min": 3, "period_max": 6, "context": 20},
    "mqar": {"vocabulary": 64, "context": 24, "pairs": 3},
    "two_hop": {"chains": 2, "symbols": 9, "distractors": 1, "queries": 4},
}


@cache
def _home() -> Path:
    KEPT.append(TemporaryDirectory(prefix="mgvr-tasks-"))
    return Path(KEPT[-1].name)


def _configs(task: str, preset: str = "transformer") -> list[str]:
    return ["--config", str(CONFIGS / f"{preset}.yaml"), "--config", str(CONFIGS / f"{task}.yaml")]


def _tiny(folder: Path, task: str) -> list[str]:
    """A tiny network on a tiny task, for four steps."""
    settings = {
        "data": {"init_args": {**TINY[task], "global_batch": 8, "validation_sequences": 6}},
        "model": {
            "network": {"width": 16, "layers": 3, "heads": 2},
            "schedule": {"init_args": {"warmup": 1}},
            "compile": False,
        },
        "trainer": {
            "max_steps": 4,
            "val_check_interval": 2,
            "log_every_n_steps": 1,
            "accelerator": "cpu",
            "precision": "32-true",
        },
    }
    path = folder / f"{task}_tiny.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return ["--config", str(path)]


def _fit(folder: Path, task: str, *given: str, preset: str = "transformer", run: str = "run") -> Run:
    command(folder, "fit", *_configs(task, preset), *_tiny(folder, task), "--run", run, *given)
    return Run.find(folder / "checkpoints" / run)


@cache
def _run(task: str, preset: str = "transformer") -> Run:
    return _fit(_home(), task, preset=preset, run=f"{task}-{preset}")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_trains_on_the_same_sequences(task: str, preset: str) -> None:
    run = _run(task, preset)
    assert run.series("data/hash") == _run(task).series("data/hash")
    assert list(run.series("train/loss")) == [1, 2, 3, 4]
    assert list(run.series("val/loss")) == [2, 4]
    assert all(math.isfinite(loss) for key in ("train/loss", "val/loss") for loss in run.series(key).values())


def _names(task: str) -> set[str]:
    own: dict[str, set[str]] = {
        "induction": {"copy_accuracy"}
        | {
            f"{score}/{which}"
            for score in ("prefix_matching", "previous_token")
            for which in ("max", *(f"layer{layer}_head{head}" for layer in range(3) for head in range(2)))
        },
        "mqar": {f"query_accuracy/query{number}" for number in (1, 2, 3)},
        "two_hop": {
            "one_hop_accuracy",
            "two_hop_accuracy",
            "two_hop_among_ends",
            "two_hop_stopped_after_one",
        },
    }
    return {f"val/{name}" for name in {"loss", "accuracy"} | own[task]}


@pytest.mark.parametrize("task", TASKS)
def test_metrics_are_logged_under_their_names_at_every_validation(task: str) -> None:
    run = _run(task)
    logged = [record for record in run.records if "val/loss" in record]
    assert [record["step"] for record in logged] == [2, 4]
    for record in logged:
        assert {key for key in record if key.startswith("val/")} == _names(task)
        assert all(0 <= record[key] <= 1 for key in _names(task) - {"val/loss"})
    events = EventAccumulator(str(run.folder))
    events.Reload()
    for name in _names(task):
        points = {event.step: event.value for event in events.Scalars(name)}
        assert points == pytest.approx(run.series(name), rel=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_a_checkpoint_is_validated_tested_and_continued(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(task)
    validated = command(tmp_path, "validate", *saved(run)).trainer.callback_metrics
    for name in _names(task):
        assert float(validated[name]) == pytest.approx(run.series(name)[4], rel=1e-5, abs=1e-7), name
    tested = command(tmp_path, "test", *saved(run)).trainer.callback_metrics
    assert set(tested) == {name.replace("val/", "test/") for name in _names(task)}
    capsys.readouterr()
    command(tmp_path, "predict", *saved(run))
    predictions = capsys.readouterr().out.strip().split("\n\n")
    assert len(predictions) == 4
    for line in predictions:
        prompt, answer = line.split("▸")
        assert answer
        assert prompt.split()[0] == "BOS" if task != "mqar" else prompt.startswith("K")


def test_weights_of_another_task_or_vocabulary_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run("two_hop")
    for given in (
        ["--data", json.dumps({"class_path": "Induction", "init_args": TINY["induction"]})],
        ["--data.symbols", "10"],
    ):
        with pytest.raises(SystemExit) as end:
            _main(tmp_path, "validate", *saved(run), *given)
        assert end.value.code == 2
        assert "trained with tokenizer TwoHop of 12 ids" in capsys.readouterr().err
    command(tmp_path, "validate", *saved(run), "--data.distractors", "0")


def _main(folder: Path, *given: str) -> None:
    with arguments(folder, *given):
        main()


@pytest.mark.parametrize("task", TASKS)
def test_training_goes_on_where_it_stopped_and_on_the_same_task_alone(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fit(tmp_path, task, "--trainer.max_steps", "2")
    stopped = str(tmp_path / "checkpoints/run/version_0/checkpoints/last.ckpt")
    resumed = _fit(tmp_path, task, "--ckpt_path", stopped, run="resumed")
    whole = _run(task)
    for key in ("data/hash", "train/loss", "val/loss"):
        assert resumed.series(key)[4] == whole.series(key)[4]
    for option in ("--data.seed=1", "--data.global_batch=16"):
        with pytest.raises(SystemExit):
            _main(tmp_path, "fit", *_configs(task), *_tiny(tmp_path, task), "--ckpt_path", stopped, option)
    assert "the checkpoint was trained with" in capsys.readouterr().err


@pytest.mark.parametrize("task", TASKS)
def test_bad_options_are_told_in_one_line(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"induction": "symbols", "mqar": "pairs", "two_hop": "chains"}[task]
    with pytest.raises(SystemExit) as end:
        _main(tmp_path, "fit", *_configs(task), f"--data.{bad}", "0")
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert f"data.{bad}: 0" in error
    assert "Traceback" not in error


def _batches(task: Task, micro: int | None = None, ranks: int = 1, rank: int = 0) -> TrainBatches:
    return TrainBatches(task.examples(), Layout.of(task.global_batch, micro, ranks, rank))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("ranks", "micro"), [(1, 12), (1, 3), (2, 6), (2, 2), (4, 1), (3, 4)])
def test_a_step_is_the_same_in_every_layout(task: str, ranks: int, micro: int) -> None:
    data = MAKERS[task](global_batch=12)
    whole = _batches(data)
    parts = [_batches(data, micro, ranks, rank) for rank in range(ranks)]
    accumulation = 12 // ranks // micro
    for step in (0, 1, 1000):
        expected = whole[step]
        indices = range(step * accumulation, (step + 1) * accumulation)
        given = [part[index] for part in parts for index in indices]
        for name in ("ids", "targets"):
            rows = sorted(row for batch in given for row in getattr(batch, name).tolist())
            assert rows == sorted(getattr(expected, name).tolist())
        scored = int((expected.targets != IGNORE).sum())
        assert {batch.step_targets for batch in given} == {expected.step_targets} == {scored}
        assert sum(batch.digest for batch in given) % 2**64 == expected.digest


@pytest.mark.parametrize("task", TASKS)
def test_examples_survive_pickling(task: str) -> None:
    batches = _batches(MAKERS[task](global_batch=4))
    again = pickle.loads(pickle.dumps(batches))
    assert again[3].digest == batches[3].digest


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
@pytest.mark.parametrize("task", TASKS)
def test_loader_processes_give_the_same_batches(task: str, start: str) -> None:
    batches = _batches(MAKERS[task](global_batch=4))
    loader = DataLoader[Batch](
        batches, batch_size=None, sampler=range(6), num_workers=2, multiprocessing_context=get_context(start)
    )
    for index, batch in enumerate(loader):
        assert torch.equal(batch.ids, batches[index].ids)
        assert torch.equal(batch.targets, batches[index].targets)
        assert batch[2:] == batches[index][2:]


def test_a_run_with_loader_processes_is_the_same_run(tmp_path: Path) -> None:
    run = _fit(tmp_path, "induction", "--data.workers", "2")
    for key in ("data/hash", "train/loss", "val/loss"):
        assert run.series(key) == _run("induction").series(key)


@pytest.mark.parametrize("micro_batch", ["1", "4"])
def test_accumulation_changes_nothing(tmp_path: Path, micro_batch: str) -> None:
    run = _fit(tmp_path, "induction", "--data.micro_batch", micro_batch)
    assert run.series("data/hash") == _run("induction").series("data/hash")
    for key in ("train/loss", "train/accuracy", *_names("induction")):
        assert run.series(key) == pytest.approx(_run("induction").series(key), rel=1e-4, abs=1e-6), key


def _hashes(ids: np.ndarray, targets: np.ndarray) -> list[int]:
    return [digest(ids[row : row + 1], targets[row : row + 1]) for row in range(len(ids))]


@pytest.mark.parametrize("task", TASKS)
def test_no_sequence_comes_back_and_the_splits_and_seeds_share_none(task: str) -> None:
    hashes = []
    for seed in (0, 1):
        data = MAKERS[task](seed=seed)
        hashes += _hashes(*data.examples().rows(np.arange(3000)))
        hashes += _hashes(*data.held_out("validation")) + _hashes(*data.held_out("test"))
    assert len(set(hashes)) == len(hashes) == 2 * (3000 + 256 + 1024)


@pytest.mark.parametrize("task", TASKS)
def test_nothing_about_a_sequence_is_shared_by_the_splits(task: str) -> None:
    data = MAKERS[task](queries=2) if task == "two_hop" else MAKERS[task]()
    (_, train), (_, validation) = data.examples().rows(np.arange(256)), data.held_out("validation")
    same_places = ((train == IGNORE) == (validation == IGNORE)).all(axis=1)
    assert task == "two_hop" or same_places.mean() < 0.15
    assert (train == validation)[train != IGNORE].mean() < 0.1


@pytest.mark.parametrize("task", TASKS)
def test_held_out_sets_are_fixed_and_grow_at_their_end(task: str) -> None:
    small, large = (MAKERS[task](validation_sequences=count) for count in (5, 9))
    for part, more in zip(small.held_out("validation"), large.held_out("validation"), strict=True):
        np.testing.assert_array_equal(part, more[:5])


@pytest.mark.parametrize("task", TASKS)
def test_facts_name_every_option_that_changes_the_sequences(task: str) -> None:
    changes: dict[str, dict[str, Any]] = {
        "induction": {"symbols": 50, "period_min": 13, "period_max": 29, "context": 60, "loss_on": "all"},
        "mqar": {"vocabulary": 4096, "context": 66, "pairs": 3, "power": 0.5, "fill": False},
        "two_hop": {"chains": 5, "symbols": 40, "distractors": 1, "queries": 4, "order": "random"},
    }
    plain = MAKERS[task]()
    for option, value in {**changes[task], "seed": 1}.items():
        other = MAKERS[task](**{option: value})
        assert other.facts != plain.facts, option
        theirs, ours = (data.examples().rows(np.arange(50)) for data in (other, plain))
        same = all(np.array_equal(part, whole) for part, whole in zip(theirs, ours, strict=True))
        assert not same, option
    assert json.loads(json.dumps(plain.facts)) == plain.facts
    assert MAKERS[task](workers=1, micro_batch=1, test_sequences=3).facts == plain.facts


@pytest.mark.parametrize("task", TASKS)
def test_a_task_holds_no_text(task: str) -> None:
    data = MAKERS[task]()
    assert data.token_bytes is None
    assert data.epochs(1000) is None
    assert data.yardsticks() == {}
    assert data.prepare() == []
    assert all(0 <= token < data.vocabulary for prompt in data.prompts() for token in prompt)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_transformer_learns_each_task_as_it_is_shipped(task: str, tmp_path: Path) -> None:
    command(tmp_path, "fit", *_configs(task), "--run", "run", "--trainer.enable_checkpointing", "false")
    run = Run.find(tmp_path / "checkpoints" / "run")
    last = max(run.series(PASSED[task]))
    assert run.series(PASSED[task])[last] > 0.9


def test_a_checkpoint_holds_the_facts() -> None:
    content = torch.load(checkpoint(_run("mqar")), weights_only=True)
    assert content["data_facts"]["task"] == "MQAR"
    assert content["data_facts"]["vocabulary_size"] == 64
