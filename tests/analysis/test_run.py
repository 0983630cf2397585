import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import recorded, written

from mgvr_lightning.analysis.run import Run, find_runs
from mgvr_lightning.errors import InputError


def _write(folder: Path, records: list[dict[str, Any]], tail: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "metrics.jsonl").write_text(lines + tail, encoding="utf-8")
    return folder


def test_a_broken_last_line_is_skipped(tmp_path: Path) -> None:
    run = Run(_write(tmp_path, [{"step": 1, "val/loss": 2.0}], tail='{"step": 2, "val/lo'))
    assert run.series("val/loss") == {1: 2.0}


def test_of_a_step_logged_twice_the_last_one_counts_and_steps_are_in_order(tmp_path: Path) -> None:
    logged = [(1, 5.0), (3, 4.0), (2, 4.5), (3, 3.0)]
    run = Run(_write(tmp_path, [{"step": step, "val/loss": loss} for step, loss in logged]))
    assert list(run.series("val/loss").items()) == [(1, 5.0), (2, 4.5), (3, 3.0)]
    np.testing.assert_array_equal(run.curve().steps, [1, 2, 3])
    np.testing.assert_array_equal(run.curve().losses, [5, 4.5, 3])


def test_series_hold_nothing_but_their_key(tmp_path: Path) -> None:
    run = Run(_write(tmp_path, [{"step": 1, "train/loss": 5.0}, {"step": 2, "val/loss": float("nan")}]))
    assert list(run.series("val/loss")) == [2]
    assert np.isnan(run.curve().losses).all()
    assert run.series("lr/matrix") == {}
    assert run.step_seconds() is None


def test_step_time_is_the_median(tmp_path: Path) -> None:
    times = [9.0, 0.1, 0.2]
    run = Run(_write(tmp_path, [{"step": i, "time/step_seconds": time} for i, time in enumerate(times)]))
    assert run.step_seconds() == 0.2


def test_the_newest_version_is_the_highest_number(tmp_path: Path) -> None:
    for version in (0, 9, 10):
        _write(tmp_path / "run" / f"version_{version}", [])
    (tmp_path / "run" / "version_11").mkdir()
    assert Run.find(tmp_path / "run").folder.name == "version_10"
    assert Run.find(tmp_path / "run" / "version_9").folder.name == "version_9"


def test_a_folder_beside_the_versions_does_not_hide_them(tmp_path: Path) -> None:
    _write(tmp_path / "run" / "version_3", [])
    _write(tmp_path / "run" / "version_old", [])
    assert Run.find(tmp_path / "run").folder.name == "version_3"


def test_a_missing_run_names_those_there_are(tmp_path: Path) -> None:
    _write(tmp_path / "transformer" / "version_0", [])
    with pytest.raises(InputError, match=r"transfromer: no run here.*transformer/version_0"):
        Run.find(tmp_path / "transfromer")


def test_without_any_run_the_hint_is_to_train_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Train one first"):
        Run.find(tmp_path / "checkpoints" / "transformer")


@pytest.mark.parametrize("content", [None, "", "{broken"])
def test_unreadable_provenance_is_named(tmp_path: Path, content: str | None) -> None:
    run = Run(_write(tmp_path, []))
    if content is not None:
        (tmp_path / "provenance.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"provenance\.json: not readable"):
        _ = run.provenance


def test_matches_logged_ahead_do_not_count_as_steps_made() -> None:
    run = recorded("mgvr", 0, [10.0, 20.0], [5.0, 4.0])
    run.records.append({"step": 60, "matching/steps_saved": 0.2, "matching/effective_compute": 1.1})
    assert (run.step, run.finished) == (20, True)


def test_configurations_are_named_by_their_files_wherever_they_were_written() -> None:
    run = recorded("mgvr", 0, [10.0], [5.0])
    run.provenance["command"] = [
        "fit",
        "--config",
        r"configs\mgvr.yaml",
        "--config=/a/b/two_hop.yaml",
        "-c",
        "x.yml",
    ]
    assert run.configurations == ["mgvr", "x", "two_hop"]


def test_of_a_study_the_reported_runs_are_found(tmp_path: Path) -> None:
    for name in ("mgvr", "pilot"):
        written(recorded(name, 0, [10.0], [5.0]), tmp_path)
    jobs = [{"name": "mgvr-0", "phase": "report"}, {"name": "pilot-0", "phase": "pilot"}]
    jobs.append({"name": "mgvr-1", "phase": "report"})
    (tmp_path / "study.json").write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
    assert [run.folder.parent.name for run in find_runs(tmp_path)] == ["mgvr-0"]
