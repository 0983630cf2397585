"""A run folder, as analysis sees it."""

import json
import math
import re
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from mgvr_lightning.analysis.curve import Curve
from mgvr_lightning.analysis.plan_file import PLAN, read_plan, reported
from mgvr_lightning.errors import InputError

METRICS = "metrics.jsonl"
PROVENANCE = "provenance.json"
SETTINGS = "config.yaml"
PLANNED = "run/planned_steps"
FINISHED = "run/finished"
ALL_STEPS = "all steps"
MACHINE = "run/machine"


class Run:
    """The metrics and the provenance of one run.

    Args:
        folder: `checkpoints/NAME/version_K`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def find(cls, folder: str | Path) -> Self:
        """The run in a folder, or the newest version of the run of that name.

        Args:
            folder: `checkpoints/NAME/version_K` or `checkpoints/NAME`.

        Raises:
            InputError: there is no run.
        """
        return cls(newest_version(Path(folder)))

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """What produced the run: versions, machine, data, network."""
        path = self.folder / PROVENANCE
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not readable ({error}). Is {self.folder} a run folder?") from error
        if "tokens_per_step" not in content:
            raise InputError(f"{path}: written by an earlier version of this project. Train the run again.")
        return content

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Every option of the run, by its dotted name."""
        path = self.folder / SETTINGS
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise InputError(f"{path}: not readable ({error}). Is {self.folder} a run folder?") from error
        return flat(content)

    @property
    def configurations(self) -> list[str]:
        """Names of the configuration files on its command line."""
        command = self.provenance["command"]
        given = [file for option, file in pairwise(command) if option in ("-c", "--config")]
        given += [option.split("=", 1)[1] for option in command if option.startswith("--config=")]
        return [re.split(r"[\\/]", file)[-1].rsplit(".", 1)[0] for file in given]

    @property
    def seeds(self) -> tuple[int, int]:
        """Of the initial weights, and of the order of the data."""
        return self.provenance["network"]["seed"], self.provenance["data"]["data_seed"]

    @property
    def start_step(self) -> int:
        """The step that it began at: 0, unless it was forked from another run."""
        return min(self.series(PLANNED), default=0)

    @property
    def planned_steps(self) -> int | None:
        """Optimizer steps that it is to make; None if it never began."""
        planned = self.series(PLANNED)
        return int(list(planned.values())[-1]) if planned else None

    @property
    def tokens_per_step(self) -> int:
        """Target tokens of an optimizer step."""
        tokens: int = self.provenance["tokens_per_step"]
        return tokens

    @property
    def step(self) -> int:
        """The last optimizer step that something is known of."""
        return max((record["step"] for record in self.records if not ahead(record)), default=0)

    @property
    def one_machine(self) -> bool:
        """Whether every part of it ran on the same machine, as far as it says."""
        return len({record[MACHINE] for record in self.records if MACHINE in record}) <= 1

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop, having shown what it was for."""
        ends = self.series(FINISHED)
        return self.finished and list(ends.values())[-1] != ALL_STEPS

    @property
    def finished(self) -> bool:
        """Whether it came to its end: its last step, or one at which it was told to stop."""
        ends = self.series(FINISHED)
        return bool(ends) and max(ends) == self.step

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The lines of the metrics file, each with a `step`; a broken tail is skipped."""
        return read_records(self.folder / METRICS)

    @cached_property
    def metrics(self) -> set[str]:
        """Names of what was logged."""
        return {key for record in self.records for key in record}

    def series(self, key: str) -> dict[int, Any]:
        """Step → value of a metric, in order of steps; where a step was logged twice the last one counts."""
        values = {record["step"]: record[key] for record in self.records if key in record}
        return dict(sorted(values.items()))

    def value(self, key: str, step: int) -> float:
        """A metric at a step; NaN where it wasn't logged or wasn't finite."""
        found = self.series(key).get(step)
        return math.nan if found is None else float(found)

    def curve(self, key: str = "val/loss") -> Curve:
        """A metric against optimizer steps."""
        series = self.series(key)
        return Curve(
            np.array(list(series), dtype=np.float64), np.array(list(series.values()), dtype=np.float64)
        )

    def step_seconds(self) -> float | None:
        """Median seconds per optimizer step, validation and saving aside; None before the first is logged."""
        seconds = list(self.series("time/step_seconds").values())
        return float(np.median(seconds)) if seconds else None


def read_records(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file that are whole."""
    records = []
    for line in path.read_bytes().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def ahead(record: dict[str, Any]) -> bool:
    """Whether a record stands at a step of a reference, which its own run may not have reached."""
    return all(key == "step" or key.startswith("matching/") for key in record)


def flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options by their dotted names."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict) and value:
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def find_runs(folder: Path) -> list[Run]:
    """The run in a folder, or of that name, or the newest version of every run below it.

    Of a study it is those that are reported; pilot and trials are not.

    Raises:
        InputError: there is none.
    """
    if (folder / PLAN).is_file():
        jobs = [folder / job["name"] for job in reported(read_plan(folder))]
        begun = [name for name in jobs if any(name.glob(f"version_*/{METRICS}"))]
        if not begun:
            raise InputError(f"{folder}: none of the study's runs has begun. Let it run first.")
        return [Run.find(name) for name in begun]
    names = {path.parent.parent for path in folder.glob(f"**/version_*/{METRICS}")}
    if (folder / METRICS).is_file() or folder in names or not names:
        return [Run.find(folder)]
    return [Run.find(name) for name in sorted(names)]


def distinct(runs: Iterable[Run]) -> list[Run]:
    """The runs, each once."""
    return list({run.folder.resolve(): run for run in runs}.values())


def newest_version(folder: Path) -> Path:
    """Resolves `checkpoints/NAME` to its newest version.

    Raises:
        InputError: there is no run.
    """
    if (folder / METRICS).is_file():
        return folder
    versions = [path.parent for path in folder.glob(f"version_*/{METRICS}")]
    versions = [path for path in versions if path.name.removeprefix("version_").isdigit()]
    if not versions:
        near = sorted(str(path.parent) for path in folder.parent.glob(f"*/version_*/{METRICS}"))
        hint = (
            f" Runs there: {', '.join(near[:5])}."
            if near
            else " Train one first: fit --config configs/transformer.yaml."
        )
        raise InputError(f"{folder}: no run here (a run folder holds {METRICS}).{hint}")
    return max(versions, key=lambda path: int(path.name.removeprefix("version_")))
