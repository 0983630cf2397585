"""Rows of JSON Lines files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mgvr_lightning.data.corpora.corpus import Piece, Row
from mgvr_lightning.data.corpora.rows import (
    BOM,
    compression,
    decoded,
    encodable,
    lines,
    open_stream,
    reading,
    size,
    text_bytes,
    too_long,
)

_BLOCK = 2**20
# How many line ends a file of some size and time has before an offset: pieces mostly come in order.
_counted: dict[Path, tuple[tuple[int, int], int, int]] = {}
_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
}


@dataclass(frozen=True)
class JsonLinesPiece(Piece):
    r"""The lines that begin in a range of a file of one JSON object per line; only ``\n`` ends a line.

    A line has the number that it has among the lines of its range. Blank lines are no rows; a byte-order mark
    at the start of the file is dropped.

    Attributes:
        path: The file, in UTF-8, plain or compressed.
        column: The field that holds the text.
        start: First byte of the range; 0 in a compressed file.
        end: End of the range; beyond the file in a compressed one.
        bytes: Estimate of the text.
    """

    path: Path
    column: str
    start: int
    end: int
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield one row per line that isn't blank.

        Raises:
            InputError: If the file as a whole cannot be read or unpacked.
        """
        with reading(self.path), open_stream(self.path) as stream:
            for number, (offset, line) in enumerate(lines(stream, self.start, self.end), 1):
                if line is None:
                    yield Row(number, None, too_long())
                elif line.strip():
                    content = line.removeprefix(BOM) if offset == 0 else line
                    yield parse(number, content, offset + len(line) - len(content), self.column)

    def place(self, number: int) -> str:
        """Return the file and the line in it."""
        return f"{self.path}, line {self._lines_before() + number:,}"

    def _lines_before(self) -> int:
        if self.start == 0:
            return 0
        with reading(self.path), self.path.open("rb") as stream:
            count = _line_ends(self.path, stream, self.start)
            stream.seek(self.start - 1)
            return count + (stream.read(1) != b"\n")


def jsonl_pieces(path: Path, column: str, most: int) -> list[JsonLinesPiece]:
    """Cut a file into pieces of about ``most`` bytes; a compressed one is not cut.

    Raises:
        InputError: If the file cannot be found.
    """
    if compression(path):
        return [JsonLinesPiece(path, column, 0, sys.maxsize, text_bytes(path))]
    total = size(path)
    starts = range(0, total, most)
    return [
        JsonLinesPiece(path, column, start, min(start + most, total), min(most, total - start))
        for start in starts
    ]


def parse(number: int, line: bytes, offset: int, column: str) -> Row:
    """Return the row that a line holds.

    Args:
        number: The number that the row gets.
        line: The line's bytes, without a byte-order mark.
        offset: Their place in the file.
        column: The field that holds the text.
    """
    json_text, damage = decoded(line, offset)
    try:
        record = json.loads(json_text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        return Row(number, None, damage or f"is not JSON: {what} at column {error.colno:,}")
    except (ValueError, RecursionError) as error:
        return Row(number, None, damage or f"is not usable JSON: {error}")
    fault = _fault(record, column)
    if fault:
        return Row(number, None, damage or fault)
    text, half = encodable(record[column], repr(column))
    return Row(number, text, damage or half)


def _line_ends(path: Path, stream: BinaryIO, end: int) -> int:
    """Count the line ends before ``end``, on from where it was counted to before."""
    facts = path.stat()
    stamp = (facts.st_size, facts.st_mtime_ns)
    counted, start, count = _counted.get(path, (stamp, 0, 0))
    if counted != stamp or start > end:
        start, count = 0, 0
    stream.seek(start)
    left = end - start
    while left and (block := stream.read(min(left, _BLOCK))):
        count += block.count(b"\n")
        left -= len(block)
    _counted[path] = (stamp, end, count)
    return count


def _fault(record: object, column: str) -> str:
    if not isinstance(record, dict):
        return f"is {_name(record)}, not an object such as {{{json.dumps(column)}: ...}}"
    if column not in record:
        there = ", ".join(map(repr, record)) or "none"
        return f"has no field {column!r} (there are: {there}); see the option `column`"
    if not isinstance(record[column], str):
        return f"has {_name(record[column])} in {column!r}, not a string"
    return ""


def _name(value: object) -> str:
    return _NAMES.get(type(value), "null")
