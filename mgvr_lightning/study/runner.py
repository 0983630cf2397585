"""Doing what is left of a study."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from mgvr_lightning.study.board import DONE, FAILED, RUNNING, Board
from mgvr_lightning.study.job import Job
from mgvr_lightning.study.launcher import Attempt, Launcher
from mgvr_lightning.study.subprocesses import LEFT_ALONE

POLL_SECONDS = 0.5
PATIENCE_SECONDS = 60.0


class Runner:
    """Runs jobs, skips what came to its end, goes on where others stopped, and never stops at a failed one.

    Args:
        folder: the study's folder.
        launcher: how jobs are started.
        board: where it is shown.
        keep_checkpoints: whether a run that came to its end keeps its checkpoints.
    """

    def __init__(self, folder: Path, launcher: Launcher, board: Board, keep_checkpoints: bool) -> None:
        self.folder, self.launcher, self.board = folder, launcher, board
        self.keep_checkpoints = keep_checkpoints
        self.running: list[tuple[Job, Attempt]] = []

    def run(self, jobs: Sequence[Job]) -> list[Job]:
        """Runs all jobs that haven't come to their end.

        Returns:
            Those that failed.
        """
        for name in ("locks", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.board.add(jobs)
        waiting = [job for job in jobs if not job.finished(self.folder)]
        failed: list[Job] = []
        try:
            while waiting or self.running:
                while waiting and len(self.running) < self.launcher.parallel:
                    self._start(waiting.pop(0))
                time.sleep(POLL_SECONDS)
                for job, attempt in list(self.running):
                    status = attempt.poll()
                    if status is not None:
                        self.running.remove((job, attempt))
                        (waiting if status == LEFT_ALONE else failed).extend(self._ended(job, status))
                self.board.show()
        finally:
            self._stop()
        return failed

    def _start(self, job: Job) -> None:
        self.running.append((job, self.launcher.start(job, self.folder, self.log(job))))
        self.board.set(job, RUNNING)

    def log(self, job: Job) -> Path:
        """Where a job's output goes."""
        return self.folder / "logs" / f"{job.name}.log"

    def _ended(self, job: Job, status: int) -> list[Job]:
        """The job again if it isn't done."""
        if job.finished(self.folder):
            run = job.run(self.folder)
            if run is not None and not self.keep_checkpoints:
                shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
            self.board.set(job, DONE)
            return []
        if status != LEFT_ALONE:
            self.board.set(job, FAILED, f": status {status}, see {self.log(job)}")
        return [job]

    def _stop(self) -> None:
        """Ends what still runs, so that the next study can go on with it."""
        for _, attempt in self.running:
            attempt.stop()
        end = time.monotonic() + PATIENCE_SECONDS
        for _, attempt in self.running:
            while attempt.poll() is None and time.monotonic() < end:
                time.sleep(POLL_SECONDS)
            if attempt.poll() is None:
                attempt.kill()
        self.running.clear()
