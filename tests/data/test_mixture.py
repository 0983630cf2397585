"""The order of a run over one source or several, whatever the layout and wherever it is resumed."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import DrawFn, composite, floats, integers, lists, sampled_from
from torch.utils.data import DataLoader

from mgvr_lightning.data.batch import Batch, Examples, Ids, Remaining, TrainBatches
from mgvr_lightning.data.layout import Layout
from mgvr_lightning.data.mixture import BLOCK, MixedOrder, shares
from mgvr_lightning.data.order import Indices
from mgvr_lightning.errors import InputError


class Numbered(Examples):
    """Examples of several sources that say which they are."""

    def __init__(self, sizes: list[int], weights: list[float], seed: int) -> None:
        self.order = MixedOrder(sizes, weights, seed)

    def rows(self, positions: Indices) -> tuple[Ids, Ids]:
        """Source and index."""
        owners, indices = self.order(positions)
        return np.stack([owners, indices], axis=1), np.stack([positions, positions], axis=1)

    def scored(self, positions: Indices) -> int:
        """All."""
        return 2 * len(positions)


@composite
def runs(draw: DrawFn) -> tuple[Numbered, int, list[Layout], int, int]:
    """Examples, steps, a layout of every rank, the loader's workers and the step to resume at."""
    sizes = draw(lists(integers(1, 60), min_size=1, max_size=3))
    weights = draw(lists(floats(0.01, 100), min_size=len(sizes), max_size=len(sizes)))
    ranks, micro, accumulation = draw(integers(1, 3)), draw(integers(1, 4)), draw(integers(1, 3))
    batch = ranks * micro * accumulation
    steps = draw(integers(1, max(1, 400 // batch)))
    layouts = [Layout.of(batch, micro, ranks, rank) for rank in range(ranks)]
    examples = Numbered(sizes, weights, draw(integers(0, 2**40)))
    return examples, steps, layouts, draw(sampled_from([0, 0, 0, 1, 2])), draw(integers(0, steps - 1))


def loaded(examples: Examples, steps: int, layouts: list[Layout], workers: int, start: int) -> list[Ids]:
    """The rows of each optimizer step from `start` on, ordered by position, as loaders give them."""
    parts: list[list[Batch]] = []
    for layout in layouts:
        sampler = Remaining(start * layout.accumulation, steps * layout.accumulation)
        loader = DataLoader(
            TrainBatches(examples, layout),
            batch_size=None,
            sampler=sampler,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        parts.append(list(loader))
    accumulation = layouts[0].accumulation
    rows = []
    for step in range(steps - start):
        own = [batch for part in parts for batch in part[step * accumulation : (step + 1) * accumulation]]
        ids = np.concatenate([batch.ids.numpy() for batch in own])
        positions = np.concatenate([batch.targets.numpy()[:, 0] for batch in own])
        rows.append(ids[np.argsort(positions, kind="stable")])
        expected = (start + step) * layouts[0].global_batch + np.arange(layouts[0].global_batch)
        np.testing.assert_array_equal(np.sort(positions), expected)
    return rows


@given(runs())
@settings(max_examples=60, deadline=None)
def test_any_layout_and_any_resume_point_give_the_same_global_order(
    run: tuple[Numbered, int, list[Layout], int, int],
) -> None:
    examples, steps, layouts, workers, start = run
    batch = layouts[0].global_batch
    whole = loaded(examples, steps, [Layout.of(batch, batch)], 0, 0)
    resumed = loaded(examples, steps, layouts, workers, start)
    np.testing.assert_array_equal(np.concatenate(whole[start:]), np.concatenate(resumed))


@given(
    lists(integers(1, 300), min_size=1, max_size=4),
    lists(floats(0.001, 1000), min_size=4, max_size=4),
    integers(0, 2**40),
    integers(1, 3 * BLOCK),
)
@settings(max_examples=60, deadline=None)
def test_each_example_comes_once_per_epoch_of_its_source(
    sizes: list[int], weights: list[float], seed: int, positions: int
) -> None:
    owners, indices = MixedOrder(sizes, weights[: len(sizes)], seed)(np.arange(positions))
    # Within a block the slots are shuffled, so whole blocks alone are stretches of a source's order.
    whole = positions // BLOCK * BLOCK if len(sizes) > 1 else positions
    for owner, size in enumerate(sizes):
        counts = Counter(indices[:whole][owners[:whole] == owner].tolist())
        epochs = sum(counts.values()) // size
        assert all(0 <= index < size for index in counts)
        assert all(epochs <= counts[index] <= epochs + 1 for index in range(size))


@given(lists(floats(0.001, 1000), min_size=2, max_size=5), integers(0, 2**40))
@settings(max_examples=30, deadline=None)
def test_every_block_holds_the_shares(weights: list[float], seed: int) -> None:
    order = MixedOrder([5000] * len(weights), weights, seed)
    owners, _ = order(np.arange(3 * BLOCK))
    exact = np.array(weights) / sum(weights) * BLOCK
    for block in owners.reshape(3, BLOCK):
        counts = np.bincount(block, minlength=len(weights))
        np.testing.assert_array_equal(counts, shares(weights, BLOCK))
        assert (np.abs(counts - np.maximum(exact, 1)) <= len(weights)).all()


def test_any_subset_of_positions_gives_the_same_examples() -> None:
    order = MixedOrder([37, 5, 100], [3, 1, 6], seed=5)
    everything = order(np.arange(3 * BLOCK))
    positions = np.random.default_rng(0).permutation(3 * BLOCK)[:1000]
    for part, whole in zip(order(positions), everything, strict=True):
        np.testing.assert_array_equal(part, whole[positions])


def test_sources_are_mixed_evenly_and_shuffled_apart() -> None:
    owners, indices = MixedOrder([1000, 1000], [1, 1], seed=0)(np.arange(4 * BLOCK))
    runs_of_one = np.diff(np.flatnonzero(np.diff(owners)))
    assert runs_of_one.max() < 25  # 2⁻²⁵ · 16,384 positions
    first, second = indices[owners == 0][:1000], indices[owners == 1][:1000]
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.15
    other, _ = MixedOrder([1000, 1000], [1, 1], seed=1)(np.arange(4 * BLOCK))
    assert 0.4 < (owners == other).mean() < 0.6


def test_one_source_alone_is_in_the_order_of_a_plain_run() -> None:
    owners, indices = MixedOrder([50], [0.3], seed=9)(np.arange(200))
    assert not owners.any()
    for epoch in indices.reshape(4, 50):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(50))


def test_epochs_are_those_of_the_most_repeated_source() -> None:
    assert MixedOrder([100, 1000], [1, 1], seed=0).epochs(2000) == pytest.approx(10)
    assert MixedOrder([100], [5], seed=0).epochs(250) == 2.5


@pytest.mark.parametrize(
    ("weights", "total", "expected"),
    [
        ([1, 1], 10, [5, 5]),
        ([1, 2], 10, [3, 7]),
        ([1, 1, 1], 10, [4, 3, 3]),
        ([1e-9, 1], 10, [1, 9]),
        ([1e-9, 1e-9, 1], 3, [1, 1, 1]),
        ([5], 7, [7]),
    ],
)
def test_shares(weights: list[float], total: int, expected: list[int]) -> None:
    assert shares(weights, total).tolist() == expected


@pytest.mark.parametrize("weights", [[], [0.0, 1.0], [-1.0], [float("nan"), 1.0], [float("inf")]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="weights of a mixture"):
        shares(weights, 10)


def test_more_sources_than_parts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 can't be divided among 3 sources"):
        shares([1, 1, 1], 2)
