"""Which split a document belongs to: a function of its text alone."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mgvr_lightning.data.corpora.corpus import Corpus
from mgvr_lightning.errors import InputError

TRAIN, VALIDATION, TEST = "train", "validation", "test"


def text_hash(content: bytes) -> int:
    """Return 64 bits that stand for a text in UTF-8; exact duplicates share them."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


class Splits(ABC):
    """A rule that divides documents.

    Attributes:
        names: The splits that it knows.
    """

    names: tuple[str, ...]

    @abstractmethod
    def of(self, digest: int) -> str | None:
        """Return the split of the document with this ``text_hash``; None to leave it out."""

    @abstractmethod
    def key(self) -> list[Any]:
        """Return what the rule depends on, as plain JSON."""

    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest, as plain JSON."""
        return {}


@dataclass(frozen=True)
class HeldOut(Splits):
    """Holds out a share of the documents for validation, and the same again for test, by their hash.

    Args:
        share: Of validation, and of test; in (0, 0.5).

    Raises:
        InputError: If the share is out of range.
    """

    share: float
    names = (TRAIN, VALIDATION, TEST)

    def __post_init__(self) -> None:
        if not 0 < self.share < 0.5:
            raise InputError(
                f"`held_out` is {self.share}; it is a share above 0 and below 0.5, such as 0.02."
            )

    def of(self, digest: int) -> str:
        """Return the split of a document."""
        place = digest / 2**64
        if place < self.share:
            return VALIDATION
        return TEST if place < 2 * self.share else TRAIN

    def key(self) -> list[Any]:
        """Return the share."""
        return ["held out", self.share]

    def describe(self) -> dict[str, Any]:
        """Return the share."""
        return {"held_out": self.share}


class Without(Splits):
    """Trains on all documents but those that a validation corpus has too.

    The validation corpus is read when the first document is divided.

    Args:
        corpus: The validation corpus.
        fingerprint: Its fingerprint.
    """

    names = (TRAIN,)

    def __init__(self, corpus: Corpus, fingerprint: str) -> None:
        self._corpus: Corpus | None = corpus
        self._fingerprint = fingerprint
        self._held: npt.NDArray[np.uint64] | None = None

    def of(self, digest: int) -> str | None:
        """Return the split of a document; None for one that is validated on."""
        held = self._hashes()
        place = int(np.searchsorted(held, np.uint64(digest)))
        return None if place < len(held) and int(held[place]) == digest else TRAIN

    def key(self) -> list[Any]:
        """Return the validation corpus's fingerprint."""
        return ["without", self._fingerprint]

    def describe(self) -> dict[str, Any]:
        """Return the validation corpus's fingerprint."""
        return {"validation_corpus": self._fingerprint}

    def _hashes(self) -> npt.NDArray[np.uint64]:
        if self._held is None:
            assert self._corpus is not None
            hashes = (text_hash(text.encode()) for text in self._corpus.texts())
            self._held = np.unique(np.fromiter(hashes, dtype=np.uint64))
        return self._held

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes get the hashes and needn't read the corpus again.
        return {"_corpus": None, "_fingerprint": self._fingerprint, "_held": self._hashes()}


@dataclass(frozen=True)
class Everything(Splits):
    """Gives all documents to validation."""

    names = (VALIDATION,)

    def of(self, digest: int) -> str:
        """Return the split of a document."""
        return VALIDATION

    def key(self) -> list[Any]:
        """Return the rule's name."""
        return ["everything"]
