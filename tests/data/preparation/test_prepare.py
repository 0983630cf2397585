import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from held import TEXTS, Held, prepare, tokenizer_of

from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.data.preparation.prepare import Preparation
from mgvr_lightning.data.preparation.prepared import Prepared, load
from mgvr_lightning.data.preparation.splits import Everything, HeldOut, Without, text_hash
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.errors import InputError


def write(folder: Path, texts: list[str], name: str = "a.jsonl") -> Files:
    path = folder / name
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return Files([str(path)])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    return prepare(write(folder, TEXTS), folder / "cache")


def documents(prepared: Prepared, split: str) -> list[str]:
    tokens = prepared.splits[split]
    ids = tokens.read(0, len(tokens))
    starts = np.flatnonzero(ids == prepared.tokenizer.separator)
    assert starts[0] == 0
    assert len(starts) == tokens.documents
    return [prepared.tokenizer.decode(part[1:].tolist()) for part in np.split(ids, starts[1:])]


def test_every_document_comes_back_once_behind_one_separator(prepared: Prepared) -> None:
    splits = {split: documents(prepared, split) for split in ("train", "validation", "test")}
    assert sorted(itertools.chain(*splits.values())) == sorted(TEXTS)
    for split, texts in splits.items():
        assert texts == [text for text in TEXTS if HeldOut(0.15).of(text_hash(text.encode())) == split]
        assert prepared.splits[split].bytes == sum(len(text.encode()) for text in texts)


def test_duplicates_never_straddle_splits(prepared: Prepared) -> None:
    splits = [set(documents(prepared, split)) for split in ("train", "validation", "test")]
    assert sum(map(len, splits)) == len(set(TEXTS))


def test_the_splits_have_their_shares() -> None:
    splits = [HeldOut(0.02).of(text_hash(str(number).encode())) for number in range(20_000)]
    assert splits.count("validation") == pytest.approx(400, abs=80)
    assert splits.count("test") == pytest.approx(400, abs=80)


def test_byte_counts_of_tokens_add_up(prepared: Prepared) -> None:
    sizes = prepared.tokenizer.token_bytes()
    for tokens in prepared.splits.values():
        assert sizes[tokens.read(0, len(tokens))].sum() == tokens.bytes


def test_manifest(prepared: Prepared) -> None:
    manifest = json.loads((prepared.folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest == prepared.manifest
    assert manifest["tokenizer"] == {
        "hash": prepared.tokenizer.hash,
        "size": 270,
        "separator": prepared.tokenizer.separator,
        "lossless": True,
    }
    assert manifest["corpus"]["kind"] == "Files"
    assert manifest["corpus"]["files"] == 1
    assert manifest["skipped_rows"] == 0
    for name in ("train", "validation", "test"):
        facts, tokens = manifest["splits"][name], prepared.splits[name]
        assert (facts["tokens"], facts["documents"], facts["hash"]) == (
            len(tokens),
            tokens.documents,
            tokens.hash,
        )
        assert facts["width"] == "uint16"
    assert manifest["compression"]["bytes"] == prepared.splits["validation"].bytes
    assert 0 < manifest["compression"]["gzip"] < 8
    assert 0 < manifest["compression"]["xz"] < 8


def test_the_cache_is_reused_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = Held(TEXTS, "a")
    first = prepare(corpus, tmp_path)
    assert corpus.passes == 2
    second = prepare(corpus, tmp_path, progress=True)
    assert corpus.passes == 2
    assert second.folder == first.folder
    assert f"Reusing the prepared corpus in {first.folder}" in capsys.readouterr().err
    assert second.splits["train"].hash == first.splits["train"].hash
    prepare(corpus, tmp_path)
    assert capsys.readouterr() == ("", "")
    assert {path.name for path in tmp_path.iterdir()} == {first.folder.name, *_tokenizers(tmp_path)}


def _tokenizers(cache: Path) -> list[str]:
    return [path.name for path in cache.glob("tokenizer-*.json")]


def test_whatever_matters_makes_a_new_folder(tmp_path: Path, prepared: Prepared) -> None:
    folders = {
        prepare(Held(TEXTS, "a"), tmp_path).folder,
        prepare(Held(TEXTS, "b"), tmp_path).folder,
        prepare(Held(TEXTS, "a"), tmp_path, vocabulary=271).folder,
        prepare(Held(TEXTS, "a"), tmp_path, held_out=0.2).folder,
        _apart(Held(TEXTS, "a"), tmp_path, "v").folder,
        _apart(Held(TEXTS, "a"), tmp_path, "w").folder,
    }
    assert len(folders) == 6
    again = prepare(Held(TEXTS, "a"), tmp_path, tokenizer=prepared.folder / "tokenizer.json")
    assert again.folder in folders  # the same tokenizer, whether it was learned here or given


def _apart(corpus: Held, cache: Path, version: str) -> Prepared:
    """Prepares a corpus beside a validation corpus that holds its first ten texts."""
    splits = Without(Held(TEXTS[:10]), version)
    tokenizer = tokenizer_of(corpus, cache, splits)
    prepared = Preparation(corpus, corpus.version, tokenizer, splits, cache, False).run()
    assert prepared is not None
    return prepared


def test_documents_of_the_validation_corpus_are_not_trained_on(tmp_path: Path) -> None:
    prepared = _apart(Held(TEXTS), tmp_path, "v")
    assert documents(prepared, "train") == [text for text in TEXTS if text not in TEXTS[:10]]
    assert prepared.manifest["left_out"] == 20  # ten and their ten duplicates
    assert prepared.manifest["duplicates"] == 20
    assert prepared.manifest["validation_corpus"] == "v"
    assert list(prepared.splits) == ["train"]
    with pytest.raises(InputError, match="all 10 documents of the corpus are in the validation corpus"):
        _apart(Held(TEXTS[:10], "b"), tmp_path, "v")


def test_a_validation_corpus_is_validated_on_as_a_whole(tmp_path: Path, prepared: Prepared) -> None:
    corpus = Held(TEXTS)
    done = Preparation(corpus, "a", prepared.tokenizer, Everything(), tmp_path, False).run()
    assert done is not None
    assert documents(done, "validation") == TEXTS
    assert done.manifest["duplicates"] == 30
    assert done.manifest["compression"]["bytes"] == sum(len(text.encode()) for text in TEXTS)


def test_one_changed_byte_of_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    corpus = write(tmp_path, TEXTS)
    first = prepare(corpus, tmp_path / "cache")
    path = tmp_path / "a.jsonl"
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Document 7", b"Document X"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    second = prepare(corpus, tmp_path / "cache")
    assert second.folder != first.folder
    assert any("Document X" in text for text in documents(second, "train"))


def test_the_same_from_a_given_tokenizer(tmp_path: Path, prepared: Prepared) -> None:
    again = prepare(write(tmp_path, TEXTS), tmp_path, tokenizer=prepared.folder / "tokenizer.json")
    assert again.tokenizer.hash == prepared.tokenizer.hash
    assert again.splits["train"].hash == prepared.splits["train"].hash


def test_a_swapped_tokenizer_is_refused(tmp_path: Path) -> None:
    done = prepare(Held(TEXTS, "a"), tmp_path)
    other = Tokenizer.train(["something else entirely"], 270, progress=False)
    other.save(done.folder / "tokenizer.json")
    with pytest.raises(InputError) as caught:
        prepare(Held(TEXTS, "a"), tmp_path)
    message = str(caught.value)
    assert other.hash in message
    assert done.tokenizer.hash in message
    assert str(done.folder / "tokenizer.json") in message


@pytest.mark.parametrize("name", ["train-00000.bin", "test-00000.bin", "tokenizer.json", "manifest.json"])
def test_a_damaged_cache_is_refused(tmp_path: Path, name: str) -> None:
    folder = prepare(Held(TEXTS, "a"), tmp_path).folder
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-2])
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        load(folder) if name != "manifest.json" else (folder / name).unlink() or load(folder)


def test_a_failed_run_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n' * 50 + '{"text": 5}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 51"):
        prepare(Files([str(path)]), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.bin"))


def test_skipped_rows_reach_the_manifest(tmp_path: Path) -> None:
    write(tmp_path, TEXTS)
    with (tmp_path / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write("not json\n")
    corpus = Files([str(tmp_path / "a.jsonl")], bad_rows="skip")
    with pytest.warns(UserWarning, match="1 of 124 rows were skipped"):
        manifest = prepare(corpus, tmp_path / "cache").manifest
    assert (manifest["rows"], manifest["skipped_rows"], manifest["replaced_rows"]) == (124, 1, 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"vocabulary": 256}, "`vocabulary` is 256.*257"),
        ({"held_out": 0.0}, "`held_out` is 0.0"),
        ({"held_out": 0.5}, "`held_out` is 0.5"),
        ({"tokenizer": Path("nowhere.json")}, r"nowhere\.json"),
    ],
)
def test_options_out_of_range(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        prepare(Held(TEXTS), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:the vocabulary has")
@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_an_empty_corpus(tmp_path: Path, texts: list[str]) -> None:
    with pytest.raises(InputError, match="there is no text in Held"):
        prepare(Held(texts, "a"), tmp_path)
    tokenizer = Tokenizer.train(["some text"], 257, progress=False)
    tokenizer.save(tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match=f"the corpus is empty: {len(texts)} documents, no text"):
        prepare(Held(texts, "a"), tmp_path, tokenizer=tmp_path / "tokenizer.json")


@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_too_few_documents_for_the_splits(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no text fell to the \w+ split: of 1 documents(.|\n)*Give more documents"
    ):
        prepare(Held(["one"], "a"), tmp_path)


def test_processes_forked_afterwards_neither_hang_nor_warn(tmp_path: Path) -> None:
    script = """
import multiprocessing, sys
from pathlib import Path
sys.path.append(sys.argv[2])
from held import TEXTS, Held, prepare

def check(prepared):
    encoded = prepared.tokenizer.encode_batch(["some text"] * 100)
    return len(encoded) + int(prepared.splits["train"].read(0, 1)[0])

prepared = prepare(Held(TEXTS), Path(sys.argv[1]))
def child(queue): queue.put(check(prepared))
context = multiprocessing.get_context("fork")
queue = context.Queue()
workers = [context.Process(target=child, args=(queue,)) for _ in range(4)]
for worker in workers: worker.start()
print([queue.get(timeout=20) for _ in workers])
"""
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path), str(Path(__file__).parents[2])]
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.stdout, done.stderr) == ("[100, 100, 100, 100]\n", "")
