"""Which source, and which of its examples, stands at each position of a run."""

from collections.abc import Sequence

import numpy as np

from mgvr_lightning.data.order import Indices, Order, Permutation
from mgvr_lightning.errors import InputError

BLOCK = 4096
"""Positions over which the shares are exact."""


def shares(weights: Sequence[float], total: int) -> Indices:
    """Divides `total` by weight, by largest remainders; every share is at least 1.

    Args:
        weights: positive numbers.
        total: what to divide, at least the number of weights.

    Returns:
        (n,) whole numbers that add up to `total`.

    Raises:
        InputError: a weight isn't positive and finite, or there are more weights than parts.
    """
    exact = np.asarray(weights, dtype=np.float64)
    if len(exact) == 0 or not (np.isfinite(exact).all() and (exact > 0).all()):
        raise InputError(f"the weights of a mixture are {list(weights)}. Expected positive numbers.")
    if len(exact) > total:
        raise InputError(f"{total} can't be divided among {len(exact)} sources, at least 1 each.")
    exact = exact / exact.sum() * total
    whole: Indices = np.maximum(1, np.floor(exact)).astype(np.int64)
    while (missing := total - int(whole.sum())) != 0:
        # largest remainders up; where the ones at 1 took too much, largest excess down
        distance = np.where(whole > 1, exact - whole, np.inf) if missing < 0 else exact - whole
        chosen = int(distance.argmin() if missing < 0 else distance.argmax())
        whole[chosen] += 1 if missing > 0 else -1
    return whole


class MixedOrder:
    """The order of an endless run over several sources, mixed by weight: a pure function of the position.

    Every block of 4,096 positions holds each source by its share, in a shuffled order; within a source the
    examples are shuffled anew in every epoch of its own: none comes again before all others did.

    Args:
        sizes: number of examples of each source, at least 1.
        weights: shares of the sources, in any unit; exact to 1/4,096.
        seed: the data seed.

    Raises:
        InputError: a weight isn't positive and finite.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        assert len(sizes) == len(weights) >= 1
        self.seed = seed
        self.counts = shares(weights, BLOCK)
        self.starts = np.cumsum(self.counts) - self.counts
        self.orders = [Order(size, seed, stream) for stream, size in enumerate(sizes)]

    def __call__(self, positions: Indices) -> tuple[Indices, Indices]:
        """Maps positions (n,), from 0, to the sources (n,) and the indices (n,) of their examples."""
        if len(self.orders) == 1:
            return np.zeros_like(positions), self.orders[0](positions)
        blocks, slots = np.divmod(positions, BLOCK)
        for block in np.unique(blocks):
            here = blocks == block
            slots[here] = Permutation(BLOCK, f"{self.seed}/mixture/{block}")(slots[here])
        owners = np.searchsorted(self.starts, slots, side="right") - 1
        own = blocks * self.counts[owners] + slots - self.starts[owners]
        indices = np.empty_like(positions)
        for owner in np.unique(owners):
            here = owners == owner
            indices[here] = self.orders[owner](own[here])
        return owners, indices

    def epochs(self, positions: int) -> float:
        """The most often that so many positions go through any source."""
        rates = self.counts / BLOCK / np.array([order.size for order in self.orders])
        return float(positions * rates.max())
