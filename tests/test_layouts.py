from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from documents import KEPT
from ranks import two_ranks
from runs import fit

from mgvr_lightning.analysis.run import Run

PRESET = "mgvr"


@cache
def _whole() -> Run:
    KEPT.append(TemporaryDirectory(prefix="mgvr-layouts-"))
    return fit(Path(KEPT[-1].name), preset=PRESET)


def _check_same(run: Run) -> None:
    assert run.series("data/hash") == _whole().series("data/hash")
    for key in ("train/loss", "train/accuracy", "train/grad_norm", "val/loss", "val/bits_per_byte"):
        assert run.series(key) == pytest.approx(_whole().series(key), rel=1e-5), key
    for key in ("train/tokens", "lr/matrix"):
        assert run.series(key) == _whole().series(key)


@pytest.mark.parametrize("micro_batch", [1, 4, 8])
def test_accumulation_changes_nothing(tmp_path: Path, micro_batch: int) -> None:
    run = fit(tmp_path, "--data.micro_batch", str(micro_batch), preset=PRESET)
    _check_same(run)
    assert list(run.series("val/loss")) == [2, 4, 6]


def test_loader_workers_change_nothing(tmp_path: Path) -> None:
    steps = ["--trainer.max_steps", "3", "--trainer.val_check_interval", "3"]
    alone, helped = (fit(tmp_path, *steps, "--data.workers", workers, name=workers) for workers in ("0", "2"))
    for key in ("train/loss", "val/loss", "data/hash"):
        assert helped.series(key) == alone.series(key)


def test_two_ranks_train_as_one_process(tmp_path: Path) -> None:
    status, errors = two_ranks(tmp_path, PRESET, "--matching.reference", str(_whole().folder))
    assert status == 0, errors
    assert [path.name for path in (tmp_path / "checkpoints" / "run").iterdir()] == ["version_0"]
    run = Run.find(tmp_path / "checkpoints" / "run")
    _check_same(run)
    assert run.provenance["machine"]["processes"] == 2
    assert run.provenance["initial_tensors"] == _whole().provenance["initial_tensors"]
    points = [(record["step"], key) for record in run.records for key in record if key != "step"]
    assert len(points) == len(set(points))
    assert run.series("matching/speedup")[4] == pytest.approx(1, abs=1e-4)


def test_two_ranks_tell_bad_input_once(tmp_path: Path) -> None:
    status, errors = two_ranks(tmp_path, PRESET, "--data.corpus.init_args.paths", "['nowhere.jsonl']")
    assert status == 2
    assert errors.count("error: ") == 1
    assert "Traceback" not in errors


def test_the_last_step_is_validated_whatever_the_interval(tmp_path: Path) -> None:
    for micro_batch in ("16", "4"):
        run = fit(tmp_path, "--trainer.max_steps", "5", "--data.micro_batch", micro_batch)
        assert list(run.series("val/loss")) == [2, 4, 5]
        assert [record["step"] for record in run.records if "val/loss" in record] == [2, 4, 5]


def test_an_interval_beyond_the_run_validates_at_its_end_once(tmp_path: Path) -> None:
    run = fit(tmp_path, "--trainer.max_steps", "3", "--trainer.val_check_interval", "100")
    assert [record["step"] for record in run.records if "val/loss" in record] == [3]


def test_validation_runs_on_past_the_end_of_an_epoch(tmp_path: Path) -> None:
    few_windows = ["--data.context", "256", "--trainer.max_steps", "7"]
    run = fit(tmp_path, *few_windows)
    assert list(run.series("val/loss")) == [2, 4, 6, 7]
    assert list(run.series("train/loss")) == [1, 2, 3, 4, 5, 6, 7]


def test_a_log_interval_counts_optimizer_steps(tmp_path: Path) -> None:
    run = fit(tmp_path, "--trainer.log_every_n_steps", "3", "--data.micro_batch", "4")
    assert list(run.series("train/loss")) == [3, 6]
