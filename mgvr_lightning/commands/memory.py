"""`python -m mgvr_lightning memory`: what weights and key-value cache of a preset take."""

import sys
from pathlib import Path
from typing import Literal

import torch
from jsonargparse.typing import PositiveInt

from mgvr_lightning.analysis.memory import Memory, draw, memory_of
from mgvr_lightning.model import Transformer
from mgvr_lightning.module import LanguageModule
from mgvr_lightning.optim import AdamW
from mgvr_lightning.parser import Parser
from mgvr_lightning.schedule import WarmupStableDecay
from mgvr_lightning.values import ScalarGate, ValueSpec

CONTEXTS = [2**power for power in range(10, 21)]
MIB = 2**20


def main(args: list[str]) -> None:
    """Prints a table against the Transformer of the same shape, and draws it if asked to.

    Args:
        args: the arguments behind `memory`.

    Raises:
        InputError: an option doesn't fit.
    """
    parser = _parser()
    config = parser.parse_args(args)
    module: LanguageModule = parser.instantiate(config).model
    plain = ValueSpec(None, lambda shape: ScalarGate(shape, 1.0, learned=False), None, "none")
    dtype: torch.dtype = getattr(torch, config.dtype)
    with torch.device("meta"):
        ours, theirs = (
            memory_of(Transformer(module.config, values, config.vocabulary), dtype)
            for values in (module.values, plain)
        )
    name = Path(str(config.config[0])).stem if config.config else "this network"
    sys.stdout.write(table(ours, theirs, config.contexts, config.batch))
    if config.plot is not None:
        draw({name: ours, "the Transformer": theirs}, config.contexts, config.batch, Path(config.plot))
        sys.stdout.write(f"Drawn in {config.plot}\n")


def table(ours: Memory, theirs: Memory, contexts: list[int], batch: int) -> str:
    """Bytes in MiB at each context, and where the two meet."""
    lines = [
        f"weights {ours.weights / MIB:,.1f} MiB, tables {ours.tables / MIB:,.1f} MiB, cache "
        f"{ours.per_token:,} bytes a token; the Transformer: {theirs.weights / MIB:,.1f} MiB, "
        f"{theirs.per_token:,} bytes a token",
        "  context   cache, MiB   total, MiB   Transformer, MiB   difference, MiB",
    ]
    for context in contexts:
        one, other = ours.total(context, batch), theirs.total(context, batch)
        lines.append(
            f"{context:9,}  {ours.cache(context, batch) / MIB:11,.1f}  {one / MIB:11,.1f}  "
            f"{other / MIB:17,.1f}  {(one - other) / MIB:+16,.1f}"
        )
    whole, tables = ours.break_even(theirs, batch), ours.tables_break_even(theirs, batch)
    if whole is None or tables is None:
        lines.append("Its cache is no smaller than the Transformer's.")
    else:
        lines.append(f"No more than the Transformer in all from {whole:,.0f} tokens on.")
        lines.append(f"The cache saves what the tables take from {tables:,.0f} tokens on.")
    return "\n".join(lines) + "\n"


def _parser() -> Parser:
    parser = Parser(
        prog="mgvr_lightning memory",
        description="Memory of weights, tables by token id and key-value cache against context. Takes the "
        "configurations of `fit` and uses their `model`.",
        default_env=True,
        env_prefix="MGVR_MEMORY",
    )
    parser.add_argument("--config", "-c", action="config", help="a configuration file; may be given again")
    parser.add_lightning_class_args(LanguageModule, "model")
    defaults = {"model.optimizer": AdamW, "model.schedule": WarmupStableDecay}
    parser.set_defaults(
        {key: {"class_path": f"{part.__module__}.{part.__name__}"} for key, part in defaults.items()}
    )
    parser.add_argument("--vocabulary", type=PositiveInt, default=32768, help="token ids, padding included")
    parser.add_argument("--contexts", type=list[PositiveInt], default=CONTEXTS, help="tokens of a sequence")
    parser.add_argument("--batch", type=PositiveInt, default=1, help="sequences decoded at once")
    parser.add_argument(
        "--dtype",
        type=Literal["bfloat16", "float16", "float32"],
        default="bfloat16",
        help="of weights, tables and cache",
    )
    parser.add_argument("--plot", type=str | None, default=None, help="picture to draw; null for none")
    parser.ignore_but("model")
    return parser
