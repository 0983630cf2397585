"""A prepared corpus: token files that are ready to train on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgvr_lightning.data.preparation.join import FORMAT, MANIFEST
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.preparation.tokens import Tokens
from mgvr_lightning.data.preparation.workshop import TOKENIZER
from mgvr_lightning.errors import InputError


@dataclass(frozen=True)
class Prepared:
    """Token files that are ready to train on.

    Attributes:
        folder: Where they lie.
        tokenizer: What made the ids; the model's size is ``tokenizer.size``.
        splits: Those of ``train``, ``validation`` and ``test`` that there are. In each a separator comes
            *before* every document and nowhere else.
        manifest: Where all of it came from, as plain JSON: ``format``, ``corpus`` (kind, fingerprint and
            description), ``rows``, ``skipped_rows`` and ``replaced_rows``, documents ``left_out`` because the
            validation corpus has them, exact ``duplicates``, the rule of the splits, ``tokenizer`` (hash,
            size, separator, whether it is ``lossless`` on the validation text), ``splits`` (tokens,
            documents, bytes, hash, width, shards) and ``compression`` (bits per byte of gzip -9 and xz -9 on
            validation text, and on how many bytes).
    """

    folder: Path
    tokenizer: Tokenizer
    splits: dict[str, Tokens]
    manifest: dict[str, Any]


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
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise InputError(
            f"{path} has format {found!r}; this version reads {FORMAT}.\n"
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
    splits = {name: Tokens(folder, facts) for name, facts in manifest["splits"].items()}
    return Prepared(folder, tokenizer, splits, manifest)
