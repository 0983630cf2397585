import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import cut_finely, read

from mgvr_lightning.data.corpora import datatrove
from mgvr_lightning.data.corpora.datatrove import Datatrove
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.errors import InputError

FIXTURE = Path(__file__).parent / "fixtures" / "datatrove" / "docs_00000_unshuffled.ds"
GPT2 = Path(__file__).parents[4] / "shared" / "data" / "tokenizer" / "gpt2" / "tokenizer.json"
END = 50256


def write(path: Path, documents: list[list[int]], width: int = 2, metadata: str | None = None) -> Path:
    """As `datatrove` writes."""
    np.concatenate([np.array(ids, f"<u{width}") for ids in documents]).tofile(path)
    np.cumsum([len(ids) for ids in documents]).astype("<u8").tofile(f"{path}.index")
    if metadata is not None:
        Path(f"{path}.metadata").write_text(metadata, encoding="utf-8")
    return path


def ids(*paths: Path) -> list[Any]:
    return [document for _, document in read(Datatrove([str(path) for path in paths]))[0]]


def fail(*paths: Path) -> str:
    corpus = Datatrove([str(path) for path in paths])
    with pytest.raises(InputError) as caught:
        read(corpus)
    return str(caught.value)


def test_what_the_real_tool_wrote() -> None:
    corpus = Datatrove([str(FIXTURE)])
    assert corpus.tokenized
    (piece,) = corpus.pieces()
    rows = list(piece.rows())
    assert all(row.ids is not None and type(row.ids) is np.ndarray for row in rows)
    assert all(row.ids is not None and row.ids.dtype == np.int64 for row in rows)
    assert [row.text for row in rows] == [None] * 4
    first, empty, third, fourth = ids(FIXTURE)
    assert first == [15496, 995, 13, 198, END]
    assert empty == [END]
    assert third[-1] == fourth[-1] == END
    assert (len(third), len(fourth)) == (16, 17)
    assert piece.place(rows[2].number) == f"{FIXTURE}, document 3"


@pytest.mark.skipif(not GPT2.exists(), reason="the shared data is not here")
def test_the_text_of_what_the_real_tool_wrote() -> None:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(GPT2))
    expected = ["Hello world.\n", "", "Grüße aus Köln — 東京", "one two three " * 5]
    assert [tokenizer.decode(document) for document in ids(FIXTURE)] == expected


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize(
    "metadata", [None, "gpt2|{}\n5\n5 T", "Unknown Tokenizer|{0}|{0}\n5\n5 T", "gpt2\n5\n5 T"]
)
def test_widths(tmp_path: Path, width: int, metadata: str | None) -> None:
    documents = [[2 ** (8 * width) - 1, 0], [], [1, 2, 3]]
    path = write(tmp_path / "a.ds", documents, width, metadata and metadata.format(width))
    assert ids(path) == documents


@pytest.mark.parametrize("size", [1, 8, 12, 40, 2**24])
def test_the_documents_are_the_same_whatever_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    one = [[n] * (n % 5) for n in range(50)]
    two = [[7, 7], [], []]
    write(tmp_path / "a.ds", one)
    write(tmp_path / "b.ds", [[]])
    write(tmp_path / "c.ds", two, 4, "some|4\n2\n2 T")
    cut_finely(monkeypatch, size)
    rows, tally = read(Datatrove([str(tmp_path / "*.ds")]))
    assert [document for _, document in rows] == [*one, [], *two]
    assert rows[49][0] == f"{tmp_path}/a.ds, document 50"
    assert tally.rows == 54
    pieces = Datatrove([str(tmp_path / "*.ds")]).pieces()
    assert sum(piece.bytes for piece in pieces) == 4 * sum(map(len, one + two))
    assert len(pieces) == 3 if size == 2**24 else len(pieces) > 9
    assert len(pickle.dumps(pieces[0])) < 500


def test_what_is_wrong_with_the_files_is_told(tmp_path: Path) -> None:
    path, index = tmp_path / "a.ds", tmp_path / "a.ds.index"
    write(path, [[1, 2], [3]])
    with path.open("ab") as file:
        file.write(b"\0")
    assert f"{path} has 7 bytes, but by its index it has 3 ids, which take 6 or 12 bytes" in fail(path)
    write(path, [[1, 2], [3]], metadata="gpt2|4\n3\n3 T")
    assert f"{path} has 6 bytes, but by its index it has 3 ids, which take 12 bytes" in fail(path)
    write(path, [[1, 2], [3]], metadata="gpt2|3\n3\n3 T")
    assert f"{path}.metadata tells that an id has '3' bytes; it can have 2 or 4" in fail(path)
    Path(f"{path}.metadata").unlink()
    index.write_bytes(index.read_bytes()[:-3])
    assert f"{index} has 13 bytes, which is no multiple of 8" in fail(path)
    np.array([2, 1, 3], "<u8").tofile(index)
    assert f"{index}: document 2 ends at 1, before the one ahead of it at 2" in fail(path)
    np.array([3, 2**63], "<u8").tofile(index)
    assert f"has 6 bytes, but by its index it has {2**63:,} ids" in fail(path)
    index.write_bytes(b"")
    assert f"{path} has 6 bytes, but by its index it has 0 ids" in fail(path)
    index.unlink()
    assert f"{path} has no index a.ds.index beside it" in fail(path)
    assert "matches no file" in fail(tmp_path / "*.da")
    assert "is no file of ids" in fail(write(tmp_path / "b.bin", [[1]]))
    assert re.search(
        r"there are no ids in .*empty\.ds \(1 files\)", fail(write(tmp_path / "empty.ds", [[], []]))
    )


def test_disorder_is_found_across_the_parts_that_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datatrove, "_CHECKED", 4)
    path = write(tmp_path / "a.ds", [[1]] * 20)
    for at in range(1, 19):
        ends = np.arange(1, 21)
        ends[at] = 0
        ends.astype("<u8").tofile(f"{path}.index")
        assert f"document {at + 1} ends at 0, before the one ahead of it at {at}." in fail(path)


def test_a_document_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datatrove, "LONGEST_IDS", 5)
    path = write(tmp_path / "a.ds", [[1] * 5, [2] * 6, [3]])
    assert "a.ds, document 2 is longer than 5 ids" in fail(path)
    rows, tally = read(Datatrove([str(path)], bad_rows="skip"))
    assert [document for _, document in rows] == [[1] * 5, [3]]
    assert tally.skipped == 1


def test_a_file_that_lost_ids_since(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ds", [[1, 2], [3]])
    (piece,) = Datatrove([str(path)]).pieces()
    path.write_bytes(b"\1\0\2\0")
    with pytest.raises(InputError, match=r"a\.ds: it has 2 ids, but its index tells of 3"):
        list(piece.rows())


def test_the_fingerprint_follows_ids_and_borders(tmp_path: Path) -> None:
    def fingerprint(name: str, **options: Any) -> str:
        return Datatrove([str(tmp_path / name)], **options).fingerprint(Digests())

    write(tmp_path / "a.ds", [[1, 2], [3]])
    for end in ("", ".index"):
        shutil.copy(tmp_path / f"a.ds{end}", tmp_path / f"b.ds{end}")
    write(tmp_path / "c.ds", [[1], [2, 3]])
    write(tmp_path / "d.ds", [[1, 2], [4]])
    write(tmp_path / "e.ds", [[1, 2], [3]], 4)
    assert fingerprint("a.ds") == fingerprint("b.ds")
    assert len({fingerprint(name) for name in ("a.ds", "c.ds", "d.ds", "e.ds", "[ac].ds")}) == 5
    assert fingerprint("a.ds", bad_rows="skip") != fingerprint("a.ds")
    (tmp_path / "a.ds").write_bytes(b"12345")
    with pytest.raises(InputError, match="has 5 bytes"):
        fingerprint("a.ds")


def test_description() -> None:
    assert Datatrove([str(FIXTURE)]).describe() == {
        "paths": str(FIXTURE),
        "bad_rows": "raise",
        "files": 1,
        "file_bytes": 78,
    }
