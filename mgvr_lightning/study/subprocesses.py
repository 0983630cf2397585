"""Runs on this machine."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from mgvr_lightning.errors import InputError
from mgvr_lightning.study.job import Job
from mgvr_lightning.study.launcher import Attempt, Launcher

try:
    import fcntl
except ImportError:  # Windows, where runs that outlive their study aren't noticed
    fcntl = None  # type: ignore[assignment]

LEFT_ALONE = -1


class Subprocesses(Launcher):
    """Runs as processes of this machine.

    Args:
        parallel: runs at a time. They share the cores; with 1 each has all of them.
    """

    def __init__(self, parallel: int = 1) -> None:
        if parallel < 1:
            raise InputError(f"launcher.parallel: {parallel}. Expected 1 or more.")
        self.parallel = parallel

    def start(self, job: Job, folder: Path, log: Path) -> Attempt:
        """Starts a process; see Launcher."""
        lock = (folder / "locks" / job.name).open("w") if fcntl else None
        if lock is not None and not _taken(lock):
            return Leftover(lock)
        environment = dict(os.environ)
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // self.parallel)))
        with log.open("a", encoding="utf-8") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "mgvr_lightning", *job.resumed(folder)],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,  # a Ctrl-C in the terminal is passed on once, by the study
                pass_fds=() if lock is None else (lock.fileno(),),
            )
        if lock is not None:
            lock.close()  # the process holds it from here on, whatever becomes of the study
        return Process(process)


class Process(Attempt):
    """A process of this study."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def poll(self) -> int | None:
        """See Attempt."""
        return self.process.poll()

    def stop(self) -> None:
        """Asks by SIGTERM."""
        self.process.terminate()

    def kill(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()


class Leftover(Attempt):
    """A process that an earlier study has left running; it holds the lock until it ends."""

    def __init__(self, lock: IO[str]) -> None:
        self.lock = lock

    def poll(self) -> int | None:
        """`LEFT_ALONE` once it has ended: how, nobody can tell."""
        if not self.lock.closed:
            if not _taken(self.lock):
                return None
            self.lock.close()  # free for the process that is started in its place
        return LEFT_ALONE

    def stop(self) -> None:
        """Leaves it running, as it was; the next study waits for it."""

    def kill(self) -> None:
        """Leaves it running."""


def _taken(lock: IO[str]) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
