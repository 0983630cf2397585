"""Batches, and the data sets that make them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from mgvr_lightning.data.layout import Layout
from mgvr_lightning.data.order import Indices, scramble
from mgvr_lightning.model.loss import IGNORE

Ids = NDArray[np.int64]


class Batch(NamedTuple):
    """Sequences for one forward pass.

    Attributes:
        ids: (B, T) int64.
        targets: (B, T) int64, the token after each; IGNORE where nothing is scored.
        step_targets: number of scored targets in the whole optimizer step, over all micro-batches and ranks.
        digest: sum of the rows' hashes modulo 2⁶⁴.
    """

    ids: Tensor
    targets: Tensor
    step_targets: int
    digest: int


class Examples(ABC):
    """Training examples by position in the run."""

    @abstractmethod
    def rows(self, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the examples at `positions` (n,).

        Returns:
            ids and targets, (n, T) each.
        """

    @abstractmethod
    def scored(self, positions: Indices) -> int:
        """Number of scored targets among the examples at `positions`."""


def digest(ids: Ids, targets: Ids) -> int:
    """Sum over rows of a 64-bit hash of each row, modulo 2⁶⁴: it doesn't depend on how rows are batched."""
    rows = np.concatenate([ids, targets], axis=1).astype(np.uint64)
    places = scramble(np.arange(1, rows.shape[1] + 1, dtype=np.uint64))
    hashes = scramble(scramble(scramble(rows) ^ places).sum(axis=1, dtype=np.uint64))
    return int(hashes.sum(dtype=np.uint64))


class TrainBatches(Dataset[Batch]):
    """This rank's micro-batches of a whole run, by number.

    Args:
        examples: what to draw from.
        layout: how steps are divided.
    """

    def __init__(self, examples: Examples, layout: Layout) -> None:
        self.examples, self.layout = examples, layout

    def __getitem__(self, index: int) -> Batch:
        """Makes micro-batch `index`, from 0."""
        ids, targets = self.examples.rows(self.layout.positions(index))
        scored = self.examples.scored(self.layout.step_positions(index))
        return Batch(torch.from_numpy(ids), torch.from_numpy(targets), scored, digest(ids, targets))


class Remaining(Sampler[int]):
    """The micro-batches that are left of a run; its length is the whole run's, as progress counts it.

    Args:
        start: number of the first one.
        total: number of micro-batches in the run.
    """

    def __init__(self, start: int, total: int) -> None:
        self.start, self.total = start, total

    def __iter__(self) -> Iterator[int]:
        """Yields their numbers."""
        return iter(range(self.start, self.total))

    def __len__(self) -> int:
        """Number of micro-batches in the whole run."""
        return self.total


class FixedBatches(Dataset[Batch]):
    """A fixed set of rows in batches of equal shape, divided evenly over ranks.

    The last ones are filled up with rows without targets, which count nothing, so that shapes stay the same
    and no rank waits for another.

    Args:
        ids: (N, T).
        targets: (N, T).
        size: rows of a batch.
        ranks: number of processes.
        rank: index of this one.
    """

    def __init__(self, ids: Ids, targets: Ids, size: int, ranks: int = 1, rank: int = 0) -> None:
        missing = -len(ids) % (size * ranks)
        self.ids = np.concatenate([ids, np.repeat(ids[:1], missing, axis=0)])
        self.targets = np.concatenate([targets, np.full_like(targets[:1], IGNORE).repeat(missing, axis=0)])
        self.size, self.ranks, self.rank = size, ranks, rank

    def __len__(self) -> int:
        """Number of this rank's batches."""
        return len(self.ids) // (self.size * self.ranks)

    def __getitem__(self, index: int) -> Batch:
        """Makes this rank's batch `index`."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = (index * self.ranks + self.rank) * self.size
        ids, targets = self.ids[start : start + self.size], self.targets[start : start + self.size]
        scored = int((targets != IGNORE).sum())
        return Batch(torch.from_numpy(ids), torch.from_numpy(targets), scored, digest(ids, targets))
