import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import texts, write_documents
from held import Held, HeldPiece, tokenizer_of

from mgvr_lightning.data.corpora.corpus import Piece, Row
from mgvr_lightning.data.preparation import vocabulary
from mgvr_lightning.data.preparation.splits import TRAIN, HeldOut, text_hash
from mgvr_lightning.data.preparation.vocabulary import Lesson, learn
from mgvr_lightning.errors import InputError

RULE = HeldOut(0.2)


def lesson(documents: list[str], version: str = "a", piece: int = 10**9, weight: float = 1.0) -> Lesson:
    return Lesson(Held(documents, piece=piece), version, RULE, weight)


def sample(*lessons: Lesson, most_bytes: int = 10**9) -> list[str]:
    return list(vocabulary._sample(lessons, most_bytes))


def test_all_training_documents_of_a_small_corpus_are_learned_from_and_no_other() -> None:
    documents = texts(200)
    expected = [text for text in documents if RULE.of(text_hash(text.encode())) == TRAIN]
    assert sample(lesson(documents)) == sample(lesson(documents, piece=7)) == expected
    assert 0 < len(expected) < 200


def test_a_large_corpus_is_learned_from_all_over() -> None:
    documents = [f"{number:06} {text}" for number, text in enumerate(texts(1000))]
    size = len(documents[0].encode())
    found = sample(lesson(documents, piece=10), most_bytes=50 * size)
    assert 20 * size <= sum(len(text.encode()) for text in found) <= 50 * size
    numbers = [int(text[:6]) for text in found if text[:6].isdigit()]
    assert max(numbers) > 800
    assert len({number // 100 for number in numbers}) >= 5


def test_sources_are_learned_from_by_weight() -> None:
    first, second = (lesson([f"{name} {text}" for text in texts(500)], piece=5) for name in "ab")
    heavy = Lesson(second.corpus, "b", RULE, 3.0)
    found = sample(first, heavy, most_bytes=40_000)
    sizes = {name: sum(len(text) for text in found if text[0] == name) for name in "ab"}
    assert 2.0 < sizes["b"] / sizes["a"] < 4.5


class Opened(HeldPiece):
    """A piece of unknown size that notes that it was read."""

    def rows(self) -> Iterator[Row]:
        OPENED.append(self.texts[0])
        return super().rows()


OPENED: list[str] = []


class Unknown(Held):
    """A corpus that doesn't know how large its pieces are."""

    def pieces(self) -> list[Piece]:
        pieces: list[Piece] = []
        for piece in super().pieces():
            assert isinstance(piece, HeldPiece)
            pieces.append(Opened(piece.texts))
            pieces[-1].bytes = 0
        return pieces


def test_pieces_of_unknown_size_are_learned_from_all_over_and_few_are_opened() -> None:
    OPENED.clear()
    documents = [f"{number:06} {text}" for number, text in enumerate(texts(2000))]
    corpus = Unknown(documents, piece=4)
    found = list(vocabulary._sample([Lesson(corpus, "a", RULE)], 20_000))
    assert 10_000 < sum(len(text.encode()) for text in found) <= 20_000
    assert len(OPENED) <= vocabulary.MOST_UNKNOWN
    numbers = [int(text[:6]) for text in found if text[:6].isdigit()]
    assert max(numbers) > 1800
    assert len({number // 200 for number in numbers}) >= 9


@pytest.mark.parametrize("documents", [1, 50])
def test_distinct_words_are_bounded(monkeypatch: pytest.MonkeyPatch, documents: int) -> None:
    monkeypatch.setattr(vocabulary, "DISTINCT_BYTES", 5_000)
    generator = random.Random(0)
    held = [
        " ".join(f"{generator.getrandbits(64):x}" for _ in range(10_000 // documents))
        for _ in range(documents)
    ]
    rule = HeldOut(0.001)
    found = list(vocabulary._sample([Lesson(Held(held, piece=5), "a", rule)], 10**9))
    words = {word for text in found for word in text.split()}
    assert 2_000 < sum(map(len, words)) <= 5_000
    repeated = list(vocabulary._sample([Lesson(Held(["one two three"] * 5_000), "a", rule)], 10**9))
    assert len(repeated) == 5_000


def test_a_single_document_larger_than_the_room_is_learned_from_in_part() -> None:
    rule = HeldOut(1e-9)
    (found,) = vocabulary._sample([Lesson(Held(["é" * 1000]), "a", rule)], 101)
    assert found == "é" * 50


def test_a_vocabulary_is_learned_once_and_found_again(tmp_path: Path) -> None:
    corpus = Held(texts())
    first = tokenizer_of(corpus, tmp_path, RULE)
    assert corpus.passes == 1
    assert tokenizer_of(corpus, tmp_path, RULE).hash == first.hash
    assert corpus.passes == 1
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]
    keys = [("a", 270, 10**6), ("b", 270, 10**6), ("a", 271, 10**6), ("a", 270, 10**5)]
    for version, size, most in keys:
        learn([lesson(texts(), version)], size, most, tmp_path, progress=False)
    learn([Lesson(Held(texts()), "a", HeldOut(0.3))], 270, 10**6, tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 6


def test_fresh_processes_learn_the_same_with_any_number_of_threads(tmp_path: Path) -> None:
    path = write_documents(tmp_path / "docs.jsonl", [*texts(40), "東京 " * 50, "zz" * 500])
    script = (
        "import sys; from pathlib import Path\n"
        "from mgvr_lightning.data.corpora.files import Files\n"
        "from mgvr_lightning.data.preparation.splits import HeldOut\n"
        "from mgvr_lightning.data.preparation.vocabulary import Lesson, learn\n"
        "lesson = Lesson(Files([sys.argv[1]]), 'a', HeldOut(0.1))\n"
        "print(learn([lesson], 300, 10**6, Path(sys.argv[2]), False).hash)"
    )
    hashes = set()
    for number, threads in enumerate("1244"):
        command = [sys.executable, "-c", script, str(path), str(tmp_path / str(number))]
        environment = {**os.environ, "RAYON_NUM_THREADS": threads}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        hashes.add(done.stdout)
    assert len(hashes) == 1


def test_two_processes_learn_into_one_file(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "sys.path[:0] = sys.argv[2:3]\n"
        "from documents import texts\n"
        "from held import Held, HeldPiece, tokenizer_of\n"
        "from mgvr_lightning.data.preparation.splits import HeldOut\n"
        "print(tokenizer_of(Held(texts(400)), Path(sys.argv[1]), HeldOut(0.1)).hash)"
    )
    command = [sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parents[2])]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({run.communicate(timeout=60)[0] for run in runs}) == 1
    assert all(run.returncode == 0 for run in runs)
    assert [path.suffix for path in tmp_path.iterdir() if path.suffix != ".lock"] == [".json"]


class Tokenized(Held):
    tokenized = True


def test_ids_teach_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Tokenized holds token ids\. Give the `tokenizer`"):
        learn([Lesson(Tokenized(texts()), "a", RULE)], 270, 10**6, tmp_path, progress=False)


@pytest.mark.parametrize(("size", "most"), [(256, 10**6), (300, 0)])
def test_options_out_of_range(tmp_path: Path, size: int, most: int) -> None:
    with pytest.raises(InputError, match="vocabulary"):
        learn([lesson(texts())], size, most, tmp_path, progress=False)


def test_a_damaged_tokenizer_in_the_cache_is_named(tmp_path: Path) -> None:
    tokenizer_of(Held(texts()), tmp_path, RULE)
    (path,) = tmp_path.glob("*.json")
    path.write_text(json.dumps({"model": None}), encoding="utf-8")
    with pytest.raises(InputError, match=path.name):
        tokenizer_of(Held(texts()), tmp_path, RULE)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_text_without_spaces_takes_bounded_memory_and_time(tmp_path: Path) -> None:
    """30 MB, a fifth of it Chinese, 5 MB without a space.

    The peak is the kernel's VmHWM: `ru_maxrss` would start at the peak of the process that started this one.
    """
    script = (
        "import re, sys; from pathlib import Path\n"
        "from mgvr_lightning.data.corpora.files import Files\n"
        "from mgvr_lightning.data.preparation.splits import HeldOut\n"
        "from mgvr_lightning.data.preparation.vocabulary import Lesson, learn\n"
        "lesson = Lesson(Files([sys.argv[1]]), 'a', HeldOut(0.01))\n"
        "tokenizer = learn([lesson], 8192, 2**26, Path(sys.argv[2]), False)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(tokenizer.size, re.search(r'VmHWM:\\s+(\\d+) kB', status)[1])"
    )
    generator = random.Random(0)
    characters = [chr(0x4E00 + index) for index in range(3500)]
    weights = [1 / (index + 10) for index in range(3500)]
    chinese = [
        "，".join("".join(generator.choices(characters, weights, k=12)) for _ in range(250))
        for _ in range(650)
    ]
    solid = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=500_000)) for _ in range(10)]
    words = [f"{generator.getrandbits(20):x}" for _ in range(50_000)]
    spaced = [" ".join(generator.choices(words, k=2_000)) for _ in range(1_600)]
    path = write_documents(tmp_path / "docs.jsonl", [*spaced[:800], *chinese, *solid, *spaced[800:]])
    assert path.stat().st_size > 30e6
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    size, kibibytes = map(int, done.stdout.split())
    assert size == 8192
    assert kibibytes < 2 * 2**20
