import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgvr_lightning.data.files import Files

TEXT = "one\r\ntwo\rthree\u2028four\u0085five\x0b\x0c\x00 six\n\n  séven 東京 <|endoftext|>"


def texts(*paths: Path, **options: Any) -> list[str]:
    return [document.text for document in Files([str(path) for path in paths], **options).documents()]


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
    rows = [{"text": TEXT}, {"id": 3, "text": ""}, {"text": "last"}]
    lines = [json.dumps(row, ensure_ascii=escaped) for row in rows]
    content = "\ufeff" + lines[0] + "\r\n\n" + lines[1] + "\n  \n" + lines[2]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(content.encode(), path.suffix))
    assert texts(path) == [TEXT, "", "last"]
    keys = [document.key for document in Files([str(path)]).documents()]
    assert keys == [f"{path}:{line}" for line in (1, 3, 5)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet(tmp_path: Path, kind: pa.DataType) -> None:
    path = tmp_path / "a.parquet"
    rows = [f"{TEXT} {number % 7}" for number in range(1000)]
    table = pa.table({"id": range(1000), "content": pa.array(rows).cast(kind)})
    pq.write_table(table, path, row_group_size=300)
    assert texts(path, column="content") == rows
    assert list(Files([str(path)], column="content").documents())[999].key == f"{path}:1000"


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
    assert list(corpus.documents()) == list(corpus.documents())


def test_fingerprint_follows_the_content_and_the_options(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n', encoding="utf-8")
    before = path.stat()
    fingerprints = {Files([str(path)]).fingerprint()}
    assert Files([str(tmp_path / "*")]).fingerprint() in fingerprints
    fingerprints.add(Files([str(path)], column="b").fingerprint())
    fingerprints.add(Files([str(path)], bad_rows="skip").fingerprint())
    path.write_text('{"text": "b"}\n', encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    fingerprints.add(Files([str(path)]).fingerprint())
    path.rename(tmp_path / "a.txt")
    fingerprints.add(Files([str(tmp_path / "a.txt")]).fingerprint())
    assert len(fingerprints) == 5


def test_the_locale_does_not_matter_and_nothing_is_cached_elsewhere(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    data.mkdir()
    home.mkdir()
    (data / "a.txt").write_text(TEXT, encoding="utf-8", newline="")
    (data / "b.jsonl").write_text(json.dumps({"text": TEXT}, ensure_ascii=False), encoding="utf-8")
    script = (
        "import sys; from mgvr_lightning.data.files import Files\n"
        "print(ascii([d.text for d in Files([sys.argv[1]]).documents()]))"
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
    assert done.stdout.strip() == ascii([TEXT, TEXT])
    assert list(home.iterdir()) == []


def test_description(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    assert Files([str(tmp_path / "a.txt")]).describe() == {
        "paths": str(tmp_path / "a.txt"),
        "column": "text",
        "bad_rows": "raise",
        "files": 1,
        "file_bytes": 1,
        "skipped_rows": 0,
    }
