"""Preparation of corpora that are no files of text: token ids, and data sets as of the hub."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import table, write
from documents import kept_folder, texts
from held import Held, prepare, tokenizer_of

from mgvr_lightning.data.corpora.datatrove import Datatrove
from mgvr_lightning.data.corpora.hub import Hub
from mgvr_lightning.data.preparation.prepare import Preparation, fingerprint
from mgvr_lightning.data.preparation.prepared import Prepared
from mgvr_lightning.data.preparation.splits import HeldOut
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.text import Text
from mgvr_lightning.errors import InputError

DOCUMENTS = [*texts(80), "", " \r\n"]


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(Held(DOCUMENTS), kept_folder("mgvr-ids-"))


def write_ids(folder: Path, tokenizer: Tokenizer, ends: str, extra: list[list[int]]) -> Datatrove:
    """Token files as `datatrove` writes them, with the separator before, behind or not at all."""
    encoded = [ids.tolist() for ids in tokenizer.encode_batch(DOCUMENTS)]
    separator = [tokenizer.separator]
    own = {
        "none": encoded,
        "behind": [ids + separator for ids in encoded],
        "before": [separator + ids for ids in encoded],
    }
    documents = own[ends] + extra
    path = folder / "docs.ds"
    np.concatenate([np.array(ids, "<u2") for ids in documents]).tofile(path)
    np.cumsum([len(ids) for ids in documents]).astype("<u8").tofile(f"{path}.index")
    return Datatrove([str(path)])


def run(corpus: Any, prepared: Prepared, cache: Path) -> Prepared:
    mark = fingerprint(corpus, cache, False)
    done = Preparation(corpus, mark, prepared.tokenizer, HeldOut(0.15), cache, False).run()
    assert done is not None
    return done


@pytest.mark.parametrize("ends", ["none", "behind", "before"])
def test_ids_give_the_tokens_that_their_text_gives(tmp_path: Path, prepared: Prepared, ends: str) -> None:
    done = run(write_ids(tmp_path, prepared.tokenizer, ends, []), prepared, tmp_path)
    assert done.manifest["splits"] == prepared.manifest["splits"]
    assert done.manifest["compression"] == prepared.manifest["compression"]


def test_a_separator_inside_a_document_is_a_bad_row(tmp_path: Path, prepared: Prepared) -> None:
    bad = [[5, prepared.tokenizer.separator, 6]]
    corpus = write_ids(tmp_path, prepared.tokenizer, "none", bad)
    with pytest.raises(InputError, match=r"docs\.ds, document 83 holds the separator, id \d+, inside"):
        run(corpus, prepared, tmp_path)
    corpus.bad_rows = "skip"
    with pytest.warns(UserWarning, match="1 of 83 rows were skipped"):
        done = run(corpus, prepared, tmp_path / "skipped")
    assert done.manifest["splits"] == prepared.manifest["splits"]


def test_ids_of_another_tokenizer_are_refused(tmp_path: Path, prepared: Prepared) -> None:
    corpus = write_ids(tmp_path, prepared.tokenizer, "none", [[5, 60_000]])
    corpus.bad_rows = "skip"
    with pytest.raises(InputError, match="document 83 holds the id 60,000, but the tokenizer has 270"):
        run(corpus, prepared, tmp_path)


def test_ids_are_trained_on_with_their_tokenizer(tmp_path: Path, prepared: Prepared) -> None:
    corpus = write_ids(tmp_path, prepared.tokenizer, "behind", [])
    options: dict[str, Any] = {"context": 16, "held_out": 0.15, "cache": str(tmp_path / "data")}
    data = Text(corpus, tokenizer=str(prepared.folder / "tokenizer.json"), **options)
    data.prepare_data()
    data.setup("fit")
    assert data.facts["train_tokens"] == prepared.splits["train"].hash
    with pytest.raises(InputError, match=r"Datatrove holds token ids\. Give the `tokenizer`"):
        Text(corpus, **options).prepare_data()
    with pytest.raises(InputError, match=r"data\.validation: Datatrove holds token ids"):
        Text(Held(DOCUMENTS), validation=corpus, **options).prepare_data()


@pytest.mark.parametrize("streaming", [True, False])
def test_a_data_set_gives_the_tokens_that_its_text_gives(
    tmp_path: Path, prepared: Prepared, streaming: bool
) -> None:
    halves = DOCUMENTS[:40], DOCUMENTS[40:]
    write(
        tmp_path / "set",
        {f"train-{n}.parquet": table(text=half, n=[n] * len(half)) for n, half in enumerate(halves)},
    )
    corpus = Hub(str(tmp_path / "set"), streaming=streaming)
    done = run(corpus, prepared, tmp_path / "cache")
    assert done.manifest["splits"] == prepared.manifest["splits"]
    mark = fingerprint(corpus, tmp_path, False)
    apart = Preparation(corpus, mark, prepared.tokenizer, HeldOut(0.15), tmp_path / "apart", False)
    assert apart.run(processes=2) is not None
    learned = tokenizer_of(corpus, tmp_path / "cache", HeldOut(0.15))
    assert learned.hash == prepared.tokenizer.hash
