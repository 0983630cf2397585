"""Real processes, which do little."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from studies import plan

from mgvr_lightning.errors import InputError
from mgvr_lightning.study.job import Job
from mgvr_lightning.study.launcher import Attempt
from mgvr_lightning.study.submitit_jobs import Submitit
from mgvr_lightning.study.subprocesses import LEFT_ALONE, Process, Subprocesses

LIMIT = 60.0


def prepared(folder: Path) -> tuple[Job, Path, Path]:
    """A job whose configuration is refused at once, its study's folder and its log."""
    found = plan(folder)
    for name in ("locks", "logs"):
        (found.folder / name).mkdir(parents=True)
    return found.report()[0], found.folder, found.folder / "logs" / "job.log"


def status(attempt: Attempt) -> int:
    end = time.monotonic() + LIMIT
    while (found := attempt.poll()) is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def test_a_process_gives_its_status_and_writes_its_log(tmp_path: Path) -> None:
    job, folder, log = prepared(tmp_path)
    assert status(Subprocesses().start(job, folder, log)) == 2
    assert "model.values" in log.read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX locks")
def test_a_process_that_outlived_its_study_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, folder, log = prepared(tmp_path)
    code = "import time; time.sleep(60)"
    monkeypatch.setattr(Job, "resumed", lambda self, folder: [])
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **more: real([sys.executable, "-c", code], **more)
    )
    first = Subprocesses().start(job, folder, log)
    second = Subprocesses().start(job, folder, log)
    assert second.poll() is None
    second.stop()
    assert first.poll() is None  # it isn't ours to end
    first.stop()
    assert status(first) == -signal.SIGTERM
    assert status(second) == LEFT_ALONE
    third = Subprocesses().start(job, folder, log)
    assert third.poll() is None
    fourth = Subprocesses().start(job, folder, log)
    third.kill()
    assert status(fourth) == LEFT_ALONE  # and its lock doesn't stand in the way of the next
    fifth = Subprocesses().start(job, folder, log)
    assert isinstance(fifth, Process)
    fifth.kill()


def test_processes_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, folder, log = prepared(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    code = "import os; print('threads', os.environ['OMP_NUM_THREADS'])"
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **more: real([sys.executable, "-c", code], **more)
    )
    assert status(Subprocesses(parallel=4).start(job, folder, log)) == 0
    assert "threads 2" in log.read_text(encoding="utf-8")


def test_a_job_of_submitit_runs_the_same_command(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    job, folder, log = prepared(tmp_path)
    launcher = Submitit(cluster="local", minutes=5)
    attempt = launcher.start(job, folder, log)
    assert status(attempt) == 1
    assert "model.values" in log.read_text(encoding="utf-8")
    assert (folder / "jobs" / f"{job.name}.json").is_file()


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="parallel"):
        Subprocesses(parallel=0)
    with pytest.raises(InputError, match="1 or more"):
        Submitit(minutes=0)
