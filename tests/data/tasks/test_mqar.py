from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.tasks.mqar import BLANK, MQAR
from mgvr_lightning.errors import InputError
from mgvr_lightning.model.loss import IGNORE

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "blank": {"fill": False},
    "tight": {"context": 16, "pairs": 4, "vocabulary": 20},
    "one pair": {"pairs": 1, "context": 4, "vocabulary": 5},
    "many": {"pairs": 64, "context": 512},
    "uniform gaps": {"power": 1.0},
}


def _rows(count: int = 200, **options: Any) -> tuple[Ids, Ids]:
    return MQAR(**options).examples().rows(np.arange(count))


def _queries(labels: list[int]) -> list[int]:
    return [at for at, label in enumerate(labels) if label != IGNORE]


def _oracle(row: list[int], at: int, pairs: int) -> int:
    return dict(zip(row[: 2 * pairs : 2], row[1 : 2 * pairs : 2], strict=True))[row[at]]


Guess = Callable[[list[int], int, int], int]


def _accuracy(guess: Guess, count: int = 800, pairs: int = 4, **options: Any) -> float:
    hits = [
        guess(row, at, pairs) == labels[at]
        for row, labels in zip(*(part.tolist() for part in _rows(count, pairs=pairs, **options)), strict=True)
        for at in _queries(labels)
    ]
    return float(np.mean(hits))


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_are_pairs_and_scattered_queries(name: str) -> None:
    task = MQAR(**SETTINGS[name])
    rule = task.sequences
    filled = set()
    for row, labels in zip(*(part.tolist() for part in _rows(**SETTINGS[name])), strict=True):
        assert len(row) == len(labels) == rule.context
        keys, values = row[: 2 * rule.pairs : 2], row[1 : 2 * rule.pairs : 2]
        assert len(set(keys)) == len(set(values)) == rule.pairs
        assert all(0 < key < rule.values_from for key in keys)
        assert all(rule.values_from <= value < task.vocabulary for value in values)
        queries = _queries(labels)
        assert sorted(row[at] for at in queries) == sorted(keys)
        assert all(at >= 2 * rule.pairs and at % 2 == 0 for at in queries)
        assert all(labels[at] == _oracle(row, at, rule.pairs) for at in queries)
        filled |= {row[at] for at in range(2 * rule.pairs, rule.context) if at not in queries}
    if rule.fill and len(filled) > 20:
        assert min(filled) < 0.05 * task.vocabulary
        assert max(filled) > 0.95 * task.vocabulary
    elif not rule.fill:
        assert filled == {BLANK}


def _naive_gaps(pairs: int, space: int, power: float, count: int) -> np.ndarray:
    """The authors' way: one draw after the other, without replacement."""
    weights = power * np.arange(1, space + 1) ** (power - 1)
    generator = np.random.RandomState(0)
    return np.stack(
        [generator.choice(space, size=pairs, replace=False, p=weights / weights.sum()) for _ in range(count)]
    )


@pytest.mark.parametrize("power", [0.01, 0.5, 1.0])
def test_queries_fall_where_the_authors_generator_puts_them(power: float) -> None:
    count, space = 8000, 28
    ids, targets = _rows(count, power=power)
    keys = ids[:, :8:2]
    expected = _naive_gaps(4, space, power, count)
    for pair in range(4):
        hit = (targets != IGNORE) & (ids == keys[:, pair : pair + 1])
        gaps = (hit.argmax(1) - 8) // 2
        ours, theirs = (np.bincount(part, minlength=space) for part in (gaps, expected[:, pair]))
        total = np.maximum(ours + theirs, 1)
        chi_square = ((ours - theirs) ** 2 / total).sum()
        assert chi_square < 28 + 6 * 56**0.5, pair


def test_gaps_are_those_of_the_nearest_first_and_without_power_of_any_distance() -> None:
    _, near = _rows(2000)
    _, even = _rows(2000, power=1.0)
    shares = [(part[:, 8:10] != IGNORE).sum() / 2000 for part in (near, even)]
    assert shares[0] > 0.6
    assert shares[1] == pytest.approx(4 / 28, abs=0.04)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_oracle_is_always_right(name: str) -> None:
    options = SETTINGS[name]
    assert _accuracy(_oracle, 100, **options) == 1.0 if "pairs" in options else _accuracy(_oracle) == 1.0


def _number(row: list[int], at: int, pairs: int) -> int:
    """How many keys came again before."""
    return sum(token in row[: 2 * pairs : 2] for token in row[2 * pairs : at])


def _unused(row: list[int], at: int, pairs: int) -> list[int]:
    """Values of the keys that didn't come again before, the present one's among them."""
    unused = [row[2 * pair + 1] for pair in range(pairs) if row[2 * pair] not in row[2 * pairs : at]]
    return unused or [row[1]]  # a random token may have been a key


BLIND: dict[str, Guess] = {
    "first value": lambda row, at, pairs: row[1],
    "last value": lambda row, at, pairs: row[2 * pairs - 1],
    "smallest value": lambda row, at, pairs: min(row[1 : 2 * pairs : 2]),
    "newest value": lambda row, at, pairs: next(token for token in row[at::-1] if token >= 4096),
    "token before": lambda row, at, pairs: row[at - 1],
    "key's own number": lambda row, at, pairs: row[at] + 4096,
}


@pytest.mark.parametrize("name", BLIND)
def test_shortcuts_stay_near_chance(name: str) -> None:
    assert _accuracy(BLIND[name]) < 0.25 + 0.035  # 3,200 queries: four and a half standard deviations


def test_query_order_and_elimination_tell_what_they_do_in_the_authors_generator_and_no_more() -> None:
    """Earlier pairs are asked for sooner, and each is asked for once."""

    def in_order(row: list[int], at: int, pairs: int) -> int:
        return row[2 * min(_number(row, at, pairs), pairs - 1) + 1]

    assert 0.25 < _accuracy(in_order) < 0.35
    assert 0.4 < _accuracy(lambda row, at, pairs: _unused(row, at, pairs)[0]) < 0.65
    assert _accuracy(in_order, power=1.0) < 0.285


def test_keys_and_values_are_uniform_and_unrelated() -> None:
    ids, _ = _rows(4000)
    for tokens, start in ((ids[:, 0], 0), (ids[:, 7], 4096)):
        counts = np.bincount((tokens - start) // 256, minlength=16)
        assert ((counts - 250) ** 2 / 250).sum() < 16 + 6 * 32**0.5
    assert abs(np.corrcoef(ids[:, 0], ids[:, 1])[0, 1]) < 0.07
    assert abs(np.corrcoef(ids[:, 0], ids[:, 2])[0, 1]) < 0.07


@pytest.mark.parametrize("name", SETTINGS)
def test_scored_is_the_exact_count(name: str) -> None:
    examples = MQAR(**SETTINGS[name]).examples()
    positions = np.arange(7, 40)
    assert examples.scored(positions) == (examples.rows(positions)[1] != IGNORE).sum()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pairs": 0}, r"data\.pairs: 0\. Expected 1 or more"),
        ({"context": 15}, r"(?s)data\.context: 15 .*Nearest: 16"),
        ({"context": 63}, r"(?s)data\.context: 63 .*Nearest: 64"),
        ({"pairs": 17}, r"(?s)data\.context: 64 .*68 or more.*Nearest: 68"),
        ({"vocabulary": 64}, r"(?s)data\.vocabulary: 64 .*Expected 65 or more"),
        ({"vocabulary": 9, "context": 8}, r"(?s)data\.context: 8 "),
        ({"power": -0.1}, r"data\.power: -0\.1"),
        ({"power": float("nan")}, r"data\.power: nan"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        MQAR(**options)


def test_prompts_end_with_a_query_and_read_as_keys_and_values() -> None:
    task = MQAR()
    ids, targets = task.held_out("validation")
    for row, labels, prompt in zip(ids.tolist(), targets.tolist(), task.prompts(), strict=False):
        assert prompt == row[: _queries(labels)[-1] + 1]
    assert task.decode([0, 17, 4096, 8191]) == "- K17 V0 V4095"
