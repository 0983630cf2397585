"""Studies of real runs: started, killed, started again, reported."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import CONFIGS, TASKS
from runs import home

from mgvr_lightning.analysis.plan_file import read_plan
from mgvr_lightning.analysis.run import find_runs

LIMIT = 300.0
NETWORK = {"model.network.width": 16, "model.network.layers": 3, "model.network.heads": 2}
FAST = {"model.compile": False, "trainer.precision": "32-true", "trainer.accelerator": "cpu", **NETWORK}
TEXT = {"trainer.max_steps": 40, "trainer.val_check_interval": 4}
TASK = {"trainer.max_steps": 60, "trainer.val_check_interval": 10}


def written(folder: Path, over: list[str], **changes: Any) -> Path:
    """A study of two presets and two seeds."""
    content = {
        "question": "Does a study survive?",
        "arms": {label: [str(CONFIGS / f"{label}.yaml")] for label in ("transformer", "mgvr")},
        "configs": over,
        "seeds": [0, 1],
        "launcher": {"class_path": "Subprocesses", "init_args": {"parallel": 2}},
        **changes,
    }
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def start(folder: Path, *given: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "mgvr_lightning", *given]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=folder, text=True, **streams)  # type: ignore[call-overload, no-any-return]


def done(folder: Path, *given: str) -> str:
    process = start(folder, *given)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, output
    return output


def killed_half_way(folder: Path, study: Path, number: int) -> None:
    """Starts a study and ends it by a signal once a run has been validated twice."""
    process = start(folder, "study", str(study))
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and process.poll() is None:
        runs = folder / "checkpoints" / "tiny"
        lines = [
            path.read_text(encoding="utf-8").count("val/loss") for path in runs.glob("*/*/metrics.jsonl")
        ]
        if any(count >= 2 for count in lines):
            break
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[0]
    process.send_signal(number)
    process.communicate(timeout=LIMIT)
    assert process.returncode != 0


def survives(folder: Path, study: Path, number: int) -> None:
    killed_half_way(folder, study, number)
    if number == signal.SIGTERM:
        unfinished = [run for run in find_runs(folder / "checkpoints" / "tiny") if not run.finished]
        assert unfinished
    done(folder, "study", str(study))
    runs = find_runs(folder / "checkpoints" / "tiny")
    assert len(runs) == 4
    assert all(run.finished for run in runs)
    assert all(run.folder.name == "version_0" for run in runs)
    for run in runs:
        losses = [record["step"] for record in run.records if "val/loss" in record]
        assert losses == sorted(set(losses))
    reports = []
    for name in ("one", "two"):
        done(folder, "report", "checkpoints/tiny", "--output", name)
        paths = sorted(path for path in (folder / name).rglob("*") if path.is_file())
        reports.append({str(path.relative_to(folder / name)): path.read_bytes() for path in paths})
    assert reports[0] == reports[1]
    page = reports[0]["report.html"].decode()
    assert "Does a study survive?" in page
    assert "mgvr" in page
    assert 'src="data:image/svg+xml' in page
    assert str(folder) not in page.replace(str(CONFIGS), "")


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_study_on_text_is_killed_goes_on_and_is_reported(tmp_path: Path, number: int) -> None:
    study = written(tmp_path, [str(home() / "small.yaml")], options={**FAST, **TEXT})
    survives(tmp_path, study, number)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_study_on_a_task_is_killed_goes_on_and_is_reported(tmp_path: Path, task: str) -> None:
    study = written(tmp_path, [str(CONFIGS / f"{task}.yaml")], options={**FAST, **TASK})
    survives(tmp_path, study, signal.SIGTERM)


@pytest.mark.slow
def test_a_study_on_the_builtin_corpus_is_killed_goes_on_and_is_reported(tmp_path: Path) -> None:
    study = written(tmp_path, [], options={**FAST, **TEXT, "data.init_args.vocabulary": 512})
    survives(tmp_path, study, signal.SIGTERM)


@pytest.mark.slow
def test_pilot_and_trials_come_first_and_are_reported(tmp_path: Path) -> None:
    rate = "model.optimizer.init_args.learning_rate"
    trials = {label: [{rate: 0.001}, {rate: 0.01}] for label in ("transformer", "mgvr")}
    study = written(
        tmp_path,
        [str(home() / "small.yaml")],
        options=FAST,
        seeds=[0, 1, 2],
        pilot={"arm": "transformer", "seeds": [10, 11], "effect": 1.0},
        tuning={"seeds": [20], "trials": trials},
    )
    dry = done(tmp_path, "study", str(study), "--dry_run", "true")
    assert dry.count("fit --config") == 2
    assert "what follows depends on the runs for pilot" in dry
    done(tmp_path, "study", str(study))
    plan = read_plan(tmp_path / "checkpoints" / "tiny")
    assert [job["phase"] for job in plan["jobs"]] == ["pilot"] * 2 + ["tuning"] * 4 + ["report"] * 4
    done(tmp_path, "report", "checkpoints/tiny")
    text = (tmp_path / "checkpoints" / "tiny" / "report" / "report.md").read_text(encoding="utf-8")
    assert "### Pilot" in text
    assert text.count("| taken |") == 2


@pytest.mark.slow
def test_a_failed_run_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    study = written(
        tmp_path, [str(home() / "small.yaml")], options=FAST, grid={"model.network.heads": [2, 3]}
    )
    process = start(tmp_path, "study", str(study))
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert output.count("failed: heads_3-") == 4
    assert (tmp_path / "checkpoints" / "tiny" / "heads_2-mgvr-seed1" / "version_0").is_dir()
    assert "heads" in output.split("failed: ", 1)[1]
    assert "done heads_2-mgvr-seed1" in output
    done(tmp_path, "report", "checkpoints/tiny")


def test_a_second_study_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    from filelock import FileLock

    study = written(tmp_path, [str(home() / "small.yaml")])
    folder = tmp_path / "checkpoints" / "tiny"
    folder.mkdir(parents=True)
    with FileLock(folder / "study.lock"):
        process = start(tmp_path, "study", str(study))
        output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert "another study is running here" in output
