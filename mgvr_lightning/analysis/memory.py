"""Memory of a network's weights and of its key-value cache."""

from dataclasses import dataclass
from pathlib import Path

import torch

from mgvr_lightning.model import Transformer
from mgvr_lightning.optim import role_groups
from mgvr_lightning.values import Role


@dataclass(frozen=True)
class Memory:
    """Bytes that decoding takes, as a function of the context.

    Attributes:
        weights: of everything but tables by token id.
        tables: of tables by token id, wherever they are kept.
        per_token: of the key-value cache, for each token of each sequence.
    """

    weights: int
    tables: int
    per_token: int

    def cache(self, context: int, batch: int = 1) -> int:
        """Bytes of the cache of `batch` sequences of `context` tokens."""
        return batch * context * self.per_token

    def total(self, context: int, batch: int = 1) -> int:
        """Bytes of weights, tables and cache."""
        return self.weights + self.tables + self.cache(context, batch)

    def break_even(self, other: "Memory", batch: int = 1) -> float | None:
        """The context from which on this network takes no more than another; None if it never does."""
        saved = batch * (other.per_token - self.per_token)
        return max(0.0, (self.total(0) - other.total(0)) / saved) if saved > 0 else None

    def tables_break_even(self, other: "Memory", batch: int = 1) -> float | None:
        """The context from which on the cache saves what the tables take; None if it never does.

        As arXiv 2606.02780 counts in its figure 5(a): value projections that the tables replace are left out.
        """
        saved = batch * (other.per_token - self.per_token)
        return self.tables / saved if saved > 0 else None


def memory_of(network: Transformer, dtype: torch.dtype) -> Memory:
    """What a network takes with weights, tables and cache in one dtype.

    Args:
        network: the network, on any device; meta will do.
        dtype: of everything but token ids.
    """
    groups = role_groups(network)
    sizes = {role: sum(p.numel() for p in group.values()) for role, group in groups.items()}
    tables = sizes.pop(Role.TABLE, 0)
    config = network.config
    stored = 2 * config.layers - sum(path.replayable for path in network.paths)
    elements = stored * config.key_value_heads * config.head_width
    return Memory(
        weights=sum(sizes.values()) * dtype.itemsize,
        tables=tables * dtype.itemsize,
        per_token=elements * dtype.itemsize + torch.int32.itemsize,
    )


def draw(curves: dict[str, Memory], contexts: list[int], batch: int, path: Path) -> None:
    """Draws total bytes against context.

    Args:
        curves: name → memory.
        contexts: tokens, ascending.
        batch: sequences decoded at once.
        path: where the picture goes.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second that other commands need not wait)

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, memory in curves.items():
        axes.plot(contexts, [memory.total(context, batch) / 2**30 for context in contexts], label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("context, tokens")
    axes.set_ylabel("weights, tables and cache, GiB")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
