"""What every source of text offers: pieces that can be read apart, and a digest of what they depend on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.errors import InputError

BadRows = Literal["raise", "skip", "replace"]
MOST_SKIPPED = 0.5
SHOWN_FAULTS = 3
LEAST_PIECE = 2**24
MOST_PIECES = 4096


@dataclass(frozen=True)
class Row:
    """One document, or why there is none.

    Attributes:
        number: Which row of its piece it is, as ``Piece.place`` takes it.
        text: The text, exactly as stored; None where nothing can be made of the row, and where it has ids.
        fault: What is wrong with a bad row, as the end of a sentence that begins with the place; empty for a
            good one. With a text beside it, the text is what is left with U+FFFD in place of the damage.
        ids: The document's token ids, from a corpus that holds ids in place of text.
    """

    number: int
    text: str | None
    fault: str = ""
    ids: npt.NDArray[np.int64] | None = None


class Piece(ABC):
    """A part of a corpus that is read by itself, in any process: the unit of parallel work and of resuming.

    Attributes:
        bytes: Estimate of the UTF-8 bytes of text in it, for progress; 0 where nothing is known.
    """

    bytes: int = 0

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield all rows, bad ones too; every call starts from the first and gives the same ones.

        Raises:
            InputError: If the piece as a whole cannot be read.
        """

    @abstractmethod
    def place(self, number: int) -> str:
        """Return where people find the row: ``file, line 12``."""


@dataclass
class Tally:
    """What became of the rows.

    Attributes:
        rows: How many there were.
        skipped: How many were left out.
        replaced: In how many U+FFFD stands for what was damaged.
        faults: The first few bad ones.
    """

    rows: int = 0
    skipped: int = 0
    replaced: int = 0
    faults: list[str] = field(default_factory=list)

    def usable(self, piece: Piece, bad_rows: BadRows) -> Iterator[Row]:
        """Yield the rows of a piece that have a text or ids, and count the others.

        Raises:
            InputError: If the piece cannot be read or, unless they are skipped, a row is bad.
        """
        for row in piece.rows():
            self.rows += 1
            if not row.fault or self.keeps(piece, row, row.fault, bad_rows):
                yield row

    def keeps(self, piece: Piece, row: Row, fault: str, bad_rows: BadRows) -> bool:
        """Count a bad row and return whether what is left of it is used.

        Raises:
            InputError: If bad rows are refused.
        """
        if bad_rows == "raise":
            raise InputError(
                f"{piece.place(row.number)} {fault}.\nRepair the row, or leave such rows out with "
                "`bad_rows: skip` (`replace` keeps a text that is not UTF-8, with U+FFFD for the damage)."
            )
        if len(self.faults) < SHOWN_FAULTS:  # to find the place can take time
            self.faults.append(f"{piece.place(row.number)} {fault}.")
        kept = bad_rows == "replace" and row.text is not None
        self.replaced += kept
        self.skipped += not kept
        return kept

    def add(self, other: Tally) -> None:
        """Add the rows of the next piece."""
        self.rows += other.rows
        self.skipped += other.skipped
        self.replaced += other.replaced
        self.faults = [*self.faults, *other.faults][:SHOWN_FAULTS]

    def summary(self) -> str:
        """Say how many rows were bad, with the first few; empty if none was.

        Raises:
            InputError: If more than half of the rows were skipped.
        """
        parts = [
            f"{count:,} of {self.rows:,} rows were {what}"
            for count, what in ((self.skipped, "skipped"), (self.replaced, "repaired with U+FFFD"))
            if count
        ]
        message = ", ".join(parts) + ", such as\n" + "\n".join(self.faults) if parts else ""
        if self.skipped > MOST_SKIPPED * self.rows:
            raise InputError(f"{message}\nMore than half: is the option `column` or the format wrong?")
        return message


class Corpus(ABC):
    """Documents of text in a fixed order: those of its pieces, one piece after the other.

    Attributes:
        bad_rows: What to do with rows without usable text: ``raise`` stops at the first, ``skip`` leaves them
            out, ``replace`` keeps damaged text with U+FFFD for the damage and leaves out others; both count.
        tokenized: Whether its rows hold token ids in place of text.
        progress: Whether reading may draw a progress bar on stderr.
    """

    bad_rows: BadRows = "raise"
    tokenized: bool = False
    progress: bool = False

    @abstractmethod
    def pieces(self) -> Sequence[Piece]:
        """Return the pieces, in order; they depend on nothing but the sources and the options.

        Raises:
            InputError: If the sources are not there or can be seen at once to be damaged.
        """

    @abstractmethod
    def fingerprint(self, digests: Digests) -> str:
        """Return a hex digest that changes exactly when the documents or a setting that matters change.

        Args:
            digests: Digests of files, kept from one call to the next.

        Raises:
            InputError: If the sources are not there.
        """

    def describe(self) -> dict[str, Any]:
        """Return plain facts about the source for a run's records."""
        return {}

    def texts(self) -> Iterator[str]:
        """Yield the text of every usable row.

        Raises:
            InputError: If a piece cannot be read or, unless they are skipped, a row is bad.
        """
        for piece in self.pieces():
            for row in Tally().usable(piece, self.bad_rows):
                assert row.text is not None, "this corpus holds ids"
                yield row.text


def piece_size(total: int) -> int:
    """Return how many bytes a piece should have about, in a corpus of ``total`` bytes."""
    return max(LEAST_PIECE, -(-total // MOST_PIECES))
