"""How an optimizer step's sequences are divided over ranks and micro-batches."""

from dataclasses import dataclass

import numpy as np

from mgvr_lightning.data.order import Indices
from mgvr_lightning.errors import InputError


@dataclass(frozen=True)
class Layout:
    """The division of a global batch. What is trained on doesn't depend on it.

    Args:
        global_batch: sequences per optimizer step.
        micro_batch: sequences per forward pass and rank.
        ranks: number of processes.
        rank: index of this one.
    """

    global_batch: int
    micro_batch: int
    ranks: int = 1
    rank: int = 0

    @classmethod
    def of(cls, global_batch: int, micro_batch: int | None, ranks: int = 1, rank: int = 0) -> "Layout":
        """Makes a layout; without a micro-batch a rank does its whole share at once.

        Raises:
            InputError: the numbers don't divide.
        """
        if global_batch < 1 or global_batch % ranks:
            raise InputError(
                f"data.global_batch: {global_batch} sequences can't be divided over {ranks} processes. "
                f"Nearest that can: {max(1, round(global_batch / ranks)) * ranks}."
            )
        share = global_batch // ranks
        micro = share if micro_batch is None else micro_batch
        if micro < 1 or share % micro:
            fits = [size for size in range(1, share + 1) if share % size == 0]
            raise InputError(
                f"data.micro_batch: {micro} doesn't divide a process's share of the batch, {global_batch} / "
                f"{ranks} = {share}. These do: {', '.join(map(str, fits))}."
            )
        return cls(global_batch, micro, ranks, rank)

    @property
    def accumulation(self) -> int:
        """Micro-batches per rank and optimizer step."""
        return self.global_batch // self.ranks // self.micro_batch

    def positions(self, index: int) -> Indices:
        """Positions, in the whole run, of this rank's micro-batch number `index`, from 0: (micro_batch,)."""
        step, micro = divmod(index, self.accumulation)
        start = step * self.global_batch + (micro * self.ranks + self.rank) * self.micro_batch
        return np.arange(start, start + self.micro_batch)

    def step_positions(self, index: int) -> Indices:
        """Positions of the whole optimizer step that micro-batch `index` belongs to: (global_batch,)."""
        start = index // self.accumulation * self.global_batch
        return np.arange(start, start + self.global_batch)
