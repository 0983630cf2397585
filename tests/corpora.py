"""Reading a corpus as those who prepare it do."""

import pickle
from typing import Any

import pytest

from mgvr_lightning.data import corpus as corpora
from mgvr_lightning.data.corpus import Corpus, Tally


def read(corpus: Corpus) -> tuple[list[tuple[str, Any]], Tally]:
    """Place and text, or ids, of every usable row, read from pieces that have been to another process."""
    tally = Tally()
    rows: list[tuple[str, Any]] = []
    for piece in pickle.loads(pickle.dumps(list(corpus.pieces()))):
        rows += [
            (piece.place(row.number), row.text if row.ids is None else row.ids.tolist())
            for row in tally.usable(piece, corpus.bad_rows)
        ]
    tally.summary()
    return rows, tally


def texts(corpus: Corpus) -> list[str]:
    """The texts of every usable row."""
    return [text for _, text in read(corpus)[0]]


def cut_finely(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Have pieces of about so many bytes."""
    monkeypatch.setattr(corpora, "LEAST_PIECE", size)
    monkeypatch.setattr(corpora, "MOST_PIECES", 10**9)
