"""An evaluation bundle: the tasks of a suite, their random baselines and their rows."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from mgvr_lightning.errors import InputError
from mgvr_lightning.evaluation.question import QUESTIONS, Question

BASELINES = "eval_meta_data.csv"
ROWS = "eval_data"


@dataclass(frozen=True)
class Task:
    """A task of a suite.

    Attributes:
        label: its name.
        path: its rows, JSON Lines.
        shots: solved examples before each question.
        kind: multiple_choice, schema or language_modeling.
        delimiter: what stands between a question and its answer.
        category: what it is about.
        baseline: accuracy of random guesses, from 0 to 1.
    """

    label: str
    path: Path
    shots: int
    kind: str
    delimiter: str
    category: str
    baseline: float

    @cached_property
    def questions(self) -> list[Question]:
        """The questions, in the order of the file.

        Raises:
            InputError: a line isn't JSON, or lacks what the kind of task needs.
        """
        questions = [self._question(row, f"{self.path}:{number}") for number, row in json_lines(self.path)]
        if len(questions) <= self.shots:
            raise InputError(
                f"{self.path}: {len(questions)} rows, but {self.label} shows {self.shots} others before each."
            )
        return questions

    def _question(self, row: Any, place: str) -> Question:
        try:
            return QUESTIONS[self.kind](row, self.delimiter)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            known = QUESTIONS[self.kind].__doc__ or ""
            raise InputError(
                f"{place}: not a row of {self.kind} ({type(error).__name__}: {error}). Expected {known}"
            ) from error


def read_tasks(bundle: Path, tasks: str, only: list[str] | None = None) -> list[Task]:
    """The tasks of a bundle.

    Args:
        bundle: the folder with the tasks file, eval_meta_data.csv and eval_data/.
        tasks: name of the tasks file.
        only: labels to choose; None for all.

    Raises:
        InputError: a file is missing or malformed, or no task has a label in `only`.
    """
    path = bundle / tasks
    try:
        listed = yaml.safe_load(read_text(path))["icl_tasks"]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a list of tasks under icl_tasks ({error}).") from error
    baselines = read_baselines(bundle / BASELINES)
    found = [task(entry, number, path, baselines) for number, entry in enumerate(listed, 1)]
    labels = [one.label for one in found]
    for label in only or []:
        if label not in labels:
            raise InputError(f"only: {path} has no task {label!r}. It has {', '.join(labels)}.")
    return [one for one in found if only is None or one.label in only]


def task(entry: Any, number: int, path: Path, baselines: dict[str, tuple[str, float]]) -> Task:
    """One entry of a tasks file.

    Raises:
        InputError: the entry lacks something, or its kind or its baseline isn't known.
    """
    place = f"{path}: task {number}"
    try:
        label, kind, shots = str(entry["label"]), entry["icl_task_type"], entry["num_fewshot"]
        rows = path.parent / ROWS / entry["dataset_uri"]
        (shown,) = shots if isinstance(shots, list) else [shots]
        shown = int(shown)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{place}: {type(error).__name__}: {error}. Expected label, dataset_uri, icl_task_type and one "
            "number in num_fewshot."
        ) from error
    if kind not in QUESTIONS:
        raise InputError(f"{place}: no icl_task_type {kind!r}. Expected one of {', '.join(QUESTIONS)}.")
    if label not in baselines:
        raise InputError(f"{path.parent / BASELINES}: no row with the Eval Task {label!r}.")
    return Task(label, rows, shown, kind, str(entry.get("continuation_delimiter", " ")), *baselines[label])


def read_baselines(path: Path) -> dict[str, tuple[str, float]]:
    """Label → category and accuracy of random guesses; the file has that in per cent.

    Raises:
        InputError: the file is missing or malformed.
    """
    reader = csv.DictReader(read_text(path).splitlines(keepends=True))
    baselines = {}
    for row in reader:
        try:
            baseline = float(row["Random baseline"]) / 100
            if not 0 <= baseline < 1:
                raise ValueError(f"Random baseline {row['Random baseline']} is outside [0, 100)")
            baselines[row["Eval Task"]] = row["Task Category"], baseline
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}:{reader.line_num}: {type(error).__name__}: {error}. "
                "Expected the columns Eval Task, Task Category and Random baseline, in per cent."
            ) from error
    return baselines


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Line number and content of every line that isn't empty.

    Raises:
        InputError: the file is missing, or a line isn't JSON.
    """
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}:{number}: not JSON ({error}).") from error


def read_text(path: Path) -> str:
    """A text file.

    Raises:
        InputError: it is missing, or isn't UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}). Is it part of an evaluation bundle?") from error
