from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.tasks.two_hop import ONE_HOP, SYMBOLS, TWO_HOPS, TwoHop
from mgvr_lightning.errors import InputError
from mgvr_lightning.model.loss import IGNORE

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "random order": {"order": "random"},
    "distractors": {"distractors": 3, "symbols": 40, "queries": 6, "one_hop": 1 / 3},
    "two hops only": {"one_hop": 0.0, "queries": 4},
    "one hop only": {"one_hop": 1.0, "queries": 3},
    "one chain": {"chains": 1, "queries": 1, "one_hop": 0.0, "symbols": 3},
    "reference, hard": {"chains": 6, "distractors": 4, "symbols": 61, "queries": 6, "order": "random"},
}


def _rows(count: int = 300, **options: Any) -> tuple[Ids, Ids]:
    return TwoHop(**options).examples().rows(np.arange(count))


def _pairs(row: list[int], task: TwoHop) -> list[tuple[int, int]]:
    return [(row[1 + 2 * slot], row[2 + 2 * slot]) for slot in range(task.sequences.pairs)]


def _oracle(row: list[int], at: int, task: TwoHop) -> int:
    follows = dict(_pairs(row, task))
    once = follows[row[at]]
    return once if row[at - 1] == ONE_HOP else follows[once]


Guess = Callable[[list[int], int, TwoHop], float]


def _accuracy(guess: Guess, count: int = 600, mark: int = TWO_HOPS, **options: Any) -> float:
    """Share of right answers to queries of a kind; a guess may also be the probability of the answer."""
    task = TwoHop(**options)
    hits: list[float] = []
    for row, labels in zip(*(part.tolist() for part in _rows(count, **options)), strict=True):
        for at, label in enumerate(labels):
            if label != IGNORE and row[at - 1] == mark:
                hits.append(guess(row, at, task) == label)
    return float(np.mean(hits))


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_are_bos_pairs_and_queries(name: str) -> None:
    task = TwoHop(**SETTINGS[name])
    rule = task.sequences
    one = round(rule.queries * rule.one_hop)
    for row, labels in zip(*(part.tolist() for part in _rows(**SETTINGS[name])), strict=True):
        assert len(row) == len(labels) == task.context
        assert row[0] == 0
        pairs = _pairs(row, task)
        firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
        assert len(set(firsts)) == len(set(seconds)) == rule.pairs
        assert len({*firsts, *seconds}) == rule.used
        assert all(SYMBOLS <= symbol < task.vocabulary for symbol in [*firsts, *seconds])
        follows = dict(pairs)
        starts = [first for first in firsts if follows[first] in follows]
        assert len(starts) == rule.chains
        assert not set(starts) & set(seconds)
        if rule.order == "forward":
            assert all(firsts.index(start) < firsts.index(follows[start]) for start in starts)
        queries = row[1 + 2 * rule.pairs :]
        asked = list(zip(queries[::2], queries[1::2], strict=True))
        assert len(set(asked)) == len(asked) == rule.queries
        assert all(mark in (ONE_HOP, TWO_HOPS) and start in starts for mark, start in asked)
        assert sum(mark == ONE_HOP for mark, _ in asked) == one
        for at, label in enumerate(labels):
            is_query = at > 2 * rule.pairs and at % 2 == 0
            assert label == (_oracle(row, at, task) if is_query else IGNORE)


def test_both_orders_of_a_chain_occur_at_random_and_every_slot_is_used() -> None:
    task = TwoHop(order="random")
    forward, slots = [], set()
    for row in _rows(order="random")[0].tolist():
        firsts = [first for first, _ in _pairs(row, task)]
        follows = dict(_pairs(row, task))
        for start in firsts:
            if follows[start] in follows:
                slots.add(firsts.index(start))
                forward.append(firsts.index(start) < firsts.index(follows[start]))
    assert slots == set(range(8))
    assert 0.45 < np.mean(forward) < 0.55


@pytest.mark.parametrize("name", SETTINGS)
def test_the_oracle_is_always_right(name: str) -> None:
    for mark in (ONE_HOP, TWO_HOPS):
        task = TwoHop(**SETTINGS[name])
        if (task.sequences.one_hop if mark == ONE_HOP else 1 - task.sequences.one_hop) > 0:
            assert _accuracy(_oracle, 200, mark, **SETTINGS[name]) == 1.0


def _ends(row: list[int], task: TwoHop) -> list[int]:
    """The ends of chains, in the order that they stand in."""
    pairs = _pairs(row, task)
    seconds = {second for _, second in pairs}
    return [second for first, second in pairs if first in seconds]


def _after_start(row: list[int], at: int, task: TwoHop) -> list[int]:
    """The ends that stand after the pair of the symbol asked for."""
    pairs = _pairs(row, task)
    slot = [first for first, _ in pairs].index(row[at])
    return [end for end in _ends(row, task) if [second for _, second in pairs].index(end) > slot]


def _nth_end(number: int) -> Guess:
    return lambda row, at, task: _ends(row, task)[number]


def _number(row: list[int], at: int, task: TwoHop) -> int:
    """How manieth two-hop query this is."""
    return sum(row[before] == TWO_HOPS for before in range(1 + 2 * task.sequences.pairs, at)) - 1


def _next_pair(row: list[int], at: int, task: TwoHop) -> int:
    pairs = _pairs(row, task)
    slot = [first for first, _ in pairs].index(row[at])
    return pairs[min(slot + 1, len(pairs) - 1)][1]


def _by_start_order(row: list[int], at: int, task: TwoHop) -> int:
    """The end that has the rank among ends that the start has among starts."""
    follows = dict(_pairs(row, task))
    starts = [first for first, second in _pairs(row, task) if second in follows]
    return _ends(row, task)[starts.index(row[at])]


def _not_asked_before(row: list[int], at: int, task: TwoHop) -> int:
    """The first end that isn't among the input after the pairs (no answer ever is)."""
    queries = row[1 + 2 * task.sequences.pairs : at]
    return next(end for end in _ends(row, task) if end not in queries)


SHORTCUTS: dict[str, Guess] = {
    "first end": _nth_end(0),
    "last end": _nth_end(-1),
    "second end": _nth_end(1),
    "smallest end": lambda row, at, task: min(_ends(row, task)),
    "end by number of the query": lambda row, at, task: _ends(row, task)[_number(row, at, task)],
    "end not asked before": _not_asked_before,
    "a symbol that occurs once, the last": lambda row, at, task: next(
        second for _, second in reversed(_pairs(row, task)) if row.count(second) == 1
    ),
    "the pair after": _next_pair,
    "the last pair": lambda row, at, task: _pairs(row, task)[-1][1],
    "one hop": lambda row, at, task: dict(_pairs(row, task))[row[at]],
    "itself": lambda row, at, task: row[at],
}


@pytest.mark.parametrize("order", ["random", "forward"])
@pytest.mark.parametrize("name", SHORTCUTS)
def test_shortcuts_stay_near_chance(name: str, order: str) -> None:
    assert _accuracy(SHORTCUTS[name], order=order) < 0.25 + 0.04  # 2,400 queries: four standard deviations


def test_the_rank_of_the_start_tells_nothing_at_random_and_little_forward() -> None:
    assert _accuracy(_by_start_order, order="random") < 0.29
    assert _accuracy(_by_start_order, order="forward") < 0.45


def test_forward_order_leaves_an_end_after_the_start_and_no_more() -> None:
    def first_after(row: list[int], at: int, task: TwoHop) -> int:
        return _after_start(row, at, task)[0]

    def last_after(row: list[int], at: int, task: TwoHop) -> int:
        return _after_start(row, at, task)[-1]

    assert max(_accuracy(guess, order="forward") for guess in (first_after, last_after)) < 0.45


@pytest.mark.parametrize("order", ["random", "forward"])
def test_no_place_of_the_answer_is_likelier_than_it_must_be(order: str) -> None:
    """The best guess from the slot of the start alone."""
    task = TwoHop(order=order)  # type: ignore[arg-type]
    joint = np.zeros((8, 8))
    for row, labels in zip(*(part.tolist() for part in _rows(1500, order=order)), strict=True):
        firsts, seconds = zip(*_pairs(row, task), strict=True)
        for at, label in enumerate(labels):
            if label != IGNORE and row[at - 1] == TWO_HOPS:
                joint[firsts.index(row[at]), seconds.index(label)] += 1
    best = joint.max(1).sum() / joint.sum()
    assert best < (0.2 if order == "random" else 0.35)


def test_queries_come_in_any_order() -> None:
    ids, _ = _rows(2000)
    marks = ids[:, 17::2] == ONE_HOP
    assert abs(marks.mean(0) - 0.5).max() < 0.05
    slots = np.argmax(ids[:, 1:17:2, None] == ids[:, None, 18::2], axis=1)
    for earlier in range(7):  # the pair asked for later stands earlier as often as not, unless it is the same
        before, after = slots[:, earlier], slots[:, earlier + 1]
        assert abs((before < after).sum() / (before != after).sum() - 0.5) < 0.05


def test_chains_asked_for_one_hop_and_for_two_are_drawn_apart() -> None:
    ids, _ = _rows(1500, queries=2)
    asked = ids[:, [-3, -1]]
    assert (asked[:, 0] == asked[:, 1]).mean() == pytest.approx(0.25, abs=0.05)


def test_symbols_show_no_role() -> None:
    ids, targets = _rows(3000)
    for symbols in (ids[:, 1], ids[:, 4], ids[:, 16], targets[targets != IGNORE][:3000]):
        counts = np.bincount(symbols - SYMBOLS, minlength=32)
        expected = counts.sum() / 32
        assert ((counts - expected) ** 2 / expected).sum() < 32 + 6 * 64**0.5


@pytest.mark.parametrize("name", SETTINGS)
def test_scored_is_the_exact_count(name: str) -> None:
    examples = TwoHop(**SETTINGS[name]).examples()
    positions = np.arange(7, 40)
    assert examples.scored(positions) == (examples.rows(positions)[1] != IGNORE).sum()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"chains": 0}, r"data\.chains: 0\. Expected 1 or more"),
        ({"distractors": -1}, r"data\.distractors: -1\. Expected 0 or more"),
        ({"queries": 0}, r"data\.queries: 0\. Expected 1 or more"),
        ({"symbols": 11}, r"data\.symbols: 11 symbols, .*\n?.*Expected 12 or more"),
        ({"one_hop": 1.5}, r"data\.one_hop: 1\.5 is outside"),
        ({"queries": 9}, r"(?s)data\.queries: 9 .*Nearest that does: queries 8\."),
        ({"queries": 5, "one_hop": 0.0}, r"(?s)data\.queries: 5 .*one_hop 0\.2 or queries 4\."),
        ({"queries": 4, "one_hop": 0.3}, r"(?s)1\.2 one-hop .*one_hop 0\.25"),
        ({"queries": 8, "one_hop": 0.25}, r"(?s)6 two-hop .*one_hop 0\.5 or queries 4\."),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TwoHop(**options)


def test_prompts_end_with_a_query_and_read_as_names() -> None:
    task = TwoHop()
    for prompt in task.prompts():
        assert len(prompt) == task.context
        assert prompt[-2] in (ONE_HOP, TWO_HOPS)
    assert task.decode([0, 1, 3, 2, 34]) == "BOS Q1 0 Q2 31"
