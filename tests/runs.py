"""Tiny runs through the command line, inside the test's own process."""

import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from documents import kept_folder, texts, write_documents
from helpers import CONFIGS

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.cli import CommandLine


def small(documents: str | Path, cache: str | Path, **data: Any) -> dict[str, Any]:
    """Settings of a run that takes well below a second."""
    corpus = {"class_path": "Files", "init_args": {"paths": [str(documents)]}}
    sizes = {"vocabulary": 300, "context": 32, "global_batch": 16, "validation_windows": 8, "held_out": 0.1}
    return {
        "data": {
            "class_path": "Text",
            "init_args": {"corpus": corpus, "cache": str(cache), **sizes, **data},
        },
        "trainer": {
            "max_steps": 6,
            "val_check_interval": 2,
            "log_every_n_steps": 1,
            "accelerator": "cpu",
            "precision": "32-true",
        },
        "model": {"network": {"width": 16, "layers": 3, "heads": 2}, "compile": False},
    }


@cache
def home() -> Path:
    """A folder with `small.yaml` and its documents, whose prepared tokens all tests share."""
    folder = kept_folder("mgvr-runs-")
    settings = small(write_documents(folder / "docs.jsonl", texts()), folder / "data")
    (folder / "small.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return folder


@contextmanager
def arguments(folder: Path, *given: str) -> Iterator[None]:
    """Stands in for a shell: the working folder and the arguments of the process."""
    before = sys.argv
    sys.argv = ["mgvr_lightning", *given]
    try:
        with chdir(folder):
            yield
    finally:
        sys.argv = before


def command(folder: Path, *given: str) -> CommandLine:
    """Runs a command in a folder."""
    with arguments(folder, *given):
        return CommandLine()


def fit(folder: Path, *given: str, preset: str = "transformer", name: str = "run") -> Run:
    """Trains in a folder, as `small.yaml` says, and returns the newest version of the run."""
    configs = ["--config", str(CONFIGS / f"{preset}.yaml"), "--config", str(home() / "small.yaml")]
    command(folder, "fit", *configs, "--run", name, *given)
    return Run.find(folder / "checkpoints" / name)


def checkpoint(run: Run, name: str = "last") -> Path:
    """A checkpoint of a run."""
    return run.folder / "checkpoints" / f"{name}.ckpt"


def saved(run: Run) -> list[str]:
    """The arguments that repeat a run's settings."""
    return ["--config", str(run.folder / "config.yaml"), "--ckpt_path", str(checkpoint(run))]
