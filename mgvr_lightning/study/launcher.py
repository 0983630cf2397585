"""How runs are started and waited for."""

from abc import ABC, abstractmethod
from pathlib import Path

from mgvr_lightning.study.job import Job


class Attempt(ABC):
    """A job that was started."""

    @abstractmethod
    def poll(self) -> int | None:
        """The exit status; None while it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Asks it to end."""

    @abstractmethod
    def kill(self) -> None:
        """Ends it."""


class Launcher(ABC):
    """Starts jobs, so many at a time.

    Attributes:
        parallel: how many at a time.
    """

    parallel: int

    @abstractmethod
    def start(self, job: Job, folder: Path, log: Path) -> Attempt:
        """Starts a job, from its newest checkpoint if it has one.

        A job that an earlier study has left running is waited for instead.

        Args:
            job: the job.
            folder: the study's folder.
            log: where its output goes.
        """
