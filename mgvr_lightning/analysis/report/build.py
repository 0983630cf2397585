"""Reports of run folders and of studies."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mgvr_lightning.analysis.file_name import file_name
from mgvr_lightning.analysis.pair import LOSS
from mgvr_lightning.analysis.plan_file import reported
from mgvr_lightning.analysis.report.document import Document
from mgvr_lightning.analysis.report.sections import comparison_section, pilot_table, trials_table
from mgvr_lightning.analysis.run import METRICS, Run
from mgvr_lightning.analysis.summary import Summary
from mgvr_lightning.errors import InputError


def report_runs(runs: Sequence[Run], reference: str | None, allow: Collection[str]) -> Document:
    """A report of comparable runs."""
    document = Document("Comparison")
    comparison_section(document, Summary(runs, reference, allow), "", "", None)
    return document


def report_study(
    folder: Path, plan: dict[str, Any], reference: str | None, allow: Collection[str]
) -> Document:
    """A report of a study: every cell, then pilot and trials, and what is missing.

    Args:
        folder: the study's folder.
        plan: what its study.json holds.
        reference: label of the reference; None for the study's first arm.
        allow: facts in which runs may differ.

    Raises:
        InputError: no run has come far enough.
    """
    document = Document(plan["question"] or f"Study {folder.name}")
    jobs = reported(plan)
    found = {job["name"]: run_of(folder, job["name"]) for job in plan["jobs"]}
    missing = [job["name"] for job in plan["jobs"] if not (run := found[job["name"]]) or not run.finished]
    if missing:
        document.add(f"Not finished: {', '.join(missing)}.")
    cells = list(dict.fromkeys(job["cell"] for job in jobs))
    shown = 0
    for cell in cells:
        own = {job["name"]: job["arm"] for job in jobs if job["cell"] == cell}
        runs = {name: run for name in own if (run := found[name]) is not None and run.series(LOSS)}
        if runs:
            shown += 1
            labels = {run.folder: own[name] for name, run in runs.items()}
            ordered = sorted(runs.values(), key=lambda run: plan["arms"].index(labels[run.folder]))
            ordered = paired(ordered, labels, reference or labels[ordered[0].folder])
            summary = Summary(ordered, reference, allow, labels=labels)
            prefix = f"{file_name(cell)}_" if cell else ""
            comparison_section(document, summary, cell, prefix, folder)
    if not shown:
        raise InputError(f"{folder}: no run of the study has been validated yet. Let it run first.")
    if plan.get("pilot"):
        document.add(pilot_table(plan["pilot"]))
    if plan.get("trials"):
        document.add(trials_table(plan["trials"], plan["judged"]))
    return document


def paired(runs: Sequence[Run], labels: Mapping[Path, str], reference: str) -> list[Run]:
    """Those of the reference, and of the others those that have its seeds: a study may be half done."""
    seeds = {run.seeds for run in runs if labels[run.folder] == reference}
    return [run for run in runs if not seeds or run.seeds in seeds]


def run_of(folder: Path, name: str) -> Run | None:
    """A study's run; None if it hasn't begun."""
    begun = any((folder / name).glob(f"version_*/{METRICS}"))
    return Run.find(folder / name) if begun else None
