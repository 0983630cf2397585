"""The sections of a report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgvr_lightning.analysis.coefficients import draw
from mgvr_lightning.analysis.file_name import file_name
from mgvr_lightning.analysis.report.cost import cost_table, first, provenance_table, runs_table
from mgvr_lightning.analysis.report.document import Document, Picture
from mgvr_lightning.analysis.summary import Summary
from mgvr_lightning.analysis.table import Table
from mgvr_lightning.analysis.tables import NONE

CAPTIONS = {
    "loss": "Validation loss",
    "comparison": "Validation loss, and the steps saved at the reference's loss with 95% intervals",
}


def comparison_section(
    document: Document, summary: Summary, title: str, prefix: str, root: Path | None
) -> None:
    """Adds what a set of comparable runs shows.

    Args:
        document: where it goes.
        summary: the runs.
        title: heading of the section; none if empty.
        prefix: of the names of its pictures.
        root: folder that the runs' places are told from; None to tell them as given.
    """
    if title:
        document.heading(title)
    tables = {table.title: table for table in summary.tables}
    figures = summary.figures
    for table in [table for name, table in tables.items() if name != "Proof"]:
        document.add(table)
    for name, kinds in figures.items():
        document.add(Picture(f"{prefix}{name}", CAPTIONS.get(name, name.replace("_", " ")), kinds))
    for arm in summary.arms:
        picture = draw(first(arm))
        if picture is not None:
            seed = first(arm).seeds[0]
            caption = f"Learned coefficients of {arm.label} by layer, seed {seed}"
            document.add(Picture(f"{prefix}coefficients_{file_name(arm.label)}", caption, picture))
    document.add(cost_table(summary.arms))
    document.add(*[table for name, table in tables.items() if name == "Proof"])
    document.add(provenance_table(summary.runs), runs_table(summary.arms, root))


def trials_table(trials: Sequence[dict[str, Any]], judged: str) -> Table:
    """All trials: what was tried, on which seeds, what came out, and which was taken."""
    rows = [
        (
            trial["arm"],
            trial["cell"] or NONE,
            ", ".join(f"{name.rsplit('.', 1)[-1]} {value}" for name, value in trial["options"].items())
            or NONE,
            ", ".join(map(str, trial["seeds"])),
            ", ".join(map(told_score, trial["scores"])),
            "taken" if trial["taken"] else "",
        )
        for trial in trials
    ]
    columns = ("arm", "cell", "options", "seeds", "scores", "")
    note = (
        f"Score: {judged}; ties and scores that weren't reached by the last value. No seed is reported above."
    )
    return Table("Trials", columns, rows, note)


def told_score(score: float | None) -> str:
    """A score, or that there is none: the run didn't get there, or diverged."""
    return NONE if score is None else f"{score:.4g}"


def told_need(found: dict[str, Any]) -> str:
    """Pairs needed, as far as a pilot can tell."""
    if found["deviation"] is None:
        return "can't be told: all are run"
    return "> 1,000" if found["needed"] is None else str(found["needed"])


def pilot_table(pilot: dict[str, Any]) -> Table:
    """What the pilot found."""
    rows = [
        (
            cell or pilot["arm"],
            ", ".join(map(told_score, found["scores"])),
            told_score(found["deviation"]),
            told_need(found),
        )
        for cell, found in pilot["cells"].items()
    ]
    note = (
        f"Pairs of seeds that show an effect of {pilot['effect']:g} with {pilot['power']:.0%} power at the "
        "5% level, if pairs of the same seed differ as much as independent runs."
    )
    return Table("Pilot", ("runs", "scores", "standard deviation", "pairs needed"), rows, note)
