"""From a corpus and a tokenizer to a cached folder of token files."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mgvr_lightning.data.byte_progress import ByteProgress
from mgvr_lightning.data.corpora.corpus import Corpus, Piece
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.preparation.encoder import Job
from mgvr_lightning.data.preparation.join import FORMAT, join
from mgvr_lightning.data.preparation.prepared import Prepared, load
from mgvr_lightning.data.preparation.splits import Splits
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.preparation.workers import encode
from mgvr_lightning.data.preparation.workshop import Workshop, cannot_write
from mgvr_lightning.errors import InputError

DIGESTS = ".digests.json"
_LEAST_WAIT_SECONDS, _MOST_WAIT_SECONDS = 0.1, 5.0


@dataclass(frozen=True)
class Part:
    """A share of the work, for one of several machines.

    Args:
        index: Which one, from 1.
        count: How many there are.

    Raises:
        InputError: If there is no such part.
    """

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise InputError(f"part {self.index} of {self.count}: expected a number from 1 to {self.count}.")

    def has(self, piece: int) -> bool:
        """Return whether a piece belongs to this part."""
        return piece % self.count == self.index - 1


class Preparation:
    """One corpus to be prepared with one tokenizer under one rule.

    A second preparation of the same finds the first one's result; one that was interrupted goes on where it
    stopped; several at once share the work, on one machine or, with a shared ``cache``, on many.

    Args:
        corpus: Where the text comes from.
        fingerprint: Its fingerprint, from ``fingerprint``.
        tokenizer: What turns it into ids.
        splits: The rule that divides its documents.
        cache: Folder of prepared corpora; made if need be.
        progress: Whether to draw progress bars and say on stderr what was reused.
    """

    def __init__(
        self,
        corpus: Corpus,
        fingerprint: str,
        tokenizer: Tokenizer,
        splits: Splits,
        cache: Path,
        progress: bool = True,
    ) -> None:
        self._corpus, self._fingerprint = corpus, fingerprint
        self._tokenizer, self._splits = tokenizer, splits
        self._cache, self._progress = cache, progress
        request = [FORMAT, self._fingerprint, tokenizer.hash, splits.key()]
        kind = type(corpus).__name__.lower()
        self._first_part = int(_key(request), 16)  # so that small corpora don't all fall to the same part
        self.folder = cache / f"{kind}-{tokenizer.size}-{_key(request)}"

    def run(self, part: Part | None = None, processes: int | None = None) -> Prepared | None:
        """Prepare the corpus, or this part of it; whoever finishes the last piece joins them.

        Args:
            part: The share of the work to do; None to see all of it through.
            processes: How many to use; None for one per core.

        Returns:
            The prepared corpus; None if pieces of other parts are still missing.

        Raises:
            InputError: If the corpus cannot be read, is empty or changed meanwhile, or a split would get no
                document.
        """
        if self.folder.exists():
            self._say(f"Reusing the prepared corpus in {self.folder}")
            for left in self._cache.glob(f".preparing-{self.folder.name}-*"):
                Workshop(left).remove()  # whoever joined was stopped before clearing up
            return load(self.folder)
        pieces = list(self._corpus.pieces())
        plan = _key([piece.bytes for piece in pieces])
        workshop = Workshop(self._cache / f".preparing-{self.folder.name}-{plan}")
        try:
            return self._work(workshop, pieces, part, processes)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.folder.exists():
                return load(self.folder)  # somebody else was done first and has cleared up
            raise cannot_write(self._cache, error) from error

    def _work(
        self, workshop: Workshop, pieces: list[Piece], part: Part | None, processes: int | None
    ) -> Prepared | None:
        workshop.open(self._tokenizer)
        jobs = [
            Job(index, piece, self._corpus.bad_rows)
            for index, piece in enumerate(pieces)
            if part is None or part.has(index + self._first_part)
        ]
        self._encode(workshop, jobs, processes)
        if self.folder.exists():
            workshop.remove()
            return load(self.folder)
        missing = sum(not workshop.done(index) for index in range(len(pieces)))
        if missing:
            self._say(
                f"This part is done. {missing:,} of {len(pieces):,} pieces are left for other parts; whoever "
                f"finishes last, or a run without parts, joins them into {self.folder}."
            )
            return None
        with workshop.joining():
            if not self.folder.exists():
                self._join(workshop, len(pieces))
        workshop.remove()
        return load(self.folder)

    def _encode(self, workshop: Workshop, jobs: Sequence[Job], processes: int | None) -> None:
        missing = [job for job in jobs if not workshop.done(job.index)]
        total, left = (sum(job.piece.bytes for job in some) for some in (jobs, missing))
        pause = _LEAST_WAIT_SECONDS
        with ByteProgress(f"Preparing {self.folder.name}", total, total - left, self._progress) as bar:

            def finished(job: Job) -> None:
                if workshop.done(job.index):
                    bar.settle(job.piece.bytes, workshop.text_bytes(job.index))

            while missing and not self.folder.exists():
                if free := [job for job in missing if not workshop.busy(job.index)]:
                    encode(free, self._splits, workshop, processes, bar.advance, finished)
                elif pause == _LEAST_WAIT_SECONDS:
                    self._say("Another process works on the pieces that are left; waiting for it.")
                missing = [job for job in missing if not workshop.done(job.index)]
                if missing:
                    time.sleep(pause)
                    pause = min(2 * pause, _MOST_WAIT_SECONDS)

    def _join(self, workshop: Workshop, pieces: int) -> None:
        if fingerprint(self._corpus, self._cache, self._progress) != self._fingerprint:
            workshop.remove()
            raise InputError(
                "the corpus changed while it was prepared, so what was prepared is of no use. Run it again."
            )
        kind = {"kind": type(self._corpus).__name__, "fingerprint": self._fingerprint}
        facts = {**kind, **self._corpus.describe()}
        join(workshop, pieces, self._tokenizer, self._splits, facts, self.folder, self._progress)

    def _say(self, message: str) -> None:
        if self._progress:
            tqdm.write(message, file=sys.stderr)


def fingerprint(corpus: Corpus, cache: Path, progress: bool) -> str:
    """Return a corpus's fingerprint; digests of its files are kept in ``cache``.

    Raises:
        InputError: If the corpus is not there.
    """
    corpus.progress = progress
    return corpus.fingerprint(Digests(cache / DIGESTS, progress))


def _key(request: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(request).encode(), digest_size=8).hexdigest()
