import gzip
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import cut_finely, data_sets, fail, lines, read, table, texts, write

from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.hub import Hub
from mgvr_lightning.errors import InputError

BOTH = pytest.mark.parametrize("streaming", [True, False])


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    import datasets

    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)
    return folder


@BOTH
@pytest.mark.parametrize("kind", data_sets())
def test_a_folder_gives_its_documents_streamed_or_not(tmp_path: Path, kind: str, streaming: bool) -> None:
    files, expected = data_sets()[kind]
    write(tmp_path, files)
    assert texts(Hub(str(tmp_path), streaming=streaming)) == expected
    assert all(piece.bytes > 0 for piece in Hub(str(tmp_path), streaming=streaming).pieces())


@BOTH
def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streaming: bool) -> None:
    cut_finely(monkeypatch, 1)
    content = {f"train-{n}.parquet": table(text=[f"{n} {row}" for row in range(7)]) for n in range(2)}
    write(tmp_path / "a", content)
    where = f"{tmp_path}/a, config default, split train, {tmp_path}/a"
    expected = [
        (f"{where}/train-{n}.parquet, row {row + 1}", f"{n} {row}") for n in range(2) for row in range(7)
    ]
    corpus = Hub(str(tmp_path / "a"), streaming=streaming)
    assert read(corpus)[0] == expected
    assert len(corpus.pieces()) == 6
    write(tmp_path / "b", {"train.jsonl": lines(*({"text": str(n)} for n in range(9)))})
    where = f"{tmp_path}/b, config default, split train, {tmp_path}/b/train.jsonl, line"
    assert read(Hub(str(tmp_path / "b")))[0] == [(f"{where} {n + 1}", str(n)) for n in range(9)]
    write(tmp_path / "c", {f"train-{n}.csv": b"text\n" + b"word\n" * 3 for n in range(2)})
    where = f"{tmp_path}/c, config default, split train"
    corpus = Hub(str(tmp_path / "c"), streaming=streaming)
    if streaming:
        places = [f"{where}, {tmp_path}/c/train-{n}.csv, row {row}" for n in range(2) for row in (1, 2, 3)]
    else:
        places = [f"{where}, row {row}" for row in range(1, 7)]
    assert read(corpus)[0] == [(place, "word") for place in places]
    assert len(corpus.pieces()) == (2 if streaming else 6)


@BOTH
def test_other_columns_are_not_read(tmp_path: Path, streaming: bool) -> None:
    content = table(text=["a", "b"], other=["x" * 1000, os.urandom(1000).hex()])
    path = write(tmp_path, {"train.parquet": content}) / "train.parquet"
    start = pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset
    path.write_bytes(content[:start] + bytes(200) + content[start + 200 :])
    with pytest.raises(OSError, match=r"."):
        pq.read_table(path)
    assert texts(Hub(str(tmp_path), streaming=streaming)) == ["a", "b"]


README = """---
configs:
- config_name: one
  data_files:
  - {split: train, path: one/*.jsonl}
  - {split: held, path: held/*.jsonl}
- config_name: two
  data_files: two/*.jsonl
dataset_info:
- config_name: one
  features:
  - {name: text, dtype: string}
  splits:
  - {name: train, num_bytes: 1, num_examples: 77}
- config_name: two
---
Words.
"""


def write_configs(folder: Path) -> Path:
    names = {"one/a": "1a", "one/b": "1b", "held/a": "held", "two/a": "2a", "stray/a": "stray"}
    files = {f"{name}.jsonl": lines({"text": text}) for name, text in names.items()}
    return write(folder, files | {"README.md": README.encode()})


@BOTH
def test_configurations_and_splits(tmp_path: Path, streaming: bool) -> None:
    name = str(write_configs(tmp_path))
    assert texts(Hub(name, "one", streaming=streaming)) == ["1a", "1b"]
    assert texts(Hub(name, "one", "held", streaming=streaming)) == ["held"]
    assert texts(Hub(name, "two", streaming=streaming)) == ["2a"]
    assert "has several configurations; there are: one, two.\nChoose one by the option `config`" in fail(
        Hub(name)
    )
    assert "has no configuration 'three'; there are: one, two." in fail(
        Hub(name, "three", streaming=streaming)
    )
    message = fail(Hub(name, "one", "train[:10%]", streaming=streaming))
    assert (
        "config one, has no split 'train[:10%]'; there are: train, held.\nChoose one by the option `split`"
        in message
    )


@BOTH
def test_what_a_readme_tells_of_a_table_may_be_wrong(tmp_path: Path, streaming: bool) -> None:
    readme = README.replace("jsonl", "parquet")
    write(
        tmp_path,
        {"README.md": readme.encode(), "one/a.parquet": table(id=[1], text=["a"]), "two/a.parquet": b""},
    )
    write(tmp_path, {"held/a.parquet": table(text=["h"])})
    assert texts(Hub(str(tmp_path), "one", streaming=streaming)) == ["a"]


@BOTH
def test_columns(tmp_path: Path, streaming: bool) -> None:
    write(tmp_path / "a", {"train.parquet": table(content=["a"], id=[1])})
    assert texts(Hub(str(tmp_path / "a"), column="content", streaming=streaming)) == ["a"]
    missing = fail(Hub(str(tmp_path / "a"), streaming=streaming))
    assert "a/train.parquet has no column 'text'; its columns are 'content', 'id'.\nChoose" in missing
    number = fail(Hub(str(tmp_path / "a"), column="id", streaming=streaming))
    assert "column 'id' holds int64, not strings; its columns are 'content', 'id'" in number
    write(tmp_path / "b", {"train.jsonl": lines({"content": "b", "id": 1})})
    assert texts(Hub(str(tmp_path / "b"), column="content", streaming=streaming)) == ["b"]
    missing = fail(Hub(str(tmp_path / "b"), streaming=streaming))
    assert (
        "train.jsonl, line 1 has no field 'text' (there are: 'content', 'id'); see the option `column`"
        in missing
    )
    write(tmp_path / "c", {"train.txt": b"c"})
    assert "has no column 'content'; its columns are 'text'" in fail(
        Hub(str(tmp_path / "c"), column="content")
    )


@BOTH
def test_bad_rows(tmp_path: Path, streaming: bool) -> None:
    write(tmp_path / "a", {"train.parquet": table(text=["a", None, "b", "c"])})
    name = str(tmp_path / "a")
    assert re.search(
        r"split train.*, row 2 has null in 'text', not a string", fail(Hub(name, streaming=streaming))
    )
    rows, tally = read(Hub(name, streaming=streaming, bad_rows="skip"))
    assert [text for _, text in rows] == ["a", "b", "c"]
    assert tally.skipped == 1
    bad = b'{"text": "caf\xe9"}\n\n{"text": 5}\n{"te\n'
    write(tmp_path / "b", {"train.jsonl": lines({"text": "a"}, {"text": "b"}) + bad})
    name = str(tmp_path / "b")
    assert "train.jsonl, line 3 is not UTF-8: byte 0xe9 at offset 41" in fail(Hub(name, streaming=streaming))
    rows, tally = read(Hub(name, streaming=streaming, bad_rows="replace"))
    assert [text for _, text in rows] == ["a", "b", "caf\ufffd"]
    assert (tally.skipped, tally.replaced) == (2, 1)
    assert [re.sub(".*jsonl, ", "", fault) for fault in tally.faults[1:]] == [
        "line 5 has a number in 'text', not a string.",
        "line 6 is not JSON: Invalid control character at column 5.",
    ]


@BOTH
def test_what_cannot_be_read_is_told(tmp_path: Path, streaming: bool) -> None:
    good = table(text=["a"] * 100)
    damages = {
        "train.parquet": good[:-20],
        "train.jsonl.gz": gzip.compress(lines({"text": "a"}) * 99)[:-9],
        "train.csv": b'text\n"a\n',
        "README.md": b"---\nconfigs: 5\n---\n",
    }
    for name, content in damages.items():
        folder = tmp_path / name.replace(".", "")
        write(folder, {"train.txt": b"text"} if name == "README.md" else {})
        write(folder, {name: content})
        assert "cannot read" in fail(Hub(str(folder), streaming=streaming)), name
    (tmp_path / "empty").mkdir()
    assert "doesn't contain any data files" in fail(Hub(str(tmp_path / "empty"), streaming=streaming))
    write(tmp_path / "none", {"train.parquet": table(text=pa.array([], pa.string()))})
    name = str(tmp_path / "none")
    assert "there is no text in" in fail(Hub(name, streaming=streaming))
    write(tmp_path / "headed", {"train.csv": b"text\n"})
    assert streaming or "there is no text in" in fail(Hub(str(tmp_path / "headed"), streaming=False))


def test_what_a_name_cannot_be(tmp_path: Path) -> None:
    write(tmp_path, {"a.jsonl": lines({"text": "a"})})
    for name in (str(tmp_path / "a.jsonl"), str(tmp_path / "nowhere"), "", "a/b/c", "a b"):
        assert "is neither a folder nor the name of a data set" in fail(Hub(name))
    assert "is a folder, which has no `revision`" in fail(Hub(str(tmp_path), revision="main"))


def fingerprint(*arguments: Any, **options: Any) -> str:
    return Hub(*map(str, arguments), **options).fingerprint(Digests())


def test_the_fingerprint_of_a_folder(tmp_path: Path) -> None:
    write_configs(tmp_path / "a")
    write_configs(tmp_path / "b")
    first = fingerprint(tmp_path / "a", "one")
    assert fingerprint(tmp_path / "b", "one") == first
    (tmp_path / "a" / "README.md").write_text(README + "More words.", encoding="utf-8")
    (tmp_path / "a" / "held" / "a.jsonl").write_bytes(lines({"text": "other"}))
    assert fingerprint(tmp_path / "a", "one") == first
    others = {
        fingerprint(tmp_path / "a", "one", "held"),
        fingerprint(tmp_path / "a", "two"),
        fingerprint(tmp_path / "a", "one", column="b"),
        fingerprint(tmp_path / "a", "one", bad_rows="skip"),
        fingerprint(tmp_path / "a", "one", streaming=False),
    }
    path = tmp_path / "a" / "one" / "b.jsonl"
    before = path.stat()
    path.write_bytes(lines({"text": "1c"}))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    others.add(fingerprint(tmp_path / "a", "one"))
    assert len(others | {first}) == 7


@BOTH
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_changed_file_of_the_same_name_size_and_time_is_read_again(
    tmp_path: Path, kind: str, streaming: bool
) -> None:
    path = tmp_path / f"train.{kind}"
    for text in ("a", "b"):
        before = path.stat() if path.exists() else None
        write(tmp_path, {path.name: table(text=[text]) if kind == "parquet" else f"text\n{text}\n".encode()})
        if before is not None:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        assert texts(Hub(str(tmp_path), streaming=streaming)) == [text]
    write(tmp_path, {path.name: table(text=[1]) if kind == "parquet" else b"text\n1\n"})
    assert "holds int64, not strings" in fail(Hub(str(tmp_path), streaming=streaming))


def test_packed_files(tmp_path: Path) -> None:
    write(tmp_path, {"train.jsonl.bz2": b"BZh9"})
    assert re.search(r"train\.jsonl\.bz2 is packed in a way that isn't read", fail(Hub(str(tmp_path))))


def test_nothing_is_said_and_nothing_left_but_in_the_cache(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    home.mkdir()
    write(data / "a", {"train.parquet": table(text=["a"])})
    write(data / "b", {"train.parquet": b"broken"})
    script = (
        "import sys\n"
        "from mgvr_lightning.data.corpora.hub import Hub\n"
        "assert not {'torch', 'datasets', 'huggingface_hub'} & set(sys.modules)\n"
        "for streaming in (True, False):\n"
        "    assert list(Hub(sys.argv[1], streaming=streaming).texts()) == ['a']\n"
        "    try: Hub(sys.argv[2], streaming=streaming).pieces()\n"
        "    except ValueError: pass"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HOME": str(home), "HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-W", "error", "-c", script, str(data / "a"), str(data / "b")]
    done = subprocess.run(command, env=environment, cwd=data, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in home.iterdir()] == ["hf"]
    assert sorted(path.name for path in data.rglob("*")) == ["a", "b", "train.parquet", "train.parquet"]


@BOTH
def test_the_first_files_alone(tmp_path: Path, streaming: bool) -> None:
    write(tmp_path / "a", {f"train-{n}.jsonl": lines({"text": f"from {n}"}) for n in range(4)})
    name = str(tmp_path / "a")
    assert texts(Hub(name, shards=2, streaming=streaming)) == ["from 0", "from 1"]
    assert len(texts(Hub(name, shards=9, streaming=streaming))) == 4
    assert fingerprint(name, shards=2) != fingerprint(name, shards=3)
    with pytest.raises(InputError, match="`shards` is 0"):
        Hub(name, shards=0)
    write(tmp_path / "b", {"train.csv": b"text\nword\n"})
    assert "is csv; `shards` limits Parquet" in fail(Hub(str(tmp_path / "b"), shards=1, streaming=streaming))


def test_description() -> None:
    assert Hub("HuggingFaceFW/fineweb-edu", "sample-10BT").describe() == {
        "name": "HuggingFaceFW/fineweb-edu",
        "config": "sample-10BT",
        "split": "train",
        "column": "text",
        "revision": None,
        "shards": None,
        "streaming": True,
        "bad_rows": "raise",
    }
