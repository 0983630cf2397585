"""The order of training examples: a pure function of (seed, position), O(1) to seek."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
ROUNDS = 6


def scramble(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64-bit words, the finaliser of SplitMix64 (Steele et al. 2014)."""
    z = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Permutation:
    """A permutation of range(size) that needs no table: a Feistel network, walked until it stays inside.

    Args:
        size: number of elements, at least 1.
        key: permutations of different keys are unrelated.
    """

    def __init__(self, size: int, key: str) -> None:
        assert size >= 1
        self.size = size
        self.half = max(1, (max(1, size - 1).bit_length() + 1) // 2)
        digest = blake2b(key.encode(), digest_size=8 * ROUNDS).digest()
        self.keys = [int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(ROUNDS)]

    def __call__(self, positions: Indices) -> Indices:
        """Maps positions (n,), each within range(size), to distinct indices (n,)."""
        values = self._feistel(positions.astype(np.uint64))
        while (outside := values >= self.size).any():
            values[outside] = self._feistel(values[outside])
        return values.astype(np.int64)

    def _feistel(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        half, mask = np.uint64(self.half), np.uint64((1 << self.half) - 1)
        left, right = values >> half, values & mask
        for key in self.keys:
            left, right = right, left ^ (scramble(right + np.uint64(key)) & mask)
        return (left << half) | right


class Order:
    """Which example stands at each position of an endless training run; every epoch is shuffled anew.

    Args:
        size: number of examples, at least 1.
        seed: the data seed.
        stream: which of several orders under one seed; they are unrelated.
    """

    def __init__(self, size: int, seed: int, stream: int = 0) -> None:
        self.size = size
        self.key = f"{seed}" if stream == 0 else f"{seed}/source {stream}"

    def __call__(self, positions: Indices) -> Indices:
        """Maps positions (n,), from 0, to example indices (n,)."""
        epochs, offsets = np.divmod(positions, self.size)
        indices = np.empty_like(positions)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            indices[here] = Permutation(self.size, f"{self.key}/{epoch}")(offsets[here])
        return indices
