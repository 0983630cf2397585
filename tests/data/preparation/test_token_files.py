import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from mgvr_lightning.data.preparation.token_hash import TokenHash
from mgvr_lightning.data.preparation.tokens import ShardWriter, Tokens, TokenWriter, width
from mgvr_lightning.errors import InputError


def _write(
    folder: Path, documents: list[list[int]], vocabulary: int, shard: int = 2**26, parts: int = 1
) -> Tokens:
    """Writes documents as so many parts, and joins those."""
    return Tokens(folder, _facts(folder, documents, vocabulary, shard, parts))


def _facts(
    folder: Path, documents: list[list[int]], vocabulary: int, shard: int, parts: int = 1
) -> dict[str, Any]:
    joined = ShardWriter(folder, "train", vocabulary, shard)
    for part in range(parts):
        path = folder / f"part-{part}.bin"
        with TokenWriter(path, vocabulary) as writer:
            for ids in documents[part * len(documents) // parts : (part + 1) * len(documents) // parts]:
                writer.add(np.array(ids, dtype=np.uint32), len(ids) - 1)
        joined.append(path, writer.facts())
        path.unlink()
    return joined.close()


@pytest.mark.parametrize("parts", [1, 2, 4, 7])
@pytest.mark.parametrize("shard", [1, 2, 3, 7, 10, 1000])
def test_every_read_across_shard_borders(tmp_path: Path, shard: int, parts: int) -> None:
    documents = [[0, 5, 6], [0], [0, *range(20)], [0, 299]]
    ids = np.concatenate(documents)
    tokens = _write(tmp_path, documents, 300, shard, parts)
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
    for name, vocabulary, shard, parts in [("a", 300, 3, 1), ("b", 300, 100, 2), ("c", 100_000, 4, 5)]:
        (tmp_path / name).mkdir()
        hashes.append(_write(tmp_path / name, [[0, 1, 2], [0, 3], [0]], vocabulary, shard, parts).hash)
    assert len(set(hashes)) == 1


def test_hash_notices_every_change() -> None:
    sequences = [
        [[0, 1, 2], [0, 3]],
        [[0, 1, 2], [0, 4]],
        [[0, 3], [0, 1, 2]],
        [[0, 1, 2, 0, 3]],
        [[0, 1], [2, 0, 3]],
        [[0, 1, 2], [0, 3], []],
        [[], [0, 1, 2], [0, 3]],
        [[], []],
        [[]],
        [],
    ]
    assert len({_hash(documents).hex for documents in sequences}) == len(sequences)


@given(lists(lists(integers(0, 3), max_size=3), max_size=8), integers(0, 8))
def test_hash_of_two_parts_is_that_of_the_whole(documents: list[list[int]], cut: int) -> None:
    first, second = _hash(documents[:cut]), _hash(documents[cut:])
    first.extend(second)
    assert first.hex == _hash(documents).hex
    assert first.documents == len(documents)


def _hash(documents: list[list[int]]) -> TokenHash:
    result = TokenHash()
    for ids in documents:
        result.add(np.array(ids, dtype=np.int64))
    return result


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
    manifest = _facts(tmp_path, [[0, 1, 2, 3, 4]], 300, shard=4)
    shard = tmp_path / "train-00001.bin"
    shard.unlink()
    if content is not None:
        shard.write_bytes(content)
    with pytest.raises(
        InputError, match=r"train-00001\.bin has [03] bytes; the manifest .*manifest\.json says 2"
    ):
        Tokens(tmp_path, manifest)


def test_another_width_is_refused(tmp_path: Path) -> None:
    manifest = _facts(tmp_path, [[0, 1]], 300, shard=100)
    with pytest.raises(InputError, match=r"has 4 bytes; the manifest .* says 8"):
        Tokens(tmp_path, {**manifest, "width": "uint32"})
    with pytest.raises(InputError, match="'int8'"):
        Tokens(tmp_path, {**manifest, "width": "int8"})
