import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import cut_finely, read

from mgvr_lightning.data.corpora import jsonl, parquet, plain_text
from mgvr_lightning.data.corpora import rows as files_rows
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.files import Files

TEXT = "one\r\ntwo\rthree\u2028four\u0085five\x0b\x0c\x00 six\n\n  séven 東京 <|endoftext|>"


def texts(*paths: Path, **options: Any) -> list[str]:
    return [text for _, text in rows(*paths, **options)]


def rows(*paths: Path, **options: Any) -> list[tuple[str, str]]:
    return read(Files([str(path) for path in paths], **options))[0]


def fingerprint(path: Path, **options: Any) -> str:
    return Files([str(path)], **options).fingerprint(Digests())


def pack(content: bytes, suffix: str) -> bytes:
    if suffix == ".zst":
        return bytes(pa.compress(content, codec="zstd", asbytes=True))
    return gzip.compress(content) if suffix == ".gz" else content


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_text_arrives_unchanged_but_for_the_byte_order_mark(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    for mark in ("", "\ufeff"):
        path.write_bytes(pack((mark + TEXT).encode(), suffix))
        assert texts(path) == [TEXT]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".ndjson", ".jsonl.gz", ".jsonl.zst"])
@pytest.mark.parametrize("escaped", [True, False])
def test_json_lines(tmp_path: Path, suffix: str, escaped: bool) -> None:
    records = [{"text": TEXT}, {"id": 3, "text": ""}, {"text": "last"}]
    lines = [json.dumps(record, ensure_ascii=escaped) for record in records]
    content = "\ufeff" + lines[0] + "\r\n\n" + lines[1] + "\n  \n" + lines[2]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(content.encode(), path.suffix))
    expected = [(1, TEXT), (3, ""), (5, "last")]
    assert rows(path) == [(f"{path}, line {line}", text) for line, text in expected]


KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", KINDS)
def test_parquet(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "a.parquet"
    content = [f"{TEXT} {number % 7}" for number in range(1000)]
    table = pa.table({"id": range(1000), "a.b": ["x"] * 1000, "content": pa.array(content).cast(kind)})
    pq.write_table(table, path, row_group_size=300)
    found = rows(path, column="content")
    assert [text for _, text in found] == content
    assert [place for place, _ in found[::333]] == [f"{path}, row {n}" for n in ("1", "334", "667", "1,000")]
    assert texts(path, column="a.b") == ["x"] * 1000


def test_globs_are_sorted_and_files_read_once(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt", "[x].txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name, encoding="utf-8")
    assert texts(tmp_path / "*.txt") == ["[x].txt", "a.txt", "b.txt"]
    assert texts(tmp_path / "b.txt", tmp_path / "**/*.txt") == ["b.txt", "[x].txt", "a.txt", "sub/c.txt"]
    assert texts(tmp_path / "[x].txt") == ["[x].txt"]


def test_every_pass_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b"}\n', encoding="utf-8")
    corpus = Files([str(path)])
    (piece,) = corpus.pieces()
    assert list(piece.rows()) == list(piece.rows())
    assert list(corpus.texts()) == ["a", "b"] == list(corpus.texts())


def test_fingerprint_follows_the_content_and_the_options(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n', encoding="utf-8")
    before = path.stat()
    fingerprints = {fingerprint(path)}
    assert fingerprint(tmp_path / "*") in fingerprints
    fingerprints.add(fingerprint(path, column="b"))
    fingerprints.add(fingerprint(path, bad_rows="skip"))
    path.write_text('{"text": "b"}\n', encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    fingerprints.add(fingerprint(path))
    path.rename(tmp_path / "a.txt")
    fingerprints.add(fingerprint(tmp_path / "a.txt"))
    assert len(fingerprints) == 5
    (tmp_path / "b.txt").write_bytes(path.with_name("a.txt").read_bytes())
    assert Files([str(tmp_path / "b.txt")]).fingerprint(Digests()) in fingerprints


def test_the_locale_does_not_matter_and_nothing_is_cached_elsewhere(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    data.mkdir()
    home.mkdir()
    (data / "a.txt").write_text(TEXT, encoding="utf-8", newline="")
    (data / "b.jsonl").write_text(json.dumps({"text": TEXT}, ensure_ascii=False), encoding="utf-8")
    pq.write_table(pa.table({"text": [TEXT]}), data / "c.parquet")
    script = (
        "import sys; from mgvr_lightning.data.corpora.files import Files\n"
        "print(ascii(list(Files([sys.argv[1]]).texts())))\n"
        "assert not {'torch', 'lightning', 'datasets', 'pandas'} & set(sys.modules)"
    )
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "HOME": str(home),
    }
    command = [sys.executable, "-c", script, str(data / "*")]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == ascii([TEXT, TEXT, TEXT])
    assert list(home.iterdir()) == []


def test_description(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    assert Files([str(tmp_path / "a.txt")]).describe() == {
        "paths": str(tmp_path / "a.txt"),
        "column": "text",
        "bad_rows": "raise",
        "files": 1,
        "file_bytes": 1,
    }


def write_all(folder: Path) -> list[tuple[str, str]]:
    """Files of all kinds, and what they hold."""
    files: dict[str, bytes] = {
        "a.TXT": b"first",
        "b.txt": b"",
        "c.txt.GZ": gzip.compress(b"packed"),
        "d.jsonl": b'\xef\xbb\xbf{"text": "one"}\r\n\n{"text": "' + b"long" * 50 + b'"}\n\n\n{"text": "end"}',
        "e.jsonl": b"",
        "f.JSON.zst": pack(b'{"text": "z"}\n\n{"text": "zz"}\n', ".zst"),
        "h.txt": b"after",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    words = [f"row {number}" for number in range(40)]
    pq.write_table(pa.table({"text": words, "id": range(40)}), folder / "g.Parquet", row_group_size=7)
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), folder / "g2.parquet")
    return [
        (f"{folder}/a.TXT", "first"),
        (f"{folder}/b.txt", ""),
        (f"{folder}/c.txt.GZ", "packed"),
        (f"{folder}/d.jsonl, line 1", "one"),
        (f"{folder}/d.jsonl, line 3", "long" * 50),
        (f"{folder}/d.jsonl, line 6", "end"),
        (f"{folder}/f.JSON.zst, line 1", "z"),
        (f"{folder}/f.JSON.zst, line 3", "zz"),
        *((f"{folder}/g.Parquet, row {number}", text) for number, text in enumerate(words, 1)),
        (f"{folder}/h.txt", "after"),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 50, 300, 2**24])
def test_the_rows_are_the_same_whatever_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    expected = write_all(tmp_path)
    cut_finely(monkeypatch, size)
    assert rows(tmp_path / "*") == expected
    pieces = Files([str(tmp_path / "*")]).pieces()
    assert len(pieces) >= (40 if size < 5 else 5)
    counts = [sum(1 for _ in piece.rows()) for piece in pieces]
    assert sum(counts) == len(expected)
    assert [repr(piece) for piece in Files([str(tmp_path / "*")]).pieces()] == list(map(repr, pieces))


def test_pieces_have_about_the_size_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "1234567890"}\n' * 1000)
    pq.write_table(pa.table({"text": ["x" * 99] * 999}), tmp_path / "b.parquet", row_group_size=10)
    for number in range(100):
        (tmp_path / f"c{number:02}.txt").write_bytes(b"x" * 100)
    cut_finely(monkeypatch, 2000)
    for name, total in (("a.jsonl", 23_000), ("c*.txt", 10_000)):
        pieces = Files([str(tmp_path / name)]).pieces()
        assert {piece.bytes for piece in pieces[:-1]} == {2000}
        assert sum(piece.bytes for piece in pieces) == total
    pieces = Files([str(tmp_path / "b.parquet")], column="text").pieces()
    assert 0 < sum(piece.bytes for piece in pieces) <= 110 * 999


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.txt", "a.txt.zst", "a.parquet"])
def test_a_document_may_be_as_long_as_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    frame = len(b'{"text": ""}\n')
    for module in (files_rows, jsonl, plain_text, parquet):
        monkeypatch.setattr(module, "LONGEST", 10_000, raising=False)
    cut_finely(monkeypatch, 3000)
    path = tmp_path / name
    for extra in (0, 1):
        long = "x" * (10_000 - frame * ("jsonl" in name) + extra)
        if path.suffix == ".parquet":
            pq.write_table(pa.table({"text": ["a", long, "b"]}), path)
        elif "jsonl" in name:
            lines = [json.dumps({"text": text}) + "\n" for text in ("a", long, "b")]
            path.write_bytes(pack("".join(lines).encode(), path.suffix))
        else:
            path.write_bytes(pack(long.encode(), path.suffix))
            (tmp_path / "b.txt").write_bytes(b"b")
        corpus = Files([str(tmp_path / "*")], bad_rows="skip")
        found, tally = read(corpus)
        assert tally.skipped == extra
        assert (long in [text for _, text in found]) == (extra == 0)
        assert found[-1][1] == "b"
        if extra:
            assert "longer than 10,000 bytes" in tally.faults[0]
            assert str(path) in tally.faults[0]


def grown(script: str, *arguments: object) -> int:
    """By how many MiB the memory of a fresh process grows at most while it runs a script."""
    script = (
        "import re, sys\n"
        "from mgvr_lightning.data.corpora import plain_text, rows\n"
        "from mgvr_lightning.data.corpora.corpus import Tally\n"
        "from mgvr_lightning.data.corpora.files import Files\n"
        "def peak():\n"
        "    return int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) // 1024\n"
        f"before = peak()\n{script}\nprint(peak() - before)"
    )
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by Linux alone")


@LINUX
def test_memory_stays_small_on_a_file_without_an_end_of_line(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.txt"):
        with gzip.open(tmp_path / f"{name}.gz", "wb", compresslevel=1) as file:
            for _ in range(20):
                file.write(b" x" * 2**22)
    script = (
        "plain_text.LONGEST = rows.LONGEST = 2**22\n"
        "tally = Tally()\n"
        "for piece in Files(sys.argv[1:]).pieces():\n"
        "    assert list(tally.usable(piece, 'skip')) == []\n"
        "assert tally.skipped == 2"
    )
    assert grown(script, tmp_path / "*.gz") < 40  # of 160


@LINUX
def test_a_huge_row_group_is_read_in_parts(tmp_path: Path) -> None:
    words = [f"{number} " * 2000 for number in range(15_000)]
    options = {"compression": "none", "use_dictionary": False, "row_group_size": 10**6}
    pq.write_table(pa.table({"text": words}), tmp_path / "a.parquet", **options)
    assert (tmp_path / "a.parquet").stat().st_size > 1.5e8
    script = "assert sum(1 for _ in Files(sys.argv[1:]).texts()) == 15_000"
    assert grown(script, tmp_path / "a.parquet") < 80


@LINUX
@pytest.mark.parametrize(("compression", "most"), [("none", 500), ("snappy", 600)])
def test_long_rows_that_come_together_are_read_one_by_one(
    tmp_path: Path, compression: str, most: int
) -> None:
    tiny = [f"row {number}" for number in range(20_000)]
    draw = random.Random(0)
    long = [draw.randbytes(2**21).hex() for _ in range(64)]
    table = pa.table({"text": [*tiny, *long, *tiny]})
    pq.write_table(
        table, tmp_path / "a.parquet", compression=compression, use_dictionary=compression != "none"
    )
    script = "assert sum(1 for _ in Files(sys.argv[1:]).texts()) == 40_064"
    assert grown(script, tmp_path / "a.parquet") < most  # the page of 256 is there unpacked, and packed
