import io
import sys
import threading

import pytest

from mgvr_lightning.data import byte_progress
from mgvr_lightning.data.byte_progress import ByteProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(byte_progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_without_a_terminal(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with ByteProgress("Reading", 100_000_000, done=20_000_000) as progress:
        clock[0] += 5
        progress.advance(10_000_000)
        assert capsys.readouterr().err == ""
        clock[0] += 5.5
        progress.advance(11_000_000)
        assert capsys.readouterr().err == "Reading: 41.0 of about 100.0 MB, 2.0 MB/s, 0.5 min left\n"
        progress.advance(9_000_000)
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "Reading: 50.0 MB, 2.9 MB/s\n"


def test_nothing_is_said_unless_asked_for_or_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with ByteProgress("Reading", 10, show=False) as progress:
        progress.advance(10)
    with pytest.raises(RuntimeError), ByteProgress("Reading", 10):
        raise RuntimeError
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ByteProgress("Reading", 2_000_000) as progress:
        progress.advance(2_000_000)
    assert "Reading: 100%" in terminal.getvalue()
    assert "2.00M/2.00M" in terminal.getvalue()


def test_threads_may_share_it(capsys: pytest.CaptureFixture[str]) -> None:
    with ByteProgress("Reading", 0) as progress:
        threads = [
            threading.Thread(target=lambda: [progress.advance(1000) for _ in range(1000)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert capsys.readouterr().err.startswith("Reading: 8.0 MB, ")
