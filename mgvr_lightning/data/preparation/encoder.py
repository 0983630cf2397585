"""From one piece of a corpus to token files."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mgvr_lightning.data.corpora.corpus import BadRows, Piece, Row, Tally
from mgvr_lightning.data.preparation.splits import VALIDATION, Splits, text_hash
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.preparation.tokens import TokenWriter
from mgvr_lightning.errors import InputError

FACTS = "facts.json"
HASHES = "hashes.bin"
SAMPLE = "sample.txt"
SAMPLE_BYTES = 2**24
_BATCH_CHARACTERS = 2**19
_BATCH_IDS = 2**17
_MOST_COMPARED = 2**21


@dataclass(frozen=True)
class Job:
    """A piece to encode.

    Attributes:
        index: The piece's place in the corpus.
        piece: The piece.
        bad_rows: What to do with bad rows.
    """

    index: int
    piece: Piece
    bad_rows: BadRows


@dataclass
class _Text:
    text: str
    ids: npt.NDArray[Any]


class Encoder:
    """Writes the token files of one piece: one a split, the facts about them and a sample of validation text.

    Args:
        job: What to encode.
        splits: The rule that divides its documents.
        tokenizer: What to encode it with.
        folder: An empty folder.
    """

    def __init__(self, job: Job, splits: Splits, tokenizer: Tokenizer, folder: Path) -> None:
        self._job, self._splits, self._tokenizer, self._folder = job, splits, tokenizer, folder
        self._tally = Tally()
        self._sample = bytearray()
        self._hashes = array("Q")
        self._left_out = 0
        self._lossless = True

    def run(self, advance: Callable[[int], None]) -> None:
        """Encode the piece.

        Args:
            advance: Called with the number of bytes of text after each batch.

        Raises:
            InputError: If the piece cannot be read or has a row that may not be skipped.
        """
        names = self._splits.names
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(TokenWriter(self._folder / f"{name}.bin", self._tokenizer.size))
                for name in names
            }
            for batch in self._batches():
                advance(sum(self._write(document, writers) for document in self._encode(batch)))
        facts = {
            "splits": {name: writer.facts() for name, writer in writers.items()},
            "tally": asdict(self._tally),
            "left_out": self._left_out,
            "lossless": self._lossless,
        }
        np.frombuffer(self._hashes, dtype=np.uint64).astype("<u8").tofile(self._folder / HASHES)
        (self._folder / SAMPLE).write_bytes(self._sample)
        (self._folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")
        for path in self._folder.iterdir():
            with path.open("r+b") as file:
                os.fsync(file.fileno())

    def _batches(self) -> Iterator[list[Row]]:
        batch: list[Row] = []
        size = 0
        for row in self._tally.usable(self._job.piece, self._job.bad_rows):
            batch.append(row)
            size += len(row.text) if row.ids is None and row.text is not None else _share(row.ids)
            if size >= _BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _encode(self, batch: list[Row]) -> Iterator[_Text]:
        texts = [row.text for row in batch if row.text is not None]
        encoded = iter(self._tokenizer.encode_batch(texts))
        for row in batch:
            if row.text is not None:
                yield _Text(row.text, next(encoded))
            elif (ids := self._own(row)) is not None:
                yield _Text(self._tokenizer.decode(ids.tolist()), ids)

    def _own(self, row: Row) -> npt.NDArray[np.int64] | None:
        """Return the ids of a document that came as ids, without the separator at either end.

        Raises:
            InputError: If the tokenizer cannot have made them.
        """
        ids, separator, size = row.ids, self._tokenizer.separator, self._tokenizer.size
        assert ids is not None
        if len(ids) and not 0 <= ids.min() <= ids.max() < size:
            raise InputError(
                f"{self._job.piece.place(row.number)} holds the id {ids.max():,}, but the tokenizer has "
                f"{size:,}.\nGive the tokenizer.json that made these ids."
            )
        start = int(len(ids) > 0 and ids[0] == separator)
        end = len(ids) - int(len(ids) > start and ids[-1] == separator)
        if (ids[start:end] == separator).any():
            fault = f"holds the separator, id {separator}, inside the document"
            self._tally.keeps(self._job.piece, row, fault, self._job.bad_rows)
            return None
        return ids[start:end]

    def _write(self, document: _Text, writers: dict[str, TokenWriter]) -> int:
        content = document.text.encode()
        digest = text_hash(content)
        split = self._splits.of(digest)
        if split is None:
            self._left_out += 1
            return len(content)
        self._hashes.append(digest)
        ids = np.empty(len(document.ids) + 1, dtype=np.uint32)
        ids[0], ids[1:] = self._tokenizer.separator, document.ids
        writers[split].add(ids, len(content))
        if split == VALIDATION:
            self._sample += content[: SAMPLE_BYTES - len(self._sample)]
            if len(document.ids) <= _MOST_COMPARED:
                self._lossless &= self._tokenizer.decode(document.ids.tolist()) == document.text
        return len(content)


def _share(ids: npt.NDArray[np.int64] | None) -> int:
    """Return the part of a batch that a document of ids takes, in characters."""
    return 0 if ids is None else len(ids) * _BATCH_CHARACTERS // _BATCH_IDS
