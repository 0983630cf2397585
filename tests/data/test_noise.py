from itertools import combinations, permutations

import numpy as np
import pytest

from mgvr_lightning.data import noise
from mgvr_lightning.data.noise import Noise
from mgvr_lightning.data.order import scramble

POSITIONS = np.arange(4096)


def _chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def _ones(words: np.ndarray) -> np.ndarray:
    """The 64 bits of each word, along a new last axis."""
    return ((words[..., None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).astype(np.int8)


def test_scramble_is_splitmix64s_finaliser() -> None:
    z = 0x0123456789ABCDEF
    mask = 2**64 - 1
    expected = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    expected = ((expected ^ (expected >> 27)) * 0x94D049BB133111EB) & mask
    expected ^= expected >> 31
    assert int(scramble(np.array([z], dtype=np.uint64))[0]) == expected


def test_the_first_words_of_splitmix64_itself() -> None:
    state = np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert scramble(state).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]  # the generator's known output for seed 0


def test_any_subset_of_positions_and_columns_gives_the_same_words() -> None:
    noise = Noise(3, "train")
    whole = noise.words(POSITIONS, 20)
    generator = np.random.default_rng(0)
    for count in (1, 7, 1000):
        positions = generator.permutation(4096)[:count]
        np.testing.assert_array_equal(Noise(3, "train").words(positions, 20), whole[positions])
        np.testing.assert_array_equal(noise.words(positions, 5), whole[positions, :5])


def test_a_position_far_ahead_needs_no_walk() -> None:
    far = np.array([10**15 + 3, 2**62])
    words = Noise(0, "train").words(far, 4)
    np.testing.assert_array_equal(Noise(0, "train").words(far[1:], 4), words[1:])
    assert len(np.unique(words)) == 8


def test_no_word_repeats_over_rows_columns_streams_and_seeds() -> None:
    names = ["train", "validation", "test", "train/keys"]
    tables = [Noise(seed, name).words(POSITIONS, 16) for seed in (0, 1, -1, 10) for name in names]
    assert np.unique(np.stack(tables)).size == 16 * 4096 * 16


def test_names_and_seeds_do_not_run_together() -> None:
    here = np.arange(8)
    first = Noise(1, "1/x").words(here, 4)
    for other in (Noise(11, "/x"), Noise(1, "1").stream("y"), Noise(11, "x")):
        assert not np.isin(other.words(here, 4), first).any()
    np.testing.assert_array_equal(Noise(1, "1").stream("x").words(here, 4), first)


@pytest.mark.parametrize("start", [0, 2**40, 2**62])
def test_every_bit_is_set_half_of_the_time(start: int) -> None:
    ones = _ones(Noise(0, "train").words(start + POSITIONS, 16)).sum((0, 1))
    deviations = (ones - 32_768) / 128  # standard deviations of 65,536 coins
    assert abs(deviations).max() < 5


def test_bits_of_neighbours_agree_half_of_the_time() -> None:
    words = Noise(0, "train").words(POSITIONS, 17)
    others = {
        "row": words[1:, :16] ^ words[:-1, :16],
        "column": words[:, 1:] ^ words[:, :-1],
        "stream": words[:, :16] ^ Noise(0, "test").words(POSITIONS, 16),
        "seed": words[:, :16] ^ Noise(1, "train").words(POSITIONS, 16),
        "diagonal": words[1:, 1:] ^ words[:-1, :-1],
    }
    for name, difference in others.items():
        ones = _ones(difference).sum((0, 1))
        coins = difference.size
        assert abs((ones - coins / 2) / (coins / 4) ** 0.5).max() < 5, name


def test_one_bit_of_the_position_changes_half_of_the_bits_of_a_word() -> None:
    noise = Noise(0, "train")
    base = noise.words(POSITIONS, 2)
    for bit in range(40):
        changed = _ones(base ^ noise.words(POSITIONS ^ (1 << bit), 2)).mean((0, 1))
        assert abs(changed - 0.5).max() < 0.03, bit  # 5 standard deviations of 8,192 coins


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 30, 63])
def test_integers_are_uniform(limit: int) -> None:
    drawn = Noise(0, "x").below(limit, POSITIONS, 16)
    counts = np.bincount(drawn.ravel(), minlength=limit)
    assert counts.size == limit
    assert _chi_square(counts) < limit + 6 * (2 * limit) ** 0.5


def test_limits_may_differ_by_column() -> None:
    limits = np.array([1, 2, 5, 2**32])
    drawn = Noise(0, "x").below(limits, POSITIONS, 4)
    assert (drawn < limits).all()
    assert drawn.max(0)[:3].tolist() == [0, 1, 4]
    np.testing.assert_array_equal(drawn[:, 2], Noise(0, "x").below(5, POSITIONS, 4)[:, 2])


def test_unit_numbers_are_uniform_and_never_an_end() -> None:
    drawn = Noise(0, "x").unit(POSITIONS, 16)
    assert drawn.min() > 0
    assert drawn.max() < 1
    assert _chi_square(np.bincount((drawn * 50).astype(int).ravel(), minlength=50)) < 110


@pytest.mark.parametrize(("count", "size"), [(0, 5), (1, 1), (1, 9), (4, 4), (3, 7), (30, 63), (4, 4095)])
def test_choices_are_distinct_and_inside(count: int, size: int) -> None:
    chosen = Noise(0, "x").choose(count, size, POSITIONS[:500])
    assert chosen.shape == (500, count)
    assert chosen.dtype == np.int64
    ordered = np.sort(chosen, axis=1)
    assert (np.diff(ordered, axis=1) > 0).all()
    assert ((chosen >= 0) & (chosen < size)).all()


@pytest.mark.parametrize("few", [0, 10**9])
def test_every_ordered_choice_is_equally_likely(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "FEW", few)
    for count, size in ((4, 4), (2, 5)):
        chosen = Noise(0, "x").choose(count, size, np.arange(60_000))
        outcomes = [tuple(row) for row in permutations(range(size), count)]
        code = (chosen * size ** np.arange(count)).sum(1)
        counts = np.array([(code == sum(v * size**i for i, v in enumerate(o))).sum() for o in outcomes])
        assert counts.sum() == 60_000
        assert _chi_square(counts) < len(outcomes) + 6 * (2 * len(outcomes)) ** 0.5


def test_choices_of_two_streams_are_unrelated() -> None:
    a, b = (Noise(0, name).choose(5, 5, POSITIONS) for name in ("a", "b"))
    for one, other in combinations(range(5), 2):
        counts = np.bincount(a[:, one] * 5 + b[:, other], minlength=25)
        assert _chi_square(counts) < 25 + 6 * 50**0.5


def test_a_choice_depends_on_its_position_alone() -> None:
    whole = Noise(0, "x").choose(6, 20, POSITIONS)
    positions = np.array([9, 4000, 9, 17])
    np.testing.assert_array_equal(Noise(0, "x").choose(6, 20, positions), whole[positions])
