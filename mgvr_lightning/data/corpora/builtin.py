"""The corpus that every installation brings along: the prose of its own documentation."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mgvr_lightning.data.corpora import docstrings
from mgvr_lightning.data.corpora.corpus import Corpus, Piece
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.held_piece import HeldPiece, held_pieces
from mgvr_lightning.data.corpora.near_duplicates import near_duplicates
from mgvr_lightning.data.corpora.packages import (
    Source,
    closure,
    distribution_sources,
    python_version,
    standard_library_sources,
)

FORMAT = 1
ROOTS = ("torch", "lightning", "torchmetrics", "datasets", "tokenizers", "tensorboard", "jsonargparse")
_CHUNK = 200
_LEAST_WORDS = 25
_TIME_LIMIT = 600.0
_WORDS = re.compile(r"\w+")
_PIECE = 2**22


@dataclass(frozen=True)
class _Document:
    text: str
    key: str


class Builtin(Corpus):
    """English prose from the documentation of Python and of the packages that this project depends on.

    One document per file: its docstrings and other documentation, without code, licences, repeated
    paragraphs and near duplicates; about 14 MB in 4,400 documents. **The text depends on the versions of
    Python and of the packages** (and, where wheels differ, on the platform): numbers measured on it can be
    compared between machines only if the fingerprints agree. To compare across machines use ``Files``.

    Args:
        packages: Distributions to read, with everything they require; None means this project's own.
        standard_library: Whether to read Python's standard library, too.
        workers: Child interpreters that read at once; 0 means one per core.
    """

    def __init__(
        self, packages: list[str] | None = None, standard_library: bool = True, workers: int = 0
    ) -> None:
        self.standard_library = standard_library
        self.workers = workers
        self._distributions = closure(ROOTS if packages is None else packages)
        self._pieces: list[HeldPiece] | None = None

    def pieces(self) -> Sequence[Piece]:
        """Return one document per file, ordered by key; the first call reads the files and keeps the text."""
        if self._pieces is None:
            sources = self._sources()
            documents = _assemble(sources, self._read(sources))
            self._pieces = held_pieces(((document.text, document.key) for document in documents), _PIECE)
        return self._pieces

    def fingerprint(self, digests: Digests) -> str:
        """Return a digest of the versions, the files' hashes or sizes, and the rules of extraction.

        Args:
            digests: Not needed.
        """
        sources = [(source.key, source.version) for source in self._sources()]
        facts = json.dumps([FORMAT, self.describe(), sources])
        return hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, str | int]:
        """Return the versions of Python and of each distribution."""
        facts: dict[str, str | int] = {"python": python_version()} if self.standard_library else {}
        return facts | {name: found.version for name, found in self._distributions.items()}

    def _sources(self) -> list[Source]:
        found = list(standard_library_sources()) if self.standard_library else []
        for distribution in self._distributions.values():
            found += distribution_sources(distribution)
        return sorted({source.key: source for source in found}.values(), key=lambda source: source.key)

    def _read(self, sources: list[Source]) -> list[list[str]]:
        chunks = [sources[start : start + _CHUNK] for start in range(0, len(sources), _CHUNK)]
        texts: list[list[str]] = []
        bar = tqdm(total=len(sources), desc="Reading documentation", unit="file", disable=not self.progress)
        with bar, ThreadPool(self.workers or os.cpu_count() or 1) as pool:
            for chunk in pool.imap(_read_chunk, chunks):
                texts += chunk
                bar.update(len(chunk))
        return texts


def _read_chunk(sources: list[Source]) -> list[list[str]]:
    # A plain child interpreter: no fork beside the threads of torch and tokenizers, no second import of the
    # main script as under spawn.
    command = [sys.executable, "-I", str(Path(docstrings.__file__))]
    request = json.dumps([str(source.path) for source in sources])
    done = subprocess.run(
        command, input=request, capture_output=True, encoding="utf-8", timeout=_TIME_LIMIT, check=False
    )
    if done.returncode != 0:
        place = f"{sources[0].key} to {sources[-1].key}"
        raise RuntimeError(f"reading {place} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    result: list[list[str]] = json.loads(done.stdout)
    return result


def _assemble(sources: list[Source], texts: list[list[str]]) -> list[_Document]:
    """Drop repeated paragraphs, then near duplicates, and join what is left of each file."""
    seen: set[bytes] = set()
    owners: list[int] = []
    kept: list[str] = []
    for owner, own in enumerate(texts):
        for text in own:
            fresh = "\n\n".join(paragraph for paragraph in text.split("\n\n") if _is_new(paragraph, seen))
            if fresh:
                owners.append(owner)
                kept.append(fresh)
    joined: dict[int, list[str]] = {}
    for index in np.flatnonzero(~near_duplicates(kept)):
        joined.setdefault(owners[index], []).append(kept[index])
    documents = [_Document("\n\n".join(own) + "\n", sources[owner].key) for owner, own in joined.items()]
    return [document for document in documents if len(document.text.split()) >= _LEAST_WORDS]


def _is_new(paragraph: str, seen: set[bytes]) -> bool:
    words = " ".join(_WORDS.findall(paragraph.lower()))
    digest = hashlib.blake2b(words.encode(), digest_size=12).digest()
    fresh = digest not in seen
    seen.add(digest)
    return fresh
