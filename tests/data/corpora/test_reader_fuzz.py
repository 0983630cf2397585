"""Damaged files: every reader tells what is wrong, or reads; it never fails otherwise, hangs or is silent."""

import gzip
import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import cut_finely, read

from mgvr_lightning.data.corpora.corpus import BadRows, Corpus
from mgvr_lightning.data.corpora.datatrove import Datatrove
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.data.corpora.hub import Hub
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.errors import InputError

FIXTURE = Path(__file__).parent / "fixtures" / "datatrove"
POLICIES: tuple[BadRows, ...] = get_args(BadRows)
SECONDS = 20
TEXTS = ["Grüße, 東京 \U0001f600.\r\n", "", *(f"row {number} " * (number % 9) for number in range(60))]
LINES = "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(TEXTS)).encode()


def parquet(**options: object) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table(
        {"id": range(len(TEXTS)), "text": TEXTS, "meta": [{"a": [n]} for n in range(len(TEXTS))]}
    )
    pq.write_table(table, sink, row_group_size=25, **options)
    return bytes(sink.getvalue())


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def files(path: Path, bad_rows: BadRows) -> Corpus:
    return Files([str(path)], bad_rows=bad_rows)


def token_files(path: Path, bad_rows: BadRows) -> Corpus:
    return Datatrove([str(path.parent / "*.ds")], bad_rows)


def folder(path: Path, bad_rows: BadRows) -> Corpus:
    return Hub(str(path.parent), bad_rows=bad_rows)


def table(path: Path, bad_rows: BadRows) -> Corpus:
    return Hub(str(path.parent), bad_rows=bad_rows, streaming=False)


WORDS = ["word \u00e9"] * 60
DOCUMENT = "\n".join(TEXTS)
IDS, ENDS, FACTS = (path.read_bytes() for path in sorted(FIXTURE.glob("*.ds*")))
BESIDE = {"a.ds": IDS, "a.ds.index": ENDS, "a.ds.metadata": FACTS}
READERS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path, BadRows], Corpus]]] = {
    "parquet": ("a.parquet", parquet, files),
    "parquet, plain": ("a.parquet", lambda: parquet(compression="none", use_dictionary=False), files),
    "parquet, zstd": ("a.parquet", lambda: parquet(compression="zstd", data_page_version="2.0"), files),
    "parquet, checksums": ("a.parquet", lambda: parquet(write_page_checksum=True), files),
    "jsonl": ("a.jsonl", lambda: LINES, files),
    "jsonl.gz": ("a.jsonl.gz", lambda: gzip.compress(LINES), files),
    "jsonl.zst": ("a.jsonl.zst", lambda: zstd(LINES), files),
    "txt": ("a.txt", DOCUMENT.encode, files),
    "txt.gz": ("a.txt.gz", lambda: gzip.compress(DOCUMENT.encode()), files),
    "datatrove": ("a.ds", lambda: IDS, token_files),
    "datatrove, index": ("a.ds.index", lambda: ENDS, token_files),
    "datatrove, metadata": ("a.ds.metadata", lambda: FACTS, token_files),
    "hub, jsonl": ("train.jsonl.gz", lambda: gzip.compress(LINES), folder),
    "hub, parquet": ("train.parquet", parquet, folder),
    "hub, csv": ("train.csv", lambda: b"text\n" + b'"word \xc3\xa9\n"\n' * 60, folder),
    "hub, csv, not streamed": ("train.csv", lambda: b"text\n" + b'"word \xc3\xa9"\n' * 60, table),
}

HELD: dict[str, list[Any]] = {
    "txt": [DOCUMENT],
    "datatrove": [
        ids.tolist() for ids in np.split(np.frombuffer(IDS, "<u2"), np.frombuffer(ENDS, "<u8"))[:-1]
    ],
    "hub, csv": [f"{word}\n" for word in WORDS],
    "hub, csv, not streamed": WORDS,
}
HELD |= {"txt.gz": [DOCUMENT], **{f"datatrove, {part}": HELD["datatrove"] for part in ("index", "metadata")}}


def flip(content: bytearray, draw: random.Random, low: int = 0) -> None:
    for _ in range(draw.choice((1, 1, 4, 30))):
        content[draw.randrange(low, len(content))] ^= 1 << draw.randrange(8)


def splice(content: bytearray, draw: random.Random) -> None:
    at, other = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    inner = content[at:other]
    content[at:other] = draw.choice((b"", bytes(len(inner)), inner * 2, draw.randbytes(len(inner))))


def cut(content: bytearray, draw: random.Random) -> None:
    del content[draw.randrange(len(content)) :]


def new_head(content: bytearray, draw: random.Random) -> None:
    content[: draw.randrange(len(content))] = draw.randbytes(draw.randrange(9))


def small(content: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(content))
    content[at : at + draw.randrange(4)] = draw.randbytes(draw.randrange(4))


def tail(content: bytearray, draw: random.Random) -> None:
    """Flips bits where footers are."""
    flip(content, draw, max(0, len(content) - 900))


DAMAGES = (flip, flip, small, small, tail, splice, cut, new_head)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Does one to three kinds of damage."""
    damaged = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 3))):
        if damaged:
            draw.choice(DAMAGES)(damaged, draw)
    return bytes(damaged)


@contextmanager
def limited(what: str) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(what)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(
    path: Path, make: Callable[[Path, BadRows], Corpus], bad_rows: BadRows, held: list[Any] | None = None
) -> str:
    """What reading comes to, checked; ``held`` is what an undamaged file holds."""
    corpus = make(path, bad_rows)
    try:
        corpus.fingerprint(Digests())
        rows, tally = read(corpus)
    except InputError as error:
        assert str(error).strip()
        assert len(str(error)) < 20_000
        return "told"
    texts = [text for _, text in rows]
    assert held is None or texts == held
    "".join(text for text in texts if isinstance(text, str)).encode()  # UTF-8 holds it
    assert bad_rows != "raise" or not tally.faults
    if not rows:
        content = path.read_bytes().strip()
        assert tally.skipped > 0 or not content or (path.suffix == ".csv" and b"\n" not in content)
        return "nothing"
    return "read"


def fuzz(folder: Path, kind: str, count: int, seed: int) -> dict[str, int]:
    name, make, corpus = READERS[kind]
    content = make()
    draw = random.Random(f"{kind} {seed}")
    if "datatrove" in kind:
        for other, held in BESIDE.items():
            (folder / other).write_bytes(held)
    outcomes: dict[str, int] = {}
    for number in range(count):
        (folder / name).write_bytes(mutate(content, draw) if number else content)
        held = None if number else HELD.get(kind, TEXTS)
        for bad_rows in POLICIES:
            with limited(f"{kind}, seed {seed}, mutation {number}, {bad_rows}"):
                try:
                    result = outcome(folder / name, corpus, bad_rows, held)
                except Exception as error:
                    raise AssertionError(f"{kind}, seed {seed}, mutation {number}, {bad_rows}") from error
            outcomes[result] = outcomes.get(result, 0) + 1
            assert number or result == "read"
    return outcomes


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files_are_told_or_read(tmp_path: Path, kind: str) -> None:
    count = 8 if "hub" in kind else 40
    assert fuzz(tmp_path, kind, count, 0)["told"] > count / 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("kind", READERS)
def test_many_damaged_files_are_told_or_read(tmp_path: Path, kind: str, seed: int) -> None:
    fuzz(tmp_path, kind, 60 if "hub" in kind else 700, seed)


PLAIN = [text.replace("\r\n", " ") for text in TEXTS]
LINE_WISE: dict[str, tuple[list[str], bytes, Callable[[Path, BadRows], Corpus]]] = {
    "a.jsonl": (TEXTS, LINES, files),
    "a.jsonl.gz": (TEXTS, LINES, files),
    "train.jsonl": (TEXTS, LINES, folder),
    "train.txt": (PLAIN, "".join(f"{text}\n" for text in PLAIN).encode(), folder),
}


def change(content: bytes, draw: random.Random) -> tuple[bytes, int, int]:
    """Damages one place; tells how many lines before and after it are as they were."""
    start = draw.randrange(len(content) + 1)
    stop = min(len(content), start + draw.choice((0, 1, 1, 3, 40, 200)))
    inner = content[start:stop]
    new = draw.choice((b"", b"\n", bytes(len(inner)), inner * 2, draw.randbytes(draw.choice((1, 1, 5, 100)))))
    before, after = content[:start], content[stop:]
    return before + new + after, before.count(b"\n"), max(0, after.count(b"\n") - 1)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("piece", [300, 2**20])
@pytest.mark.parametrize("name", LINE_WISE)
def test_damage_in_one_place_leaves_the_other_lines_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, piece: int, seed: int
) -> None:
    cut_finely(monkeypatch, piece)
    held, content, make = LINE_WISE[name]
    path, draw = tmp_path / name, random.Random(f"{name} {seed}")
    for number in range(400 if seed else 25 if make is folder else 60):
        damaged, before, after = change(content, draw)
        path.write_bytes(gzip.compress(damaged) if name.endswith(".gz") else damaged)
        lines = damaged.removesuffix(b"\n").split(b"\n")
        first = len(lines) - after
        for bad_rows in POLICIES[1:]:
            with limited(f"{name}, seed {seed}, mutation {number}, {bad_rows}"):
                rows, tally = read(make(path, bad_rows))
            found = {int(place.rpartition(" ")[2]): text for place, text in rows}
            assert len(found) == len(rows)
            assert [found.pop(line) for line in range(1, before + 1)] == held[:before], number
            expected = held[len(held) - after :]
            assert [found.pop(line + 1) for line in range(first, len(lines))] == expected, number
            assert all(before < line <= first for line in found), number
            blank = sum(not line.strip() for line in lines) if "jsonl" in name else 0
            assert tally.rows == len(lines) - blank, number


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_damaged_text_file_is_mended_as_python_does(tmp_path: Path, suffix: str) -> None:
    path, draw = tmp_path / f"a.txt{suffix}", random.Random(suffix)
    for number in range(60):
        damaged = mutate(DOCUMENT.encode(), draw)
        path.write_bytes(gzip.compress(damaged) if suffix else damaged)
        if damaged:
            (row,) = read(files(path, "replace"))[0]
            assert row == (str(path), damaged.decode(errors="replace").removeprefix("\ufeff")), number


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_damaged_tokenizers_are_told_or_work(tmp_path: Path, count: int) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer.train(TEXTS, 300, progress=False).save(path)
    content, draw = path.read_bytes(), random.Random(count)
    told = 0
    for number in range(count):
        path.write_bytes(mutate(content, draw))
        with limited(f"mutation {number}"):
            try:
                tokenizer = Tokenizer.load(path)
                ids = tokenizer.encode(TEXTS[0])
                tokenizer.decode(ids)
                assert tokenizer.token_bytes().shape == (tokenizer.size,)
                assert max(ids, default=0) < tokenizer.size
            except InputError:
                told += 1
            except BaseException as error:
                raise AssertionError(f"mutation {number} of {count}") from error
    assert count // 3 < told < count
