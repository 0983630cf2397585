"""Preparations that are killed, that run at the same time, and that are divided among machines."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from documents import kept_folder, texts
from held import Held, prepare, tokenizer_of

from mgvr_lightning.data.preparation.prepare import Part, Preparation
from mgvr_lightning.data.preparation.splits import HeldOut
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


def test_a_lost_token_file_of_a_piece_is_named(tmp_path: Path) -> None:
    splits = HeldOut(0.15)
    tokenizer = tokenizer_of(corpus(), tmp_path, splits)
    preparation = Preparation(corpus(), "a", tokenizer, splits, tmp_path, False)
    assert preparation.run(Part(1, 2)) is None
    cut = next(tmp_path.glob(".preparing-*/000000/train.bin"))
    cut.write_bytes(cut.read_bytes()[:-2])
    with pytest.raises(InputError, match=r"000000/train\.bin has .* bytes, not the"):
        preparation.run()
