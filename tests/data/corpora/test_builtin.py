import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from corpora import read

from mgvr_lightning.data.corpora import builtin
from mgvr_lightning.data.corpora.builtin import Builtin
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.docstrings import prose, texts
from mgvr_lightning.data.corpora.near_duplicates import near_duplicates
from mgvr_lightning.data.corpora.packages import closure, standard_library_sources

PACKAGES = ["jinja2", "packaging", "tqdm"]
SENTENCE = "This sentence has well more than eight words and is plain English prose."


@pytest.fixture(scope="module")
def small() -> Builtin:
    corpus = Builtin(PACKAGES, standard_library=False)
    corpus.pieces()
    return corpus


def test_documents_are_prose_by_file(small: Builtin) -> None:
    documents = dict(read(small)[0])
    assert list(documents) == sorted(documents)
    assert "template" in documents["jinja2/environment.py"]
    everything = "\n".join(documents.values())
    assert 50_000 < len(everything) < 1_000_000
    assert sum(map(str.isalpha, everything)) / sum(not c.isspace() for c in everything) > 0.85
    assert ">>>" not in everything
    assert not re.search("all rights reserved|without warrant", everything, re.IGNORECASE)


def test_the_same_again_whatever_the_workers(small: Builtin, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Builtin(PACKAGES, standard_library=False, workers=3)
    monkeypatch.setattr(builtin, "_CHUNK", 17)
    monkeypatch.setattr(builtin, "_PIECE", 10_000)
    assert read(again) == read(small)
    assert len(again.pieces()) > len(small.pieces())
    assert again.fingerprint(Digests()) == small.fingerprint(Digests())


def test_fingerprint_and_description_follow_the_packages(small: Builtin) -> None:
    fewer = Builtin(PACKAGES[:2], standard_library=False)
    assert fewer.fingerprint(Digests()) != small.fingerprint(Digests())
    assert set(small.describe()) == {"jinja2", "markupsafe", "packaging", "tqdm"}
    version = ".".join(map(str, sys.version_info[:3]))
    assert str(Builtin(PACKAGES).describe()["python"]).startswith(f"{sys.implementation.name} {version}")


def test_the_closure_is_of_requirements_and_not_of_what_is_installed() -> None:
    assert list(closure(["Jinja2"])) == ["jinja2", "markupsafe"]
    assert closure(["there-is-no-such-package"]) == {}
    own = closure(builtin.ROOTS)
    assert {"torch", "numpy", "pyarrow"} <= set(own)
    assert not {"pytest", "ruff", "mypy", "mgvr-lightning"} & set(own)


def test_the_standard_library_without_tests_and_packages() -> None:
    keys = {source.key for source in standard_library_sources()}
    assert {"python/argparse.py", "python/pydoc_data/topics.py"} <= keys
    assert not any("/test/" in key or "site-packages" in key for key in keys)


def test_texts_of_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        f'"""Module. {SENTENCE} One."""\n'
        "import not_there\n"
        "raise SystemExit('never run')\n"
        "class A:\n"
        f'    """\n    Class. {SENTENCE}\n        Indented. {SENTENCE}\n'
        f'\n    >>> code with quite a few more words than eight in all\n\n    End. {SENTENCE}\n    """\n'
        f"    def f(self): \n        '''Method. {SENTENCE}'''\n"
        f'add_docstr(f, r"""\nArgument. {SENTENCE}\n""" + "more")\n'
        f"message = 'One line. {SENTENCE}'\n"
        f'formatted = f"""{{A}}\n{SENTENCE} formatted"""\n'
        "pattern = '\\d'\n",
        encoding="utf-8",
    )
    assert texts(path) == [
        f"Module. {SENTENCE} One.",
        f"Class. {SENTENCE}\n    Indented. {SENTENCE}\n\nEnd. {SENTENCE}",
        f"Method. {SENTENCE}",
        f"Argument. {SENTENCE}",
    ]


@pytest.mark.parametrize("content", [b"def broken(:\n", b"\xff\xfe\x00", b"x = 1\x00\n", b""])
def test_files_that_cannot_be_parsed_have_no_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.py").write_bytes(content)
    (tmp_path / "a.md").write_bytes(b"\xff" + content)
    assert texts(tmp_path / "a.py") == texts(tmp_path / "a.md") == texts(tmp_path / "missing.py") == []


@pytest.mark.parametrize(
    "text",
    [
        "too few words",
        "| a | b | 1 | 2 |\n" * 10,
        "def f(x): return [x[i] for i in range(10)] + {1: 2, 3: 4} # some words here and there",
        f"Copyright 2020 Somebody. {SENTENCE}",
        f"Licensed under the Apache License. {SENTENCE}",
        f">>> {SENTENCE}",
        f"{SENTENCE} \ud800",
    ],
)
def test_what_is_not_prose(text: str) -> None:
    assert prose(text) == ""
    assert prose(f"{SENTENCE}\n\n{text}\n\n{SENTENCE}") == f"{SENTENCE}\n\n{SENTENCE}"


def test_the_program_reads_lists_of_paths_and_is_silent(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f'"""{SENTENCE} é"""\nx = "\\d"\n', encoding="utf-8")
    corpus = Builtin([], standard_library=False)
    command = [sys.executable, "-I", builtin.docstrings.__file__]
    request = json.dumps([str(tmp_path / "a.py"), "missing.md"])
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[f"{SENTENCE} é"], []]
    assert done.stderr == ""
    assert list(corpus.pieces()) == []


def test_a_worker_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match=r"reading .*packaging.* ended with status 1"):
        Builtin(["packaging"], standard_library=False).pieces()


def test_near_duplicates() -> None:
    draw = np.random.default_rng(0)
    words = [f"word{index}" for index in range(500)]
    originals = [" ".join(draw.choice(words, size=60)) for _ in range(300)]
    changed = []
    for text in originals[:100]:
        parts = text.split()
        parts[int(draw.integers(60))] = "changed"
        changed.append(" ".join(parts).upper() + "!")
    mask = near_duplicates([*originals, *changed, "", "one", "one two", "One, two."])
    assert not mask[:300].any()
    assert mask[300:400].mean() > 0.95
    assert mask[400:].tolist() == [False, False, False, True]
    assert near_duplicates([]).shape == (0,)


def test_half_changed_is_not_a_duplicate() -> None:
    words = [f"w{index}" for index in range(200)]
    assert not near_duplicates([" ".join(words), " ".join(words[100:] + words[:100][::-1])]).any()


def test_repeated_paragraphs_stay_once() -> None:
    sources = list(standard_library_sources())[:2]
    one, two = (" ".join(f"{name}{index}" for index in range(40)) for name in ("one", "two"))
    own = [[f"First. {one}\n\nShared. {SENTENCE}"], [f"shared: {SENTENCE}\n\nSecond. {two}"]]
    first, second = builtin._assemble(sources, own)
    assert "Shared" in first.text
    assert "shared" not in second.text
    assert "Second" in second.text
    assert (first.key, second.key) == (sources[0].key, sources[1].key)


@pytest.mark.slow
def test_the_whole_corpus() -> None:
    pieces = Builtin().pieces()
    documents = [row.text or "" for piece in pieces for row in piece.rows()]
    assert 9e6 < sum(piece.bytes for piece in pieces) == sum(len(text.encode()) for text in documents) < 16e6
    assert len(documents) > 3000
    assert 2 <= len(pieces) <= 4
