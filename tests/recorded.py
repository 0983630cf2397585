"""Runs that were never trained: what a run folder holds, made up or changed."""

import json
from pathlib import Path
from typing import Any

import yaml

from mgvr_lightning.analysis.run import FINISHED, METRICS, PLANNED, PROVENANCE, SETTINGS, Run

FACTS = {
    "tokenizer": "t0",
    "train_tokens": "a0",
    "validation_tokens": "b0",
    "validation_windows": 8,
    "context": 32,
    "global_batch": 4,
}
MACHINE = {"device": "a CPU", "cores": 2}


def provenance(name: str, seed: int, facts: dict[str, Any] | None = None, **network: Any) -> dict[str, Any]:
    """What provenance.json says."""
    return {
        "started": "2026-01-01T00:00:00+00:00",
        "machine": MACHINE,
        "versions": {"torch": "2.13.0"},
        "commit": None,
        "data": {**FACTS, **(facts or {}), "data_seed": seed},
        "corpus": {},
        "tokens_per_step": 128,
        "network": {
            "parameters": 100,
            "parameters_by_role": {"matrix": 100},
            "flops_per_token": 600,
            "cache_bytes_per_token": 68,
            "activation_bytes_per_token": 1000,
            "vocabulary": 320,
            "seed": seed,
            **network,
        },
        "initial_tensors": {"embedding.weight": f"e{seed}", f"{name}.weight": "x"},
        "command": ["fit", "--config", f"configs/{name}.yaml"],
    }


def recorded(
    name: str,
    seed: int,
    steps: list[float],
    losses: list[float],
    seconds: float = 0.1,
    extra: list[dict[str, Any]] | None = None,
    planned: int | None = None,
    **changes: Any,
) -> Run:
    """A run in memory."""
    run = Run(Path("checkpoints") / f"{name}-{seed}" / "version_0")
    planned = int(steps[-1]) if planned is None else planned
    records: list[dict[str, Any]] = [{"step": 0, PLANNED: planned}]
    for step, loss in zip(steps, losses, strict=True):
        at = {"step": int(step)}
        records += [{**at, "time/step_seconds": seconds}, {**at, "data/hash": f"h{seed}-{int(step)}"}]
        records.append({**at, "val/loss": loss})
    records += extra or []
    if steps[-1] >= planned:
        records.append({"step": int(steps[-1]), FINISHED: "all steps"})
    run.__dict__["records"] = records
    run.__dict__["provenance"] = provenance(name, seed, **changes)
    run.__dict__["settings"] = {"model.values.layers": name, "model.seed": seed}
    return run


def written(run: Run, folder: Path) -> Run:
    """The same on disk, under FOLDER/NAME/version_0."""
    place = folder / run.folder.parent.name / run.folder.name
    place.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in run.records)
    (place / METRICS).write_text(lines, encoding="utf-8")
    (place / PROVENANCE).write_text(json.dumps(run.provenance), encoding="utf-8")
    (place / SETTINGS).write_text(yaml.safe_dump(run.settings), encoding="utf-8")
    return Run(place)
