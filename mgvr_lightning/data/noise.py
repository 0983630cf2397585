"""Random numbers by name: a pure function of (seed, stream, position, column), O(1) to seek.

They need no generator with a state, so what is drawn at a position depends on no batch, rank or worker; they
are made of integer operations alone, so on no version of numpy either.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from mgvr_lightning.data.order import Indices, scramble

Bits = NDArray[np.uint64]
STRIDE = 0x9E3779B97F4A7C15
FEW = 16


class Noise:
    """A table of random words: one row for each position of a run, as many columns as are asked for.

    Args:
        seed: the data seed.
        stream: name of the table; tables of different names or seeds are unrelated.
    """

    def __init__(self, seed: int, stream: str) -> None:
        self.seed, self.name = seed, stream
        key = blake2b(f"{seed}/{stream}".encode(), digest_size=16).digest()
        self.row_key, self.column_key = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))

    def stream(self, name: str) -> "Noise":
        """A table of its own for one of several purposes."""
        return Noise(self.seed, f"{self.name}/{name}")

    def words(self, positions: Indices, columns: int) -> Bits:
        """64 random bits each, (n, columns), at positions (n,).

        Within a column no word repeats: it is a bijection of the position.
        """
        rows = scramble(positions.astype(np.uint64) * np.uint64(STRIDE) + np.uint64(self.row_key))
        steps = np.arange(columns, dtype=np.uint64) * np.uint64(STRIDE)
        return scramble(rows[:, None] ^ scramble(steps + np.uint64(self.column_key)))

    def below(self, limits: int | Indices, positions: Indices, columns: int) -> Indices:
        """Integers of range(limit), (n, columns); uniform but for a bias of at most limit / 2³².

        Args:
            limits: at most 2³²; one, or one per column, (columns,).
            positions: (n,).
            columns: how many per position.
        """
        high = self.words(positions, columns) >> np.uint64(32)
        scaled: Bits = high * np.asarray(limits, dtype=np.uint64) >> np.uint64(32)
        return scaled.astype(np.int64)

    def unit(self, positions: Indices, columns: int) -> NDArray[np.float64]:
        """Numbers inside (0, 1), (n, columns), evenly spaced 2⁻⁵² apart."""
        return ((self.words(positions, columns) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def choose(self, count: int, size: int, positions: Indices) -> Indices:
        """Distinct elements of range(size) in random order, (n, count); every choice is equally likely.

        Args:
            count: how many, at most `size`.
            size: number of elements to choose from.
            positions: (n,).
        """
        assert 0 <= count <= size
        if size <= FEW * count:
            return np.argsort(self.words(positions, size), axis=1)[:, :count]
        chosen = self._few(count, size, positions)
        order = np.argsort(self.stream("order").words(positions, count), axis=1)
        return np.take_along_axis(chosen, order, axis=1)

    def _few(self, count: int, size: int, positions: Indices) -> Indices:
        """Distinct elements of range(size), (n, count), as sets: Floyd's sampling (CACM 30(9), 1987)."""
        chosen = self.below(size - count + 1 + np.arange(count), positions, count)
        for column in range(1, count):
            drawn = chosen[:, column]
            taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
            drawn[taken] = size - count + column
        return chosen
