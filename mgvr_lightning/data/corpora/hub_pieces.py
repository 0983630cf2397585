"""Pieces of data sets that `datasets` can load."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mgvr_lightning.data.corpora.corpus import Piece, Row
from mgvr_lightning.data.corpora.hub_source import library, telling
from mgvr_lightning.data.corpora.jsonl import parse
from mgvr_lightning.data.corpora.parquet import (
    check_column,
    check_parquet,
    check_strings,
    file_rows,
    open_parquet,
    values,
)
from mgvr_lightning.data.corpora.rows import BOM, compression, decoded, lines, open_stream, too_long

_BATCH = 256
_BUFFER = 2**23


@dataclass(frozen=True)
class NamedPiece(Piece):
    """A piece of a local file, with the data set that it belongs to.

    Attributes:
        piece: The piece.
        where: What the data set is called.
        bytes: Estimate of the text.
    """

    piece: Piece
    where: str
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the piece.

        Raises:
            InputError: If it cannot be read.
        """
        return self.piece.rows()

    def place(self, number: int) -> str:
        """Return the data set, the file and the row in it."""
        return f"{self.where}, {self.piece.place(number)}"


class RowsPiece(Piece):
    """A piece that is called something and has rows.

    Attributes:
        name: What it is called.
    """

    name: str

    def place(self, number: int) -> str:
        """Return what it is called and the row in it."""
        return f"{self.name}, row {number:,}"


@dataclass(frozen=True)
class TablesPiece(RowsPiece):
    """A Parquet file that is elsewhere, read as it comes; its rows are numbered from 1.

    Attributes:
        url: A URL that `fsspec` knows.
        column: The column that holds the text.
        name: What the file is called.
        bytes: Estimate of the text.
    """

    url: str
    column: str
    name: str
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield every row.

        Raises:
            InputError: If the file cannot be read, or the column is missing or holds no strings.
        """
        with telling(self.name), remote(self.url) as source, open_parquet(source, _BUFFER) as file:
            check_parquet(file, self.column, self.name)
            groups = range(file.num_row_groups)
            yield from file_rows(file, self.column, groups, 0, file.metadata.num_rows)

    def check(self) -> None:
        """Check the column by the footer.

        Raises:
            InputError: If the file cannot be read, or the column is missing or holds no strings.
        """
        with telling(self.name), remote(self.url) as source, open_parquet(source) as file:
            check_parquet(file, self.column, self.name)


@dataclass(frozen=True)
class ShardPiece(RowsPiece):
    """A shard of a data set, read by `datasets` as it comes; its rows are numbered from 1.

    Attributes:
        load: What `datasets.load_dataset` gets, as JSON.
        shard: Which shard of the loaded data set.
        shards: How many it has.
        column: The column that holds the text.
        name: What the shard is called.
        bytes: Estimate of the text.
    """

    load: str
    shard: int
    shards: int
    column: str
    name: str
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the shard.

        Raises:
            InputError: If the shard cannot be read, or the column is missing or holds no strings.
        """
        number = 1
        with telling(self.name):
            shard = streamed(self.load).shard(num_shards=self.shards, index=self.shard)
            for table in shard.with_format("arrow").iter(_BATCH):
                yield from _table_rows(table, number, self.column, self.name)
                number += len(table)


@dataclass(frozen=True)
class TablePiece(RowsPiece):
    """Some rows of a file of Arrow data in the cache of `datasets`, numbered from 1 within their split.

    Attributes:
        path: The file.
        start: The first row in the file.
        stop: The row after the last.
        first: How many rows of the split are before.
        column: The column that holds the text.
        name: What the split is called.
        bytes: Estimate of the text.
    """

    path: str
    start: int
    stop: int
    first: int
    column: str
    name: str
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield the rows.

        Raises:
            InputError: If the file cannot be read, or the column is missing or holds no strings.
        """
        with telling(self.name):
            table = library().Dataset.from_file(self.path).with_format("arrow")
            for start in range(self.start, self.stop, _BATCH):
                part = table[start : min(start + _BATCH, self.stop)]
                yield from _table_rows(part, self.first + start - self.start + 1, self.column, self.name)


@dataclass(frozen=True)
class LinesPiece(Piece):
    """A file of JSON objects or of texts, one a line; lines are numbered from 1.

    Attributes:
        file: A path, or a URL that `fsspec` knows.
        column: The field that holds the text; None where the whole line does.
        name: What the file is called.
        bytes: Estimate of the text.
    """

    file: str
    column: str | None
    name: str
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield one row per line, of JSON only those that aren't blank.

        Raises:
            InputError: If the file cannot be read or unpacked.
        """
        with telling(self.name), _opened(self.file) as stream:
            for number, (offset, line) in enumerate(lines(stream, 0, sys.maxsize), 1):
                if line is None:
                    yield Row(number, None, too_long())
                    continue
                content = line.removeprefix(BOM) if offset == 0 else line
                start = offset + len(line) - len(content)
                if self.column is None:
                    yield Row(number, *decoded(content.removesuffix(b"\n").removesuffix(b"\r"), start))
                elif content.strip():
                    yield parse(number, content, start, self.column)

    def place(self, number: int) -> str:
        """Return the file and the line in it."""
        return f"{self.name}, line {number:,}"


def _table_rows(table: Any, number: int, column: str, where: str) -> Iterator[Row]:
    check_column(column, table.column_names, where)
    check_strings(column, table.schema.field(column).type, table.column_names, where)
    for chunk in table.column(column).chunks:
        yield from values(chunk, number, column)
        number += len(chunk)


def streamed(load: str) -> Any:
    """Open a data set for streaming.

    Args:
        load: What `datasets.load_dataset` gets, as JSON.
    """
    return library().load_dataset(**json.loads(load), streaming=True)


def remote(url: str) -> AbstractContextManager[Any]:
    """Open a file that is elsewhere; reading tries again where the network fails."""
    opened: AbstractContextManager[Any] = library().utils.file_utils.xopen(url, "rb")
    return opened


@contextmanager
def _opened(file: str) -> Iterator[io.BufferedReader]:
    if "://" not in file:
        with open_stream(Path(file)) as local:
            yield local
        return
    with remote(file) as raw:
        packed = compression(Path(file))
        source = pa.PythonFile(raw, "r")
        with io.BufferedReader(pa.CompressedInputStream(source, packed) if packed else source) as stream:
            yield stream
