"""The work behind ``prepare``: split, learn the tokenizer, write the ids."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mgvr_lightning.data.corpus import Corpus
from mgvr_lightning.data.tokenizer import Tokenizer
from mgvr_lightning.data.tokens import TokenWriter
from mgvr_lightning.errors import InputError

SPLITS = ("train", "validation", "test")
YARDSTICK_BYTES = 2**24
LEARNING_BYTES = 2**28
_BATCH_CHARACTERS = 2**20
_PARALLELISM = "TOKENIZERS_PARALLELISM"
_OUR_OFF = "off"


def split_of(text: str, held_out: float) -> str:
    """Return the split of a document: a function of its text alone.

    Args:
        text: The document.
        held_out: Share of validation, and of test.
    """
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64
    if place < held_out:
        return "validation"
    return "test" if place < 2 * held_out else "train"


def build(
    corpus: Corpus, folder: Path, vocabulary: Tokenizer | int, held_out: float, progress: bool
) -> dict[str, Any]:
    """Write the tokenizer and the token shards of a corpus.

    Args:
        corpus: Where the text comes from; it is read twice if the tokenizer is learned.
        folder: An empty folder.
        vocabulary: A tokenizer, or the size of one to learn from the first 256 MB of training documents.
        held_out: Share of validation, and of test.
        progress: Whether to draw progress bars.

    Returns:
        The manifest but for its format version and the facts about the corpus.

    Raises:
        InputError: If the corpus cannot be read or is empty, or a split would get no document.
    """
    with _threads():
        tokenizer = (
            Tokenizer.train(_learning_texts(corpus, held_out), vocabulary, progress)
            if isinstance(vocabulary, int)
            else vocabulary
        )
        writers = {name: TokenWriter(folder, name, tokenizer.size) for name in SPLITS}
        sample = bytearray()
        lossless = True
        for batch in _batches(corpus, progress):
            for text, ids in zip(batch, tokenizer.encode_batch(batch), strict=True):
                content = text.encode()
                split = split_of(text, held_out)
                writers[split].add([tokenizer.separator, *ids], len(content))
                if split == "validation":
                    sample += content[: YARDSTICK_BYTES - len(sample)]
                    lossless = lossless and tokenizer.decode(ids) == text
    tokenizer.save(folder / "tokenizer.json")
    splits = {name: writer.close() for name, writer in writers.items()}
    _check(splits, held_out)
    if not lossless:
        warnings.warn("the tokenizer does not give back the text it was given; it changes it.", stacklevel=3)
    facts = {name: getattr(tokenizer, name) for name in ("hash", "size", "separator")}
    return {
        "held_out": held_out,
        "tokenizer": {**facts, "lossless": lossless},
        "splits": splits,
        "compression": _yardstick(bytes(sample)),
    }


def _learning_texts(corpus: Corpus, held_out: float) -> Iterator[str]:
    remaining = LEARNING_BYTES
    for document in corpus.documents():
        if split_of(document.text, held_out) == "train":
            remaining -= len(document.text.encode())
            if remaining < 0:
                return
            yield document.text


def _batches(corpus: Corpus, progress: bool) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    bar: Iterable[Any] = tqdm(
        corpus.documents(), desc="Writing token ids", unit="document", disable=not progress
    )
    for document in bar:
        batch.append(document.text)
        characters += len(document.text)
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _check(splits: dict[str, dict[str, Any]], held_out: float) -> None:
    documents = sum(facts["documents"] for facts in splits.values())
    if not sum(facts["bytes"] for facts in splits.values()):
        raise InputError(
            f"the corpus is empty: {documents} documents, no text. Give it at least a few documents."
        )
    for name, facts in splits.items():
        if not facts["bytes"]:
            raise InputError(
                f"no text fell to the {name} split: of {documents:,} documents, `held_out: {held_out}` goes "
                "to validation and as much to test.\nGive more documents (JSON Lines has one per line, .txt "
                f"one per file), or {'lower' if name == 'train' else 'raise'} `held_out`."
            )


def _yardstick(text: bytes) -> dict[str, float | int]:
    """Return bits per byte of general compressors on ``text``."""
    bits = 8 / len(text)
    return {
        "gzip": len(gzip.compress(text, 9)) * bits,
        "xz": len(lzma.compress(text, preset=9)) * bits,
        "bytes": len(text),
    }


@contextmanager
def _threads() -> Iterator[None]:
    """Let the tokenizer use all cores, and keep its warnings out of loader processes forked afterwards."""
    if os.environ.get(_PARALLELISM, _OUR_OFF) != _OUR_OFF:
        yield
        return
    os.environ[_PARALLELISM] = "true"
    try:
        yield
    finally:
        os.environ[_PARALLELISM] = _OUR_OFF
