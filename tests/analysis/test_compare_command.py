"""Comparing runs that were really trained, through the command line."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from documents import KEPT
from runs import arguments, fit

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.commands.compare import main
from mgvr_lightning.errors import InputError

FAST = ["--model.optimizer.learning_rate", "0.02", "--trainer.max_steps", "8"]
PRESETS = ("transformer", "value_residual", "mgvr")


@cache
def runs() -> dict[tuple[str, int], Run]:
    """Three presets of two seeds each."""
    KEPT.append(TemporaryDirectory(prefix="mgvr-compared-"))
    folder = Path(KEPT[-1].name)
    return {
        (preset, seed): trained(folder, f"{preset}{seed}", preset, seed)
        for preset in PRESETS
        for seed in (0, 1)
    }


def trained(folder: Path, name: str, preset: str, seed: int, *given: str) -> Run:
    seeds = ["--model.seed", str(seed), "--data.seed", str(seed)]
    return fit(folder, *FAST, *seeds, *given, preset=preset, name=name)


def compare(*given: str, runs: list[Run]) -> None:
    main([*(str(run.folder) for run in runs), *given])


def test_three_presets_of_two_seeds_fit_a_terminal_of_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    compare("--output", str(tmp_path / "out"), runs=list(runs().values()))
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= max(80, len(f"Written to {tmp_path / 'out'}"))
    for title in ("Arms", "Against transformer", "What the intervals say", "Proof"):
        assert title in printed
    for preset in PRESETS:
        assert preset in printed
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"losses.csv", "steps_saved.csv", "differences.csv", "comparison.svg", "comparison.png"} <= names


def test_the_folder_above_the_runs_will_do(capsys: pytest.CaptureFixture[str]) -> None:
    folder = runs()["mgvr", 0].folder.parent.parent
    main([str(folder), "--reference", "transformer"])
    by_folder = capsys.readouterr().out
    compare(
        runs=[run for (_, _), run in sorted(runs().items(), key=lambda item: item[0][0] != "transformer")]
    )
    assert "Against transformer" in by_folder


def test_a_given_ratio_and_that_of_a_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [runs()["transformer", 0], runs()["mgvr", 0]]
    compare("--time_ratio", "1.043", runs=pair)
    assert "1.043" in capsys.readouterr().out
    path = tmp_path / "benchmark.json"
    path.write_text('{"step_time_ratio": {"mgvr": {"median": 1.0217}}}', encoding="utf-8")
    compare("--benchmark", f"{path}:mgvr", runs=pair)
    assert "1.022" in capsys.readouterr().out
    for wrong in (f"{path}:share", "nothing.json:mgvr", str(path)):
        with pytest.raises(InputError, match=r"benchmark: .* isn't benchmark\.json:PRESET"):
            compare("--benchmark", wrong, runs=pair)
    with pytest.raises(InputError, match="both time_ratio and benchmark"):
        compare("--benchmark", f"{path}:mgvr", "--time_ratio", "1.1", runs=pair)


@pytest.mark.parametrize(
    ("given", "allowed", "message"),
    [
        (["--data.context", "24"], "", "Its context is 24, the other's 32"),
        (["--data.vocabulary", "310"], "", "Its tokenizer is"),
        (["--data.held_out", "0.2"], "tokenizer", "Its training tokens is"),
        (["--data.held_out", "0.2"], "tokenizer,train_tokens", "Its validation set is"),
        (["--data.validation_windows", "6"], "", "Its number of validation windows is 6"),
        (["--data.global_batch", "8"], "", "Its sequences of a step is 8"),
        (["--data.seed", "5"], "", "have no seeds in common"),
        (["--trainer.max_steps", "6"], "", "Its number of steps is 6, the other's 8"),
    ],
)
def test_other_data_are_refused_each_with_its_own_message(
    tmp_path: Path, given: list[str], allowed: str, message: str
) -> None:
    other = trained(tmp_path, "other", "mgvr", 0, *given)
    with pytest.raises(InputError, match=message):
        compare("--allow", f"[{allowed}]", runs=[runs()["transformer", 0], other])


def test_what_is_allowed_is_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = trained(tmp_path, "other", "mgvr", 0, "--data.validation_windows", "6")
    compare("--allow", "[validation_windows]", runs=[runs()["transformer", 0], other])
    assert "Against transformer" in capsys.readouterr().out


def test_another_order_of_the_same_data_is_refused(tmp_path: Path) -> None:
    with arguments(tmp_path):
        other = trained(tmp_path, "other", "mgvr", 1)
    text = (other.folder / "provenance.json").read_text(encoding="utf-8")
    for field in ("data_seed", "seed"):
        text = text.replace(f'"{field}": 1', f'"{field}": 0')
    (other.folder / "provenance.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        InputError, match="By step 2 it had trained on other tokens, or on the same in another"
    ):
        compare(runs=[runs()["transformer", 0], other])
    compare("--allow", "[data_order]", runs=[runs()["transformer", 0], other])
