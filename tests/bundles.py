"""Evaluation bundles of random rows."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_bundle(folder: Path, tasks: list[dict[str, Any]], rows: dict[str, list[Any]]) -> Path:
    """A bundle in which every task has the category of its kind and a baseline of 25%."""
    (folder / "eval_data").mkdir(parents=True)
    (folder / "core.yaml").write_text(json.dumps({"icl_tasks": tasks}), encoding="utf-8")
    lines = [f'{task["label"]},{task["icl_task_type"]},x,0,0,25,,"a, b"' for task in tasks]
    header = (
        "Eval Task,Task Category,Task Type,#shots,#datapoints,Random baseline,Centered Metric?,Description"
    )
    (folder / "eval_meta_data.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    for name, content in rows.items():
        text = "".join(json.dumps(row) + "\n" for row in content)
        (folder / "eval_data" / name).write_text(text, encoding="utf-8")
    return folder


WORDS = ["red", "green", "blue", "tall", "old", "quick", "small", "wide", "dark", "warm", "thin", "loud"]


def words(draw: random.Random, count: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(count))


def choice_row(draw: random.Random) -> dict[str, Any]:
    choices = [words(draw, draw.randint(1, 3)) for _ in range(4)]
    return {"query": words(draw, 4), "choices": choices, "gold": draw.randrange(4)}


def schema_row(draw: random.Random) -> dict[str, Any]:
    contexts = [words(draw, draw.randint(2, 4)) + end for end in ("a", "b")]
    return {"context_options": contexts, "continuation": words(draw, 3), "gold": draw.randrange(2)}


def continuation_row(draw: random.Random) -> dict[str, Any]:
    return {"context": f" {words(draw, 4)}\n", "continuation": draw.choice("abcdefgh")}


KINDS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "multiple_choice": choice_row,
    "schema": schema_row,
    "language_modeling": continuation_row,
}


def bundle(folder: Path, count: int = 12, shots: int = 2) -> Path:
    draw = random.Random(3)
    tasks = [
        {
            "label": kind,
            "dataset_uri": f"{kind}.jsonl",
            "num_fewshot": [shots],
            "icl_task_type": kind,
            **({"continuation_delimiter": "\nAnswer: "} if kind == "multiple_choice" else {}),
        }
        for kind in KINDS
    ]
    rows = {f"{kind}.jsonl": [make(draw) for _ in range(count)] for kind, make in KINDS.items()}
    return write_bundle(folder / "bundle", tasks, rows)
