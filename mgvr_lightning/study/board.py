"""What has become of the runs of a study, shown while it goes on."""

import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mgvr_lightning.study.glance import Glance
from mgvr_lightning.study.job import Job, told

SECONDS = 2.0
WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"


class Board:
    """States of jobs, as one table with the time that is left, or as a line for each change off a terminal.

    Args:
        folder: the study's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.look = folder, Glance(folder)
        self.drawn = -math.inf
        self.states: dict[str, str] = {}
        self.jobs: list[Job] = []
        self.first_steps: dict[str, int] = {}
        self.since = time.monotonic()
        self.console = Console(stderr=True)
        self.live = Live(console=self.console, auto_refresh=False, transient=False)

    def __enter__(self) -> "Board":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def add(self, jobs: Sequence[Job]) -> None:
        """Puts a phase's jobs on the board."""
        self.jobs += jobs
        for job in jobs:
            self.states[job.name] = DONE if job.finished(self.folder) else WAITING

    def set(self, job: Job, state: str, told_more: str = "") -> None:
        """Records a change."""
        self.states[job.name] = state
        if state == RUNNING:
            self.first_steps[job.name] = self.look(job).step
        if not self.console.is_terminal:
            counts = Counter(self.states.values())
            left = f", {self.left()} left" if self.left() else ""
            sys.stderr.write(
                f"{state} {job.name}{told_more} ({counts[DONE]} of {len(self.states)} done, "
                f"{counts[FAILED]} failed{left})\n"
            )
            sys.stderr.flush()

    def show(self) -> None:
        """Draws the table again, if it is time."""
        now = time.monotonic()
        if self.console.is_terminal and now - self.drawn >= SECONDS:
            self.drawn = now
            self.live.update(self._drawn(), refresh=True)

    def left(self) -> str:
        """The time that is left, as far as it can be told from the steps made since the start."""
        looks = {job.name: self.look(job) for job in self.jobs}
        made = sum(looks[name].step - first for name, first in self.first_steps.items())
        planned = sorted(look.planned for look in looks.values() if look.planned)
        if made <= 0 or not planned:
            return ""
        usual = planned[len(planned) // 2]
        open_jobs = [looks[name] for name, state in self.states.items() if state in (WAITING, RUNNING)]
        todo = sum(max(0, (look.planned or usual) - look.step) for look in open_jobs)
        return str(timedelta(seconds=round(todo * (time.monotonic() - self.since) / made)))

    def _drawn(self) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("phase", "cell", "arm", "done", "failed", "running"):
            table.add_column(name, justify="left" if name in ("phase", "cell", "arm") else "right")
        for phase, cell, arm in dict.fromkeys((job.phase, told(job.cell), job.arm) for job in self.jobs):
            own = [job for job in self.jobs if (job.phase, told(job.cell), job.arm) == (phase, cell, arm)]
            counts = Counter(self.states[job.name] for job in own)
            running = [self._running(job) for job in own if self.states[job.name] == RUNNING]
            failed = str(counts[FAILED]) if counts[FAILED] else ""
            table.add_row(phase, cell, arm, f"{counts[DONE]} of {len(own)}", failed, "\n".join(running))
        left = self.left()
        return Group(table, Text(f"about {left} left" if left else ""))

    def _running(self, job: Job) -> str:
        look = self.look(job)
        loss = "" if look.loss is None else f", {look.loss:.3f} nats"
        return f"seed {job.seed}: {look.step:,} of {look.planned or '?'}{loss}"
