"""From finished pieces to the folder that training reads."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mgvr_lightning.data.byte_progress import ByteProgress
from mgvr_lightning.data.corpora.corpus import Tally
from mgvr_lightning.data.preparation.encoder import SAMPLE_BYTES
from mgvr_lightning.data.preparation.splits import TRAIN, VALIDATION, Splits
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.preparation.tokens import ShardWriter
from mgvr_lightning.data.preparation.workshop import TOKENIZER, Workshop
from mgvr_lightning.data.temporary import aside
from mgvr_lightning.errors import InputError

FORMAT = 2
MANIFEST = "manifest.json"
MOST_COUNTED = 2**26


def join(
    workshop: Workshop,
    pieces: int,
    tokenizer: Tokenizer,
    splits: Splits,
    corpus: dict[str, Any],
    folder: Path,
    progress: bool,
) -> None:
    """Write the prepared folder from all pieces of a corpus.

    Args:
        workshop: Where they are, each one finished.
        pieces: How many there are.
        tokenizer: What made the ids.
        splits: The rule that divided the documents.
        corpus: Facts about the corpus for the manifest.
        folder: The prepared folder; not there yet.
        progress: Whether to draw a progress bar.

    Raises:
        InputError: If there is no text, a split got none, or most rows were skipped.
    """
    facts = [workshop.facts(index) for index in range(pieces)]
    tally, lossless = _tally(facts)
    _check(facts, splits)
    temporary = aside(workshop.folder / "joined")
    temporary.mkdir()
    tokenizer.save(temporary / TOKENIZER)
    size = sum(own["tokens"] * own["width"] for piece in facts for own in piece["splits"].values())
    with ByteProgress(f"Joining {folder.name}", size, show=progress) as bar:
        shards = {name: _shards(workshop, facts, name, tokenizer, temporary, bar) for name in splits.names}
    manifest = {
        "format": FORMAT,
        "corpus": corpus,
        "rows": tally.rows,
        "skipped_rows": tally.skipped,
        "replaced_rows": tally.replaced,
        "left_out": sum(own["left_out"] for own in facts),
        "duplicates": _duplicates(workshop, facts),
        **splits.describe(),
        "tokenizer": {
            **{name: getattr(tokenizer, name) for name in ("hash", "size", "separator")},
            "lossless": lossless,
        },
        "splits": shards,
    }
    if VALIDATION in splits.names:
        manifest["compression"] = _yardstick(_sample(workshop, pieces))
    with (temporary / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        temporary.rename(folder)
    except OSError:
        if not (folder / MANIFEST).exists():  # else somebody whom locks don't reach was faster
            raise


def _tally(facts: Sequence[dict[str, Any]]) -> tuple[Tally, bool]:
    """Add up the rows, and warn of what the texts lost."""
    tally = Tally()
    for own in facts:
        tally.add(Tally(**own["tally"]))
    if message := tally.summary():
        warnings.warn(message, stacklevel=4)
    lossless = all(own["lossless"] for own in facts)
    if not lossless:
        warnings.warn("the tokenizer does not give back the text it was given; it changes it.", stacklevel=4)
    return tally, lossless


def _check(facts: Sequence[dict[str, Any]], splits: Splits) -> None:
    """Refuse a corpus without text, or with a split that has none."""
    documents = sum(own["splits"][name]["documents"] for own in facts for name in splits.names)
    texts = {name: sum(own["splits"][name]["bytes"] for own in facts) for name in splits.names}
    left_out = sum(own["left_out"] for own in facts)
    if left_out and not documents:
        raise InputError(f"all {left_out:,} documents of the corpus are in the validation corpus, too.")
    if not any(texts.values()):
        raise InputError(
            f"the corpus is empty: {documents} documents, no text. Give it at least a few documents."
        )
    for name, size in texts.items():
        if not size:
            held_out = splits.describe().get("held_out")
            raise InputError(
                f"no text fell to the {name} split: of {documents:,} documents, `held_out: {held_out}` goes "
                "to validation and as much to test.\nGive more documents (JSON Lines has one per line, .txt "
                f"one per file), or {'lower' if name == TRAIN else 'raise'} `held_out`."
            )


def _shards(
    workshop: Workshop,
    facts: Sequence[dict[str, Any]],
    name: str,
    tokenizer: Tokenizer,
    folder: Path,
    bar: ByteProgress,
) -> dict[str, Any]:
    writer = ShardWriter(folder, name, tokenizer.size)
    for index, own in enumerate(facts):
        path = workshop.tokens(index, name)
        writer.append(path, own["splits"][name])
        bar.advance(path.stat().st_size)
    return writer.close()


def _duplicates(workshop: Workshop, facts: Sequence[dict[str, Any]]) -> int | None:
    """Return how many documents repeat an earlier one exactly; None where there are too many to count."""
    count = sum(split["documents"] for own in facts for split in own["splits"].values())
    if count > MOST_COUNTED:
        return None
    hashes = np.empty(count, dtype=np.uint64)
    filled = 0
    for index in range(len(facts)):
        own = workshop.hashes(index)
        hashes[filled : filled + len(own)] = own
        filled += len(own)
    hashes.sort()
    return int((hashes[1:] == hashes[:-1]).sum())


def _sample(workshop: Workshop, pieces: int) -> bytes:
    sample = bytearray()
    for index in range(pieces):
        sample += workshop.sample_file(index).read_bytes()
        if len(sample) >= SAMPLE_BYTES:
            break
    return bytes(sample[:SAMPLE_BYTES])


def _yardstick(text: bytes) -> dict[str, float | int]:
    """Return bits per byte of general compressors on ``text``."""
    bits = 8 / len(text)
    return {
        "gzip": len(gzip.compress(text, 9)) * bits,
        "xz": len(lzma.compress(text, preset=9)) * bits,
        "bytes": len(text),
    }
