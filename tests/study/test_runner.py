from pathlib import Path

import pytest
from studies import MadeUp, make_up, plan

from mgvr_lightning.study import runner as runner_module
from mgvr_lightning.study.board import Board
from mgvr_lightning.study.job import Job
from mgvr_lightning.study.launcher import Attempt
from mgvr_lightning.study.plan import Plan
from mgvr_lightning.study.runner import Runner
from mgvr_lightning.study.subprocesses import LEFT_ALONE


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "POLL_SECONDS", 0.001)


def run(found: Plan, launcher: MadeUp, keep: bool = False) -> list[Job]:
    with Board(found.folder) as board:
        return Runner(found.folder, launcher, board, keep).run(found.report())


def test_finished_runs_are_skipped_and_so_many_run_at_a_time(tmp_path: Path) -> None:
    found = plan(tmp_path, seeds=[0, 1, 2])
    jobs = found.report()
    make_up(jobs[0], found.folder, 3.0)
    launcher = MadeUp(lambda job: 3.0)
    assert run(found, launcher) == []
    assert launcher.started == [job.name for job in jobs[1:]]
    assert launcher.most == 2
    assert all(job.finished(found.folder) for job in jobs)
    again = MadeUp(lambda job: 3.0)
    assert run(found, again) == []
    assert again.started == []


def test_a_failed_run_is_told_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = plan(tmp_path)
    launcher = MadeUp(lambda job: 3.0, lambda job: 1 if job.name == "mgvr-seed0" else 0, parallel=1)
    assert [job.name for job in run(found, launcher)] == ["mgvr-seed0"]
    assert len(launcher.started) == 4
    told = capsys.readouterr().err
    assert "failed mgvr-seed0: status 1, see" in told
    assert "3 of 4 done, 1 failed" in told


def test_a_run_that_ends_well_without_coming_to_its_end_has_failed(tmp_path: Path) -> None:
    found = plan(tmp_path)

    class Short(MadeUp):
        def start(self, job: Job, folder: Path, log: Path) -> Attempt:
            attempt = super().start(job, folder, log)
            make_up(job, folder, 3.0, planned=40)
            attempt.poll = lambda: 0  # type: ignore[method-assign]
            return attempt

    assert len(run(found, Short(lambda job: 3.0))) == 4


def test_a_run_of_an_earlier_study_is_waited_for_and_then_looked_at(tmp_path: Path) -> None:
    found = plan(tmp_path, seeds=[0])
    left = []

    class Earlier(MadeUp):
        def start(self, job: Job, folder: Path, log: Path) -> Attempt:
            attempt = super().start(job, folder, log)
            if job.name not in left:  # its process goes on and ends without a result
                left.append(job.name)
                attempt.poll = lambda: LEFT_ALONE  # type: ignore[method-assign]
            return attempt

    launcher = Earlier(lambda job: 3.0)
    assert run(found, launcher) == []
    assert sorted(launcher.started) == sorted([job.name for job in found.report()] * 2)


def test_checkpoints_of_finished_runs_go_unless_they_are_kept(tmp_path: Path) -> None:
    found = plan(tmp_path, seeds=[0])
    run(found, MadeUp(lambda job: 3.0))
    assert not list(found.folder.glob("*/version_0/checkpoints"))
    (tmp_path / "kept").mkdir()
    kept = plan(tmp_path / "kept", seeds=[0])
    run(kept, MadeUp(lambda job: 3.0), keep=True)
    assert len(list(kept.folder.glob("*/version_0/checkpoints/last.ckpt"))) == 2


def test_an_interrupted_study_ends_what_it_started(tmp_path: Path) -> None:
    found = plan(tmp_path)
    attempts = []

    class Interrupted(MadeUp):
        def start(self, job: Job, folder: Path, log: Path) -> Attempt:
            attempt = super().start(job, folder, log)
            attempts.append(attempt)
            attempt.poll = lambda: 143 if attempt.stopped else self.interrupt()  # type: ignore
            return attempt

        def interrupt(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(found, Interrupted(lambda job: 3.0))
    assert len(attempts) == 2
    assert all(attempt.stopped for attempt in attempts)
