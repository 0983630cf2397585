"""Rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mgvr_lightning.data.corpora.corpus import Piece, Row
from mgvr_lightning.data.corpora.rows import LONGEST, reading, too_long
from mgvr_lightning.errors import InputError

_BATCH_BYTES = 2**20
_MOST_ROWS = 8
# Rows of a larger row group are read one by one: some may be very long, next to many short ones.
_LARGE_GROUP = 2**26


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """Consecutive row groups of a file; a row has the number that it has in the file, from 1.

    Attributes:
        path: The file.
        column: The column that holds the text.
        groups: The row groups.
        first: How many rows are before them in the file.
        count: How many rows they have.
        bytes: Estimate of the text: what all columns have.
    """

    path: Path
    column: str
    groups: range
    first: int
    count: int
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield every row, a few in memory at a time.

        Raises:
            InputError: If the file cannot be read.
        """
        with reading(self.path), open_parquet(str(self.path)) as file:
            yield from file_rows(file, self.column, self.groups, self.first, self.count)

    def place(self, number: int) -> str:
        """Return the file and the row in it."""
        return f"{self.path}, row {number:,}"


def parquet_groups(path: Path, column: str) -> list[tuple[int, int]]:
    """Return the rows of each row group and the bytes that they have unpacked, by the footer only.

    Raises:
        InputError: If the file is no Parquet file, or ``column`` is missing or holds no strings.
    """
    with reading(path), open_parquet(str(path)) as file:
        check_parquet(file, column, str(path))
        # Of all columns: asking for one column's facts ends the process where they are damaged.
        groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
        return [(group.num_rows, group.total_byte_size) for group in groups]


def parquet_pieces(path: Path, column: str, groups: list[tuple[int, int]], most: int) -> list[ParquetPiece]:
    """Cut a file at borders of its ``parquet_groups`` into pieces of about ``most`` bytes of text."""
    pieces: list[ParquetPiece] = []
    start = first = rows = total = 0
    for end, (count, size) in enumerate(groups, 1):
        rows, total = rows + count, total + size
        if rows and (total >= most or end == len(groups)):
            pieces.append(ParquetPiece(path, column, range(start, end), first, rows, total))
            start, first, rows, total = end, first + rows, 0, 0
    return pieces


def check_strings(column: str, kind: pa.DataType, there: list[str], where: str) -> None:
    """Check that a column holds strings.

    Raises:
        InputError: If it doesn't.
    """
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_string_view(held)):
        raise InputError(
            f"{where}: column {column!r} holds {kind}, not strings; its columns are "
            f"{', '.join(map(repr, there))}.\nChoose the one with the text by the option `column`."
        )


def check_column(column: str, there: list[str], where: str) -> None:
    """Check that there is one column of a name.

    Raises:
        InputError: If there is none, or several.
    """
    if there.count(column) != 1:
        has = "has no column" if column not in there else f"has {there.count(column)} columns"
        raise InputError(
            f"{where} {has} {column!r}; its columns are {', '.join(map(repr, there))}.\n"
            "Choose the one with the text by the option `column`."
        )


def values(array: Any, number: int, column: str) -> Iterator[Row]:
    """Yield the strings of an Arrow array as rows, made one by one.

    Args:
        array: The array, of any type of string.
        number: The first row's number.
        column: Its name, for faults.
    """
    for index in range(len(array)):
        yield _row(number + index, array[index], column)


def _row(number: int, value: Any, column: str) -> Row:
    try:
        text = value.as_py()
    except UnicodeDecodeError as error:
        fault = f"is not UTF-8 at byte {error.start:,} of {column!r}"
        text = error.object.decode(errors="replace")
        return Row(number, text, fault) if len(error.object) <= LONGEST else Row(number, None, too_long())
    if text is None:
        return Row(number, None, f"has null in {column!r}, not a string")
    if len(text) > LONGEST // 4 and len(text.encode()) > LONGEST:
        return Row(number, None, too_long())
    return Row(number, text)


def open_parquet(source: Any, buffer: int = 2**20) -> pq.ParquetFile:
    """Open a file by its path, or an open one, so that little of it is in memory at once.

    Args:
        source: The path, or a file object.
        buffer: How many bytes to read at once.
    """
    return pq.ParquetFile(source, buffer_size=buffer, pre_buffer=False, page_checksum_verification=True)


def check_parquet(file: pq.ParquetFile, column: str, where: str) -> None:
    """Check by the footer that a column holds strings.

    Raises:
        InputError: If it is missing or doesn't.
    """
    schema = file.schema_arrow
    check_column(column, schema.names, where)
    check_strings(column, schema.field(column).type, schema.names, where)


def file_rows(file: pq.ParquetFile, column: str, groups: range, first: int, count: int) -> Iterator[Row]:
    """Yield the rows of some row groups, a few in memory at a time, and the page of the file they are in.

    Args:
        file: The open file.
        column: The column that holds the text.
        groups: The row groups.
        first: How many rows are before them in the file.
        count: How many rows they have, as the footer told.

    Raises:
        OSError: If there are fewer or more.
    """
    sizes = [file.metadata.row_group(index).total_byte_size for index in groups]
    at_once = _MOST_ROWS if max(sizes, default=0) <= _LARGE_GROUP else 1
    most = max(1, min(at_once, _BATCH_BYTES * count // max(1, sum(sizes))))
    number = first
    for batch in file.iter_batches(most, row_groups=list(groups), columns=[column], use_threads=False):
        yield from values(batch.column(0), number + 1, column)
        number += len(batch)
    if number != first + count:
        raise OSError(f"it has {number - first:,} of the {count:,} rows that it tells of")
