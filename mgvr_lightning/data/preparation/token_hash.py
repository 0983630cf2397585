"""A digest of a sequence of documents that can be put together from those of its parts."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

_PRIME = 2**127 - 1
_BASE = int.from_bytes(hashlib.blake2b(b"a sequence of documents", digest_size=15).digest(), "big")


class TokenHash:
    """A polynomial over a prime field in the 126-bit hashes of the documents' ids.

    It depends on the ids, where documents end, and their order; not on how the sequence was cut into parts,
    nor on the width of the stored integers.

    Args:
        value: That of the documents so far.
        documents: Number of them.
    """

    def __init__(self, value: int = 0, documents: int = 0) -> None:
        self.value, self.documents = value, documents

    def add(self, ids: npt.NDArray[np.integer[Any]]) -> None:
        """Append a document, ``(n,)`` ids."""
        digest = hashlib.blake2b(ids.astype("<u4", copy=False).tobytes(), digest_size=16).digest()
        self._append(int.from_bytes(digest, "big") >> 2, 1)

    def extend(self, other: TokenHash) -> None:
        """Append the documents of another sequence."""
        self._append(other.value, other.documents)

    @property
    def hex(self) -> str:
        """32 hex digits of the value and the number of documents."""
        content = f"{self.value}/{self.documents}".encode()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def _append(self, value: int, documents: int) -> None:
        self.value = (self.value * pow(_BASE, documents, _PRIME) + value) % _PRIME
        self.documents += documents
