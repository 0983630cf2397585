"""`python -m mgvr_lightning compare`: runs against each other, from their folders alone."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from jsonargparse.typing import PositiveFloat

from mgvr_lightning.analysis.onset import Onset
from mgvr_lightning.analysis.run import distinct, find_runs
from mgvr_lightning.analysis.summary import Summary
from mgvr_lightning.errors import InputError
from mgvr_lightning.parser import Parser


def main(args: list[str]) -> None:
    """Prints tables, and writes tables, numbers and pictures if asked to.

    Args:
        args: the arguments behind `compare`.

    Raises:
        InputError: runs are missing or not comparable, or an option doesn't fit.
    """
    config = _parser().parse_args(args)
    summary = Summary(
        distinct([run for folder in config.runs for run in find_runs(Path(folder))]),
        config.reference,
        config.allow,
        _time_ratio(config),
        [Onset(metric, value) for metric, values in config.onsets.items() for value in values],
    )
    width = shutil.get_terminal_size((80, 24)).columns
    for table in summary.tables:
        sys.stdout.write(table.text(width) + "\n")
    if config.output is not None:
        write(summary, Path(config.output))
        sys.stdout.write(f"Written to {config.output}\n")


def write(summary: Summary, folder: Path) -> None:
    """Writes numbers as CSV and pictures as SVG and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in summary.csv.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, kinds in summary.figures.items():
        for kind, content in kinds.items():
            (folder / f"{name}.{kind}").write_bytes(content)


def _time_ratio(config: Namespace) -> float | None:
    if config.benchmark is None:
        ratio: float | None = config.time_ratio
        return ratio
    if config.time_ratio is not None:
        raise InputError("compare: both time_ratio and benchmark are given. Expected one of them.")
    path, _, preset = config.benchmark.rpartition(":")
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return float(content["step_time_ratio"][preset]["median"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"benchmark: {config.benchmark!r} isn't benchmark.json:PRESET with step_time_ratio.PRESET.median "
            f"({type(error).__name__}: {error})."
        ) from error


def _parser() -> Parser:
    parser = Parser(
        prog="mgvr_lightning compare",
        description="Compares runs by their folders: steps saved, effective compute and differences in loss, "
        "paired by seeds, with 95% intervals. Refuses runs that saw other data.",
        default_env=True,
        env_prefix="MGVR_COMPARE",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=str,
        help="checkpoints/NAME (its newest version), checkpoints/NAME/version_K, or a folder of such; runs "
        "of one configuration are the seeds of an arm",
    )
    parser.add_argument(
        "--reference", type=str | None, default=None, help="label of an arm; null for that of the first run"
    )
    parser.add_argument(
        "--allow",
        type=list[str],
        default=[],
        help="facts in which runs may differ all the same: data_order, planned_steps, or a key of `data` in "
        "provenance.json",
    )
    parser.add_argument(
        "--time_ratio",
        type=PositiveFloat | None,
        default=None,
        help="a variant's step time over the reference's; null for that of the runs' own median steps, where "
        "their machines agree",
    )
    parser.add_argument(
        "--benchmark", type=str | None, default=None, help="benchmark.json:PRESET to take the ratio from"
    )
    parser.add_argument(
        "--onsets",
        type=dict[str, list[float]],
        default={},
        help='thresholds to look for beside the known ones: {"val/loss": [4.5]}',
    )
    parser.add_argument(
        "--output", type=str | None, default=None, help="folder for CSV, SVG and PNG; null for none"
    )
    return parser
