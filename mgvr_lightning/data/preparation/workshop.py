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
from mgvr_lightning.errors import InputError

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
        """Return whether a piece is finished, with all of its files as they were written."""
        try:
            splits = self.facts(index)["splits"]
            expected = {
                self.tokens(index, name): own["tokens"] * own["width"] for name, own in splits.items()
            }
            expected[self.piece(index) / HASHES] = 8 * sum(own["documents"] for own in splits.values())
            whole = all(path.stat().st_size == size for path, size in expected.items())
            return whole and self.sample_file(index).exists()
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def busy(self, index: int) -> bool:
        """Return whether somebody works on a piece."""
        if not self.tokenizer_file.exists():
            return False
        try:
            with self._lock(index):
                return False
        except Timeout:
            return True

    @contextmanager
    def claim(self, index: int) -> Iterator[Path | None]:
        """Give a folder to write a piece in, which becomes the piece's when all went well.

        It is None if the piece is finished or somebody else works on it.
        """
        if not self.tokenizer_file.exists():  # everything was finished and cleared up meanwhile
            yield None
            return
        lock = self._lock(index)
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
            temporary.mkdir()
            try:
                yield temporary
                self._finish(temporary, index)
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

    def text_bytes(self, index: int) -> int:
        """Return the bytes of text in a finished piece."""
        return sum(split["bytes"] for split in self.facts(index)["splits"].values())

    def tokens(self, index: int, split: str) -> Path:
        """Return the token file of a finished piece."""
        return self.piece(index) / f"{split}.bin"

    def hashes(self, index: int) -> npt.NDArray[np.uint64]:
        """Return the hashes of a finished piece's documents."""
        return np.fromfile(self.piece(index) / HASHES, dtype="<u8").astype(np.uint64, copy=False)

    def sample_file(self, index: int) -> Path:
        """Return the file with the first validation text of a finished piece."""
        return self.piece(index) / SAMPLE

    def _finish(self, temporary: Path, index: int) -> None:
        shutil.rmtree(self.piece(index), ignore_errors=True)  # one that isn't whole, if any
        try:
            temporary.rename(self.piece(index))
        except OSError:
            if not self.done(index):  # else somebody whom locks don't reach was faster
                raise

    def _lock(self, index: int) -> FileLock:
        return FileLock(self.folder / f"{index:06}.lock", timeout=0)

    def remove(self) -> None:
        """Delete the folder, when nothing in it is needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def cannot_write(cache: Path, error: OSError) -> InputError:
    """Return what to tell of a fault of the file system while the cache was written."""
    return InputError(
        f"cannot prepare the corpus in {cache}: {error.strerror or error} ({error.filename or cache}).\n"
        "Give a folder that can be written to, with enough room: `--data.cache`. A preparation takes twice "
        "the size of its tokens while it joins them. Run again, it goes on where it stopped."
    )
