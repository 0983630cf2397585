"""Digests of files, remembered as long as the files stay as they are."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from mgvr_lightning.data.byte_progress import ByteProgress
from mgvr_lightning.data.temporary import aside
from mgvr_lightning.errors import InputError

# A file that was written this recently may be written again within one tick of its time stamps.
_SETTLED_SECONDS = 3.0
_BLOCK = 2**20
_MANY = 10_000


class Digests:
    """Hex digests of whole files.

    A digest is remembered with the file's size, inode and times. The time of the last change of status cannot
    be set back by a program, so even an edit that restores size and modification time is noticed. Files that
    are gone are forgotten once there are many.

    Args:
        memory: Where digests are kept between processes; None to keep none.
        progress: Whether to draw a progress bar where much has to be read.
    """

    def __init__(self, memory: Path | None = None, progress: bool = False) -> None:
        self._memory = memory
        self._progress = progress

    def of(self, paths: Sequence[Path]) -> list[str]:
        """Return the digest of each file.

        Raises:
            InputError: If a file cannot be read.
        """
        known = self._load()
        stamps = {path: _stamp(path) for path in paths}
        unknown = [path for path in stamps if known.get(_key(path), ("", ""))[0] != stamps[path]]
        total = sum(path.stat().st_size for path in unknown)
        with (
            ByteProgress("Hashing files", total, show=self._progress and total > 2**30) as bar,
            ThreadPoolExecutor() as pool,
        ):
            fresh = dict(zip(unknown, pool.map(lambda path: _digest(path, bar), unknown), strict=True))
        digests = {path: fresh.get(path) or known[_key(path)][1] for path in stamps}
        self._save(known, {path: (stamps[path], digest) for path, digest in fresh.items()})
        return [digests[path] for path in paths]

    def _load(self) -> dict[str, tuple[str, str]]:
        if self._memory is None or os.name != "posix":  # elsewhere a status time tells nothing
            return {}
        try:
            content = json.loads(self._memory.read_text(encoding="utf-8"))
            return {str(key): (str(stamp), str(digest)) for key, (stamp, digest) in content.items()}
        except (OSError, ValueError, AttributeError, TypeError):  # a lost memory costs time only
            return {}

    def _save(self, known: dict[str, tuple[str, str]], fresh: dict[Path, tuple[str, str]]) -> None:
        settled = {
            _key(path): value
            for path, value in fresh.items()
            if _stamp(path) == value[0] and time.time() - path.stat().st_ctime > _SETTLED_SECONDS
        }
        if self._memory is None or not settled:
            return
        kept = known | settled
        with suppress(OSError):
            if len(kept) > _MANY:
                kept = {key: value for key, value in kept.items() if Path(key).exists()}
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            temporary = aside(self._memory)
            temporary.write_text(json.dumps(kept, indent=0), encoding="utf-8")
            temporary.replace(self._memory)


def _key(path: Path) -> str:
    return str(path.resolve())


def _stamp(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}.") from error
    return f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}"


def _digest(path: Path, bar: ByteProgress) -> str:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                bar.advance(len(block))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}.") from error
    return digest.hexdigest()
