"""Pieces of data sets that `datasets` can load."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mgvr_lightning.data.corpus import Piece, Row
from mgvr_lightning.data.hub_source import library, telling
from mgvr_lightning.data.jsonl import parse
from mgvr_lightning.data.parquet import values
from mgvr_lightning.data.rows import BOM, compression, decoded, lines, open_stream, too_long

BATCH = 256
_BUFFER = 2**23


@dataclass(frozen=True)
class ShardPiece(Piece):
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
            InputError: If the shard cannot be read.
        """
        number = 1
        with telling(self.name):
            shard = streamed(self.load).shard(num_shards=self.shards, index=self.shard)
            for table in shard.select_columns([self.column]).with_format("arrow").iter(BATCH):
                for chunk in table.column(self.column).chunks:
                    yield from values(chunk, number, self.column)
                    number += len(chunk)

    def place(self, number: int) -> str:
        """Return the shard and the row in it."""
        return f"{self.name}, row {number:,}"


@dataclass(frozen=True)
class TablePiece(Piece):
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
            InputError: If the file cannot be read.
        """
        with telling(self.name):
            table = library().Dataset.from_file(self.path).with_format("arrow")
            number = self.first + 1
            for start in range(self.start, self.stop, BATCH):
                for chunk in table[start : min(start + BATCH, self.stop)].column(self.column).chunks:
                    yield from values(chunk, number, self.column)
                    number += len(chunk)

    def place(self, number: int) -> str:
        """Return the split and the row in it."""
        return f"{self.name}, row {number:,}"


@dataclass(frozen=True)
class LinesPiece(Piece):
    """A file of JSON objects or of texts, one a line; lines are numbered from 1.

    Not read by `datasets`: that takes the columns and types of the first rows for those of all, changes
    numbers to strings, fails with a whole file at a bad row, and decodes by the locale what it streams.

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


def streamed(load: str) -> Any:
    """Open a data set for streaming.

    Args:
        load: What `datasets.load_dataset` gets, as JSON.
    """
    return library().load_dataset(**buffered(json.loads(load)), streaming=True)


def buffered(load: dict[str, Any]) -> dict[str, Any]:
    """Have Parquet read through a buffer, where otherwise whole row groups would be in memory."""
    if load["path"] != "parquet":
        return load
    import pyarrow.dataset  # noqa: PLC0415

    options = pyarrow.dataset.ParquetFragmentScanOptions(
        use_buffered_stream=True, buffer_size=_BUFFER, pre_buffer=False
    )
    return {**load, "fragment_scan_options": options}


@contextmanager
def _opened(file: str) -> Iterator[io.BufferedReader]:
    if "://" not in file:
        with open_stream(Path(file)) as local:
            yield local
        return
    with library().utils.file_utils.xopen(file, "rb") as remote:  # which tries again where a network fails
        packed = compression(Path(file))
        source = pa.PythonFile(remote, "r")
        with io.BufferedReader(pa.CompressedInputStream(source, packed) if packed else source) as stream:
            yield stream
