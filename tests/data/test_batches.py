from pathlib import Path

import numpy as np
import pytest
import torch

from mgvr_lightning.data.batch import FixedBatches, Ids, Remaining, TrainBatches, digest
from mgvr_lightning.data.layout import Layout
from mgvr_lightning.data.preparation.tokens import ShardWriter, Tokens, TokenWriter
from mgvr_lightning.data.windows import TextExamples, Windows
from mgvr_lightning.model.loss import IGNORE


def _rows(count: int, length: int = 4) -> tuple[Ids, Ids]:
    ids = np.arange(count * length, dtype=np.int64).reshape(count, length)
    return ids, ids + 1000


def _tokens(folder: Path, count: int) -> Tokens:
    path = folder / "part.bin"
    with TokenWriter(path, 50_000) as writer:
        writer.add(np.arange(count), count)
    shards = ShardWriter(folder, "train", 50_000)
    shards.append(path, writer.facts())
    return Tokens(folder, shards.close())


def _examples(folder: Path, count: int, seed: int = 0) -> TextExamples:
    return TextExamples([Windows(_tokens(folder, count), context=10)], [1.0], seed)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 2, 5, 8, 12, 13])
def test_every_held_out_row_is_in_exactly_one_batch(count: int, size: int, ranks: int) -> None:
    ids, targets = _rows(count)
    per_rank = [FixedBatches(ids, targets, size, ranks, rank) for rank in range(ranks)]
    assert len({len(batches) for batches in per_rank}) == 1
    seen = []
    for batches in per_rank:
        for index in range(len(batches)):
            batch = batches[index]
            assert batch.ids.shape == batch.targets.shape == (size, 4)
            padded = (batch.targets == IGNORE).any(1)
            assert (batch.targets[padded] == IGNORE).all()
            assert batch.step_targets == int((~padded).sum()) * 4
            torch.testing.assert_close(batch.targets[~padded], batch.ids[~padded] + 1000)
            seen += batch.ids[~padded].tolist()
    assert sorted(seen) == ids.tolist()


def test_a_batch_that_is_not_there_ends_an_iteration() -> None:
    batches = FixedBatches(*_rows(5), size=2)
    assert len(list(batches)) == len(batches) == 3
    with pytest.raises(IndexError):
        batches[-1]


def test_digest_depends_on_no_row_order_and_no_batching() -> None:
    ids, targets = _rows(7)
    whole = digest(ids, targets)
    assert digest(ids[::-1], targets[::-1]) == whole
    parts = [digest(ids[start:end], targets[start:end]) for start, end in ((0, 1), (1, 4), (4, 7))]
    assert sum(parts) % 2**64 == whole
    assert 0 <= whole < 2**64


def test_digest_changes_with_any_one_token() -> None:
    ids, targets = _rows(3)
    digests = {digest(ids, targets)}
    for array in (ids, targets):
        for position in np.ndindex(array.shape):
            array[position] += 1
            digests.add(digest(ids, targets))
            array[position] -= 1
    assert len(digests) == 1 + ids.size + targets.size


def test_digest_notices_tokens_that_change_places() -> None:
    ids, targets = _rows(2)
    swapped = ids.copy()
    swapped[0, 0], swapped[0, 1] = ids[0, 1], ids[0, 0]
    crossed = ids.copy()
    crossed[0, 0], crossed[1, 0] = ids[1, 0], ids[0, 0]
    assert len({digest(ids, targets), digest(swapped, targets), digest(crossed, targets)}) == 3


@pytest.mark.parametrize(("count", "windows"), [(11, 1), (20, 1), (21, 2), (101, 10), (110, 10)])
def test_windows_tile_the_tokens_and_predict_the_next(tmp_path: Path, count: int, windows: int) -> None:
    examples = _examples(tmp_path, count)
    assert examples.sources[0].count == windows
    ids, targets = examples.rows(np.arange(windows))
    np.testing.assert_array_equal(np.sort(ids[:, 0]), np.arange(windows) * 10)
    np.testing.assert_array_equal(ids, ids[:, :1] + np.arange(10))
    np.testing.assert_array_equal(targets, ids + 1)
    assert examples.scored(np.arange(7)) == 70


def test_held_out_windows_are_spread_evenly_and_fixed(tmp_path: Path) -> None:
    windows = Windows(_tokens(tmp_path, 1001), context=10)
    for wanted in (1, 3, 7, 99, 100):
        rows = windows.spread(wanted)
        starts = rows[:, 0] // 10
        gaps = np.diff([*starts, 100])
        assert len(starts) == wanted
        assert starts[0] == 0
        assert gaps.min() >= 100 // wanted
        assert gaps.max() <= -(-100 // wanted)
        np.testing.assert_array_equal(rows, rows[:, :1] + np.arange(11))
    for everything in (None, 100, 1000):
        assert len(windows.spread(everything)) == 100


@pytest.mark.parametrize(("ranks", "micro"), [(1, 12), (1, 3), (2, 6), (2, 2), (4, 1)])
def test_training_sees_the_same_rows_in_every_layout(tmp_path: Path, ranks: int, micro: int) -> None:
    examples = _examples(tmp_path, 300, seed=4)
    whole = TrainBatches(examples, Layout.of(12, None))
    parts = [TrainBatches(examples, Layout.of(12, micro, ranks, rank)) for rank in range(ranks)]
    accumulation = 12 // ranks // micro
    for step in (0, 1, 5):
        expected = whole[step]
        indices = range(step * accumulation, (step + 1) * accumulation)
        batches = [part[index] for part in parts for index in indices]
        rows = sorted(row for batch in batches for row in batch.ids.tolist())
        assert rows == sorted(expected.ids.tolist())
        assert {batch.step_targets for batch in batches} == {expected.step_targets} == {120}
        assert sum(batch.digest for batch in batches) % 2**64 == expected.digest


def test_remaining_starts_at_its_start_and_counts_the_whole_run() -> None:
    remaining = Remaining(3, 8)
    assert list(remaining) == [3, 4, 5, 6, 7]
    assert list(remaining) == [3, 4, 5, 6, 7]
    assert len(remaining) == 8
