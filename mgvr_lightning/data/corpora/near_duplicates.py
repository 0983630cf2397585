"""Texts that say nearly the same as an earlier one, by MinHash."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SHINGLE = 4
BANDS, ROWS = 16, 4
_WORD = re.compile(r"\w+")
_MIX = np.uint64(0x9E3779B97F4A7C15)


def near_duplicates(texts: Sequence[str], similarity: float = 0.7) -> npt.NDArray[np.bool_]:
    """Mark the texts whose runs of four words mostly occur in one earlier text.

    Case, punctuation and white space don't count. The share of common runs (Jaccard) is estimated from 64
    minimal hashes; candidates come from 16 bands of 4, which find a pair that shares 70% with probability
    0.99.

    Args:
        texts: The texts, most wanted first.
        similarity: Estimated Jaccard similarity from which a text counts as a near duplicate.

    Returns:
        A mask of shape ``(len(texts),)``, True for near duplicates; equal inputs give equal masks.
    """
    if not texts:
        return np.zeros(0, dtype=np.bool_)
    signatures = _signatures(texts)
    numbers = np.arange(len(texts))
    duplicate = np.zeros(len(texts), dtype=np.bool_)
    for band in range(BANDS):
        rows = signatures[:, band * ROWS : (band + 1) * ROWS]
        _, first, group = np.unique(_combine(rows.T), return_index=True, return_inverse=True)
        earliest = first[group]
        candidates = numbers[earliest != numbers]
        agreement = (signatures[candidates] == signatures[earliest[candidates]]).mean(axis=1)
        duplicate[candidates[agreement >= similarity]] = True
    return duplicate


def _signatures(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return ``(len(texts), BANDS * ROWS)`` minimal hashes of each text's runs of words."""
    vocabulary: dict[str, int] = {}
    ids: list[int] = []
    starts: list[npt.NDArray[np.int64]] = []
    for text in texts:
        words = _WORD.findall(text.lower())
        # The filler behind each text keeps runs from reaching into the next and gives short texts a run, too.
        starts.append(np.arange(len(ids), len(ids) + len(words) + 1))
        ids += [vocabulary.setdefault(word, len(vocabulary) + 1) for word in words]
        ids += [0] * SHINGLE
    array = np.array(ids, dtype=np.uint64)
    positions = np.concatenate(starts)
    runs = _combine([array[positions + offset] for offset in range(SHINGLE)])
    borders = np.cumsum([0, *map(len, starts[:-1])])
    generator = np.random.Generator(np.random.PCG64(0))
    seeds = generator.integers(0, 2**64, size=BANDS * ROWS, dtype=np.uint64)
    return np.stack(
        [np.minimum.reduceat((runs ^ seed) * (seed | np.uint64(1)), borders) for seed in seeds], axis=1
    )


def _combine(columns: Sequence[npt.NDArray[np.uint64]] | npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash equally long columns of integers into one."""
    combined = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        combined = (combined ^ column) * _MIX
        combined ^= combined >> np.uint64(29)
    return combined
