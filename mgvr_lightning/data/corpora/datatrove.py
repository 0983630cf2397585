"""Token files of Hugging Face `datatrove`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mgvr_lightning.data.corpora.corpus import BadRows, Corpus, Piece, Row, piece_size
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.globs import find
from mgvr_lightning.data.corpora.rows import reading, size
from mgvr_lightning.errors import InputError

LONGEST_IDS = 2**22
_BYTES_PER_ID = 4
_WIDTHS = {2: "<u2", 4: "<u4"}
_END = np.dtype("<u8")
_CHECKED = 2**20
_FORMAT = 1


@dataclass(frozen=True)
class DatatrovePiece(Piece):
    """Consecutive documents of a file, numbered from 1 within it.

    Attributes:
        path: The file of ids.
        width: Bytes of an id.
        start: The first document.
        stop: The document after the last.
        bytes: Estimate of the text.
    """

    path: Path
    width: int
    start: int
    stop: int
    bytes: int

    def rows(self) -> Iterator[Row]:
        """Yield the ids of each document, as they are in the file.

        Raises:
            InputError: If the file cannot be read.
        """
        with reading(self.path):
            ids, ends = _mapped(self.path, _WIDTHS[self.width]), _mapped(_index(self.path), _END)
            begin = int(ends[self.start - 1]) if self.start else 0
            for number in range(self.start, self.stop):
                end = int(ends[number])
                if end > len(ids):
                    raise OSError(f"it has {len(ids):,} ids, but its index tells of {end:,}")
                if end - begin > LONGEST_IDS:
                    yield Row(number + 1, None, f"is longer than {LONGEST_IDS:,} ids, the most that is read")
                else:
                    yield Row(number + 1, None, ids=np.array(ids[begin:end], dtype=np.int64))
                begin = end

    def place(self, number: int) -> str:
        """Return the file and the document in it."""
        return f"{self.path}, document {number:,}"


class Datatrove(Corpus):
    """Token ids that `datatrove` has written: by its ``DocumentTokenizer``, or merged.

    A file ``x.ds`` of ids comes with ``x.ds.index``, where its documents end, and mostly ``x.ds.metadata``,
    which tells how many bytes an id has. Use it with the ``tokenizer.json`` that made the ids.

    Args:
        paths: Files or globs of ``.ds`` files (``**`` crosses folders), read in this order, each glob's files
            by name. A file that is found twice is read once.
        bad_rows: What to do with a document of more than 4 Mi ids: ``raise`` stops, ``skip`` and ``replace``
            leave it out and count it.
    """

    tokenized = True

    def __init__(self, paths: list[str], bad_rows: BadRows = "raise") -> None:
        self.paths = list(paths)
        self.bad_rows = bad_rows

    def pieces(self) -> Sequence[Piece]:
        """Return ranges of documents.

        Raises:
            InputError: If a file or its index is missing, damaged or doesn't fit the other; if there are no
                ids in any.
        """
        files = self._files()
        widths = {path: _width(path) for path in files}
        total = sum(size(path) * _BYTES_PER_ID // widths[path] for path in files)
        if total == 0:
            raise InputError(
                f"there are no ids in {', '.join(map(str, files[:3]))} ({len(files)} files).\n"
                "Give files that are not empty."
            )
        most = piece_size(total)
        return [piece for path in files for piece in _pieces(path, widths[path], most)]

    def fingerprint(self, digests: Digests) -> str:
        """Return a digest of the files' bytes and order, and the options; not of their names.

        Args:
            digests: Digests of files, kept from one call to the next.

        Raises:
            InputError: If a file or its index is missing, damaged or doesn't fit the other.
        """
        files = self._files()
        widths = [_width(path) for path in files]
        content = [digests.of(files), digests.of([_index(path) for path in files])]
        facts = json.dumps([_FORMAT, self.bad_rows, widths, content])
        return hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, str | int]:
        """Return the paths, the options, and the number and bytes of files.

        Raises:
            InputError: If a file is missing.
        """
        files = self._files()
        return {
            "paths": ", ".join(self.paths),
            "bad_rows": self.bad_rows,
            "files": len(files),
            "file_bytes": sum(map(size, files)),
        }

    def _files(self) -> list[Path]:
        files = find(self.paths, "*.ds")
        for path in files:
            if path.suffix != ".ds":
                raise InputError(f"{path} is no file of ids. Give the .ds files alone, such as by **/*.ds.")
        return files


def _index(path: Path) -> Path:
    return path.with_name(f"{path.name}.index")


def _mapped(path: Path, kind: Any) -> Any:
    """Map a file of numbers; an empty one cannot be mapped."""
    return np.memmap(path, kind, mode="r") if path.stat().st_size else np.empty(0, kind)


def _width(path: Path) -> int:
    """Return how many bytes an id has, by the metadata or else by the last end in the index.

    Raises:
        InputError: If that isn't known, or the index doesn't fit the file.
    """
    index, length = _index(path), size(path)
    if not index.exists():
        raise InputError(
            f"{path} has no index {index.name} beside it, which tells where documents end.\n"
            "Write the files with `save_index=True`, and keep both together."
        )
    if size(index) % _END.itemsize:
        raise InputError(
            f"{index} has {size(index):,} bytes, which is no multiple of {_END.itemsize}: it is incomplete.\n"
            "Fetch it again."
        )
    with reading(index):
        ends = _mapped(index, _END)
    count = int(ends[-1]) if len(ends) else 0
    width = _told_width(path)
    if width is None:
        if count == 0:
            width = 2  # of nothing
        elif length in (2 * count, 4 * count):
            width = length // count
    if width is None or length != width * count:
        known = f"{width * count:,} bytes" if width else f"{2 * count:,} or {4 * count:,} bytes"
        raise InputError(
            f"{path} has {length:,} bytes, but by its index it has {count:,} ids, which take {known}.\n"
            "The file or its index is incomplete, or they don't belong together; fetch them again."
        )
    return width


def _told_width(path: Path) -> int | None:
    """Return how many bytes an id has by the metadata; None if there are none.

    Raises:
        InputError: If the metadata tell none, or another number than 2 and 4.
    """
    metadata = path.with_name(f"{path.name}.metadata")
    if not metadata.exists():
        return None
    with reading(metadata):
        first = metadata.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    _, bar, told = first.rpartition("|")
    if not bar:  # of a version that knew but one width
        return None
    if told not in ("2", "4"):
        raise InputError(
            f"{metadata} tells that an id has {told!r} bytes; it can have 2 or 4.\n"
            "Fetch it again, or remove it if the ids are sound: the width follows from the index, too."
        )
    return int(told)


def _pieces(path: Path, width: int, most: int) -> Iterator[DatatrovePiece]:
    index = _index(path)
    with reading(index):
        ends = _mapped(index, _END)
    _check_order(index, ends)
    start, before = 0, 0
    while start < len(ends):
        # The document that crosses the border belongs to the piece.
        stop = min(
            len(ends), int(np.searchsorted(ends, np.uint64(before + max(1, most // _BYTES_PER_ID)))) + 1
        )
        after = int(ends[stop - 1])
        yield DatatrovePiece(path, width, start, stop, (after - before) * _BYTES_PER_ID)
        start, before = stop, after


def _check_order(index: Path, ends: Any) -> None:
    for start in range(0, len(ends), _CHECKED):
        part = ends[max(0, start - 1) : start + _CHECKED]
        falls = np.flatnonzero(part[1:] < part[:-1])
        if len(falls):
            number = max(0, start - 1) + int(falls[0]) + 2
            raise InputError(
                f"{index}: document {number:,} ends at {part[falls[0] + 1]:,}, before the one ahead of it at "
                f"{part[falls[0]]:,}.\nThe index is damaged; fetch it again."
            )
