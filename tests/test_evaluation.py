import json
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from documents import KEPT
from runs import arguments, checkpoint, command, fit, home, saved, small

from mgvr_lightning.__main__ import main
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.module import LanguageModule


@cache
def _run() -> Run:
    KEPT.append(TemporaryDirectory(prefix="mgvr-evaluated-"))
    return fit(Path(KEPT[-1].name), preset="mgvr")


def _printed(text: str) -> dict[str, float]:
    return {key: float(value) for key, value in re.findall(r"([a-z]+/[a-z_]+)\W+?([0-9.]+)", text)}


def test_validate_prints_the_metrics_that_were_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command(tmp_path, "validate", *saved(_run()))
    printed = _printed(capsys.readouterr().out)
    for key in ("val/loss", "val/perplexity", "val/accuracy", "val/bits_per_byte"):
        assert printed[key] == pytest.approx(_run().series(key)[6], rel=1e-5)


def test_metrics_do_not_depend_on_the_validation_batch(tmp_path: Path) -> None:
    metrics = command(
        tmp_path, "validate", *saved(_run()), "--data.micro_batch", "1"
    ).trainer.callback_metrics
    assert float(metrics["val/loss"]) == pytest.approx(_run().series("val/loss")[6], rel=1e-6)


def test_test_prints_the_metrics_of_its_own_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(tmp_path, "test", *saved(_run()))
    printed = _printed(capsys.readouterr().out)
    assert set(printed) == {"test/loss", "test/perplexity", "test/accuracy", "test/bits_per_byte"}
    assert printed["test/loss"] != pytest.approx(_run().series("val/loss")[6], rel=1e-6)


def test_evaluation_writes_nothing(tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in _run().folder.rglob("*")}
    for subcommand in ("validate", "test", "predict"):
        command(tmp_path, subcommand, *saved(_run()))
    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in _run().folder.rglob("*")} == before


def test_predict_prints_a_continuation_of_every_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = json.dumps(["abc def", "ghi"])
    for _ in range(2):
        command(tmp_path, "predict", *saved(_run()), "--data.prompts", prompts)
    printed = capsys.readouterr().out
    assert printed.count("abc def▸") == printed.count("ghi▸") == 2
    assert printed[: len(printed) // 2] == printed[len(printed) // 2 :]


def test_checkpoint_loads_without_the_command_line() -> None:
    module = LanguageModule.load_from_checkpoint(checkpoint(_run()))
    weights = torch.load(checkpoint(_run()), weights_only=False)["state_dict"]
    assert module.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in module.state_dict().items())


def test_weights_of_another_tokenizer_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = small(home() / "docs.jsonl", tmp_path / "data", vocabulary=299)["data"]
    with (
        arguments(tmp_path, "validate", *saved(_run()), "--data", json.dumps(other)),
        pytest.raises(SystemExit) as end,
    ):
        main()
    assert end.value.code == 2
    assert "error: the checkpoint was trained with tokenizer" in capsys.readouterr().err
