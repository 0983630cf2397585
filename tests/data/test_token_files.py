import pickle
from pathlib import Path

import numpy as np
import pytest

from mgvr_lightning.data.tokens import Tokens, TokenWriter, width
from mgvr_lightning.errors import InputError


def _write(folder: Path, documents: list[list[int]], vocabulary: int, shard: int = 2**26) -> Tokens:
    writer = TokenWriter(folder, "train", vocabulary, shard)
    for ids in documents:
        writer.add(ids, len(ids) - 1)
    return Tokens(folder, writer.close())


@pytest.mark.parametrize("shard", [1, 2, 3, 7, 10, 1000])
def test_every_read_across_shard_borders(tmp_path: Path, shard: int) -> None:
    documents = [[0, 5, 6], [0], [0, *range(20)], [0, 299]]
    ids = np.concatenate(documents)
    tokens = _write(tmp_path, documents, 300, shard)
    assert len(tokens) == len(ids)
    assert len(list(tmp_path.iterdir())) == -(-len(ids) // shard)
    for start in range(len(ids) + 1):
        for length in range(len(ids) - start + 1):
            read = tokens.read(start, length)
            assert read.dtype == np.int64
            np.testing.assert_array_equal(read, ids[start : start + length])
    assert (tokens.documents, tokens.bytes) == (4, 23)


@pytest.mark.parametrize(
    ("vocabulary", "expected"),
    [(65_535, "uint16"), (65_536, "uint16"), (65_537, "uint32"), (2**18, "uint32")],
)
def test_width_holds_the_largest_id(tmp_path: Path, vocabulary: int, expected: str) -> None:
    assert width(vocabulary) == expected
    tokens = _write(tmp_path, [[0, vocabulary - 1, 1]], vocabulary)
    assert tokens.read(0, 3).tolist() == [0, vocabulary - 1, 1]
    assert (tmp_path / "train-00000.bin").stat().st_size == 3 * {"uint16": 2, "uint32": 4}[expected]


def test_hash_is_of_the_ids_alone(tmp_path: Path) -> None:
    hashes = []
    for name, vocabulary, shard in [("a", 300, 3), ("b", 300, 100), ("c", 100_000, 4)]:
        (tmp_path / name).mkdir()
        hashes.append(_write(tmp_path / name, [[0, 1, 2], [0, 3]], vocabulary, shard).hash)
    (tmp_path / "d").mkdir()
    assert len(set(hashes)) == 1
    assert _write(tmp_path / "d", [[0, 1, 2], [0, 4]], 300).hash != hashes[0]


def test_ids_outside_the_vocabulary_are_a_bug(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        _write(tmp_path, [[0, 300]], 300)


def test_reads_outside_are_a_bug(tmp_path: Path) -> None:
    tokens = _write(tmp_path, [[0, 1]], 300)
    for start, length in [(-1, 1), (0, 3), (3, 0)]:
        with pytest.raises(AssertionError):
            tokens.read(start, length)


def test_pickle_does_not_carry_the_data(tmp_path: Path) -> None:
    tokens = _write(tmp_path, [[0] * 100_000], 300)
    pickled = pickle.dumps(tokens)
    assert len(pickled) < 2_000
    assert pickle.loads(pickled).read(99_999, 1).tolist() == [0]


@pytest.mark.parametrize("content", [None, b"", b"123"])
def test_a_shard_of_the_wrong_size_is_refused(tmp_path: Path, content: bytes | None) -> None:
    facts = TokenWriter(tmp_path, "train", 300, 4)
    facts.add([0, 1, 2, 3, 4], 4)
    manifest = facts.close()
    shard = tmp_path / "train-00001.bin"
    shard.unlink()
    if content is not None:
        shard.write_bytes(content)
    with pytest.raises(
        InputError, match=r"train-00001\.bin has [03] bytes; the manifest .*manifest\.json says 2"
    ):
        Tokens(tmp_path, manifest)


def test_another_width_is_refused(tmp_path: Path) -> None:
    writer = TokenWriter(tmp_path, "train", 300)
    writer.add([0, 1], 1)
    manifest = writer.close()
    with pytest.raises(InputError, match=r"has 4 bytes; the manifest .* says 8"):
        Tokens(tmp_path, {**manifest, "width": "uint32"})
    with pytest.raises(InputError, match="'int8'"):
        Tokens(tmp_path, {**manifest, "width": "int8"})
