"""Learns a tokenizer from a corpus, once."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from filelock import FileLock
from tqdm import tqdm

from mgvr_lightning.data.corpora.corpus import LEAST_PIECE, MOST_PIECES, Corpus, Tally
from mgvr_lightning.data.preparation.splits import TRAIN, Splits, text_hash
from mgvr_lightning.data.preparation.tokenizer import SMALLEST, Tokenizer
from mgvr_lightning.data.preparation.workers import tokenizer_threads
from mgvr_lightning.data.preparation.workshop import cannot_write
from mgvr_lightning.errors import InputError

FORMAT = 1
DISTINCT_BYTES = 2**23
"""Most bytes of distinct words to learn from: the trainer takes about 100 bytes of memory for each.

They are few in a language with spaces, and nearly all of the text in one without.
"""
MOST_UNKNOWN = 64
"""Most pieces to learn from where their sizes aren't known."""
_WORD = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class Lesson:
    """A corpus to learn from.

    Attributes:
        corpus: The corpus.
        fingerprint: Its fingerprint.
        splits: The rule that says which documents are trained on.
        weight: Its share of the text to learn from, in any unit.
    """

    corpus: Corpus
    fingerprint: str
    splits: Splits
    weight: float = 1.0


def learn(lessons: Sequence[Lesson], size: int, most_bytes: int, cache: Path, progress: bool) -> Tokenizer:
    """Return the byte-level BPE of these corpora, learned now or found again.

    It is learned from training documents alone: all of them, or pieces that lie evenly spread over a corpus.

    Args:
        lessons: What to learn from.
        size: Number of ids.
        most_bytes: The most text to learn from, in bytes of UTF-8; memory grows with it.
        cache: Folder that tokenizers are kept in.
        progress: Whether to draw progress bars.

    Raises:
        InputError: If ``size`` or ``most_bytes`` is too small, or a corpus cannot be read.
    """
    if size < SMALLEST:
        raise InputError(f"`vocabulary` is {size}; 256 bytes and the separator take {SMALLEST}.")
    if most_bytes < 1:
        raise InputError(f"`vocabulary_bytes` is {most_bytes}; some text is needed to learn a vocabulary.")
    for lesson in lessons:
        if lesson.corpus.tokenized:
            raise InputError(
                f"{type(lesson.corpus).__name__} holds token ids. Give the `tokenizer` that made them."
            )
    request: list[Any] = [FORMAT, size, most_bytes, DISTINCT_BYTES, LEAST_PIECE, MOST_PIECES]
    request += [[lesson.fingerprint, lesson.splits.key(), lesson.weight] for lesson in lessons]
    key = hashlib.blake2b(json.dumps(request).encode(), digest_size=8).hexdigest()
    path = cache / f"tokenizer-{size}-{key}.json"
    if path.exists():
        return Tokenizer.load(path)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                _learn(lessons, size, most_bytes, path, progress)
    except OSError as error:
        raise cannot_write(cache, error) from error
    with suppress(OSError):  # where somebody waits for it, it stays
        path.with_suffix(".lock").unlink()
    return Tokenizer.load(path)


def _learn(lessons: Sequence[Lesson], size: int, most_bytes: int, path: Path, progress: bool) -> None:
    if progress:
        tqdm.write(f"Learning a vocabulary of {size:,} ids", file=sys.stderr)
    sample = _sample(lessons, most_bytes)
    first = next(filter(None, sample), "")
    if not first and not any(text for lesson in lessons for text in lesson.corpus.texts()):
        facts = "; ".join(f"{type(lesson.corpus).__name__} {lesson.corpus.describe()}" for lesson in lessons)
        raise InputError(f"there is no text in {facts}.\nGive a corpus with some text.")
    with tokenizer_threads():
        tokenizer = Tokenizer.train(chain([first], sample), size, progress)
    part = path.with_suffix(".part")
    tokenizer.save(part)
    part.replace(path)


def _sample(lessons: Sequence[Lesson], most_bytes: int) -> Iterator[str]:
    weights = sum(lesson.weight for lesson in lessons)
    for lesson in lessons:
        share = lesson.weight / weights
        yield from _texts(lesson, int(most_bytes * share), int(DISTINCT_BYTES * share))


def _texts(lesson: Lesson, text_left: int, distinct_left: int) -> Iterator[str]:
    pieces = lesson.corpus.pieces()
    known = all(piece.bytes > 0 for piece in pieces)
    sizes = [piece.bytes if known else 1 for piece in pieces]
    whole = known and sum(sizes) <= text_left
    wanted = -(-text_left * len(pieces) // max(1, sum(sizes))) if known else MOST_UNKNOWN
    count = min(len(pieces), wanted)
    chosen = [number * len(pieces) // count for number in range(count)]
    unread = sum(sizes[index] for index in chosen)
    words: set[int] = set()
    for index in chosen:
        share = sizes[index] / unread
        unread -= sizes[index]
        text = text_left if whole else int(text_left * share)
        distinct = min(distinct_left, int(2 * distinct_left * share))  # later pieces have fewer new words
        if min(text_left, distinct_left) <= 0:
            return
        for row in Tally().usable(pieces[index], lesson.corpus.bad_rows):
            assert row.text is not None
            content = row.text.encode()
            if lesson.splits.of(text_hash(content)) != TRAIN:
                continue
            fresh = {hash(word): len(word.encode()) for word in set(_WORD.findall(row.text))}
            added = sum(size for key, size in fresh.items() if key not in words)
            if len(content) > text or added > distinct:
                fits = min(text, distinct)
                text_left, distinct_left = text_left - fits, distinct_left - fits
                yield content[:fits].decode(errors="ignore")
                break
            text, text_left = text - len(content), text_left - len(content)
            distinct, distinct_left = distinct - added, distinct_left - added
            words.update(fresh)
            yield row.text
