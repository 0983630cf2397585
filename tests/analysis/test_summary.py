import csv
from io import StringIO
from pathlib import Path

import pytest
from recorded import recorded, written

from mgvr_lightning.analysis.run import Run, find_runs
from mgvr_lightning.analysis.summary import Summary
from mgvr_lightning.errors import InputError

STEPS, LOSSES, BETTER = [10.0, 20.0, 30.0], [5.0, 4.0, 3.0], [4.8, 3.8, 2.8]


def runs() -> list[Run]:
    return [
        recorded(name, seed, STEPS, losses)
        for name, losses in (("transformer", LOSSES), ("mgvr", BETTER))
        for seed in (0, 1)
    ]


def test_the_first_arm_is_the_reference_unless_another_is_named() -> None:
    assert [arm.label for arm in Summary(runs()).arms] == ["transformer", "mgvr"]
    turned = Summary(runs(), "mgvr")
    assert [arm.label for arm in turned.arms] == ["mgvr", "transformer"]
    assert turned.comparisons[0].differences[0].verdict == "higher"
    with pytest.raises(InputError, match=r"no arm named bov\. There are: transformer, mgvr"):
        Summary(runs(), "bov")


def test_csv_holds_every_validation_and_every_pair() -> None:
    files = Summary(runs()).csv
    losses = list(csv.DictReader(StringIO(files["losses.csv"])))
    assert len(losses) == 4 * 3
    assert {row["val/loss"] for row in losses if row["arm"] == "mgvr"} == {"4.8", "3.8", "2.8"}
    saved = list(csv.DictReader(StringIO(files["steps_saved.csv"])))
    ends = [row for row in saved if row["at"] == "end"]
    assert [row["seed"] for row in ends] == ["all", "0", "1"]
    assert float(ends[1]["saved"]) == pytest.approx(1 - 28 / 30, rel=1e-5)
    differences = list(csv.DictReader(StringIO(files["differences.csv"])))
    assert float(differences[0]["mean"]) == pytest.approx(-0.2)


def test_pictures_and_numbers_are_the_same_to_the_byte() -> None:
    one, other = Summary(runs()), Summary(runs())
    assert one.figures == other.figures
    assert one.csv == other.csv
    assert "comparison" in one.figures
    assert one.figures["comparison"]["svg"].startswith(b"<?xml")
    assert one.figures["comparison"]["png"].startswith(b"\x89PNG")


def test_run_folders_are_found_by_name_by_version_and_below_a_folder(tmp_path: Path) -> None:
    folders = [written(run, tmp_path).folder for run in runs()]
    assert [run.folder for run in find_runs(tmp_path)] == sorted(folders)
    assert [run.folder for run in find_runs(folders[0])] == [folders[0]]
    assert [run.folder for run in find_runs(folders[0].parent)] == [folders[0]]
    with pytest.raises(InputError, match="no run here"):
        find_runs(tmp_path / "nothing")


def test_a_broken_tail_is_skipped_and_a_run_going_on_says_how_far_it_is(tmp_path: Path) -> None:
    run = written(recorded("mgvr", 0, STEPS[:2], LOSSES[:2], planned=30), tmp_path)
    with (run.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 30, "val/lo')
    summary = Summary([Run(run.folder)])
    assert "20 of 30" in summary.tables[0].rows[0]


def test_runs_without_a_validation_and_old_runs_are_refused(tmp_path: Path) -> None:
    empty = recorded("mgvr", 0, STEPS, LOSSES)
    empty.__dict__["records"] = [{"step": 0, "run/planned_steps": 30}]
    with pytest.raises(InputError, match="no val/loss logged yet"):
        Summary([empty])
    old = recorded("mgvr", 0, STEPS, LOSSES)
    del old.provenance["tokens_per_step"]
    place = written(old, tmp_path)
    with pytest.raises(InputError, match="earlier version"):
        _ = place.provenance
