from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from documents import KEPT
from runs import checkpoint, command, fit, saved

from mgvr_lightning.analysis.run import Run

CONSTANT = ["--model.schedule", "Constant", "--model.schedule.warmup", "3"]
PRESET = "static_mix"


def _weights(run: Run) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(checkpoint(run), weights_only=False)
    return content


@cache
def _straight() -> Run:
    KEPT.append(TemporaryDirectory(prefix="mgvr-straight-"))
    return fit(Path(KEPT[-1].name), *CONSTANT, preset=PRESET)


@cache
def _stopped_at(step: int) -> Path:
    KEPT.append(TemporaryDirectory(prefix="mgvr-stopped-"))
    folder = Path(KEPT[-1].name)
    fit(folder, *CONSTANT, "--trainer.max_steps", str(step), preset=PRESET)
    return folder


def _resumed(folder: Path, step: int, *given: str) -> Run:
    copytree(_stopped_at(step), folder, dirs_exist_ok=True)
    return fit(
        folder,
        *CONSTANT,
        "--ckpt_path",
        "checkpoints/run/version_0/checkpoints/last.ckpt",
        *given,
        preset=PRESET,
    )


@pytest.mark.parametrize("given", [[], ["--data.micro_batch", "4"]])
@pytest.mark.parametrize("step", [3, 4])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path, step: int, given: list[str]) -> None:
    run = _resumed(tmp_path, step, *given)
    assert run.folder.name == "version_0"
    rel = 1e-5 if given else 0
    for key in ("train/loss", "train/grad_norm", "lr/matrix", "train/tokens"):
        assert run.series(key) == pytest.approx(_straight().series(key), rel=rel), key
    hashes = run.series("data/hash")
    assert {at: hashes[at] for at in (2, 4, 6)} == _straight().series("data/hash")


def test_final_weights_and_optimizer_are_equal_bit_for_bit(tmp_path: Path) -> None:
    ours, theirs = _weights(_resumed(tmp_path, 4)), _weights(_straight())
    assert ours["global_step"] == theirs["global_step"] == 6
    assert ours["state_dict"].keys() == theirs["state_dict"].keys()
    for name, tensor in theirs["state_dict"].items():
        assert torch.equal(ours["state_dict"][name], tensor), name
    for index, state in theirs["optimizer_states"][0]["state"].items():
        for name, tensor in state.items():
            assert torch.equal(ours["optimizer_states"][0]["state"][index][name], tensor), name


def test_every_number_is_logged_once_per_step(tmp_path: Path) -> None:
    run = _resumed(tmp_path, 4)
    points = [(record["step"], key) for record in run.records for key in record if key != "step"]
    assert len(points) == len(set(points))
    assert list(run.series("val/loss")) == [2, 4, 6]
    assert run.series("val/loss") == _straight().series("val/loss")


def test_resuming_keeps_the_provenance_of_the_start(tmp_path: Path) -> None:
    before = Run.find(_stopped_at(4) / "checkpoints" / "run").provenance
    assert _resumed(tmp_path, 4).provenance == before


def test_a_change_on_the_command_line_wins_over_the_checkpoint(tmp_path: Path) -> None:
    copytree(_stopped_at(4), tmp_path, dirs_exist_ok=True)
    run = Run.find(tmp_path / "checkpoints" / "run")
    command(
        tmp_path,
        "fit",
        *saved(run),
        "--trainer.max_steps",
        "6",
        "--model.optimizer.multipliers",
        "{head: 3.0}",
    )
    resumed = Run(run.folder)
    ratios = {at: resumed.series("lr/head")[at] / rate for at, rate in resumed.series("lr/matrix").items()}
    assert ratios == pytest.approx({1: 1, 2: 1, 3: 1, 4: 1, 5: 3, 6: 3})
    assert resumed.series("train/loss")[6] != _straight().series("train/loss")[6]


def test_a_finished_run_trains_no_further_step(tmp_path: Path) -> None:
    run = _resumed(tmp_path, 4, "--trainer.max_steps", "4")
    assert list(run.series("train/loss")) == [1, 2, 3, 4]
    assert _weights(run)["global_step"] == 4
