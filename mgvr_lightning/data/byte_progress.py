"""Progress through bytes: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

from tqdm import tqdm

_LINE_SECONDS = 10.0


class ByteProgress:
    """Bytes done, MB/s and the time that is left, on stderr; used as a context manager, from any thread.

    Args:
        title: What is going on.
        total: Bytes that there are, as far as known; 0 if not.
        done: Bytes that were done before; they don't count for the speed.
        show: Whether to show anything.
    """

    def __init__(self, title: str, total: int, done: int = 0, show: bool = True) -> None:
        self._title, self._total, self._first, self._done = title, total, done, done
        self._estimated, self._guessed, self._found = total - done, 0, 0
        self._lock = threading.Lock()
        self._started = self._spoken = time.monotonic()
        self._show = show
        self._bar: tqdm[Any] | None = None
        if show and sys.stderr.isatty():
            self._bar = tqdm(
                desc=title, total=total or None, initial=done, unit="B", unit_scale=True, dynamic_ncols=True
            )

    def __enter__(self) -> ByteProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._total = self._done
        if self._bar is not None:
            self._bar.total = self._total or None
            self._bar.close()
        elif self._show and kind is None:
            self._say()

    def advance(self, count: int) -> None:
        """Add ``count`` bytes."""
        with self._lock:
            self._done += count
            if self._bar is not None:
                self._bar.update(count)
            elif self._show and time.monotonic() - self._spoken > _LINE_SECONDS:
                self._say()

    def settle(self, guessed: int, found: int) -> None:
        """Tell how many bytes a finished part was guessed to have, and has; the rest is scaled by it."""
        with self._lock:
            self._guessed += guessed
            self._found += found
            if self._guessed > 0:
                rest = max(0, self._estimated - self._guessed)
                self._total = self._first + self._found + rest * self._found // self._guessed
            if self._bar is not None:
                self._bar.total = max(self._total, self._done) or None

    def _say(self) -> None:
        self._spoken = time.monotonic()
        speed = (self._done - self._first) / max(1e-9, self._spoken - self._started)
        text = f"{self._title}: {self._done / 1e6:,.1f} MB"
        if self._total > self._done:
            text = f"{self._title}: {self._done / 1e6:,.1f} of about {self._total / 1e6:,.1f} MB"
        text += f", {speed / 1e6:.1f} MB/s"
        if self._total > self._done and speed > 0:
            text += f", {(self._total - self._done) / speed / 60:.1f} min left"
        print(text, file=sys.stderr, flush=True)  # noqa: T201
