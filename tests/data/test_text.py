from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import texts, write_documents
from runs import home

from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.data.text import Text
from mgvr_lightning.errors import InputError
from mgvr_lightning.model import IGNORE


def _text(documents: Path | None = None, **options: Any) -> Text:
    path = documents if documents is not None else home() / "docs.jsonl"
    settings = {
        "vocabulary": 300,
        "context": 32,
        "global_batch": 16,
        "held_out": 0.1,
        "validation_windows": 8,
        "cache": str(home() / "data"),
    }
    data = Text(corpus=Files([str(path)]), **{**settings, **options})
    data.prepare_data()
    data.setup("fit")
    return data


@pytest.mark.parametrize(
    ("key", "value"),
    [("context", 16), ("seed", 1), ("global_batch", 8), ("validation_windows", 4), ("vocabulary", 301)],
)
def test_facts_change_with_every_option_that_changes_the_data(key: str, value: int) -> None:
    assert _text(**{key: value}).facts != _text().facts


def test_facts_change_with_one_word_of_the_corpus(tmp_path: Path) -> None:
    assert _text(write_documents(tmp_path / "same.jsonl", texts())).facts == _text().facts
    changed = write_documents(tmp_path / "other.jsonl", [texts()[0] + "x", *texts()[1:]])
    assert _text(changed, cache=str(tmp_path / "data")).facts != _text().facts


def test_facts_do_not_change_with_layout_or_workers() -> None:
    assert _text(micro_batch=4, workers=2).facts == _text().facts


def test_windows_beyond_those_there_are_make_no_difference() -> None:
    every = _text(validation_windows=None)
    assert _text(validation_windows=10**6).facts == every.facts
    assert every.facts["validation_windows"] == len(every.held_out("validation")[0]) > 8


@pytest.mark.parametrize("context", [5_000, 10**6])
def test_a_split_shorter_than_a_window_says_what_to_change(context: int) -> None:
    with pytest.raises(InputError, match=rf"split has \d+ tokens.*{context + 1}.*smaller data.context"):
        _text(context=context)


def test_a_window_may_take_the_whole_of_its_split() -> None:
    shortest = min(len(tokens) for tokens in _text().prepared[0].splits.values())
    assert _text(context=shortest - 1).facts["context"] == shortest - 1
    with pytest.raises(InputError, match="split has"):
        _text(context=shortest)


@pytest.mark.parametrize(
    ("option", "value"),
    [("context", 0), ("validation_windows", 0), ("workers", -1), ("held_out", 0.5), ("vocabulary", 100)],
)
def test_an_option_out_of_range_is_named(option: str, value: float) -> None:
    with pytest.raises(InputError, match=option):
        _text(**{option: value})


def test_a_given_tokenizer_makes_the_ids(tmp_path: Path) -> None:
    trained = _text()
    path = trained.prepared[0].folder / "tokenizer.json"
    given = _text(tokenizer=str(path), cache=str(tmp_path / "data"))
    assert given.facts == trained.facts
    other = _text(write_documents(tmp_path / "docs.jsonl", texts(seed=1)), tokenizer=str(path))
    assert other.facts["tokenizer"] == trained.facts["tokenizer"]
    assert other.facts["train_tokens"] != trained.facts["train_tokens"]


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.json"):
        _text(tokenizer=str(tmp_path / "missing.json"))


def test_prompts_are_encoded_after_a_separator_and_decode_back() -> None:
    data = _text(prompts=["abc def", ""])
    first, empty = data.prompts()
    assert first[0] == empty[0] == data.tokenizer.separator
    assert data.decode(first[1:]) == "abc def"
    assert len(empty) == 1


def test_prompts_default_to_beginnings_of_validation_windows() -> None:
    data = _text()
    ids, _ = data.held_out("validation")
    assert data.prompts() == ids[:4, :16].tolist()


def test_token_bytes_count_the_text_of_the_validation_split() -> None:
    data = _text()
    tokens = data.prepared[0].splits["validation"]
    assert data.token_bytes[tokens.read(0, len(tokens))].sum() == tokens.bytes
    assert data.token_bytes[data.tokenizer.separator] == 0


def test_what_is_predicted_of_the_test_split_is_its_text_to_the_last_byte() -> None:
    data = _text()
    tokens = data.prepared[0].splits["test"]
    _, targets = data.held_out("test")
    scored = targets[targets != IGNORE]
    assert scored.tolist() == tokens.read(1, len(tokens) - 1).tolist()
    assert (len(tokens) - 1) % data.context, "this test needs a rest"
    assert data.token_bytes[scored].sum() == tokens.bytes


def test_epochs_count_windows() -> None:
    data = _text()
    windows = data.examples().sources[0].count
    assert data.epochs(windows) == 16
    assert np.isclose(data.epochs(5), 80 / windows)
