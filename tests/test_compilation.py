import shutil
from pathlib import Path

import pytest
import torch
from runs import checkpoint, fit

from mgvr_lightning import module
from mgvr_lightning.compile import compile_obstacle

CPU = torch.device("cpu")


def test_a_machine_without_a_compiler_trains_eagerly_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert compile_obstacle(CPU) == "there is no compiler"
    with caplog.at_level("INFO"):
        run = fit(tmp_path, "--model.compile", "auto", "--trainer.max_steps", "1")
    assert "Not compiling: there is no compiler" in caplog.text
    assert run.provenance["machine"]["compiled"] is False


def test_missing_headers_are_an_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert compile_obstacle(CPU) == "Python's headers aren't installed"
    (tmp_path / "Python.h").touch()
    assert compile_obstacle(CPU) is None


def test_a_compiler_named_by_the_environment_is_the_one_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compile_obstacle(CPU) == "there is no compiler"


@pytest.mark.slow
@pytest.mark.skipif(compile_obstacle(CPU) is not None, reason="there is no compiler")
def test_a_compiled_run_has_the_losses_and_names_of_an_eager_one(tmp_path: Path) -> None:
    assert module.compile_obstacle is compile_obstacle
    eager = fit(tmp_path, preset="mgvr", name="eager")
    compiled = fit(tmp_path, "--model.compile", "true", preset="mgvr", name="compiled")
    assert compiled.provenance["machine"]["compiled"] is True
    assert compiled.series("train/loss") == pytest.approx(eager.series("train/loss"), rel=1e-5)
    states = [torch.load(checkpoint(run), weights_only=True)["state_dict"] for run in (eager, compiled)]
    assert states[0].keys() == states[1].keys()
