from pathlib import Path

import pytest
from runs import fit


def test_progress_is_one_line_per_interval_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(tmp_path, "--trainer.log_every_n_steps", "3")
    captured = capsys.readouterr()
    assert captured.out.strip() == ""
    lines = [line for line in captured.err.splitlines() if line.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["2/6", "3/6", "4/6", "6/6", "6/6"]
    assert "val loss" in lines[-1]


def test_a_switched_off_progress_bar_prints_no_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(tmp_path, "--trainer.enable_progress_bar", "false")
    assert "step 2/6" not in capsys.readouterr().err


def test_a_run_says_what_it_trains_where_it_writes_and_what_came_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(tmp_path, preset="mgvr")
    said = capsys.readouterr().err
    assert "192 token_dependent" in said
    assert "6 steps of 512 tokens: 3,072 tokens" in said
    assert "checkpoints/run/version_0" in said
    assert f"Validation after step 6: {run.series('val/loss')[6]:.3f} nats per token" in said


def test_without_checkpoints_none_are_written(tmp_path: Path) -> None:
    run = fit(tmp_path, "--trainer.enable_checkpointing", "false")
    assert not (run.folder / "checkpoints").exists()
    assert list(run.series("val/loss")) == [2, 4, 6]
