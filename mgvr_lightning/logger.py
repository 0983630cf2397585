"""The logger: TensorBoard, and JSON lines beside it as the source of later analysis."""

import json
import math
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from mgvr_lightning.analysis.run import METRICS, read_records


class RunLogger(TensorBoardLogger):
    """Writes a run folder: TensorBoard events and one line of JSON per logged step.

    Args:
        save_dir: the folder that holds all runs.
        name: name of the run.
        version: version of the run; null for the next free one.
        after: where a run is continued from, in optimizer steps; what was logged later is dropped.
    """

    def __init__(
        self,
        save_dir: str = "checkpoints",
        name: str = "run",
        version: int | str | None = None,
        after: int | None = None,
    ) -> None:
        purge = None if after is None else after + 1
        super().__init__(save_dir, name=name, version=version, default_hp_metric=False, purge_step=purge)
        self.after = after

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Logs numbers to both, texts (hashes, say) to the JSON lines alone.

        Args:
            metrics: name → value.
            step: number of optimizer steps done.
        """
        plain = {key: value.item() if isinstance(value, Tensor) else value for key, value in metrics.items()}
        numbers = {key: value for key, value in plain.items() if not isinstance(value, str)}
        super().log_metrics({key: value for key, value in numbers.items() if math.isfinite(value)}, step)
        path = Path(self.log_dir) / METRICS
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.after is not None:
            drop_later(path, self.after)
            self.after = None
        finite = {key: value if math.isfinite(numbers.get(key, 0)) else None for key, value in plain.items()}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **finite}) + "\n")

    @rank_zero_only
    def save(self) -> None:
        """Flushes the events; the run's settings are in its config.yaml."""
        self.experiment.flush()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Closes the events; a run that was refused before it began leaves no folder."""
        self.experiment.flush()
        self.experiment.close()
        folder = Path(self.log_dir)
        if folder.is_dir() and all(path.name.startswith("events.") for path in folder.iterdir()):
            shutil.rmtree(folder)
            with suppress(OSError):  # other versions stay
                folder.parent.rmdir()


def drop_later(path: Path, step: int) -> None:
    """Drops what a metrics file holds beyond a step, and lines that are no JSON."""
    kept = [record for record in read_records(path) if record["step"] <= step]
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
    temporary.replace(path)


def run_folder(trainer: Trainer) -> Path | None:
    """The run's folder, as rank 0 knows it; unlike `trainer.log_dir` it takes no agreement between ranks."""
    return next((Path(logger.log_dir) for logger in trainer.loggers if isinstance(logger, RunLogger)), None)


def log(trainer: Trainer, metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Logs to every logger of a trainer.

    Args:
        trainer: the trainer.
        metrics: name → value.
        step: where on the axis of optimizer steps; None for the number of steps done so far.
    """
    for logger in trainer.loggers:
        logger.log_metrics(dict(metrics), trainer.global_step if step is None else step)
