from pathlib import Path

import pytest
import torch
from runs import checkpoint, fit

from mgvr_lightning.errors import InputError

RISING = [
    "--model.schedule",
    "Constant",
    "--model.schedule.warmup",
    "60",
    "--model.optimizer.learning_rate",
    "1.0",
]


def step_of(path: Path) -> int:
    step: int = torch.load(path, weights_only=True)["global_step"]
    return step


def test_last_is_the_newest_state_where_the_loss_rises(tmp_path: Path) -> None:
    run = fit(tmp_path, *RISING)
    losses = run.series("val/loss")
    assert losses[6] > min(losses.values()), "this test needs a loss that rises"
    assert step_of(checkpoint(run, "last")) == 6
    assert step_of(checkpoint(run, "best")) == min(losses, key=lambda step: losses[step])


def test_a_run_without_validation_leaves_a_checkpoint(tmp_path: Path) -> None:
    run = fit(tmp_path, "--trainer.limit_val_batches", "0")
    assert step_of(checkpoint(run)) == 6


def test_a_new_name_forks_a_run_and_leaves_its_parent_alone(tmp_path: Path) -> None:
    parent = fit(tmp_path, "--trainer.max_steps", "4")
    before = {path: path.read_bytes() for path in parent.folder.rglob("*") if path.is_file()}
    fork = fit(tmp_path, "--ckpt_path", str(checkpoint(parent)), name="fork")
    assert {path: path.read_bytes() for path in parent.folder.rglob("*") if path.is_file()} == before
    assert list(fork.series("val/loss")) == [6]
    assert (fork.folder / "provenance.json").exists()


def test_what_was_logged_after_the_checkpoint_is_dropped_when_a_run_goes_on_from_it(tmp_path: Path) -> None:
    run = fit(tmp_path, *RISING)
    best = step_of(checkpoint(run, "best"))
    again = fit(tmp_path, *RISING, "--ckpt_path", str(checkpoint(run, "best")))
    assert again.folder == run.folder
    points = [(record["step"], key) for record in again.records for key in record if key != "step"]
    assert len(points) == len(set(points))
    assert [step for step in again.series("val/loss") if step > best] == [s for s in (2, 4, 6) if s > best]


def test_the_hash_in_a_checkpoint_between_validations_is_up_to_date(tmp_path: Path) -> None:
    straight = fit(tmp_path, name="straight")
    each_step = """
- class_path: lightning.pytorch.callbacks.ModelCheckpoint
  init_args: {filename: 'at{step}', every_n_train_steps: 1, save_top_k: -1, auto_insert_metric_name: false}
"""
    saved = fit(tmp_path, "--trainer.callbacks", each_step, name="saved")
    again = fit(tmp_path, "--ckpt_path", str(checkpoint(saved, "at3")), name="again")
    for key in ("data/hash", "train/loss"):
        assert again.series(key)[6] == straight.series(key)[6]


def test_going_on_on_other_data_is_refused(tmp_path: Path) -> None:
    run = fit(tmp_path, "--trainer.max_steps", "4")
    with pytest.raises(InputError, match="trained with data_seed 0, the data have 1"):
        fit(tmp_path, "--ckpt_path", str(checkpoint(run)), "--data.seed", "1")


def test_no_clipping_is_not_a_norm_of_zero(tmp_path: Path) -> None:
    run = fit(tmp_path, "--trainer.gradient_clip_val", "0")
    losses = list(run.series("train/loss").values())
    assert losses[-1] < losses[0] - 0.01


def test_clipping_by_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="limits the norm"):
        fit(tmp_path, "--trainer.gradient_clip_algorithm", "value")
