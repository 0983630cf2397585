"""Studies whose runs are made up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from recorded import recorded, written

from mgvr_lightning.study.job import Job
from mgvr_lightning.study.launcher import Attempt, Launcher
from mgvr_lightning.study.plan import Plan
from mgvr_lightning.study.spec import Study

Loss = Callable[[Job], float]


def plan(folder: Path, **changes: Any) -> Plan:
    """A study of two arms whose configuration files lie beside it."""
    arms = {}
    for label in ("transformer", "mgvr"):
        path = folder / f"{label}.yaml"
        path.write_text(yaml.safe_dump({"run": label}), encoding="utf-8")
        arms[label] = [str(path)]
    return Plan(Study(**{"arms": arms, "seeds": [0, 1], **changes}), folder / "study")


def make_up(job: Job, folder: Path, loss: float, planned: int = 20) -> None:
    """The run folder that a job would leave behind."""
    run = recorded(job.arm, job.seed, [10.0, 20.0], [loss + 1, loss], planned=planned)
    run.folder = Path("checkpoints") / job.name / "version_0"
    written(run, folder)
    (folder / job.name / "version_0" / "checkpoints").mkdir()
    (folder / job.name / "version_0" / "checkpoints" / "last.ckpt").touch()


class MadeUp(Launcher):
    """Jobs that end at the second look, with a made-up run or a status."""

    def __init__(self, loss: Loss, status: Callable[[Job], int] = lambda job: 0, parallel: int = 2) -> None:
        self.loss, self.status, self.parallel = loss, status, parallel
        self.started: list[str] = []
        self.running = self.most = 0

    def start(self, job: Job, folder: Path, log: Path) -> Attempt:
        self.started.append(job.name)
        self.running += 1
        self.most = max(self.most, self.running)
        log.write_text(f"log of {job.name}\nwhat went wrong\n", encoding="utf-8")
        return MadeUpAttempt(self, job, folder)


class MadeUpAttempt(Attempt):
    def __init__(self, launcher: MadeUp, job: Job, folder: Path) -> None:
        self.launcher, self.job, self.folder, self.looks = launcher, job, folder, 0
        self.stopped = False

    def poll(self) -> int | None:
        self.looks += 1
        if self.looks == 2:
            self.launcher.running -= 1
            if self.launcher.status(self.job) == 0:
                make_up(self.job, self.folder, self.launcher.loss(self.job))
        return self.launcher.status(self.job) if self.looks >= 2 else None

    def stop(self) -> None:
        self.stopped = True

    def kill(self) -> None:
        raise AssertionError("it ended by itself")
