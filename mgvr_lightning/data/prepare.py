"""From a corpus and a tokenizer to a cached folder of token files."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mgvr_lightning.data.build import SPLITS, build
from mgvr_lightning.data.corpus import Corpus
from mgvr_lightning.data.tokenizer import SMALLEST, Tokenizer
from mgvr_lightning.data.tokens import Tokens
from mgvr_lightning.errors import InputError

FORMAT = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Prepared:
    """Token files that are ready to train on.

    Attributes:
        folder: Where they lie.
        tokenizer: What made the ids; the model's size is ``tokenizer.size``.
        train: Training split. In all splits a separator comes *before* each document and nowhere else.
        validation: Documents to choose by.
        test: Documents to report on.
        manifest: Where all of it came from, as plain JSON: ``format``, ``tokenizer`` (hash, size, separator,
            whether it is ``lossless`` on the validation text), ``corpus`` (fingerprint and description),
            ``skipped_rows``, ``held_out``, ``splits`` (tokens, documents, bytes, hash, width, shards) and
            ``compression`` (bits per byte of gzip -9 and xz -9 on validation text, and on how many bytes).
    """

    folder: Path
    tokenizer: Tokenizer
    train: Tokens
    validation: Tokens
    test: Tokens
    manifest: dict[str, Any]


def prepare(
    corpus: Corpus,
    cache: Path,
    *,
    vocabulary: int | None,
    tokenizer: Path | None,
    held_out: float = 0.02,
    progress: bool = True,
) -> Prepared:
    """Split a corpus by document, turn it into ids and keep them; a second call finds them again.

    A document's split depends on nothing but a hash of its text, so exact duplicates share one.

    Args:
        corpus: Where the text comes from.
        cache: Folder of prepared corpora; made if need be.
        vocabulary: Number of ids of a byte-level BPE to train on the training documents, or None.
        tokenizer: A ``tokenizer.json`` to use instead, or None; exactly one of the two is given.
        held_out: Share of the documents for validation, and the same again for test, in (0, 0.5).
        progress: Whether to draw progress bars and say on stderr what was reused.

    Raises:
        InputError: If an option is out of range, the corpus cannot be read or is empty, a split would get no
            document, or the cached files don't belong together.
    """
    _check_options(vocabulary, tokenizer, held_out)
    given = Tokenizer.load(tokenizer) if tokenizer is not None else None
    corpus.progress = progress
    fingerprint = corpus.fingerprint()
    request = [FORMAT, fingerprint, vocabulary if given is None else given.hash, held_out]
    key = hashlib.blake2b(json.dumps(request).encode(), digest_size=8).hexdigest()
    size = vocabulary if given is None else given.size
    folder = cache / f"{type(corpus).__name__.lower()}-{size}-{key}"
    if folder.exists():
        if progress:
            tqdm.write(f"Reusing the prepared corpus in {folder}", file=sys.stderr)
        return load(folder)
    cache.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".preparing-", dir=cache))
    try:
        built = build(corpus, temporary, given or vocabulary or SMALLEST, held_out, progress)
        _write_manifest(temporary, corpus, fingerprint, built)
        _move(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return load(folder)


def _check_options(vocabulary: int | None, tokenizer: Path | None, held_out: float) -> None:
    if (vocabulary is None) == (tokenizer is None):
        raise InputError(
            "give either `vocabulary` (train a BPE of that size) or `tokenizer` (a tokenizer.json)."
        )
    if not 0 < held_out < 0.5:
        raise InputError(f"`held_out` is {held_out}; it is a share above 0 and below 0.5, such as 0.02.")
    if vocabulary is not None and vocabulary < SMALLEST:
        raise InputError(f"`vocabulary` is {vocabulary}; 256 bytes and the separator take {SMALLEST}.")


def load(folder: Path) -> Prepared:
    """Open a prepared folder, whatever corpus it came from.

    Raises:
        InputError: If a file is missing, has another size than the manifest says, or the tokenizer is not the
            one that made the ids.
    """
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}\nDelete the folder to have it rebuilt.") from error
    if manifest.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {manifest.get('format')!r}; this version reads {FORMAT}.\n"
            "Delete the folder to have it rebuilt."
        )
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    expected = manifest["tokenizer"]["hash"]
    if tokenizer.hash != expected:
        raise InputError(
            f"{folder / TOKENIZER} has the hash {tokenizer.hash}, but the ids beside it were made by the "
            f"tokenizer {expected}, says {path}.\n"
            "Put that tokenizer back, or delete the folder to have it rebuilt."
        )
    splits = {name: Tokens(folder, manifest["splits"][name]) for name in SPLITS}
    return Prepared(folder, tokenizer, **splits, manifest=manifest)


def _write_manifest(folder: Path, corpus: Corpus, fingerprint: str, built: dict[str, Any]) -> None:
    description = corpus.describe()
    manifest = {
        "format": FORMAT,
        "corpus": {"kind": type(corpus).__name__, "fingerprint": fingerprint, **description},
        "skipped_rows": description.get("skipped_rows", 0),
        **built,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _move(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was faster and made the same
            raise
