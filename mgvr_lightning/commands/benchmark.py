"""`python -m mgvr_lightning benchmark`: how fast this is on the machine at hand."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Literal

import torch
from jsonargparse.typing import PositiveInt

from mgvr_lightning.analysis.canvas import canvas, rendered
from mgvr_lightning.analysis.table import Table
from mgvr_lightning.benchmark.step import Setting
from mgvr_lightning.benchmark.suite import AGAIN, Benchmark
from mgvr_lightning.compile import compile_obstacle
from mgvr_lightning.errors import InputError
from mgvr_lightning.model import TransformerConfig
from mgvr_lightning.parser import Parser

PARTS = ("step", "memory", "loop", "decode")
NONE = "–"


def main(args: list[str]) -> None:
    """Measures, prints tables, and writes benchmark.json and a picture if asked to.

    Args:
        args: the arguments behind `benchmark`.

    Raises:
        InputError: an option doesn't fit.
    """
    parser = _parser()
    config = parser.parse_args(args)
    built = parser.instantiate(config)
    presets = {Path(path).stem: path for path in config.presets}
    device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    setting = Setting(
        config=built.network,
        vocabulary=config.vocabulary,
        context=config.context,
        batch=config.batch,
        bf16=config.bf16,
        compiled=compile_obstacle(device) is None if config.compile == "auto" else config.compile,
        device=device,
    )
    unknown = sorted(set(config.parts) - set(PARTS))
    if unknown:
        raise InputError(f"parts: {', '.join(unknown)}. Expected some of {', '.join(PARTS)}.")
    found = Benchmark(presets, setting, config.rounds, say).run(frozenset(config.parts))
    width = shutil.get_terminal_size((80, 24)).columns
    for table in tables(found, list(presets)):
        sys.stdout.write(table.text(width) + "\n")
    if config.output is not None:
        write(found, list(presets), Path(config.output))
        sys.stdout.write(f"Written to {config.output}\n")


def say(text: str) -> None:
    """Tells what is being measured."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def tables(found: dict[str, Any], labels: list[str]) -> list[Table]:
    """What was measured, for the eye."""
    rows = []
    shown = [*labels, *(label for label in found.get("step_time_ratio", {}) if label.endswith(AGAIN))]
    for label in shown:
        rate, share = found.get("tokens_per_second", {}).get(label), found.get("ceiling_share", {}).get(label)
        ratios, memory = found.get("step_time_ratio", {}).get(label), found.get("memory_ratio", {}).get(label)
        decoded = found.get("decoded_tokens_per_second", {}).get(label)
        cache = found.get("cache_bytes_per_token", {}).get(label)
        rows.append(
            (
                label,
                f"{rate['median']:,.0f}" if rate else NONE,
                f"{share:.1%}" if share else NONE,
                f"{ratios['median']:.4f}\n{ratios['low']:.4f} to {ratios['high']:.4f}" if ratios else NONE,
                f"{memory:.3f}" if memory else NONE,
                f"{decoded['median']:,.1f}" if decoded else NONE,
                f"{cache:,}" if cache else NONE,
            )
        )
    columns = ("", "tokens/s", "of limit", "step time", "memory", "decoded/s", "cache/token")
    limit = found["ceiling"]["flops_per_second"]["median"]
    note = (
        f"Limit: {limit / 1e9:,.0f} GFLOP/s of a large matrix product. Step time and peak memory: over those "
        f"of {labels[0]}, medians with 95% intervals, steps interleaved. Decoded: one sequence, eager. "
        "Cache: bytes."
    )
    if "loop_ratio" in found:
        loop = found["loop_ratio"]
        ends = f"{loop['low']:.4f} to {loop['high']:.4f}"
        note += f" Lightning's loop over a bare one: {loop['median']:.4f} ({ends})."
    return [Table("Benchmark", columns, rows, note)]


def write(found: dict[str, Any], labels: list[str], folder: Path) -> None:
    """Writes benchmark.json and step_time_ratio.svg and .png."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    ratios = found.get("step_time_ratio")
    if ratios:
        for kind, content in draw(ratios, labels[0]).items():
            (folder / f"step_time_ratio.{kind}").write_bytes(content)


def draw(ratios: dict[str, dict[str, float]], reference: str) -> dict[str, bytes]:
    """Step times over the reference's, with their intervals."""
    with canvas(height=1.2 + 0.35 * len(ratios)) as (figure, axes):
        for row, one in enumerate(ratios.values()):
            axes.plot([one["low"], one["high"]], [row, row], color="#0072b2")
            axes.plot(one["median"], row, "o", color="#0072b2")
        axes.axvline(1.0, color="0.7", linewidth=0.8)
        axes.set_yticks(range(len(ratios)), list(ratios))
        axes.set_ylim(len(ratios) - 0.5, -0.5)
        axes.set_xlabel(f"step time over that of {reference}")
        return rendered(figure)


def _parser() -> Parser:
    parser = Parser(
        prog="mgvr_lightning benchmark",
        description="Measures the machine's limits, and against them the training step of each preset, its "
        "ratio to the first preset's, peak memory, Lightning's loop, and decoding.",
        default_env=True,
        env_prefix="MGVR_BENCHMARK",
    )
    parser.add_argument(
        "--presets",
        type=list[str],
        default=["configs/transformer.yaml", "configs/value_residual.yaml", "configs/mgvr.yaml"],
        help="configuration files; the first is the reference",
    )
    parser.add_class_arguments(TransformerConfig, "network")
    parser.add_argument("--vocabulary", type=PositiveInt, default=4096, help="token ids")
    parser.add_argument("--context", type=PositiveInt, default=256, help="tokens of a sequence")
    parser.add_argument("--batch", type=PositiveInt, default=32, help="sequences of a step")
    parser.add_argument("--bf16", type=bool, default=True, help="bf16 autocast; false for fp32")
    parser.add_argument(
        "--compile", type=Literal["auto"] | bool, default="auto", help="auto: where there is a compiler"
    )
    parser.add_argument("--device", type=str | None, default=None, help="null for a GPU where there is one")
    parser.add_argument("--rounds", type=PositiveInt, default=50, help="timed steps of each preset")
    parser.add_argument("--parts", type=list[str], default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--output",
        type=str | None,
        default=None,
        help="folder for benchmark.json and a picture; null for none",
    )
    return parser
