import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mgvr_lightning.data.build import split_of
from mgvr_lightning.data.corpus import Corpus, Document
from mgvr_lightning.data.files import Files
from mgvr_lightning.data.prepare import Prepared, load, prepare
from mgvr_lightning.data.tokenizer import Tokenizer
from mgvr_lightning.errors import InputError

TEXTS = [f"Document {number} says {'very ' * (number % 5)}little.\r\n" for number in range(90)]
TEXTS += [*TEXTS[:30], "", "<|endoftext|>", "  \x00\u2028 e\u0301 \n"]


def write(folder: Path, texts: list[str], name: str = "a.jsonl") -> Files:
    path = folder / name
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return Files([str(path)])


def run(corpus: Corpus, cache: Path, **options: Any) -> Prepared:
    settings: dict[str, Any] = {"vocabulary": 270, "tokenizer": None, "held_out": 0.15, "progress": False}
    return prepare(corpus, cache, **settings | options)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("prepared")
    return run(write(folder, TEXTS), folder / "cache")


def documents(prepared: Prepared, split: str) -> list[str]:
    tokens = getattr(prepared, split)
    ids = tokens.read(0, len(tokens))
    starts = np.flatnonzero(ids == prepared.tokenizer.separator)
    assert starts[0] == 0
    assert len(starts) == tokens.documents
    return [prepared.tokenizer.decode(part[1:].tolist()) for part in np.split(ids, starts[1:])]


def test_every_document_comes_back_once_behind_one_separator(prepared: Prepared) -> None:
    splits = {split: documents(prepared, split) for split in ("train", "validation", "test")}
    assert sorted(itertools.chain(*splits.values())) == sorted(TEXTS)
    for split, texts in splits.items():
        assert texts == [text for text in TEXTS if split_of(text, 0.15) == split]
        assert getattr(prepared, split).bytes == sum(len(text.encode()) for text in texts)


def test_duplicates_never_straddle_splits(prepared: Prepared) -> None:
    splits = [set(documents(prepared, split)) for split in ("train", "validation", "test")]
    assert sum(map(len, splits)) == len(set(TEXTS))


def test_the_splits_have_their_shares() -> None:
    splits = [split_of(str(number), 0.02) for number in range(20_000)]
    assert splits.count("validation") == pytest.approx(400, abs=80)
    assert splits.count("test") == pytest.approx(400, abs=80)


def test_byte_counts_of_tokens_add_up(prepared: Prepared) -> None:
    sizes = prepared.tokenizer.token_bytes()
    for tokens in (prepared.train, prepared.validation, prepared.test):
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
        facts, tokens = manifest["splits"][name], getattr(prepared, name)
        assert (facts["tokens"], facts["documents"], facts["hash"]) == (
            len(tokens),
            tokens.documents,
            tokens.hash,
        )
        assert facts["width"] == "uint16"
    assert manifest["compression"]["bytes"] == prepared.validation.bytes
    assert 0 < manifest["compression"]["gzip"] < 8
    assert 0 < manifest["compression"]["xz"] < 8


class Counted(Corpus):
    def __init__(self, texts: list[str], version: str) -> None:
        self.texts, self.version, self.passes = texts, version, 0

    def documents(self) -> Iterator[Document]:
        self.passes += 1
        return (Document(text, str(index)) for index, text in enumerate(self.texts))

    def fingerprint(self) -> str:
        return self.version


def test_the_cache_is_reused_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = Counted(TEXTS, "a")
    first = run(corpus, tmp_path)
    assert corpus.passes == 2
    second = run(corpus, tmp_path, progress=True)
    assert corpus.passes == 2
    assert second.folder == first.folder
    assert f"Reusing the prepared corpus in {first.folder}" in capsys.readouterr().err
    assert second.train.hash == first.train.hash
    run(corpus, tmp_path)
    assert capsys.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == [first.folder.name]


def test_whatever_matters_makes_a_new_folder(tmp_path: Path, prepared: Prepared) -> None:
    folders = {
        run(Counted(TEXTS, "a"), tmp_path).folder,
        run(Counted(TEXTS, "b"), tmp_path).folder,
        run(Counted(TEXTS, "a"), tmp_path, vocabulary=271).folder,
        run(Counted(TEXTS, "a"), tmp_path, held_out=0.2).folder,
        run(
            Counted(TEXTS, "a"), tmp_path, vocabulary=None, tokenizer=prepared.folder / "tokenizer.json"
        ).folder,
    }
    assert len(folders) == 5


def test_one_changed_byte_of_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    corpus = write(tmp_path, TEXTS)
    first = run(corpus, tmp_path / "cache")
    path = tmp_path / "a.jsonl"
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Document 7", b"Document X"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    second = run(corpus, tmp_path / "cache")
    assert second.folder != first.folder
    assert any("Document X" in text for text in documents(second, "train"))


def test_the_same_from_a_given_tokenizer(tmp_path: Path, prepared: Prepared) -> None:
    again = run(
        write(tmp_path, TEXTS), tmp_path, vocabulary=None, tokenizer=prepared.folder / "tokenizer.json"
    )
    assert again.tokenizer.hash == prepared.tokenizer.hash
    assert again.train.hash == prepared.train.hash


def test_a_swapped_tokenizer_is_refused(tmp_path: Path) -> None:
    done = run(Counted(TEXTS, "a"), tmp_path)
    other = Tokenizer.train(["something else entirely"], 270, progress=False)
    other.save(done.folder / "tokenizer.json")
    with pytest.raises(InputError) as caught:
        run(Counted(TEXTS, "a"), tmp_path)
    message = str(caught.value)
    assert other.hash in message
    assert done.tokenizer.hash in message
    assert str(done.folder / "tokenizer.json") in message


@pytest.mark.parametrize("name", ["train-00000.bin", "test-00000.bin", "tokenizer.json", "manifest.json"])
def test_a_damaged_cache_is_refused(tmp_path: Path, name: str) -> None:
    folder = run(Counted(TEXTS, "a"), tmp_path).folder
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-2])
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        load(folder) if name != "manifest.json" else (folder / name).unlink() or load(folder)


def test_a_failed_run_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n' * 50 + '{"text": 5}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 51"):
        run(Files([str(path)]), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_skipped_rows_reach_the_manifest(tmp_path: Path) -> None:
    write(tmp_path, TEXTS)
    with (tmp_path / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write("not json\n")
    corpus = Files([str(tmp_path / "a.jsonl")], bad_rows="skip")
    with pytest.warns(UserWarning, match="1 of 124 rows were skipped"):
        manifest = run(corpus, tmp_path / "cache").manifest
    assert manifest["skipped_rows"] == manifest["corpus"]["skipped_rows"] == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"vocabulary": None}, "either `vocabulary`"),
        ({"tokenizer": Path("tokenizer.json")}, "either `vocabulary`"),
        ({"vocabulary": 256}, "`vocabulary` is 256.*257"),
        ({"held_out": 0.0}, "`held_out` is 0.0"),
        ({"held_out": 0.5}, "`held_out` is 0.5"),
        ({"vocabulary": None, "tokenizer": Path("nowhere.json")}, r"nowhere\.json"),
    ],
)
def test_options_out_of_range(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        run(Counted(TEXTS, "a"), tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:the vocabulary has")
@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_an_empty_corpus(tmp_path: Path, texts: list[str]) -> None:
    with pytest.raises(InputError, match=f"the corpus is empty: {len(texts)} documents, no text"):
        run(Counted(texts, "a"), tmp_path)


@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_too_few_documents_for_the_splits(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no text fell to the \w+ split: of 1 documents(.|\n)*Give more documents"
    ):
        run(Counted(["one"], "a"), tmp_path)


def test_processes_forked_afterwards_neither_hang_nor_warn(tmp_path: Path) -> None:
    write(tmp_path, TEXTS)
    script = """
import multiprocessing, sys
from pathlib import Path
from mgvr_lightning.data.files import Files
from mgvr_lightning.data.prepare import prepare

def check(prepared):
    return len(prepared.tokenizer.encode_batch(["some text"] * 100)) + int(prepared.train.read(0, 1)[0])

folder = Path(sys.argv[1])
prepared = prepare(Files([str(folder / "a.jsonl")]), folder / "cache", vocabulary=270, tokenizer=None,
                   held_out=0.15, progress=False)
def child(queue): queue.put(check(prepared))
context = multiprocessing.get_context("fork")
queue = context.Queue()
workers = [context.Process(target=child, args=(queue,)) for _ in range(4)]
for worker in workers: worker.start()
print([queue.get(timeout=20) for _ in workers])
"""
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.stdout, done.stderr) == ("[100, 100, 100, 100]\n", "")


def test_runs_at_the_same_time_agree(tmp_path: Path) -> None:
    write(tmp_path, TEXTS)
    script = (
        "import sys; from pathlib import Path\n"
        "from mgvr_lightning.data.files import Files\n"
        "from mgvr_lightning.data.prepare import prepare\n"
        "print(prepare(Files([sys.argv[1] + '/a.jsonl']), Path(sys.argv[1], 'cache'), vocabulary=270,"
        " tokenizer=None, held_out=0.15, progress=False).train.hash)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({process.communicate(timeout=60)[0] for process in runs}) == 1
    assert all(process.returncode == 0 for process in runs)
    assert len(list((tmp_path / "cache").iterdir())) == 1
