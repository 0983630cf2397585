"""Token ids on disk: shards of plain integers, mapped into memory, and the facts that a manifest keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mgvr_lightning.errors import InputError

SHARD_TOKENS = 2**26
WIDTHS = {"uint16": "<u2", "uint32": "<u4"}


def width(vocabulary: int) -> str:
    """Return the narrowest of ``uint16`` and ``uint32`` that holds the ids 0 to ``vocabulary - 1``."""
    return "uint16" if vocabulary <= 2**16 else "uint32"


class Tokens:
    """The ids of one split, read-only, mapped into memory; cheap to pickle.

    Args:
        folder: Where the shards lie.
        facts: The split's part of the manifest, as ``TokenWriter.close`` returned it.

    Attributes:
        hash: Hex digest of the ids, whatever their width and the size of the shards.
        documents: Number of documents, each with one separator.
        bytes: Bytes of UTF-8 text that the ids stand for, separators not counted.

    Raises:
        InputError: If a shard is missing or has another size than the manifest says, or its width is unknown.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self._arguments = (folder, facts)
        self.hash: str = facts["hash"]
        self.documents: int = facts["documents"]
        self.bytes: int = facts["bytes"]
        if facts["width"] not in WIDTHS:
            raise InputError(
                f"{folder / 'manifest.json'} gives ids the width {facts['width']!r}; known are "
                f"{', '.join(WIDTHS)}.\nDelete the folder to have it rebuilt."
            )
        dtype = np.dtype(WIDTHS[facts["width"]])
        self._shards: list[npt.NDArray[np.unsignedinteger[Any]]] = []
        for shard in facts["shards"]:
            path = folder / shard["file"]
            expected = shard["tokens"] * dtype.itemsize
            size = path.stat().st_size if path.is_file() else 0
            if size != expected:
                raise InputError(
                    f"{path} has {size:,} bytes; the manifest {folder / 'manifest.json'} says {expected:,} "
                    f"({shard['tokens']:,} ids, {facts['width']}).\nDelete the folder to have it rebuilt."
                )
            self._shards.append(np.memmap(path, dtype=dtype, mode="r"))
        self._ends = np.cumsum([len(shard) for shard in self._shards], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __reduce__(self) -> tuple[type[Tokens], tuple[Path, dict[str, Any]]]:
        # A pickled memory map would carry the data itself to every worker.
        return Tokens, self._arguments

    def read(self, start: int, length: int) -> npt.NDArray[np.int64]:
        """Return the ids ``start`` to ``start + length - 1``, shape ``(length,)``, across shard borders."""
        assert 0 <= start <= start + length <= len(self), (start, length, len(self))
        ids = np.empty(length, dtype=np.int64)
        filled = 0
        index = int(np.searchsorted(self._ends, start, side="right"))
        while filled < length:
            shard = self._shards[index]
            offset = start + filled - (int(self._ends[index]) - len(shard))
            piece = shard[offset : offset + length - filled]
            ids[filled : filled + len(piece)] = piece
            filled += len(piece)
            index += 1
        return ids


class TokenWriter:
    """Writes the ids of one split in shards and keeps count.

    Args:
        folder: Where to write; it exists.
        name: The split; shards are called ``<name>-00000.bin`` and so on.
        vocabulary: Number of ids there are; it decides the width.
        shard_tokens: Most ids in one shard; documents may go on in the next.
    """

    def __init__(self, folder: Path, name: str, vocabulary: int, shard_tokens: int = SHARD_TOKENS) -> None:
        assert shard_tokens > 0
        self._folder, self._name, self._vocabulary, self._limit = folder, name, vocabulary, shard_tokens
        self._width = width(vocabulary)
        self._shards: list[dict[str, str | int]] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._documents = self._bytes = self._total = 0

    def add(self, ids: Sequence[int], text_bytes: int) -> None:
        """Append one document.

        Args:
            ids: Its ids, separator included.
            text_bytes: Bytes of UTF-8 text in it.
        """
        array = np.asarray(ids, dtype=np.int64)
        assert len(array) == 0 or 0 <= array.min() <= array.max() < self._vocabulary
        self._digest.update(array.astype("<u4").tobytes())
        self._documents += 1
        self._bytes += text_bytes
        self._total += len(array)
        while len(array):
            if not self._shards or self._shards[-1]["tokens"] == self._limit:
                self._shards.append({"file": f"{self._name}-{len(self._shards):05}.bin", "tokens": 0})
            shard = self._shards[-1]
            piece, array = np.split(array, [self._limit - int(shard["tokens"])])
            with (self._folder / str(shard["file"])).open("ab") as file:
                file.write(piece.astype(WIDTHS[self._width]).tobytes())
            shard["tokens"] = int(shard["tokens"]) + len(piece)

    def close(self) -> dict[str, Any]:
        """Return the facts for the manifest: counts, hash, integer width and shards."""
        return {
            "tokens": self._total,
            "documents": self._documents,
            "bytes": self._bytes,
            "hash": self._digest.hexdigest(),
            "width": self._width,
            "shards": self._shards,
        }
