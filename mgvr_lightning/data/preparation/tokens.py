"""Token ids on disk: shards of plain integers, mapped into memory, and the facts that a manifest keeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mgvr_lightning.data.preparation.token_hash import TokenHash
from mgvr_lightning.errors import InputError

SHARD_TOKENS = 2**30  # few files: each that is mapped takes one of a process's file descriptors
_COPY_BYTES = 2**24
WIDTHS = {"uint16": "<u2", "uint32": "<u4"}


def width(vocabulary: int) -> str:
    """Return the narrowest of ``uint16`` and ``uint32`` that holds the ids 0 to ``vocabulary - 1``."""
    return "uint16" if vocabulary <= 2**16 else "uint32"


class Tokens:
    """The ids of one split, read-only, mapped into memory; cheap to pickle.

    Args:
        folder: Where the shards lie.
        facts: The split's part of the manifest, as ``ShardWriter.close`` returned it.

    Attributes:
        hash: Hex digest of the documents' ids, whatever their width and the size of the shards.
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
    """Writes the ids of documents into one file and keeps count.

    Args:
        path: The file; it is not there yet.
        vocabulary: Number of ids there are; it decides the width.
    """

    def __init__(self, path: Path, vocabulary: int) -> None:
        self._vocabulary, self._dtype = vocabulary, np.dtype(WIDTHS[width(vocabulary)])
        self._file = path.open("xb")
        self._hash = TokenHash()
        self._bytes = self._tokens = 0

    def __enter__(self) -> TokenWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, ids: npt.NDArray[np.integer[Any]], text_bytes: int) -> None:
        """Append one document.

        Args:
            ids: ``(n,)``, its ids, separator included.
            text_bytes: Bytes of UTF-8 text in it.
        """
        assert len(ids) == 0 or 0 <= ids.min() <= ids.max() < self._vocabulary
        self._file.write(ids.astype(self._dtype).tobytes())
        self._hash.add(ids)
        self._tokens += len(ids)
        self._bytes += text_bytes

    def facts(self) -> dict[str, int]:
        """Return counts of tokens, documents and bytes of text, and the value of the hash."""
        return {
            "tokens": self._tokens,
            "documents": self._hash.documents,
            "bytes": self._bytes,
            "hash": self._hash.value,
            "width": self._dtype.itemsize,
        }


class ShardWriter:
    """Joins token files into shards of at most ``shard_tokens`` ids.

    Args:
        folder: Where to write; it exists.
        name: The split; shards are called ``<name>-00000.bin`` and so on.
        vocabulary: Number of ids there are; it decides the width.
        shard_tokens: Most ids in one shard; documents may go on in the next.
    """

    def __init__(self, folder: Path, name: str, vocabulary: int, shard_tokens: int = SHARD_TOKENS) -> None:
        assert shard_tokens > 0
        self._folder, self._name, self._limit = folder, name, shard_tokens
        self._width = width(vocabulary)
        self._size = np.dtype(WIDTHS[self._width]).itemsize
        self._shards: list[dict[str, Any]] = []
        self._hash = TokenHash()
        self._bytes = self._tokens = 0

    def append(self, path: Path, facts: dict[str, int]) -> None:
        """Append a file that a ``TokenWriter`` for the same vocabulary wrote.

        Args:
            path: The file.
            facts: What its writer returned.

        Raises:
            InputError: If the file is not as long as the facts say.
        """
        size = path.stat().st_size
        if size != facts["tokens"] * self._size:
            raise InputError(
                f"{path} has {size:,} bytes, not the {facts['tokens'] * self._size:,} that were written.\n"
                f"Delete the folder {path.parent} and prepare again."
            )
        with path.open("rb") as file:
            while piece := file.read(min(self._room() * self._size, _COPY_BYTES)):
                shard = self._shards[-1]
                with (self._folder / shard["file"]).open("ab") as out:
                    out.write(piece)
                shard["tokens"] += len(piece) // self._size
        self._hash.extend(TokenHash(facts["hash"], facts["documents"]))
        self._tokens += facts["tokens"]
        self._bytes += facts["bytes"]

    def close(self) -> dict[str, Any]:
        """Force the shards to disk and return the facts for the manifest: counts, hash, width and shards."""
        shards = [shard for shard in self._shards if shard["tokens"]]
        for shard in shards:
            with (self._folder / shard["file"]).open("r+b") as file:
                os.fsync(file.fileno())
        return {
            "tokens": self._tokens,
            "documents": self._hash.documents,
            "bytes": self._bytes,
            "hash": self._hash.hex,
            "width": self._width,
            "shards": shards,
        }

    def _room(self) -> int:
        """Number of ids that fit into the last shard, of which there is one."""
        if not self._shards or self._shards[-1]["tokens"] == self._limit:
            self._shards.append({"file": f"{self._name}-{len(self._shards):05}.bin", "tokens": 0})
        return int(self._limit - self._shards[-1]["tokens"])
