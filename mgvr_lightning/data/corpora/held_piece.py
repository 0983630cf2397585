"""Documents in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mgvr_lightning.data.corpora.corpus import Piece, Row


@dataclass(frozen=True)
class HeldPiece(Piece):
    """Documents that are in memory.

    Attributes:
        texts: Their texts.
        places: Where people find each.
        bytes: Of the texts in UTF-8.
    """

    texts: tuple[str, ...]
    places: tuple[str, ...]
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield the documents."""
        for number, text in enumerate(self.texts):
            yield Row(number, text)

    def place(self, number: int) -> str:
        """Return where a document is from."""
        return self.places[number]


def held_pieces(documents: Iterable[tuple[str, str]], most: int) -> list[HeldPiece]:
    """Group documents into pieces of about ``most`` bytes.

    Args:
        documents: Text and place of each.
        most: How many bytes a piece has about.
    """
    pieces: list[HeldPiece] = []
    group: list[tuple[str, str]] = []
    total = 0
    for text, place in documents:
        group.append((text, place))
        total += len(text.encode())
        if total >= most:
            pieces.append(_held(group, total))
            group, total = [], 0
    return [*pieces, _held(group, total)] if group else pieces


def _held(group: list[tuple[str, str]], total: int) -> HeldPiece:
    texts, places = zip(*group, strict=True)
    return HeldPiece(texts, places, total)
