"""The hub itself cannot be asked from a test: its answers are made up, and its files lie in memory."""

import gzip
import pickle
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from corpora import data_sets, fail, lines, read, table, texts, write

from mgvr_lightning.data.corpora import hub, hub_pieces
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.hub import Hub
from mgvr_lightning.data.corpora.hub_pieces import LinesPiece
from mgvr_lightning.data.corpora.hub_source import Source
from mgvr_lightning.errors import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
BOTH = pytest.mark.parametrize("streaming", [True, False])


def fingerprint(*arguments: Any, **options: Any) -> str:
    return Hub(*arguments, **options).fingerprint(Digests())


def test_a_commit_needs_no_network() -> None:
    first = fingerprint("some/data", revision=COMMIT)
    assert fingerprint("some/data", revision=COMMIT) == first
    others = {
        fingerprint("some/data", revision=COMMIT.replace("0", "1")),
        fingerprint("some/data", "config", revision=COMMIT),
        fingerprint("some/other", revision=COMMIT),
        fingerprint("some/data", split="test", revision=COMMIT),
        fingerprint("some/data", revision=COMMIT, streaming=False),
    }
    assert len(others | {first}) == 6
    for revision in (None, "main", COMMIT[:10]):
        with pytest.raises(InputError, match=r"(?s)cannot ask the hub.*pin `revision` to a commit"):
            fingerprint("some/data", revision=revision)
    message = fail(Hub("some/data", revision=COMMIT))
    assert "some/data" in message
    assert "network" in message


def test_a_branch_is_read_at_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets
    import huggingface_hub

    asked: list[tuple[str, str | None]] = []
    loaded: list[dict[str, Any]] = []

    def dataset_info(self: Any, name: str, revision: str | None = None) -> SimpleNamespace:
        asked.append((name, revision))
        return SimpleNamespace(sha=COMMIT)

    def load_dataset_builder(**options: Any) -> None:
        loaded.append(options)
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", dataset_info)
    monkeypatch.setattr(datasets, "load_dataset_builder", load_dataset_builder)
    corpus = Hub("some/data", revision="main")
    assert corpus.fingerprint(Digests()) == fingerprint("some/data", revision=COMMIT)
    assert "cannot read the data set some/data: ConnectionError: no network" in fail(corpus)
    assert asked == [("some/data", "main")]
    assert loaded == [{"path": "some/data", "name": None, "revision": COMMIT}]
    assert corpus.describe()["revision"] == COMMIT


def test_a_branch_that_moves_is_read_at_the_commit_found_first(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    commits = iter([COMMIT, COMMIT[::-1]])
    resolved: list[str] = []

    def dataset_info(self: Any, name: str, revision: str | None = None) -> SimpleNamespace:
        return SimpleNamespace(sha=next(commits))

    def resolve(name: str, config: None, split: str, revision: str, shards: None) -> Source:
        resolved.append(revision)
        return Source("some/data, split train", "text", "train", ("memory://data/a.txt",), 0, {})

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", dataset_info)
    monkeypatch.setattr(hub, "resolve", resolve)
    corpus = Hub("some/data")
    first = corpus.fingerprint(Digests())
    assert corpus.describe()["revision"] == COMMIT
    corpus.pieces()
    assert resolved == [COMMIT]
    again = pickle.loads(pickle.dumps(corpus))
    again.pieces()
    assert again.fingerprint(Digests()) == corpus.fingerprint(Digests()) == first
    assert again.describe()["revision"] == COMMIT
    fresh = Hub("some/data")
    fresh.pieces()
    assert resolved == [COMMIT, COMMIT[::-1]]
    assert fresh.describe()["revision"] == COMMIT[::-1]
    assert fresh.fingerprint(Digests()) != first


@pytest.mark.parametrize("kind", [AssertionError, AttributeError, NameError, TypeError])
def test_a_mistake_of_this_package_is_not_blamed_on_the_data(
    monkeypatch: pytest.MonkeyPatch, elsewhere: Any, kind: type[Exception]
) -> None:
    def ours(*arguments: Any) -> None:
        raise kind("a mistake")

    elsewhere({"a.jsonl": lines({"text": "a"})}, "json")
    corpus = Hub("some/data", revision=COMMIT)
    monkeypatch.setattr(hub_pieces, "parse", ours)
    assert f"cannot read some/data, split train, memory://data/a.jsonl: {kind.__name__}" in fail(corpus)
    monkeypatch.setitem(ours.__globals__, "__name__", "mgvr_lightning.data.corpora.jsonl")
    with pytest.raises(kind, match="a mistake"):
        read(corpus)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a data set of the hub of some files, which lie in memory."""
    import fsspec

    def make(files: dict[str, bytes], module: str) -> None:
        urls = tuple(f"memory://data/{name}" for name in files)
        for url, content in zip(urls, files.values(), strict=True):
            with fsspec.open(url, "wb") as file:
                file.write(content)
        source = Source("some/data, split train", module, "train", urls, 1000, {})
        monkeypatch.setattr(hub, "resolve", lambda *arguments: source)
        monkeypatch.setattr(hub, "download", lambda url: str(tmp_path / url.rpartition("/")[2]))
        write(tmp_path, files)

    return make


@BOTH
@pytest.mark.parametrize("kind", ["parquet", "json", "text"])
def test_a_data_set_of_the_hub(tmp_path: Path, elsewhere: Any, kind: str, streaming: bool) -> None:
    files, expected = data_sets()[kind]
    elsewhere(files, kind)
    corpus = Hub("some/data", revision=COMMIT, streaming=streaming)
    rows = read(corpus)[0]
    assert [text for _, text in rows] == expected
    folder = tmp_path if not streaming else "memory://data"
    assert rows[0][0].startswith(f"some/data, split train, {folder}/train")
    assert re.search(r", (row|line) 1$", rows[0][0])
    assert len(pickle.dumps(list(corpus.pieces()))) < 3000


@BOTH
def test_what_is_wrong_with_a_data_set_of_the_hub(elsewhere: Any, streaming: bool) -> None:
    def told(module: str, files: dict[str, bytes], **options: Any) -> str:
        elsewhere(files, module)
        return fail(Hub("some/data", revision=COMMIT, streaming=streaming, **options))

    good = table(text=["a"])
    missing = told("parquet", {"a.parquet": table(id=[1])})
    assert "a.parquet has no column 'text'; its columns are 'id'" in missing
    number = told("parquet", {"a.parquet": good, "b.parquet": table(text=[5])})
    assert "b.parquet: column 'text' holds int64, not strings" in number
    assert re.search(r"cannot read .*b\.parquet", told("parquet", {"a.parquet": good, "b.parquet": b"PAR1"}))
    cut = gzip.compress(lines({"text": "a"}))[:-3]
    assert re.search(r"cannot read .*a\.jsonl\.gz", told("json", {"a.jsonl.gz": cut}))
    other = told("text", {"a.txt": b"a"}, column="b")
    assert "some/data, split train has no column 'b'; its columns are 'text'" in other


def test_what_is_streamed_does_not_depend_on_the_locale(elsewhere: Any) -> None:
    elsewhere({"a.jsonl": '{"text": "é"}\n'.encode() + b'{"text": "\xe9"}\n{"text": "ok"}\n'}, "json")
    corpus = Hub("some/data", revision=COMMIT, bad_rows="replace")
    assert texts(corpus) == ["é", "\ufffd", "ok"]
    with pytest.raises(InputError, match="cannot read other data"):
        list(LinesPiece("memory://nowhere.jsonl", "text", "other data", 0).rows())
