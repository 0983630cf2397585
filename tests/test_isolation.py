"""Runs whose documents don't see each other."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from documents import KEPT
from runs import checkpoint, command, fit, saved

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.errors import InputError
from mgvr_lightning.module import LanguageModule

CROSSING = ["--data.isolate_documents", "false"]


@cache
def _run() -> Run:
    KEPT.append(TemporaryDirectory(prefix="mgvr-isolated-"))
    return fit(Path(KEPT[-1].name), "--data.isolate_documents", "true")


def _validated(folder: Path, *given: str) -> tuple[float, int | None]:
    line = command(folder, "validate", *saved(_run()), *given)
    return float(line.trainer.callback_metrics["val/loss"]), line.model.network.separator


def test_isolation_changes_what_is_learnt(tmp_path: Path) -> None:
    crossing = fit(tmp_path).series("train/loss")
    losses = _run().series("train/loss")
    assert losses.keys() == crossing.keys()
    assert all(losses[step] != crossing[step] for step in losses)


def test_validation_repeats_what_was_logged_unless_the_data_say_otherwise(tmp_path: Path) -> None:
    logged = _run().series("val/loss")[6]
    loss, separator = _validated(tmp_path)
    assert loss == pytest.approx(logged, rel=1e-6)
    assert separator is not None
    loss, separator = _validated(tmp_path, *CROSSING)
    assert abs(loss - logged) > 1e-5
    assert separator is None


def test_a_checkpoint_without_data_isolates_as_in_training_and_follows_the_data_it_is_given(
    tmp_path: Path,
) -> None:
    line = command(tmp_path, "validate", *saved(_run()))
    module = LanguageModule.load_from_checkpoint(checkpoint(_run()))
    assert module.network.separator == line.datamodule.document_start is not None
    crossing = command(tmp_path, "validate", *saved(_run()), *CROSSING)
    expected = float(crossing.trainer.callback_metrics["val/loss"])
    crossing.trainer.validate(module, crossing.datamodule, verbose=False)
    assert module.network.separator is None
    assert float(crossing.trainer.callback_metrics["val/loss"]) == expected


def test_a_checkpoint_from_before_isolation_attends_across_documents(tmp_path: Path) -> None:
    old = torch.load(checkpoint(_run()), weights_only=True)
    del old["separator"]
    torch.save(old, tmp_path / "old.ckpt")
    assert LanguageModule.load_from_checkpoint(tmp_path / "old.ckpt").network.separator is None


def test_going_on_with_other_isolation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="trained with isolate_documents True, the data have False"):
        fit(tmp_path, "--ckpt_path", str(checkpoint(_run())), "--trainer.max_steps", "8", name="other")


def test_predictions_isolate_as_the_data_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = command(tmp_path, "predict", *saved(_run()), "--data.prompts", '["abc def"]')
    assert line.model.network.separator == line.datamodule.document_start is not None
    assert "abc def▸" in capsys.readouterr().out
