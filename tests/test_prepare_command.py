"""`python -m mgvr_lightning prepare`, as it is typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from documents import texts, write_documents
from helpers import CONFIGS
from runs import command, small

from mgvr_lightning.commands import prepare as module
from mgvr_lightning.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = small(write_documents(tmp_path / "docs.jsonl", texts()), "data")
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return tmp_path


def run(folder: Path, *given: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "mgvr_lightning", "prepare", *given]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_prepare_prints_the_folder_that_fit_then_uses(folder: Path) -> None:
    configs = ["--config", str(CONFIGS / "mgvr.yaml"), "--config", "small.yaml"]
    done = run(folder, *configs)
    assert done.returncode == 0, done.stderr
    prepared = folder / done.stdout.strip()
    assert (prepared / "manifest.json").is_file()
    before = {path: path.stat().st_mtime_ns for path in prepared.iterdir()}
    cli = command(folder, "fit", *configs, "--trainer.max_steps", "1")
    assert [str(one.folder) for one in cli.datamodule.prepared] == [done.stdout.strip()]
    assert {path: path.stat().st_mtime_ns for path in prepared.iterdir()} == before
    again = run(folder, *configs)
    assert again.stdout == done.stdout
    assert "Reusing the prepared corpus" in again.stderr


def test_parts_say_what_is_missing_and_the_last_one_joins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("mgvr_lightning.data.corpora.corpus.LEAST_PIECE", 2_000)
    module.main(["--config", "small.yaml", "--part", "1/2"])
    assert not list(folder.glob("data/files-*"))
    module.main(["--config", "small.yaml", "--part", "2/2", "--processes", "1"])
    (prepared,) = folder.glob("data/files-*")
    manifest = json.loads((prepared / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["rows"] == 150
    assert not list(folder.glob("data/.preparing-*"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--part", "2"], "part: '2' isn't a part. Expected i/n"),
        (["--part", "3/2"], "part 3 of 2: expected a number from 1 to 2"),
        (["--data.vocabulary", "100"], "`vocabulary` is 100"),
    ],
)
def test_bad_options(folder: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], expected: str) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=expected):
        module.main(["--config", "small.yaml", *given])


def test_an_unknown_option_and_a_missing_file_end_in_two_lines(folder: Path) -> None:
    for given, expected in (
        (["--data.contxt", "3"], "context"),
        (["--data.corpus.paths", "[nowhere.jsonl]"], "there is no file nowhere.jsonl"),
        (["--processes", "0"], "processes"),
    ):
        done = run(folder, "--config", "small.yaml", *given)
        assert done.returncode == 2
        assert expected in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) <= 4


def test_help_names_the_options() -> None:
    done = run(Path(), "--help")
    assert done.returncode == 0
    for option in ("--part", "--processes", "--config"):
        assert option in done.stdout
    assert "--trainer" not in done.stdout
