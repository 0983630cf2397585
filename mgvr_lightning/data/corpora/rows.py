"""What the readers of files share: streams, bounded lines, and how damage in text is told and mended."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from mgvr_lightning.errors import InputError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
EXPANSION = 3
BOM = b"\xef\xbb\xbf"
LONGEST = 2**27
_BLOCK = 2**18
_SURROGATE = re.compile("[\ud800-\udfff]")


def compression(path: Path) -> str | None:
    """Return the name of a file's compression by its last suffix, in either case."""
    return COMPRESSIONS.get(path.suffix.lower())


def kind(path: Path) -> str:
    """Return the suffix that says how to read a file, in lower case and compression aside."""
    return (path.with_suffix("") if compression(path) else path).suffix.lower()


def size(path: Path) -> int:
    """Return a file's size.

    Raises:
        InputError: If it cannot be found out.
    """
    with reading(path):
        return path.stat().st_size


def text_bytes(path: Path) -> int:
    """Estimate the bytes in a file once it is unpacked.

    Raises:
        InputError: If it cannot be found out, or a compressed file is empty.
    """
    with reading(path):
        return path.stat().st_size * (EXPANSION if _packed(path) else 1)


def open_stream(path: Path) -> io.BufferedReader:
    """Open a plain, gzip or zstd file for reading bytes; use it within ``reading``."""
    packed = _packed(path)
    if packed is None:
        return io.BufferedReader(io.FileIO(path), _BLOCK)
    return io.BufferedReader(pa.input_stream(str(path), compression=packed), _BLOCK)


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn the faults of a file as a whole into an ``InputError`` that names it."""
    try:
        yield
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(
            f"cannot read {path}: {reason}.\nThe file is damaged, incomplete or not what its name says; "
            "fetch it again or leave it out."
        ) from error


def lines(stream: io.BufferedReader, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
    r"""Yield each line that begins at ``start`` or later and before ``end``, with its offset; ``\n`` ends it.

    What is before the first such line is passed over, unless ``start`` is 0. A line longer than ``LONGEST``
    is None and never in memory.
    """
    offset = start
    if start > 0:
        stream.seek(start - 1)
        offset += _pass_line(stream, end - start + 1) - 1
    while offset < end and (line := stream.readline(LONGEST + 1)):
        length = len(line)
        if length > LONGEST:
            if not line.endswith(b"\n"):
                length += _pass_line(stream, end - offset - length)
            yield offset, None
        else:
            yield offset, line
        offset += length


def decoded(content: bytes, offset: int) -> tuple[str, str]:
    """Return UTF-8 as text, with U+FFFD in place of what is none, and what is wrong with it.

    Args:
        content: The bytes.
        offset: Their place in the (unpacked) file.
    """
    try:
        return content.decode(), ""
    except UnicodeDecodeError as error:
        byte = content[error.start]
        fault = f"is not UTF-8: byte 0x{byte:02x} at offset {offset + error.start:,}"
        return content.decode(errors="replace"), fault


def encodable(text: str, what: str) -> tuple[str, str]:
    """Return a string with U+FFFD in place of what UTF-8 cannot hold, and what is wrong with it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fault = f"has half a surrogate pair in {what}, at character {error.start:,}"
        return _SURROGATE.sub("\ufffd", text), fault
    return text, ""


def too_long(what: str = "is") -> str:
    """Say that a document is longer than what is read."""
    return f"{what} longer than {LONGEST:,} bytes, the most that is read"


def _packed(path: Path) -> str | None:
    packed = compression(path)
    if packed and path.stat().st_size == 0:
        raise OSError("the compressed file is empty")
    return packed


def _pass_line(stream: io.BufferedReader, most: int) -> int:
    """Read to the end of a line, or at least ``most`` bytes; return how many were read."""
    passed = 0
    while passed < most and (part := stream.readline(_BLOCK)):
        passed += len(part)
        if part.endswith(b"\n"):
            break
    return passed
