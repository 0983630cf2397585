"""Runs as jobs of a cluster."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from mgvr_lightning.errors import InputError
from mgvr_lightning.study.job import Job
from mgvr_lightning.study.launcher import Attempt, Launcher

GRACE_SECONDS = 600.0


class Submitit(Launcher):
    """Runs as SLURM jobs, through `submitit`; one that is preempted or runs out of time is queued again.

    Args:
        parallel: jobs queued or running at a time.
        cluster: slurm; local runs the same jobs on this machine.
        minutes: the longest that a job may take before it is queued again.
        options: submitit's options of a job, such as {gpus_per_node: 1, slurm_partition: long}.
    """

    def __init__(
        self,
        parallel: int = 64,
        cluster: Literal["slurm", "local"] = "slurm",
        minutes: int = 240,
        options: dict[str, Any] | None = None,
    ) -> None:
        if parallel < 1 or minutes < 1:
            raise InputError("launcher: expected 1 or more for parallel and minutes.")
        self.parallel, self.cluster, self.minutes, self.options = parallel, cluster, minutes, options or {}

    def start(self, job: Job, folder: Path, log: Path) -> Attempt:
        """Submits a job; see Launcher."""
        try:
            import submitit  # noqa: PLC0415  (an optional dependency)
        except ImportError as error:
            raise InputError("launcher: Submitit needs submitit. Install mgvr-lightning[slurm].") from error
        executor = submitit.AutoExecutor(folder / "jobs", cluster=self.cluster)
        executor.update_parameters(name=job.name, timeout_min=self.minutes, **self.options)
        note = folder / "jobs" / f"{job.name}.json"
        if note.is_file():  # an earlier study has submitted it
            number = json.loads(note.read_text(encoding="utf-8"))["job"]
            earlier = executor._executor.job_class(folder / "jobs", number)
            if not earlier.done():
                return Submitted(earlier)
        submitted = executor.submit(Fit(job, folder.absolute(), log.absolute(), Path.cwd()))
        note.write_text(json.dumps({"job": submitted.job_id}), encoding="utf-8")
        return Submitted(submitted)


class Submitted(Attempt):
    """A job of the cluster."""

    def __init__(self, job: Any) -> None:
        self.job = job
        self.unknown_since: float | None = None

    def poll(self) -> int | None:
        """See Attempt; a job that the cluster has known nothing of for ten minutes has ended."""
        if not self.job.done():
            unknown = self.job.state.upper() == "UNKNOWN"
            self.unknown_since = (self.unknown_since or time.monotonic()) if unknown else None
            if self.unknown_since is None or time.monotonic() - self.unknown_since < GRACE_SECONDS:
                return None
        try:
            return 0 if self.job.exception() is None else 1
        except Exception:  # submitit raises its own where a job left no result, and what pickle raises
            return 1

    def stop(self) -> None:
        """Cancels it."""
        self.job.cancel()

    def kill(self) -> None:
        """It was cancelled."""


class Fit:
    """What a job does: the run, from its newest checkpoint, wherever it has got to by then."""

    def __init__(self, job: Job, folder: Path, log: Path, place: Path) -> None:
        self.job, self.folder, self.log, self.place = job, folder, log, place

    def __call__(self) -> None:
        """Runs it, one process for each task of the job, once no earlier job does."""
        os.chdir(self.place)
        rank = int(os.environ.get("SLURM_PROCID", "0"))
        if rank == 0:
            with FileLock(self.folder / "locks" / f"{self.job.name}.cluster"):
                self._run(rank)
        else:
            self._run(rank)

    def _run(self, rank: int) -> None:
        if self.job.finished(self.folder):
            return
        log = self.log if rank == 0 else self.log.with_suffix(f".{rank}.log")
        command = [sys.executable, "-m", "mgvr_lightning", *self.job.resumed(self.folder)]
        with log.open("a", encoding="utf-8") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=True)

    def checkpoint(self) -> Any:
        """Queues it again."""
        import submitit  # noqa: PLC0415  (an optional dependency)

        return submitit.helpers.DelayedSubmission(self)
