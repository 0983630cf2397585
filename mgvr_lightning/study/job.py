"""One run of a study."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mgvr_lightning.analysis.run import METRICS, Run
from mgvr_lightning.errors import InputError

PHASES = ("pilot", "tuning", "report")


@dataclass(frozen=True)
class Job:
    """A run of `fit`.

    Attributes:
        phase: what it is for: one of `PHASES`.
        cell: options of the grid that it has.
        arm: label of its arm.
        seed: of weights and data.
        configs: its configuration files.
        options: its other options.
        trial: number of the trial, from 0; None where nothing is tried.
    """

    phase: str
    cell: Mapping[str, Any]
    arm: str
    seed: int
    configs: tuple[str, ...]
    options: Mapping[str, Any]
    trial: int | None = None

    @property
    def name(self) -> str:
        """Of its run folder."""
        parts = [] if self.phase == "report" else [self.phase]
        parts += [*(slug(name, value) for name, value in self.cell.items()), self.arm]
        if self.trial is not None:
            parts.append(f"trial{self.trial}")
        return "-".join([*parts, f"seed{self.seed}"])

    def arguments(self, folder: Path) -> list[str]:
        """The command line behind `python -m mgvr_lightning`."""
        given = ["fit"]
        for path in self.configs:
            given += ["--config", path]
        for name, value in {**self.options, **self.cell}.items():
            given += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
        given += ["--model.seed", str(self.seed), "--data.seed", str(self.seed), "--run", self.name]
        return [*given, "--trainer.default_root_dir", str(folder), "--trainer.enable_progress_bar", "false"]

    def resumed(self, folder: Path) -> list[str]:
        """The same, from the run's newest checkpoint if it has one."""
        run = self.run(folder)
        last = None if run is None else run.folder / "checkpoints" / "last.ckpt"
        found = last is not None and last.is_file()
        return self.arguments(folder) + (["--ckpt_path", str(last)] if found else [])

    def run(self, folder: Path) -> Run | None:
        """Its run folder's newest version, if it has begun."""
        place = folder / self.name
        return Run.find(place) if any(place.glob(f"version_*/{METRICS}")) else None

    def finished(self, folder: Path) -> bool:
        """Whether it came to its end."""
        run = self.run(folder)
        return run is not None and run.finished

    def digest(self) -> str:
        """Of everything that decides what it trains, the content of its configuration files included.

        Raises:
            InputError: a configuration file is missing.
        """
        content = blake2b(json.dumps([*self.arguments(Path())]).encode(), digest_size=16)
        for path in self.configs:
            try:
                content.update(Path(path).read_bytes())
            except OSError as error:
                raise InputError(f"{path}: not readable ({error.strerror}).") from error
        return content.hexdigest()

    def facts(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "name": self.name,
            "phase": self.phase,
            "cell": told(self.cell),
            "arm": self.arm,
            "seed": self.seed,
            "trial": self.trial,
            "options": dict(self.options),
            "digest": self.digest(),
        }


def told(cell: Mapping[str, Any]) -> str:
    """A cell as a text."""
    return ", ".join(f"{name.rsplit('.', 1)[-1]} {value}" for name, value in cell.items())


def slug(name: str, value: Any) -> str:
    """An option as part of a folder's name: safe in every shell."""
    text = value if isinstance(value, str) else json.dumps(value)
    told = "".join(char if char.isalnum() or char in "._+" else "_" for char in text)
    return f"{name.rsplit('.', 1)[-1]}_{told}"
