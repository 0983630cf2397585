"""One row of a file of documents, and the streams that rows are read from."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from mgvr_lightning.errors import InputError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Row:
    """The text at one place of a file, or why there is none.

    Attributes:
        number: Line of a JSONL file, row of a Parquet file, from 1.
        text: The text; None where the row is bad.
        fault: What is wrong with a bad row, as the end of a sentence that begins with the place.
    """

    number: int
    text: str | None
    fault: str = ""


def open_stream(path: Path) -> io.BufferedReader:
    """Open a plain, gzip or zstd file for reading bytes; use it within ``reading``."""
    # Arrow's streams, where Parquet goes through `datasets`: its JSON and text readers report faults without
    # the file's name or its line, rewrite line ends and need another package for zstd.
    compression = COMPRESSIONS.get(path.suffix)
    if compression and path.stat().st_size == 0:
        raise OSError("the compressed file is empty")
    return io.BufferedReader(pa.input_stream(str(path), compression=compression))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the faults of a file as a whole into an ``InputError`` that names it."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"cannot read {path}: {reason}.\nThe file is damaged, incomplete or not what its name says; "
            "fetch it again or leave it out."
        ) from error


def not_utf8(error: UnicodeDecodeError, offset: int) -> str:
    """Say which byte is not UTF-8; ``offset`` is the place in the (unpacked) file of what was decoded."""
    byte = error.object[error.start]
    return f"is not UTF-8: byte 0x{byte:02x} at offset {offset + error.start:,}"


def encodable_fault(text: str, what: str) -> str:
    """Return what is wrong with a string that UTF-8 cannot hold, or an empty string."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"has half a surrogate pair in {what}, at character {error.start:,}"
    return ""
