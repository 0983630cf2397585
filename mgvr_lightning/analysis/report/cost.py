"""What arms cost and where their numbers come from."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.analysis.table import Table
from mgvr_lightning.analysis.tables import NONE

MIB = 2**20


def cost_table(arms: Sequence[Arm]) -> Table:
    """Parameters by role, FLOPs, time and bytes of each arm."""
    networks = [first(arm).provenance["network"] for arm in arms]
    roles = list(dict.fromkeys(role for network in networks for role in network["parameters_by_role"]))
    rows = [
        *(
            (
                f"parameters, {role.replace('_', ' ')}",
                [network["parameters_by_role"].get(role, 0) for network in networks],
            )
            for role in roles
        ),
        ("parameters in all", [network["parameters"] for network in networks]),
        ("training FLOPs per token", [network["flops_per_token"] for network in networks]),
        ("cache, bytes per token", [network["cache_bytes_per_token"] for network in networks]),
        ("activations, bytes per token", [network["activation_bytes_per_token"] for network in networks]),
    ]
    told = [(name, *(f"{value:,}" for value in values)) for name, values in rows]
    told.append(("median seconds per step", *(seconds(arm) for arm in arms)))
    note = (
        "Cache: keys, values and token ids, in the run's precision. Activations: what eager execution saves "
        "for the backward pass; compiled networks keep less. Seconds: medians over steps, then over seeds."
    )
    return Table("Cost", ("", *(arm.label for arm in arms)), told, note)


def first(arm: Arm) -> Run:
    """The run of an arm's first seeds."""
    return next(iter(arm.runs.values()))


def seconds(arm: Arm) -> str:
    """Median step time."""
    known = [run.step_seconds() for run in arm.runs.values()]
    values = [math.nan if one is None else one for one in known]
    return NONE if np.isnan(values).any() else f"{np.median(values):.4f}"


def provenance_table(runs: Sequence[Run]) -> Table:
    """What the runs were made with: what all have in common, and what differs."""
    facts: dict[str, list[str]] = {}
    for run in runs:
        for name, value in _facts(run).items():
            facts.setdefault(name, []).append(value)
    rows = [(name, "\n".join(dict.fromkeys(values))) for name, values in facts.items()]
    return Table("Made with", ("", "value"), rows, texts=True)


def _facts(run: Run) -> dict[str, str]:
    known = run.provenance
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    found = {"versions": versions, "code": str(known["commit"] or NONE), "machine": _told(known["machine"])}
    data = {name: value for name, value in known["data"].items() if name != "data_seed"}
    return {**found, **{f"data, {name}": str(value) for name, value in data.items()}}


def _told(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def runs_table(arms: Sequence[Arm], root: Path | None) -> Table:
    """Where each run lies, told from a root if there is one, and how it was started."""
    rows = [
        (
            (run.folder if root is None else run.folder.relative_to(root)).as_posix(),
            run.provenance["started"],
            _command(run),
        )
        for arm in arms
        for run in arm.runs.values()
    ]
    return Table("Runs", ("folder", "started", "command"), rows, texts=True)


def _command(run: Run) -> str:
    return "python -m mgvr_lightning " + " ".join(run.provenance["command"])
