"""What a suite came to, as a table and as CSV."""

import csv
from collections.abc import Sequence
from io import StringIO
from statistics import fmean

from mgvr_lightning.evaluation.suite import Result

COLUMNS = ("task", "category", "kind", "shots", "questions", "cropped", "random", "accuracy", "centred")


def core(results: Sequence[Result]) -> float:
    """The mean centred accuracy."""
    return fmean(result.centred for result in results)


def categories(results: Sequence[Result]) -> dict[str, float]:
    """Category → mean centred accuracy of its tasks."""
    names = sorted({result.task.category for result in results})
    return {name: core([one for one in results if one.task.category == name]) for name in names}


def as_csv(results: Sequence[Result]) -> str:
    """A line for each task, then one for each category, then CORE."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for result in results:
        task = result.task
        described = (task.label, task.category, task.kind, task.shots, result.questions, result.cropped)
        writer.writerow([*described, task.baseline, f"{result.accuracy:.6f}", f"{result.centred:.6f}"])
    for name, mean in {**categories(results), "CORE": core(results)}.items():
        writer.writerow([name, *[""] * (len(COLUMNS) - 2), f"{mean:.6f}"])
    return buffer.getvalue()


def as_table(results: Sequence[Result]) -> str:
    """The same for the eye."""
    width = max(len(result.task.label) for result in results)
    lines = [
        f"{'task':{width}}  questions  random  accuracy  centred",
        *(
            f"{result.task.label:{width}}  {result.questions:9,}  {result.task.baseline:6.3f}  "
            f"{result.accuracy:8.4f}  {result.centred:+7.4f}"
            for result in results
        ),
    ]
    for name, mean in {**categories(results), "CORE": core(results)}.items():
        lines.append(f"{name:{width}}  {'':9}  {'':6}  {'':8}  {mean:+7.4f}")
    cropped = sum(result.cropped for result in results)
    if cropped:
        lines.append(f"{cropped:,} questions were longer than the context and lost their beginnings.")
    return "\n".join(lines) + "\n"
