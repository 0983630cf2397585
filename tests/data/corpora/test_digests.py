import json
import os
import time
from pathlib import Path

import pytest

from mgvr_lightning.data.corpora import digests
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.errors import InputError


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read."""
    names: list[str] = []
    real = digests._digest

    def digest(path: Path, *arguments: object) -> str:
        names.append(path.name)
        return real(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(digests, "_digest", digest)
    return names


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(digests.time, "time", lambda: now + 60)


def test_digests_follow_the_content(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("1", "2", "3"))
    one.write_bytes(b"same")
    two.write_bytes(b"same")
    three.write_bytes(b"other" * 10**6)
    first, second, third = Digests().of([one, two, three])
    assert first == second != third
    assert Digests().of([three, one, three]) == [third, first, third]
    assert Digests().of([]) == []


def test_what_was_read_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(path.name.encode())
    settle(monkeypatch)
    memory = tmp_path / "kept" / "digests.json"
    first = Digests(memory).of(paths)
    assert Digests(memory).of(paths) == first
    assert reads == ["a", "b"]
    assert [path.name for path in memory.parent.iterdir()] == ["digests.json"]
    paths[1].write_bytes(b"B")
    again = Digests(memory).of(paths)
    assert again[0] == first[0]
    assert again[1] != first[1]
    assert reads == ["a", "b", "b"]


def test_a_change_is_seen_that_restores_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    path, memory = tmp_path / "a", tmp_path / "digests.json"
    path.write_bytes(b"one")
    settle(monkeypatch)
    first = Digests(memory).of([path])
    before = path.stat()
    time.sleep(0.05)
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert Digests(memory).of([path]) != first
    assert reads == ["a", "a"]


def test_a_file_that_was_just_written_is_not_remembered(tmp_path: Path, reads: list[str]) -> None:
    path, memory = tmp_path / "a", tmp_path / "digests.json"
    path.write_bytes(b"one")
    for _ in range(2):
        Digests(memory).of([path])
    assert reads == ["a", "a"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b'{"a": []}', b"null", b"\xff"])
def test_a_lost_memory_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str], content: bytes
) -> None:
    path, memory = tmp_path / "a", tmp_path / "digests.json"
    path.write_bytes(b"one")
    settle(monkeypatch)
    memory.write_bytes(content)
    first = Digests(memory).of([path])
    assert Digests(memory).of([path]) == first
    assert reads == ["a"]


def test_files_that_are_gone_are_forgotten_once_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    settle(monkeypatch)
    monkeypatch.setattr(digests, "_MANY", 3)
    memory, paths = tmp_path / "digests.json", [tmp_path / name for name in "abcd"]
    for path in paths:
        path.write_bytes(b"one")
    Digests(memory).of(paths[:2])
    paths[0].unlink()
    Digests(memory).of(paths[2:3])
    assert list(json.loads(memory.read_text())) == list(map(str, paths[:3]))
    Digests(memory).of(paths[3:])
    assert list(json.loads(memory.read_text())) == list(map(str, paths[1:]))
    Digests(memory).of(paths[1:])
    assert reads == ["a", "b", "c", "d"]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nowhere"):
        Digests().of([tmp_path / "nowhere"])
    with pytest.raises(InputError, match=r"cannot read .*folder"):
        (tmp_path / "folder").mkdir()
        Digests().of([tmp_path / "folder"])
