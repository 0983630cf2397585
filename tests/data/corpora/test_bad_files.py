import gzip
import io
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import cut_finely, read, texts

from mgvr_lightning.data.corpora import jsonl
from mgvr_lightning.data.corpora.corpus import Tally
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.errors import InputError

GOOD = b'{"text": "good"}\n'


def fail(*paths: Path | str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(Files([str(path) for path in paths], **options))
    message = str(caught.value)
    assert len(message.splitlines()) <= 6
    return message


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_missing_files(tmp_path: Path) -> None:
    assert f"there is no file {tmp_path / 'a.txt'}" in fail(tmp_path / "a.txt")
    assert f"the glob {tmp_path / '*.txt'} matches no file" in fail(tmp_path / "*.txt")
    assert re.search(r"is a folder.*\*\.parquet", fail(tmp_path))
    assert "`paths` is empty" in fail()


@pytest.mark.parametrize("name", ["a.csv", "a", "a.gz", "a.parquet.gz", "a.zip"])
def test_unknown_kind(tmp_path: Path, name: str) -> None:
    message = fail(write(tmp_path / name, b"x"))
    assert f"{tmp_path / name} is of a kind that isn't read" in message
    assert ".parquet, .jsonl" in message


BAD_ROWS = {
    "malformed": (b'{"text": "bad\n', "is not JSON: .* at column"),
    "broken in the middle": (b'{"text" "bad"}\n', "is not JSON: Expecting ':' delimiter at column 9"),
    "null": (b'{"text": null}\n', "has null in 'text', not a string"),
    "number": (b'{"text": 5}\n', "has a number in 'text', not a string"),
    "list": (b'{"text": ["a"]}\n', "has a list in 'text', not a string"),
    "bare list": (b'["text"]\n', "is a list, not an object"),
    "bare null": (b"null\n", "is null, not an object"),
    "no field": (
        b'{"content": "a", "id": 1}\n',
        r"has no field 'text' \(there are: 'content', 'id'\).*`column`",
    ),
    "surrogate": (b'{"text": "a\\ud800b"}\n', "has half a surrogate pair in 'text', at character 1"),
    "latin-1": (b'{"text": "caf\xe9"}\n', "is not UTF-8: byte 0xe9 at offset 48"),
    "too deep": (b'{"text": ' + b"[" * 100_000 + b"\n", "is not usable JSON"),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, kind: str, suffix: str) -> None:
    bad, expected = BAD_ROWS[kind]
    pack = gzip.compress if suffix else bytes
    first = write(tmp_path / f"1.jsonl{suffix}", pack(GOOD * 2))
    second = write(tmp_path / f"2.jsonl{suffix}", pack(GOOD + b"\n" + GOOD + bad + GOOD * 2))
    message = fail(first, second)
    assert re.search(f"2.jsonl{suffix}, line 4 {expected}", message), message
    assert "bad_rows: skip" in message

    corpus = Files([str(first), str(second)], bad_rows="skip")
    found, tally = read(corpus)
    assert [text for _, text in found] == ["good"] * 6
    assert re.match(r"1 of 7 rows were skipped, such as\n.*2\.jsonl.*line 4", tally.summary())


def test_skipping_most_rows_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", GOOD + b'{"content": "a"}\n' * 2)
    assert re.search(
        r"2 of 3 rows were skipped.*\n.*line 2 .*\n.*line 3 .*\nMore than half", fail(path, bad_rows="skip")
    )


def test_an_interrupted_download_of_json_lines(tmp_path: Path) -> None:
    assert "a.jsonl, line 3 is not JSON" in fail(write(tmp_path / "a.jsonl", (GOOD * 3)[:-5]))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"caf\xe9", "byte 0xe9 at offset 3"),
        (b"\xef\xbb\xbfcaf\xe9", "byte 0xe9 at offset 6"),
        ("text".encode("utf-16"), "byte 0xff at offset 0"),
    ],
)
def test_text_in_another_encoding(tmp_path: Path, content: bytes, expected: str) -> None:
    message = fail(write(tmp_path / "1.txt", b"good"), write(tmp_path / "2.txt", content))
    assert f"2.txt is not UTF-8: {expected}" in message


def test_parquet_without_the_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"content": ["a"], "id": [1]}), tmp_path / "a.parquet")
    message = fail(tmp_path / "a.parquet")
    assert "a.parquet has no column 'text'; its columns are 'content', 'id'" in message
    assert "`column`" in message
    assert "column 'id' holds int64, not strings" in fail(tmp_path / "a.parquet", column="id")


def test_nulls_in_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None, "b"]}), tmp_path / "a.parquet")
    assert "a.parquet, row 2 has null in 'text', not a string" in fail(tmp_path / "a.parquet")
    corpus = Files([str(tmp_path / "a.parquet")], bad_rows="skip")
    found, tally = read(corpus)
    assert [text for _, text in found] == ["a", "b"]
    assert tally.summary().startswith("1 of 3 rows were skipped")


def test_parquet_that_is_not_utf8(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"caf\xe9")]
    )
    pq.write_table(pa.table({"text": broken}), tmp_path / "a.parquet")
    assert "a.parquet, row 1 is not UTF-8 at byte 3 of 'text'" in fail(tmp_path / "a.parquet")


@pytest.mark.parametrize("damage", ["empty", "truncated", "text", "page"])
def test_broken_parquet_is_named(tmp_path: Path, damage: str) -> None:
    good, bad = tmp_path / "1.parquet", tmp_path / "2.parquet"
    pq.write_table(pa.table({"text": [os.urandom(50).hex() for _ in range(5000)]}), good, compression="zstd")
    content = good.read_bytes()
    damaged = {
        "empty": b"",
        "truncated": content[: len(content) // 2],
        "text": b"this is text, not Parquet\n" * 10,
        "page": content[:20_000] + bytes(2_000) + content[22_000:],
    }
    write(bad, damaged[damage])
    corpus = Files([str(good), str(bad)])
    with pytest.raises(InputError, match=r"cannot read .*2\.parquet: "):
        if damage == "page":
            texts(corpus)
        else:
            corpus.pieces()
    if damage != "page":
        with pytest.raises(InputError, match=r"cannot read .*2\.parquet: "):
            corpus.fingerprint(Digests())


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("damage", ["empty", "plain", "truncated"])
def test_broken_compression_is_named(tmp_path: Path, name: str, suffix: str, damage: str) -> None:
    content = GOOD * 1000
    packed = gzip.compress(content) if suffix == ".gz" else pa.compress(content, codec="zstd", asbytes=True)
    path = write(
        tmp_path / (name + suffix), {"empty": b"", "plain": content, "truncated": packed[:-5]}[damage]
    )
    assert f"cannot read {path}: " in fail(path)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet"])
def test_files_without_text(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"")
    if name == "a.parquet":
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    assert f"there is no text in {path}" in fail(path)
    assert texts(Files([str(path), str(write(tmp_path / "b.jsonl", GOOD))])) in (["good"], ["", "good"])


MENDED = {
    "latin-1": (b'{"text": "caf\xe9"}\n', "caf\ufffd"),
    "overlong": (b'{"text": "a\xc0\xafb"}\n', "a\ufffd\ufffdb"),
    "surrogate in UTF-8": (b'{"text": "a\xed\xa0\x80b"}\n', "a\ufffd\ufffd\ufffdb"),
    "lone surrogate": (b'{"text": "a\\ud83d \\ud83d\\ude00"}\n', "a\ufffd \U0001f600"),
    "elsewhere": (b'{"text": "fine", "\xe9": 1}\n', "fine"),
}


@pytest.mark.parametrize("kind", MENDED)
def test_damaged_text_is_kept_on_request(tmp_path: Path, kind: str) -> None:
    bad, expected = MENDED[kind]
    path = write(tmp_path / "a.jsonl", GOOD + bad + b"not JSON\n" + GOOD)
    found, tally = read(Files([str(path)], bad_rows="replace"))
    assert [text for _, text in found] == ["good", expected, "good"]
    assert (tally.replaced, tally.skipped, tally.rows) == (1, 1, 4)
    assert "1 of 4 rows were skipped, 1 of 4 rows were repaired with U+FFFD" in tally.summary()
    assert texts(Files([str(path)], bad_rows="skip")) == ["good", "good"]


def test_damaged_text_files_and_tables_are_kept_on_request(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", b"\xef\xbb\xbfcaf\xe9")
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\4\0\0\0\6\0\0\0"), pa.py_buffer(b"caf\xe9ok")]
    )
    pq.write_table(pa.table({"text": broken}), tmp_path / "b.parquet")
    found, tally = read(Files([str(tmp_path / "*")], bad_rows="replace"))
    assert [text for _, text in found] == ["caf\ufffd", "caf\ufffd", "ok"]
    assert (tally.replaced, tally.skipped) == (2, 0)


@pytest.mark.parametrize("size", [1, 7, 16, 17, 18, 64])
def test_a_bad_row_is_named_in_whatever_piece_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    cut_finely(monkeypatch, size)
    path = write(tmp_path / "a.jsonl", GOOD * 3 + b"\n\n" + GOOD * 2 + b'{"text": "\xe9"}\n' + GOOD * 3)
    assert "a.jsonl, line 8 is not UTF-8: byte 0xe9 at offset 97" in fail(path)


def test_what_a_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    assert "gone.txt is a link to a file that isn't there" in fail(tmp_path / "*.txt")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert "pipe.jsonl is no regular file" in fail(tmp_path / "*.jsonl")
    assert "cannot read" in fail("x" * 5000)


def test_parquet_with_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    nested = [{"text": "a"}, {"text": "b"}]
    pq.write_table(pa.table({"text": nested, "list": [["a"], []]}), path)
    assert "column 'text' holds struct<text: string>, not strings" in fail(path)
    assert "column 'list' holds list<element: string>, not strings" in fail(path, column="list")
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(twice, path)
    assert "a.parquet has 2 columns 'text'" in fail(path)


def test_tables_of_unequal_shape(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"], "meta": [{"x": 1}]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"more": [None], "meta": [[1]], "text": ["b"]}), tmp_path / "b.parquet")
    write(tmp_path / "c.jsonl", b'{"text": "c", "meta": 1}\n{"meta": {"x": []}, "text": "d", "y": null}\n')
    assert texts(Files([str(tmp_path / "*")])) == ["a", "b", "c", "d"]


def test_a_table_that_lost_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"] * 5}), path)
    (piece,) = Files([str(path)]).pieces()
    pq.write_table(pa.table({"text": ["a"] * 4}), path)
    with pytest.raises(InputError, match=r"cannot read .*a\.parquet: it has 4 of the 5 rows"):
        list(piece.rows())


def test_places_are_found_in_any_order_and_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_finely(monkeypatch, 20)
    path = tmp_path / "a.jsonl"
    for before in (0, 1, 3):
        write(path, b"\n" * before + (b'{"text": "' + b"x" * 17 + b'"}\n') * 30)
        pieces = Files([str(path)]).pieces()
        numbers = [[piece.place(row.number) for row in piece.rows()] for piece in pieces]
        backwards = [[piece.place(row.number) for row in piece.rows()] for piece in reversed(pieces)]
        assert numbers == backwards[::-1]
        assert [place for own in numbers for place in own] == [
            f"{path}, line {before + n}" for n in range(1, 31)
        ]


def test_many_bad_rows_late_in_a_file_take_one_count_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_finely(monkeypatch, 2**12)
    path = write(tmp_path / "a.jsonl", (GOOD + b'{"text": 5}\n' + GOOD) * 20_000)
    asked: list[int] = []
    real = jsonl._line_ends

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    monkeypatch.setattr(
        jsonl, "_line_ends", lambda path, _, end: real(path, Counting(path.read_bytes()), end)
    )
    faults = []
    for piece in Files([str(path)]).pieces():
        tally = Tally()
        list(tally.usable(piece, "skip"))
        assert tally.skipped > 50
        faults += tally.faults
    assert faults[-1].startswith(f"{path}, line 59,8")
    assert path.stat().st_size - 2**13 <= sum(asked) <= path.stat().st_size
