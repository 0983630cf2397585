"""Preparations that are killed, that run at the same time, and that are divided among machines."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from documents import kept_folder, texts
from held import Held, prepare, tokenizer_of

from mgvr_lightning.data.preparation import prepare as prepare_module
from mgvr_lightning.data.preparation.prepare import Part, Preparation
from mgvr_lightning.data.preparation.splits import HeldOut
from mgvr_lightning.data.preparation.workshop import Workshop
from mgvr_lightning.errors import InputError

COUNT, PIECE, KILLS = 600, 25, 20
HERE = Path(__file__).parents[2]
SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:4]
from held import Held, prepare
from documents import texts

if __name__ == "__main__":
    corpus = Held(texts({count}), piece={piece})
    prepare(corpus, Path(sys.argv[1]), tokenizer=Path(sys.argv[2]), processes={processes})
"""


def corpus() -> Held:
    """A corpus of two dozen pieces."""
    return Held(texts(COUNT), piece=PIECE)


def content(folder: Path) -> dict[str, str]:
    """Digests of a folder's files."""
    return {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@cache
def straight() -> tuple[Path, dict[str, str]]:
    """The tokenizer, and what an undisturbed preparation in one process gives."""
    cache_folder = kept_folder("mgvr-straight-")
    prepared = prepare(corpus(), cache_folder)
    return prepared.folder / "tokenizer.json", content(prepared.folder)


def start(cache_folder: Path, processes: int) -> "subprocess.Popen[str]":
    """Starts a preparation in a process group of its own."""
    script = cache_folder.parent / f"prepare-{processes}.py"
    script.write_text(SCRIPT.format(count=COUNT, piece=PIECE, processes=processes), encoding="utf-8")
    command = [
        sys.executable,
        str(script),
        str(cache_folder),
        str(straight()[0]),
        str(HERE),
    ]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def only_result(cache_folder: Path) -> dict[str, str]:
    """The digests of the one prepared folder; nothing else may be left beside it."""
    left = [path for path in cache_folder.iterdir() if path.is_dir()]
    assert [path.name for path in left if not path.name.startswith("held-")] == []
    (folder,) = left
    return content(folder)


def finished_pieces(cache_folder: Path) -> int:
    """Pieces that are complete, in the folder of unfinished work."""
    return len(list(cache_folder.glob(".preparing-*/*/facts.json")))


def test_several_processes_give_what_one_gives(tmp_path: Path) -> None:
    process = start(tmp_path / "cache", processes=2)
    assert process.wait(timeout=60) == 0, process.communicate()[1]
    assert only_result(tmp_path / "cache") == straight()[1]


def test_killed_at_random_moments_it_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    draws = random.Random(0)
    began = time.monotonic()
    assert start(tmp_path / "whole", processes=2).wait(timeout=60) == 0
    whole = time.monotonic() - began
    inside = 0
    for number in range(KILLS):
        folder = tmp_path / f"cache-{number}"
        target = draws.randrange(COUNT // PIECE)  # kill once that many pieces are there
        process = start(folder, processes=2)
        while process.poll() is None and finished_pieces(folder) < target:
            time.sleep(0.001)
        time.sleep(draws.uniform(0, 0.02 * whole))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        inside += process.returncode != 0
        prepare(corpus(), folder, tokenizer=straight()[0])
        assert only_result(folder) == straight()[1], number
        shutil.rmtree(folder)
    assert inside >= KILLS // 2  # else the kills came too late to show anything


def test_a_killed_preparation_leaves_no_process_behind(tmp_path: Path) -> None:
    process = start(tmp_path / "cache", processes=2)
    while not finished_pieces(tmp_path / "cache") and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    deadline = time.monotonic() + 20
    while (alive := _processes(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive == []


def _processes(argument: str) -> list[str]:
    """Command lines of running processes that hold `argument`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            line = (path.parent / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if argument in line and path.parent.name != str(os.getpid()):
            found.append(line)
    return found


@pytest.mark.parametrize("processes", [1, 2])
def test_two_at_once_give_one_cache(tmp_path: Path, processes: int) -> None:
    runs = [start(tmp_path / "cache", processes) for _ in range(2)]
    for run in runs:
        assert run.wait(timeout=60) == 0, run.communicate()[1]
    assert only_result(tmp_path / "cache") == straight()[1]


def test_parts_join_to_what_one_run_gives(tmp_path: Path) -> None:
    splits = HeldOut(0.15)
    tokenizer = tokenizer_of(corpus(), tmp_path, splits)
    preparation = Preparation(corpus(), "a", tokenizer, splits, tmp_path, False)
    for index in (3, 1):
        assert preparation.run(Part(index, 3)) is None
    assert finished_pieces(tmp_path) == 2 * COUNT // PIECE // 3
    prepared = preparation.run(Part(2, 3))
    assert prepared is not None
    assert only_result(tmp_path) == straight()[1]


def test_parts_that_were_made_apart_are_joined_by_a_run_without_parts(tmp_path: Path) -> None:
    splits = HeldOut(0.15)
    for index in (1, 2):
        own = tmp_path / f"machine-{index}"
        tokenizer = tokenizer_of(corpus(), own, splits)
        assert Preparation(corpus(), "a", tokenizer, splits, own, False).run(Part(index, 2)) is None
    first, second = tmp_path / "machine-1", tmp_path / "machine-2"
    shutil.copytree(second, first, dirs_exist_ok=True)
    before = finished_pieces(first)
    assert before == COUNT // PIECE
    prepare(corpus(), first)
    assert only_result(first) == straight()[1]


@pytest.mark.parametrize(("index", "count"), [(0, 2), (3, 2), (1, 0)])
def test_a_part_that_is_none_is_refused(index: int, count: int) -> None:
    with pytest.raises(InputError, match=f"part {index} of {count}"):
        Part(index, count)


class Changing(Held):
    """A corpus that is another one after it was read."""

    def pieces(self):  # type: ignore[no-untyped-def]
        """The pieces."""
        self.version += "x"
        return super().pieces()


def test_a_corpus_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the corpus changed while it was prepared"):
        prepare(Changing(texts(COUNT)), tmp_path, tokenizer=straight()[0])
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("name", ["train.bin", "facts.json", "hashes.bin", "sample.txt"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_piece_that_is_not_whole_is_made_again(tmp_path: Path, name: str, damage: str) -> None:
    splits = HeldOut(0.15)
    tokenizer = tokenizer_of(corpus(), tmp_path, splits)
    preparation = Preparation(corpus(), "a", tokenizer, splits, tmp_path, False)
    assert preparation.run(Part(1, 2)) is None
    path = sorted(tmp_path.glob(f".preparing-*/*/{name}"))[0]
    if damage == "gone":
        path.unlink()
    elif name != "sample.txt":
        path.write_bytes(path.read_bytes()[:-2])
    assert preparation.run() is not None
    assert only_result(tmp_path) == straight()[1]


def test_what_was_stopped_after_joining_is_cleared_up_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Workshop, "remove", lambda self: None)
        prepare(corpus(), tmp_path)
    assert finished_pieces(tmp_path) == COUNT // PIECE
    prepare(corpus(), tmp_path)
    assert only_result(tmp_path) == straight()[1]


def test_a_workshop_that_was_cleared_up_stays_so(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path / "gone")
    with workshop.claim(3) as folder:
        assert folder is None
    assert not workshop.busy(3)
    assert not workshop.folder.exists()


def test_two_at_once_encode_no_piece_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    logged = """
from mgvr_lightning.data.preparation import encoder
run = encoder.Encoder.run
def counted(self, advance):
    with open({log!r}, "a") as file:
        file.write(f"{{self._job.index}}\\n")
    run(self, advance)
encoder.Encoder.run = counted
"""
    script = logged.format(log=str(log)) + SCRIPT.format(count=COUNT, piece=PIECE, processes=1)
    path = tmp_path / "logged.py"
    path.write_text(script, encoding="utf-8")
    command = [sys.executable, str(path), str(tmp_path / "cache"), str(straight()[0]), str(HERE)]
    runs = [subprocess.Popen(command) for _ in range(3)]
    assert [run.wait(timeout=60) for run in runs] == [0, 0, 0]
    encoded = sorted(map(int, log.read_text(encoding="utf-8").split()))
    assert encoded == list(range(COUNT // PIECE))


def test_two_that_join_at_once_give_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = HeldOut(0.15)
    tokenizer = tokenizer_of(corpus(), tmp_path, splits)
    preparation = Preparation(corpus(), "a", tokenizer, splits, tmp_path, False)
    joins = []
    own = prepare_module.join

    def slowly(*arguments: Any) -> None:
        joins.append(1)
        time.sleep(0.5)
        own(*arguments)

    monkeypatch.setattr(prepare_module, "join", slowly)
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(preparation.run) for _ in range(2)]
        assert all(result.result() is not None for result in results)
    assert len(joins) == 1
    assert only_result(tmp_path) == straight()[1]


def test_an_interrupt_ends_at_once_with_one_line(tmp_path: Path) -> None:
    process = start(tmp_path / "cache", processes=2)
    while not finished_pieces(tmp_path / "cache") and process.poll() is None:
        time.sleep(0.001)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    assert time.monotonic() - began < 5
    prepare(corpus(), tmp_path / "cache", tokenizer=straight()[0])
    assert only_result(tmp_path / "cache") == straight()[1]


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match=r"(?s)cannot prepare the corpus in .*file: .*data\.cache"):
        prepare(corpus(), tmp_path / "file")
    with pytest.raises(InputError, match=r"(?s)cannot prepare the corpus in .*file: .*data\.cache"):
        prepare(corpus(), tmp_path / "file", tokenizer=straight()[0])


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    script = (
        "import resource, sys\nfrom pathlib import Path\nsys.path[:0] = sys.argv[3:4]\n"
        "from documents import texts\nfrom held import Held, prepare\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "prepare(Held(texts(2000)), Path(sys.argv[1]), tokenizer=Path(sys.argv[2]))\n"
    )
    small = tmp_path / "tokenizer.json"
    shutil.copy(straight()[0], small)
    command = [sys.executable, "-c", script, str(tmp_path / "cache"), str(small), str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "InputError: cannot prepare the corpus in" in done.stderr, done.stderr
    assert "File too large" in done.stderr
