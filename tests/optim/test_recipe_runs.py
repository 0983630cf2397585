"""The recipe in whole runs through the command line."""

import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from documents import KEPT
from ranks import two_ranks
from runs import checkpoint, fit

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:The dirpath has changed")

PRESET = "static_mix"
EACH_STEP = """
- class_path: lightning.pytorch.callbacks.ModelCheckpoint
  init_args: {filename: 'at{step}', every_n_train_steps: 1, save_top_k: -1, auto_insert_metric_name: false}
"""
LIMIT = 0.4
MUON = ["--model.optimizer", "MuonAdamW"]
RECIPE = [
    *MUON,
    *("--model.optimizer.dtype", "float64"),
    *("--model.optimizer.momentum_warmup", "3"),
    *("--model.schedule.warmup", "1"),
    *("--model.schedule.decay", "0.5"),
    *("--model.schedule.share_of", "run"),
    *("--trainer.max_steps", "4"),
    *("--trainer.gradient_clip_val", str(LIMIT)),
]
EXACT = [*RECIPE, "--trainer.precision", "64-true"]
"""Layouts agree to the last digits in fp64, in which Lightning doesn't restore weights, however."""


def _content(run: Run, name: str = "last") -> dict[str, Any]:
    content: dict[str, Any] = torch.load(checkpoint(run, name), weights_only=True)
    return content


@cache
def _straight(*given: str) -> Run:
    KEPT.append(TemporaryDirectory(prefix="mgvr-recipe-"))
    return fit(Path(KEPT[-1].name), *(given or RECIPE), "--trainer.callbacks", EACH_STEP, preset=PRESET)


def _check_same(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> None:
    assert ours["global_step"] == theirs["global_step"] == 4
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(ours["state_dict"], theirs["state_dict"], **close)
    one, two = ours["optimizer_states"][0], theirs["optimizer_states"][0]
    torch.testing.assert_close(one["state"], two["state"], **close)
    assert one["param_groups"] == two["param_groups"]


def test_a_resumed_run_ends_bit_for_bit_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    given = ["--ckpt_path", str(checkpoint(_straight(), "at2"))]
    run = fit(tmp_path, *RECIPE, *given, preset=PRESET, name="resumed")
    assert list(run.series("train/loss")) == [3, 4]
    _check_same(_content(run), _content(_straight()), 0)


def test_accumulation_changes_nothing(tmp_path: Path) -> None:
    run = fit(tmp_path, *EXACT, "--data.micro_batch", "4", preset=PRESET)
    _check_same(_content(run), _content(_straight(*EXACT)), 1e-10)


def test_two_ranks_that_accumulate_train_as_one_process(tmp_path: Path) -> None:
    status, errors = two_ranks(tmp_path, PRESET, *EXACT)
    assert status == 0, errors
    run = Run.find(tmp_path / "checkpoints" / "run")
    assert run.provenance["machine"]["processes"] == 2
    _check_same(_content(run), _content(_straight(*EXACT)), 1e-10)


def test_clipping_limits_the_norm_over_the_parameters_of_both_rules() -> None:
    assert _straight().series("train/grad_norm")[1] > LIMIT, "this test needs a gradient that is clipped"
    saved = _content(_straight(), "at1")["optimizer_states"][0]
    square = 0.0
    for group in saved["param_groups"]:
        muon = group["rule"] == "muon"
        kept = group["momentum"][0] if muon else group["betas"][0]
        for index in group["params"]:
            first = saved["state"][index]["momentum_buffer" if muon else "exp_avg"]
            square += (first / (1 - kept)).square().sum().item()
    assert math.sqrt(square) == pytest.approx(LIMIT, rel=1e-4)


def test_named_on_the_command_line_it_has_its_own_defaults_and_the_runs_facts() -> None:
    groups = {group["role"]: group for group in _content(_straight())["optimizer_states"][0]["param_groups"]}
    assert list(groups) == ["embedding", "matrix", "own_scalar", "source_scalar", "head"]
    matrix = groups["matrix"]
    assert matrix["initial_lr"] == pytest.approx(0.02 * math.sqrt(16 * 32 / 2**19))
    assert (matrix["weight_decay"], matrix["steps"], matrix["decay_start"]) == (0.28, 4, 2)
    assert groups["head"]["eps"] == 1e-10


def test_options_of_the_resuming_run_win(tmp_path: Path) -> None:
    changes = [
        *("--trainer.max_steps", "6"),
        *("--model.optimizer.muon_rate", "0.04"),
        *("--model.optimizer.beta", "0.8"),
    ]
    given = ["--ckpt_path", str(checkpoint(_straight(), "at2"))]
    run = fit(tmp_path, *RECIPE, *changes, *given, preset=PRESET, name="changed")
    matrix = _content(run)["optimizer_states"][0]["param_groups"][1]
    assert (matrix["steps"], matrix["decay_start"], matrix["beta"]) == (6, 3, 0.8)
    peak = 0.04 * math.sqrt(16 * 32 / 2**19)
    assert matrix["initial_lr"] == pytest.approx(peak)
    lengths = {3: 1, 4: 1 - 0.95 / 3, 5: 1 - 1.9 / 3, 6: 0.05}
    rates = run.series("lr/matrix")
    assert {step: rates[step] for step in lengths} == pytest.approx(
        {step: peak * factor for step, factor in lengths.items()}
    )


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    adamw = fit(tmp_path, "--trainer.max_steps", "1", preset=PRESET, name="adamw")
    refused = "by another optimizer than model.optimizer names. Give the one that they were trained with."
    with pytest.raises(InputError, match=refused):
        fit(tmp_path, *MUON, "--ckpt_path", str(checkpoint(adamw)), preset=PRESET, name="muon")
    with pytest.raises(InputError, match=refused):
        fit(tmp_path, "--ckpt_path", str(checkpoint(_straight())), preset=PRESET, name="back")


def test_a_checkpoint_of_other_roles_is_refused(tmp_path: Path) -> None:
    given = ["--ckpt_path", str(checkpoint(_straight()))]
    with pytest.raises(InputError, match="roles embedding, matrix, own_scalar, source_scalar, head,"):
        fit(tmp_path, *RECIPE, *given, preset="transformer", name="other")
