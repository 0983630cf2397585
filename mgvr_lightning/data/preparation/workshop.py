"""The folder in which a corpus is being prepared: finished pieces, and who works on which."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from mgvr_lightning.data.preparation.encoder import FACTS, HASHES, SAMPLE
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.temporary import aside

TOKENIZER = "tokenizer.json"


class Workshop:
    """Finished pieces of one corpus, for one tokenizer. Any number of processes may work in it at once.

    A piece is written aside and renamed when it is complete, so what is there is whole; locks, which the
    operating system drops when a process ends, only keep two from doing the same.

    Args:
        folder: Where it lies; its name says for what.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, tokenizer: Tokenizer) -> None:
        """Make the folder, if need be, and put the tokenizer there for workers to load."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.tokenizer_file.exists():
            temporary = aside(self.tokenizer_file)
            tokenizer.save(temporary)
            temporary.replace(self.tokenizer_file)

    @property
    def tokenizer_file(self) -> Path:
        """Where the tokenizer lies."""
        return self.folder / TOKENIZER

    def piece(self, index: int) -> Path:
        """Return the folder of a finished piece."""
        return self.folder / f"{index:06}"

    def done(self, index: int) -> bool:
        """Return whether a piece is finished."""
        return (self.piece(index) / FACTS).exists()

    @contextmanager
    def claim(self, index: int) -> Iterator[Path | None]:
        """Give a folder to write a piece in, which becomes the piece's when all went well.

        It is None if the piece is finished or somebody else works on it.
        """
        lock = FileLock(self.folder / f"{index:06}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield None
            return
        try:
            if self.done(index):
                yield None
                return
            temporary = aside(self.piece(index))
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            try:
                yield temporary
                rename(temporary, self.piece(index))
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        finally:
            lock.release()

    def joining(self) -> FileLock:
        """Return the lock of whoever joins the pieces."""
        return FileLock(self.folder / "joining.lock")

    def facts(self, index: int) -> dict[str, Any]:
        """Return the facts about a finished piece."""
        facts: dict[str, Any] = json.loads((self.piece(index) / FACTS).read_text(encoding="utf-8"))
        return facts

    def tokens(self, index: int, split: str) -> Path:
        """Return the token file of a finished piece."""
        return self.piece(index) / f"{split}.bin"

    def hashes(self, index: int) -> npt.NDArray[np.uint64]:
        """Return the hashes of a finished piece's documents."""
        return np.fromfile(self.piece(index) / HASHES, dtype="<u8").astype(np.uint64, copy=False)

    def sample(self, index: int) -> bytes:
        """Return the first validation text of a finished piece."""
        return (self.piece(index) / SAMPLE).read_bytes()

    def remove(self) -> None:
        """Delete the folder, when nothing in it is needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def rename(temporary: Path, folder: Path) -> None:
    """Rename a complete folder, unless somebody else was faster and made the same."""
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.exists():
            raise
