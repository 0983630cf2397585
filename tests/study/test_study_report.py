import re
from pathlib import Path

import pytest
from studies import make_up, plan

from mgvr_lightning.commands.report import main
from mgvr_lightning.study.plan import Plan

CELLS = {"data.init_args.symbols": [63, 255]}


def reported(found: Plan, *given: str) -> str:
    main([str(found.folder), *given])
    return (found.folder / "report" / "report.md").read_text(encoding="utf-8")


def test_every_cell_has_a_comparison_of_its_own(tmp_path: Path) -> None:
    found = plan(tmp_path, question="How many symbols?", grid=CELLS)
    found.write(found.report())
    for job in found.report():
        make_up(job, found.folder, 3.0 if job.arm == "transformer" else 2.8)
    text = reported(found)
    assert text.startswith("# How many symbols?\n")
    assert "## symbols 63\n" in text
    assert "## symbols 255\n" in text
    assert text.count("### Against transformer") == 2
    assert "Not finished" not in text


def test_a_study_half_done_says_what_is_missing_and_compares_the_pairs_it_has(tmp_path: Path) -> None:
    found = plan(tmp_path)
    found.write(found.report())
    for job in found.report():
        if (job.arm, job.seed) != ("transformer", 1):
            make_up(job, found.folder, 3.0, planned=40 if job.seed else 20)
    text = reported(found, "--allow", "[planned_steps]")
    assert "Not finished: transformer-seed1, mgvr-seed1." in text
    row = text.split("### Against transformer", 1)[1].split("| mgvr |", 1)[1]
    assert row.startswith(" 1 |")


def test_an_arm_alone_is_shown_without_a_comparison(tmp_path: Path) -> None:
    found = plan(tmp_path)
    found.write(found.report())
    make_up(found.report()[1], found.folder, 3.0)
    text = reported(found)
    assert "### Arms" in text
    assert "Against" not in text


def test_a_diverged_run_is_shown_as_such(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    found = plan(tmp_path, seeds=[0])
    found.write(found.report())
    for job in found.report():
        make_up(job, found.folder, 3.0)
        path = found.folder / job.name / "version_0" / "metrics.jsonl"
        if job.arm == "mgvr":
            path.write_text(re.sub(r'"val/loss": [0-9.]+', '"val/loss": null', path.read_text()))
    text = reported(found)
    assert "nan" not in text
    assert "| mgvr | 1 | – | – | 1.000 | – | – |" in text
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]
