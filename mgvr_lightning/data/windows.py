"""Windows of prepared tokens as examples."""

from collections.abc import Sequence

import numpy as np

from mgvr_lightning.data.batch import Examples, Ids
from mgvr_lightning.data.mixture import MixedOrder
from mgvr_lightning.data.order import Indices
from mgvr_lightning.data.preparation.tokens import Tokens

FILLER = -1
"""What stands where a window has no token."""


class Windows:
    """Consecutive windows of a token sequence. Each one's last target is the next one's first id.

    Args:
        tokens: the token sequence.
        context: T, tokens of a window.
    """

    def __init__(self, tokens: Tokens, context: int) -> None:
        self.tokens, self.context = tokens, context
        self.count = max(0, (len(tokens) - 1) // context)

    def rows(self, indices: Indices) -> Ids:
        """(n, T + 1) ids of the windows `indices`."""
        length = self.context + 1
        rows = [self.tokens.read(int(index) * self.context, length) for index in indices]
        return np.stack(rows) if rows else np.empty((0, length), dtype=np.int64)

    def spread(self, count: int | None) -> Ids:
        """(n, T + 1) at most `count` windows, evenly spread, in their own order; None for all."""
        count = self.count if count is None else min(count, self.count)
        return self.rows(np.arange(count) * self.count // max(1, count))

    def rest(self) -> Ids:
        """(n, T + 1) what is behind the last window, n = 1 filled up with FILLER, or n = 0 if nothing is."""
        start = self.count * self.context
        left = len(self.tokens) - start
        row = np.full((int(left > 1), self.context + 1), FILLER, dtype=np.int64)
        row[:, :left] = self.tokens.read(start, left)
        return row


class TextExamples(Examples):
    """Shuffled windows of one source or of several, mixed by weight.

    Args:
        sources: the windows of each source, at least one in each.
        weights: the sources' shares.
        seed: of the order.
    """

    def __init__(self, sources: Sequence[Windows], weights: Sequence[float], seed: int) -> None:
        self.sources = list(sources)
        self.order = MixedOrder([source.count for source in sources], weights, seed)

    def rows(self, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the windows at `positions`."""
        owners, indices = self.order(positions)
        rows = np.empty((len(positions), self.sources[0].context + 1), dtype=np.int64)
        for owner in np.unique(owners):
            here = owners == owner
            rows[here] = self.sources[owner].rows(indices[here])
        return inputs_and_targets(rows)

    def scored(self, positions: Indices) -> int:
        """Every target is scored."""
        return len(positions) * self.sources[0].context


def inputs_and_targets(rows: Ids) -> tuple[Ids, Ids]:
    """Splits windows (n, T + 1) into ids and targets, (n, T) each."""
    return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])
