"""A corpus in memory, and short ways to prepare one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mgvr_lightning.data.corpora.corpus import Corpus, Piece, Row
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.preparation.prepare import Part, Preparation, fingerprint
from mgvr_lightning.data.preparation.prepared import Prepared
from mgvr_lightning.data.preparation.splits import HeldOut, Splits
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.preparation.vocabulary import Lesson, learn

TEXTS = [f"Document {number} says {'very ' * (number % 5)}little.\r\n" for number in range(90)]
TEXTS += [*TEXTS[:30], "", "<|endoftext|>", "  \x00\u2028 e\u0301 \n"]


class HeldPiece(Piece):
    """Rows in memory."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.bytes = sum(len(text.encode()) for text in texts)

    def rows(self) -> Iterator[Row]:
        """Yields them."""
        return (Row(number, text) for number, text in enumerate(self.texts))

    def place(self, number: int) -> str:
        """Names one."""
        return f"text {number}"


class Held(Corpus):
    """Texts in memory, in pieces of so many; it counts how often they were asked for."""

    def __init__(self, texts: list[str], version: str = "a", piece: int = 10**9) -> None:
        self.held, self.version, self.piece, self.passes = texts, version, piece, 0

    def pieces(self) -> list[Piece]:
        """The pieces."""
        self.passes += 1
        return [HeldPiece(self.held[i : i + self.piece]) for i in range(0, len(self.held), self.piece)]

    def fingerprint(self, digests: Digests) -> str:
        """The version."""
        return self.version


def tokenizer_of(corpus: Corpus, cache: Path, splits: Splits, size: int = 270) -> Tokenizer:
    """A tokenizer learned from a corpus."""
    return learn([Lesson(corpus, fingerprint(corpus, cache, False), splits)], size, 2**20, cache, False)


def prepare(
    corpus: Corpus,
    cache: Path,
    *,
    vocabulary: int = 270,
    tokenizer: Path | None = None,
    held_out: float = 0.15,
    progress: bool = False,
    part: Part | None = None,
    **options: Any,
) -> Prepared:
    """Prepares a corpus, all of it unless a part is named."""
    splits = HeldOut(held_out)
    known = Tokenizer.load(tokenizer) if tokenizer else tokenizer_of(corpus, cache, splits, vocabulary)
    mark = fingerprint(corpus, cache, progress)
    prepared = Preparation(corpus, mark, known, splits, cache, progress).run(part, **options)
    assert prepared is not None
    return prepared
