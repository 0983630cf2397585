from typing import Any

import numpy as np
import pytest

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.tasks.induction import BOS, Induction
from mgvr_lightning.errors import InputError
from mgvr_lightning.model.loss import IGNORE

Rows = tuple[Ids, Ids]


def _rows(count: int = 400, **options: Any) -> Rows:
    return Induction(**options).examples().rows(np.arange(count))


def _period(row: list[int]) -> int:
    """The distance at which the first symbol comes back."""
    return row.index(row[1], 2) - 1


def _oracle(row: list[int], at: int) -> int:
    """What followed the last earlier occurrence of the token at `at`."""
    last = max(before for before in range(at) if row[before] == row[at])
    return row[last + 1]


def _accuracy(ids: Ids, targets: Ids, guess: Any) -> float:
    hits = [
        guess(row.tolist(), at) == labels[at]
        for row, labels in zip(ids, targets, strict=True)
        for at in np.flatnonzero(labels != IGNORE).tolist()
    ]
    return float(np.mean(hits))


@pytest.mark.parametrize(
    "options", [{}, {"symbols": 7, "period_min": 2, "period_max": 5, "context": 16}], ids=["default", "tiny"]
)
def test_rows_are_bos_and_distinct_symbols_over_and_over(options: dict[str, Any]) -> None:
    task = Induction(**options)
    rule = task.sequences
    ids, targets = _rows(**options)
    assert ids.dtype == targets.dtype == np.int64
    periods = set()
    for row, labels in zip(ids.tolist(), targets.tolist(), strict=True):
        assert len(row) == len(labels) == rule.context
        assert row[0] == BOS
        period = _period(row)
        periods.add(period)
        stretch = row[1 : period + 1]
        assert len(set(stretch)) == period
        assert all(1 <= symbol <= rule.symbols < task.vocabulary for symbol in stretch)
        for at in range(1, rule.context):
            assert row[at] == stretch[(at - 1) % period]
        for at, label in enumerate(labels):
            assert label == (stretch[at % period] if at >= period + 1 else IGNORE)
    assert periods == set(range(rule.period_min, rule.period_max + 1))


def test_the_oracle_is_always_right() -> None:
    assert _accuracy(*_rows(), _oracle) == 1.0


def test_with_all_targets_the_first_stretch_is_scored_too() -> None:
    ids, targets = _rows(loss_on="all")
    repeated_ids, repeated = _rows()
    np.testing.assert_array_equal(ids, repeated_ids)
    assert (targets != IGNORE).all()
    np.testing.assert_array_equal(targets[:, :-1], ids[:, 1:])
    np.testing.assert_array_equal(targets[repeated != IGNORE], repeated[repeated != IGNORE])


def test_no_fixed_distance_copies_well() -> None:
    ids, targets = _rows(1024)
    best = 0.0
    for distance in range(1, 64):
        guesses = np.zeros_like(ids)
        guesses[:, distance - 1 :] = ids[:, : ids.shape[1] - distance + 1]
        scored = targets != IGNORE
        best = max(best, float((guesses == targets)[scored].mean()))
    assert 0.05 < best <= 0.12


@pytest.mark.parametrize(
    "guess",
    [
        lambda row, at: row[1],  # the first symbol
        lambda row, at: row[at],  # the current one
        lambda row, at: row[at - 1],
        lambda row, at: max(row[: at + 1], key=row[: at + 1].count),  # the most frequent
        lambda row, at: min(row[at:0:-1], key=row[1 : at + 1].count),  # the rarest, newest first
    ],
)
def test_shortcuts_fail(guess: Any) -> None:
    assert _accuracy(*_rows(), guess) < 0.15


def test_counting_is_the_one_other_way_and_needs_the_order_too() -> None:
    """Among the symbols that came least often the next is the oldest, as in any exact repetition."""
    rows = _rows()
    assert _accuracy(*rows, lambda row, at: min(row[1 : at + 1], key=row[1 : at + 1].count)) == 1.0


def test_symbols_are_uniform() -> None:
    ids, _ = _rows(2000)
    counts = np.bincount(ids[:, 1], minlength=64)[1:]
    assert ((counts - 2000 / 63) ** 2 / (2000 / 63)).sum() < 63 + 6 * 126**0.5


@pytest.mark.parametrize("loss_on", ["repeated", "all"])
def test_scored_is_the_exact_count(loss_on: Any) -> None:
    examples = Induction(loss_on=loss_on).examples()
    counts = set()
    for start in (0, 5, 10**9):
        positions = np.arange(start, start + 50)
        _, targets = examples.rows(positions)
        assert examples.scored(positions) == (targets != IGNORE).sum()
        counts.add(examples.scored(positions))
    assert (len(counts) == 1) == (loss_on == "all")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"period_min": 1}, r"data\.period_min: 1\. Expected 2 or more"),
        ({"period_min": 30}, r"data\.period_max: 30 .*\n?.*Nearest: 31"),
        ({"symbols": 29}, r"data\.symbols: 29 .*Expected 30 or more"),
        ({"context": 31}, r"data\.context: 31 .*Expected 32 or more"),
        ({"validation_sequences": 0}, r"data\.validation_sequences: 0"),
        ({"test_sequences": -1}, r"data\.test_sequences: -1"),
        ({"workers": -1}, r"data\.workers"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Induction(**options)


def test_the_least_options_that_fit_have_a_scored_target_in_every_row() -> None:
    ids, targets = _rows(symbols=3, period_min=2, period_max=3, context=5)
    assert set((targets != IGNORE).sum(1)) == {1, 2}
    assert _accuracy(ids, targets, _oracle) == 1.0


def test_prompts_hold_the_whole_stretch_and_read_as_numbers() -> None:
    task = Induction()
    prompts = task.prompts()
    assert len(prompts) == 4
    assert all(_period(prompt) <= 30 for prompt in prompts)
    assert task.decode([0, 5, 63]) == "BOS 5 63"
