"""Files of plain text, each one document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mgvr_lightning.data.corpora.corpus import Piece, Row
from mgvr_lightning.data.corpora.rows import BOM, LONGEST, decoded, open_stream, reading, text_bytes, too_long


@dataclass(frozen=True)
class TextPiece(Piece):
    """Some files of text, in UTF-8, plain or compressed; a byte-order mark at a file's start is dropped.

    Attributes:
        paths: The files.
        bytes: Estimate of the text.
    """

    paths: tuple[Path, ...]
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield one row per file.

        Raises:
            InputError: If a file cannot be read or unpacked.
        """
        for number, path in enumerate(self.paths):
            yield _row(number, path)

    def place(self, number: int) -> str:
        """Return the file."""
        return str(self.paths[number])


def text_pieces(paths: Sequence[Path], most: int) -> list[TextPiece]:
    """Group files into pieces of about ``most`` bytes.

    Raises:
        InputError: If a file cannot be found.
    """
    pieces: list[TextPiece] = []
    group: list[Path] = []
    total = 0
    for path in paths:
        group.append(path)
        total += text_bytes(path)
        if total >= most:
            pieces.append(TextPiece(tuple(group), total))
            group, total = [], 0
    return [*pieces, TextPiece(tuple(group), total)] if group else pieces


def _row(number: int, path: Path) -> Row:
    with reading(path), open_stream(path) as stream:
        content = stream.read(LONGEST + 1)
    if len(content) > LONGEST:
        return Row(number, None, too_long())
    text, fault = decoded(content.removeprefix(BOM), len(BOM) if content.startswith(BOM) else 0)
    return Row(number, text, fault)
