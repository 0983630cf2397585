"""Real text and a real tokenizer, where a checkout has them beside it."""

import time
from pathlib import Path

import pytest

from mgvr_lightning.data.corpora.files import Files
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.text import Text

SHARED = Path(__file__).parents[3] / "shared" / "data"
GPT2 = SHARED / "tokenizer" / "gpt2" / "tokenizer.json"
WEB = SHARED / "webtext" / "val-00000.parquet"

pytestmark = pytest.mark.skipif(not WEB.exists() or not GPT2.exists(), reason="the shared data is not here")


def test_webtext_with_the_tokenizer_of_gpt2(tmp_path: Path) -> None:
    data = Text(Files([str(WEB)]), tokenizer=str(GPT2), held_out=0.1, cache=str(tmp_path))
    data.prepare(progress=False)
    (prepared,) = data.prepared
    splits = prepared.splits.values()
    assert sum(map(len, splits)) == 576_277
    assert sum(split.documents for split in splits) == 512
    assert prepared.manifest["tokenizer"]["lossless"]
    assert prepared.manifest["compression"]["xz"] < prepared.manifest["compression"]["gzip"] < 3.5
    sizes = prepared.tokenizer.token_bytes()
    for split in splits:
        assert sizes[split.read(0, len(split))].sum() == split.bytes


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", [str(GPT2), None])
def test_all_of_webtext_with_its_validation_shard(tmp_path: Path, tokenizer: str | None) -> None:
    train, validation = Files([str(WEB.parent / "train-*.parquet")]), Files([str(WEB)])
    data = Text(
        train, validation=validation, tokenizer=tokenizer, vocabulary=32_768, context=256, cache=str(tmp_path)
    )
    data.prepare_data()
    data.setup("fit")
    documents, held = data.prepared
    assert documents.splits["train"].documents == 43_977
    assert held.splits["validation"].documents == 512
    assert data.vocabulary == (32_768 if tokenizer is None else 50_257)
    if tokenizer is not None:
        assert len(held.splits["validation"]) == 576_277
        assert len(documents.splits["train"]) == 46_460_514
    start = time.perf_counter()
    again = Text(
        train, validation=validation, tokenizer=tokenizer, vocabulary=32_768, context=256, cache=str(tmp_path)
    )
    again.setup("fit")
    assert time.perf_counter() - start < 2
    assert again.facts == data.facts


def test_gpt2_has_exact_byte_counts() -> None:
    tokenizer = Tokenizer.load(GPT2)
    assert (tokenizer.size, tokenizer.separator) == (50_257, 50_256)
    sizes = tokenizer.token_bytes()
    assert sizes[50_256] == 0
    assert sizes.max() == 128
    assert sizes[tokenizer.encode(" Münster <|endoftext|>\r\n")].sum() == len(
        " Münster <|endoftext|>\r\n".encode()
    )


def test_the_prompts_of_a_benchmark() -> None:
    paths = sorted((SHARED / "core" / "eval_data").rglob("lambada_openai.jsonl"))
    assert len(list(Files([str(path) for path in paths], column="context").texts())) == 5_153


def test_one_play(tmp_path: Path) -> None:
    (play,) = Files([str(SHARED / "tinyshakespeare" / "*.txt")]).texts()
    tokenizer = Tokenizer.train([play], 1000, progress=False)
    assert tokenizer.size == 1000
    assert tokenizer.decode(tokenizer.encode(play)) == play
