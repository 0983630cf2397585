"""Text from several corpora, and with a validation corpus of its own."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from documents import kept_folder, texts, write_documents

from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.data.parse import parse_data
from mgvr_lightning.data.text import Source, Text
from mgvr_lightning.errors import InputError

SETTINGS: dict[str, Any] = {"vocabulary": 300, "context": 16, "global_batch": 8, "held_out": 0.1}


def files(folder: Path, name: str, documents: list[str]) -> Files:
    return Files([str(write_documents(folder / f"{name}.jsonl", documents))])


def letters(count: int, letter: str) -> list[str]:
    """Documents of one letter, all different."""
    return [" ".join([letter * (1 + number % 7)] * (20 + number)) for number in range(count)]


def opened(corpus: Any, folder: Path, **options: Any) -> Text:
    data = Text(corpus=corpus, cache=str(folder / "data"), **{**SETTINGS, **options})
    data.prepare_data()
    data.setup("fit")
    return data


@pytest.fixture(scope="module")
def folder() -> Path:
    return kept_folder("mgvr-sources-")


def mixed(folder: Path, weights: tuple[float, float] = (3, 1), **options: Any) -> Text:
    sources = [
        Source(files(folder, "a", letters(80, "a")), weights[0]),
        Source(files(folder, "b", letters(60, "b")), weights[1]),
    ]
    return opened(sources, folder, **options)


def share_of_b(data: Text, rows: np.ndarray) -> float:
    kinds = ["b" in data.decode(row.tolist()) for row in rows]
    assert all("a" in data.decode(row.tolist()) for row, is_b in zip(rows, kinds, strict=True) if not is_b)
    return float(np.mean(kinds))


def test_sources_are_trained_and_validated_on_by_weight(folder: Path) -> None:
    data = mixed(folder, validation_windows=16)
    ids, _ = data.examples().rows(np.arange(4096))
    assert share_of_b(data, ids) == 0.25
    validation, _ = data.held_out("validation")
    assert len(validation) == 16
    assert share_of_b(data, validation) == 0.25
    test, _ = data.held_out("test")
    assert len(test) == sum(windows.count + len(windows.rest()) for windows in data._windows("test"))


def test_another_weight_is_another_run_but_not_another_preparation(folder: Path) -> None:
    tokenizer = str(mixed(folder).prepared[0].folder / "tokenizer.json")
    first, second = (
        mixed(folder, weights, tokenizer=tokenizer, vocabulary=None) for weights in ((3, 1), (1, 1))
    )
    assert first.facts != second.facts
    assert [one.folder for one in first.prepared] == [one.folder for one in second.prepared]
    assert first.facts["weights"] == [3, 1]


def test_one_source_in_a_list_is_that_corpus(folder: Path) -> None:
    corpus = files(folder, "c", texts())
    alone, listed = opened(corpus, folder), opened([Source(corpus, 0.3)], folder)
    assert alone.facts == listed.facts
    positions = np.arange(50)
    np.testing.assert_array_equal(alone.examples().rows(positions), listed.examples().rows(positions))


def test_epochs_and_yardsticks_of_a_mixture(folder: Path) -> None:
    data = mixed(folder)
    windows = [source.count for source in data.examples().sources]
    expected = max(0.75 / windows[0], 0.25 / windows[1]) * 100 * 8
    assert data.epochs(100) == pytest.approx(expected, rel=1e-3)
    each = [prepared.manifest["compression"] for prepared in data.prepared]
    assert data.yardsticks()["xz"] == pytest.approx(0.75 * each[0]["xz"] + 0.25 * each[1]["xz"])
    assert len(data.describe()["sources"]) == 2


def test_a_validation_corpus_takes_the_place_of_held_out_documents(folder: Path) -> None:
    documents = texts(120)
    corpus = files(folder, "train", documents)
    validation = files(folder, "validation", [*texts(30, seed=1), *documents[:5]])
    data = opened(corpus, folder, validation=validation, validation_windows=None)
    train, held = data.prepared
    assert train.manifest["left_out"] == 5
    assert (train.splits["train"].documents, held.splits["validation"].documents) == (115, 35)
    whole = len(data.held_out("validation")[0])
    test = [part[:whole] for part in data.held_out("test")]
    np.testing.assert_array_equal(data.held_out("validation"), test)
    assert len(data.held_out("validation")[0]) == (len(held.splits["validation"]) - 1) // 16
    assert data.yardsticks()["gzip"] == held.manifest["compression"]["gzip"]
    assert data.facts["validation_tokens"] == held.splits["validation"].hash
    other = opened(corpus, folder, validation=files(folder, "other", texts(30, seed=2)))
    assert other.facts["validation_tokens"] != data.facts["validation_tokens"]


def test_a_mixture_with_a_validation_corpus(folder: Path) -> None:
    validation = files(folder, "validation", texts(30, seed=1))
    data = mixed(folder, validation=validation, validation_windows=4)
    assert len(data.prepared) == 3
    assert len(data.held_out("validation")[0]) == 4
    assert len(data.examples().sources) == 2


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(folder: Path, weight: float) -> None:
    with pytest.raises(InputError, match="weights of a mixture"):
        mixed(folder, (weight, 1.0))


def test_no_source_is_refused() -> None:
    with pytest.raises(InputError, match="weights of a mixture"):
        Text(corpus=[])


def test_isolated_documents_start_at_the_separator(folder: Path) -> None:
    corpus = files(folder, "c", texts())
    isolated = opened(corpus, folder, isolate_documents=True)
    assert isolated.document_start == isolated.tokenizer.separator
    assert opened(corpus, folder).document_start is None
    assert isolated.facts != opened(corpus, folder).facts


def test_a_configuration_file_mixes_corpora(folder: Path) -> None:
    for name in "ab":
        files(folder, name, letters(80, name))
    sources = [
        {
            "corpus": {"class_path": "Files", "init_args": {"paths": [str(folder / f"{name}.jsonl")]}},
            "weight": weight,
        }
        for name, weight in (("a", 2), ("b", 1.5))
    ]
    content = {"data": {"class_path": "Text", "init_args": {"corpus": sources, **SETTINGS}}}
    path = folder / "mixture.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    data = parse_data([str(path)])
    assert isinstance(data, Text)
    assert data.weights == [2, 1.5]
    assert [type(source.corpus) for source in data.sources] == [Files, Files]


class Strategy:
    """What the first of two processes tells."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders

    def broadcast(self, own: list[str]) -> list[str]:
        """The first process's."""
        return self.folders


def as_second_of_two(data: Text, folders: list[str]) -> None:
    data.trainer = SimpleNamespace(world_size=2, global_rank=1, strategy=Strategy(folders))  # type: ignore[assignment]


def test_a_process_opens_what_the_first_one_prepared(folder: Path) -> None:
    first = opened(files(folder, "c", texts()), folder)
    second = Text(corpus=files(folder, "gone", ["nothing"]), cache=str(folder / "data"), **SETTINGS)
    as_second_of_two(second, [str(prepared.folder) for prepared in first.prepared])
    second.setup("fit")
    assert second.facts["train_tokens"] == first.facts["train_tokens"]


def test_machines_that_prepared_different_tokens_are_refused(folder: Path) -> None:
    data = opened(files(folder, "c", texts()), folder)
    as_second_of_two(data, ["data/files-300-0123456789abcdef"])
    with pytest.raises(InputError, match=r"0123456789abcdef, process 1 .*: they'd train on different tokens"):
        data.setup("fit")


def test_a_vocabulary_that_is_not_the_tokenizers_is_refused(folder: Path) -> None:
    corpus = files(folder, "c", texts())
    tokenizer = str(opened(corpus, folder).prepared[0].folder / "tokenizer.json")
    assert opened(corpus, folder, tokenizer=tokenizer).vocabulary == 300
    with pytest.raises(InputError, match=r"data\.vocabulary: 400, but the tokenizer .* has 300 entries"):
        opened(corpus, folder, tokenizer=tokenizer, vocabulary=400)
