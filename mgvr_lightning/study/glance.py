"""How far runs are, read again only when they have logged something."""

from dataclasses import dataclass
from pathlib import Path

from mgvr_lightning.analysis.pair import LOSS
from mgvr_lightning.analysis.run import METRICS
from mgvr_lightning.study.job import Job


@dataclass(frozen=True)
class Progress:
    """Where a run is.

    Attributes:
        step: its last step.
        planned: steps that it is to make; 0 if it hasn't begun.
        loss: its last validation loss; None before the first.
    """

    step: int = 0
    planned: int = 0
    loss: float | None = None


class Glance:
    """Looks at the runs of a study.

    Args:
        folder: the study's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, tuple[tuple[str, int, int], Progress]] = {}

    def __call__(self, job: Job) -> Progress:
        """Where a job's run is."""
        run = job.run(self.folder)
        if run is None:
            return Progress()
        state = (run.folder / METRICS).stat()
        mark = (run.folder.name, state.st_mtime_ns, state.st_size)
        if self.known.get(job.name, (None,))[0] != mark:
            losses = list(run.series(LOSS).values())
            progress = Progress(run.step, run.planned_steps or 0, losses[-1] if losses else None)
            self.known[job.name] = (mark, progress)
        return self.known[job.name][1]
