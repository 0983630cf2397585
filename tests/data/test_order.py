from itertools import pairwise

import numpy as np
import pytest

from mgvr_lightning.data.order import Order, Permutation


@pytest.mark.parametrize("size", [*range(1, 201), 255, 256, 257, 4097, 65_536, 100_003])
def test_permutation_is_a_bijection(size: int) -> None:
    indices = Permutation(size, "key")(np.arange(size))
    np.testing.assert_array_equal(np.sort(indices), np.arange(size))


def test_huge_permutation_stays_inside_and_never_repeats() -> None:
    size = 10**12 + 39
    indices = Permutation(size, "key")(np.arange(size - 100_000, size))
    assert indices.min() >= 0
    assert indices.max() < size
    assert len(np.unique(indices)) == 100_000


def test_permutations_of_different_keys_differ() -> None:
    rows = {tuple(Permutation(50, f"{key}")(np.arange(50)).tolist()) for key in range(200)}
    assert len(rows) == 200


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_every_epoch_holds_every_example_once(size: int) -> None:
    indices = Order(size, seed=3)(np.arange(5 * size))
    for epoch in indices.reshape(5, size):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(size))


def test_epochs_and_seeds_are_shuffled_differently() -> None:
    epochs = Order(100, seed=0)(np.arange(1000)).reshape(10, 100)
    seeds = [Order(100, seed)(np.arange(100)) for seed in range(1, 10)]
    assert len({tuple(row.tolist()) for row in [*epochs, *seeds]}) == 19


def test_epoch_of_one_seed_is_not_the_epoch_of_another() -> None:
    first = Order(100, seed=1)(np.arange(100, 200))
    assert not np.array_equal(first, Order(100, seed=11)(np.arange(100)))
    assert not np.array_equal(first, Order(100, seed=0)(np.arange(100, 200)))


def test_any_subset_of_positions_gives_the_same_examples() -> None:
    order = Order(37, seed=5)
    everything = order(np.arange(500))
    generator = np.random.default_rng(0)
    for count in (1, 2, 100, 500):
        positions = generator.permutation(500)[:count]
        np.testing.assert_array_equal(order(positions), everything[positions])
        np.testing.assert_array_equal(Order(37, seed=5)(positions), everything[positions])


def test_positions_repeat_freely() -> None:
    indices = Order(9, seed=0)(np.array([4, 4, 20, 4]))
    assert indices[0] == indices[1] == indices[3]


def test_a_position_far_ahead_needs_no_walk() -> None:
    start = 10**12
    indices = Order(1000, seed=0)(np.arange(start, start + 1000))
    np.testing.assert_array_equal(np.sort(indices), np.arange(1000))
    assert Order(1000, seed=0)(np.array([start + 17]))[0] == indices[17]


def test_the_first_position_is_uniform_over_keys() -> None:
    size, keys = 20, 4000
    first = [int(Permutation(size, str(key))(np.array([0]))[0]) for key in range(keys)]
    counts = np.bincount(first, minlength=size)
    chi_square = ((counts - keys / size) ** 2 / (keys / size)).sum()
    assert chi_square < 60  # 19 degrees of freedom: exceeded once in 300,000


def test_neighbours_are_no_fixed_distance_apart() -> None:
    size, keys = 1000, 100
    rows = np.stack([Permutation(size, str(key))(np.arange(size)) for key in range(keys)])
    for offset in (1, 2, 16, 32, 500):
        distances = (rows[:, offset:] - rows[:, :-offset]) % size
        counts = np.bincount(distances.ravel(), minlength=size)
        expected = distances.size / size
        assert counts.max() < expected + 6 * expected**0.5


def test_order_is_uncorrelated_with_position_and_with_the_epoch_before() -> None:
    size = 2000
    epochs = Order(size, seed=0)(np.arange(20 * size)).reshape(20, size)
    for epoch in epochs:
        assert abs(np.corrcoef(np.arange(size), epoch)[0, 1]) < 4.5 / size**0.5
    for before, after in pairwise(epochs):
        assert abs(np.corrcoef(before, after)[0, 1]) < 4.5 / size**0.5
