import json
import os
import random
import subprocess
import sys
import time
import unicodedata
import warnings
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.errors import InputError

TEXT = ["The quick brown fox jumps over the lazy dog. " * 3, "Größe, naïveté & 東京 — ünïcödé " * 3]
NASTY = [
    "",
    " ",
    "   leading and trailing \t ",
    "a\r\nb\rc\nd\u2028e\u0085f\x0bg\x0ch\x00i",
    "\ufeffmark at the start",
    unicodedata.normalize("NFC", "café Å ﬁ") + unicodedata.normalize("NFD", "café Å ﬁ"),
    "👩‍👩‍👧‍👦 🏳️‍🌈 𝒜𝔅 \U0010ffff",
    "\u0301 lone accent, שלום עולם, مرحبا, \u202eright to left",
    "<|endoftext|>a<|endoftext|><|endoftext|> b <|EndOfText|>",
    "Ġ Ċ ĠĠ looks like the inside of the vocabulary",
    "don't   stop  \n\n\n   now",
]


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return Tokenizer.train(TEXT, 300, progress=False)


@pytest.mark.parametrize("text", NASTY)
def test_text_comes_back_and_its_bytes_add_up(trained: Tokenizer, text: str) -> None:
    ids = trained.encode(text)
    assert trained.decode(ids) == text
    assert trained.separator not in ids
    assert int(trained.token_bytes()[ids].sum()) == len(text.encode())


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(text: str) -> None:
    tokenizer = Tokenizer.train(TEXT, 270, progress=False)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def _batch(tokenizer: Tokenizer) -> list[list[int]]:
    return [ids.tolist() for ids in tokenizer.encode_batch(NASTY)]


def test_batches_give_what_single_texts_give(trained: Tokenizer) -> None:
    assert _batch(trained) == [trained.encode(text) for text in NASTY]


def test_sizes(trained: Tokenizer) -> None:
    assert trained.size == 300
    sizes = trained.token_bytes()
    assert sizes.shape == (300,)
    assert sizes[trained.separator] == 0
    assert (sizes > 0).sum() == 299
    assert trained.decode([trained.separator]) == "<|endoftext|>"


def test_saved_and_loaded_is_the_same(trained: Tokenizer, tmp_path: Path) -> None:
    trained.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.hash, loaded.size, loaded.separator) == (trained.hash, trained.size, trained.separator)
    assert _batch(loaded) == _batch(trained)


def test_hash_is_of_the_content_not_of_its_layout(trained: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    trained.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content, indent=3, ensure_ascii=True), encoding="utf-8")
    assert Tokenizer.load(path).hash == trained.hash
    content["model"]["merges"] = content["model"]["merges"][:-1]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert Tokenizer.load(path).hash != trained.hash


def test_training_is_deterministic_across_processes_and_threads() -> None:
    script = (
        "import random\n"
        "from mgvr_lightning.data.preparation.tokenizer import Tokenizer\n"
        "draw = random.Random(0)\n"
        "texts = [' '.join(''.join(draw.choices('abcdefgh', k=draw.randint(1, 7))) for _ in range(400))\n"
        "         for _ in range(40)]\n"
        "print(Tokenizer.train(texts, 700, progress=False).hash)\n"
    )
    hashes = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "2", "3")
    ]
    assert len(set(hashes)) == 1


def test_too_few_ids_are_refused() -> None:
    with pytest.raises(InputError, match=r"256 ids is too small.*\n.*at least 257"):
        Tokenizer.train(TEXT, 256)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Tokenizer.train(TEXT, 257, progress=False).size == 257


def test_a_corpus_too_small_for_the_size_is_told() -> None:
    with pytest.warns(UserWarning, match=r"has 259 ids, not the 5,000 asked for"):
        assert Tokenizer.train(["abc"], 5000, progress=False).size == 259


def test_text_without_spaces_takes_no_quadratic_time() -> None:
    text = "".join(random.Random(0).choices("abcdefgh", k=1_000_000))
    start = time.perf_counter()
    tokenizer = Tokenizer.train([text, "表" * 100_000, " " * 100_000], 1000, progress=False)
    assert tokenizer.size == 1000
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert time.perf_counter() - start < 30


def test_truncation_padding_and_start_tokens_of_a_foreign_file_are_not_applied(trained: Tokenizer) -> None:
    state = tokenizers.Tokenizer.from_str(_content(trained))
    state.enable_truncation(3)
    state.enable_padding(length=50)
    state.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", trained.separator)]
    )
    foreign = Tokenizer(state.to_str())
    assert _batch(foreign) == _batch(trained)


@pytest.mark.parametrize("separator", ["</s>", "<eos>", "<|end_of_text|>"])
def test_other_separators_are_found_even_if_not_marked_special(separator: str) -> None:
    state = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    state.pre_tokenizer = pre_tokenizers.Whitespace()
    state.add_tokens([separator])
    tokenizer = Tokenizer(state.to_str())
    assert tokenizer.separator == 3
    assert 3 not in tokenizer.encode(f"a {separator} b")
    assert tokenizer.token_bytes().tolist() == [len("[UNK]"), 1, 1, 0]


def test_sizes_of_sentencepiece_tokens() -> None:
    state = tokenizers.Tokenizer(models.BPE({"▁": 0, "▁é": 1, "<0x0A>": 2, "é": 3}, [("▁", "é")]))
    state.add_special_tokens(["</s>"])
    assert Tokenizer(state.to_str()).token_bytes().tolist() == [1, 3, 1, 2, 0]


def test_no_separator_is_told_with_what_was_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(models.BPE({"a": 0}, [])).save(str(path))
    with pytest.raises(InputError, match=r"tokenizer.json has no token.*<\|endoftext\|>.*</s>.*<eos>"):
        Tokenizer.load(path)


@pytest.mark.parametrize("content", [b"{}", b"not json", b"\xff\xfe", None])
def test_what_is_no_tokenizer_is_told_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mine.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"mine\.json"):
        Tokenizer.load(path)


def _content(tokenizer: Tokenizer) -> str:
    return tokenizer._content


@pytest.mark.parametrize("longest", [40, 41, 47, 60, 1000])
def test_long_texts_are_encoded_in_parts_that_give_the_same_ids(
    trained: Tokenizer, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr("mgvr_lightning.data.preparation.tokenizer._LONGEST", longest)
    texts = [
        "It's a  word,\tanother\r\n\n word's   end. " * 30,
        "don't 've 12 345 6,7 .. ...  \u3000 \x85 \x0b next \xa0 one " * 20,
        " ".join(NASTY),
    ]
    for text, ids in zip(texts, trained.encode_batch(texts), strict=True):
        assert ids.tolist() == trained.encode(text)


def test_a_long_text_without_a_break_comes_back(trained: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgvr_lightning.data.preparation.tokenizer._LONGEST", 50)
    for text in ("x" * 1234, "東京" * 600, " " * 777, "\n" * 333):
        assert trained.decode(trained.encode_batch([text])[0].tolist()) == text


def test_only_byte_level_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgvr_lightning.data.preparation.tokenizer._LONGEST", 4)
    model = tokenizers.models.Unigram(
        [("<unk>", 0.0), ("▁ab", -1.0), ("▁", -2.0), ("a", -3.0), ("b", -3.0)], 0
    )
    state = tokenizers.Tokenizer(model)
    state.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    state.decoder = tokenizers.decoders.Metaspace()
    state.add_special_tokens(["</s>"])
    tokenizer = Tokenizer(state.to_str())
    assert tokenizer.encode_batch(["ab ab ab"])[0].tolist() == tokenizer.encode("ab ab ab") == [1, 1, 1]
