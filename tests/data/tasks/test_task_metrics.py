from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from mgvr_lightning.data.batch import FixedBatches
from mgvr_lightning.data.tasks.attention_metrics import PrefixMatching, PreviousToken
from mgvr_lightning.data.tasks.induction import Induction
from mgvr_lightning.data.tasks.mqar import MQAR
from mgvr_lightning.data.tasks.task import Task
from mgvr_lightning.data.tasks.task_metrics import CopyAccuracy
from mgvr_lightning.data.tasks.two_hop import ONE_HOP, TWO_HOPS, TwoHop
from mgvr_lightning.metrics import asks_for, language_metrics
from mgvr_lightning.model.loss import IGNORE

TASKS: dict[str, Callable[[], Task]] = {
    "induction": lambda: Induction(symbols=9, period_min=3, period_max=6, context=20, validation_sequences=7),
    "induction, all": lambda: Induction(
        symbols=9, period_min=3, period_max=6, context=20, loss_on="all", validation_sequences=7
    ),
    "two_hop": lambda: TwoHop(distractors=1, queries=4, validation_sequences=7),
    "mqar": lambda: MQAR(vocabulary=40, context=24, pairs=3, validation_sequences=7),
}
LAYERS, HEADS = 2, 3
Seen = dict[str, Tensor]


def _seen(ids: Tensor, targets: Tensor, seed: int = 0) -> Seen:
    """What a model might have given: right answers, symbols of the context and random maps."""
    generator = torch.Generator().manual_seed(seed)
    length = ids.size(1)
    predictions = ids.gather(1, torch.randint(0, length, ids.shape, generator=generator))
    right = torch.rand(ids.shape, generator=generator) < 0.4
    predictions = torch.where(right & (targets != IGNORE), targets, predictions)
    scores = torch.randn(LAYERS, len(ids), HEADS, length, length, generator=generator)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return {
        "nll": torch.rand(ids.shape, generator=generator),
        "predictions": predictions,
        "correct": predictions == targets,
        "scored": targets != IGNORE,
        "bytes": torch.zeros_like(ids),
        "ids": ids,
        "targets": targets,
        "attention": scores.masked_fill(future, -torch.inf).softmax(-1),
    }


def _validation(task: Task, seed: int = 0) -> Seen:
    return _seen(*(torch.from_numpy(part) for part in task.held_out("validation")), seed)


def _rows(seen: Seen, rows: slice) -> Seen:
    return {key: part[:, rows] if key == "attention" else part[rows] for key, part in seen.items()}


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else float("nan")


def _copying(
    row: list[int], guesses: list[int], labels: list[int], maps: NDArray[np.float64]
) -> Iterator[tuple[str, float]]:
    """What one sequence adds; maps (L, Hq, T, T)."""
    scored = [at for at, label in enumerate(labels) if label != IGNORE]
    copied = [at for at in scored if row[at] in row[:at]]
    for at in copied:
        yield "copy_accuracy", float(guesses[at] == labels[at])
    for layer, head in np.ndindex(LAYERS, HEADS):
        weights = maps[layer, head]
        for at in copied:
            keys = [key for key in range(1, at + 1) if row[key - 1] == row[at] and key - 1 < at]
            yield f"prefix_matching/layer{layer}_head{head}", sum(weights[at, key] for key in keys)
        for at in range(1, len(row) if scored else 0):
            yield f"previous_token/layer{layer}_head{head}", weights[at, at - 1]


def _naive(task: Task, seen: Seen) -> dict[str, float]:
    """Every metric from python loops."""
    lists: dict[str, list[float]] = {}
    ids, predictions, targets = (seen[key].tolist() for key in ("ids", "predictions", "targets"))
    maps = seen["attention"].double().numpy()

    def add(name: str, value: float) -> None:
        lists.setdefault(name, []).append(value)

    for b, (row, guesses, labels) in enumerate(zip(ids, predictions, targets, strict=True)):
        scored = [at for at, label in enumerate(labels) if label != IGNORE]
        for number, at in enumerate(scored, 1):
            right = float(guesses[at] == labels[at])
            add("loss", float(seen["nll"][b, at]))
            add("accuracy", right)
            if isinstance(task, MQAR):
                add(f"query_accuracy/query{number}", right)
            if isinstance(task, TwoHop):
                pairs = list(zip(row[1:][::2], row[2:][::2], strict=False))[: task.sequences.pairs]
                follows = dict(pairs)
                if row[at - 1] == ONE_HOP:
                    add("one_hop_accuracy", right)
                    continue
                assert row[at - 1] == TWO_HOPS
                ends = [follows[follows[start]] for start in follows if follows[start] in follows]
                add("two_hop_accuracy", right)
                add("two_hop_among_ends", float(guesses[at] in ends))
                add("two_hop_stopped_after_one", float(guesses[at] == follows[row[at]]))
        if isinstance(task, Induction):
            for name, value in _copying(row, guesses, labels, maps[:, b]):
                add(name, value)
    means = {name: _mean(numbers) for name, numbers in lists.items()}
    for score in ("prefix_matching", "previous_token"):
        heads = [value for name, value in means.items() if name.startswith(score)]
        if heads:
            means[f"{score}/max"] = max(heads)
    return means


def _computed(metrics: MetricCollection) -> dict[str, float]:
    values = metrics.compute()
    assert all(value.dtype == torch.float64 for value in values.values())
    return {name.removeprefix("val/"): float(value) for name, value in values.items()}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("size", [7, 3, 1])
def test_metrics_are_those_of_plain_loops_in_any_batches(name: str, size: int) -> None:
    task = TASKS[name]()
    seen = _validation(task)
    metrics = task.metrics("val/")
    for start in range(0, 7, size):
        metrics.update(**_rows(seen, slice(start, start + size)))
    assert _computed(metrics) == pytest.approx(_naive(task, seen), rel=1e-12)


@pytest.mark.parametrize("name", TASKS)
def test_rows_that_fill_up_a_batch_count_nothing(name: str) -> None:
    task = TASKS[name]()
    batches = FixedBatches(*task.held_out("validation"), size=4)
    metrics = task.metrics("val/")
    given = []
    for number, batch in enumerate(batches):
        given.append(_seen(batch.ids, batch.targets, number))
        metrics.update(**given[-1])
    assert len(given) == 2
    assert not given[1]["scored"][3].any()
    whole = {
        key: torch.cat([part[key] for part in given], dim=1 if key == "attention" else 0) for key in given[0]
    }
    assert _computed(metrics) == pytest.approx(_naive(task, _rows(whole, slice(0, 7))), rel=1e-12)


@pytest.mark.parametrize("name", TASKS)
def test_sums_of_two_processes_give_the_value_of_one(name: str) -> None:
    task = TASKS[name]()
    seen = _validation(task)
    ranks = [task.metrics("val/") for _ in range(2)]
    ranks[0].update(**_rows(seen, slice(0, 5)))
    ranks[1].update(**_rows(seen, slice(5, 7)))
    for (_, ours), (_, theirs) in zip(ranks[0].items(), ranks[1].items(), strict=True):
        _add(ours, theirs)
    assert _computed(ranks[0]) == pytest.approx(_naive(task, seen), rel=1e-12)


def _add(ours: Metric, theirs: Metric) -> None:
    """What synchronisation does: every state by its own reduction."""
    assert ours._reductions
    for state, reduce in ours._reductions.items():
        stacked = torch.stack([getattr(ours, state), getattr(theirs, state)])
        assert reduce is not None
        setattr(ours, state, reduce(stacked))


@pytest.mark.parametrize("name", TASKS)
def test_nothing_scored_is_nan(name: str) -> None:
    task = TASKS[name]()
    seen = _validation(task)
    blank = _seen(seen["ids"], torch.full_like(seen["targets"], IGNORE))
    metrics = task.metrics("val/")
    metrics.update(**blank)
    assert all(np.isnan(value) for value in _computed(metrics).values())
    metrics.reset()
    metrics.update(**seen)
    assert _computed(metrics) == pytest.approx(_naive(task, seen), rel=1e-12)


@pytest.mark.parametrize("name", TASKS)
def test_right_answers_are_all_right(name: str) -> None:
    task = TASKS[name]()
    seen = _validation(task)
    seen["predictions"] = seen["targets"]
    seen["correct"] = seen["scored"]
    metrics = task.metrics("val/")
    metrics.update(**seen)
    values = _computed(metrics)
    assert all(value == 1 for key, value in values.items() if "accuracy" in key or "among" in key)
    assert values.get("two_hop_stopped_after_one", 0.0) == 0


@pytest.mark.parametrize("name", TASKS)
def test_an_unscored_position_counts_nowhere_even_if_it_seems_right(name: str) -> None:
    task = TASKS[name]()
    seen = _validation(task)
    expected = task.metrics("val/")
    expected.update(**seen)
    seen["correct"] = seen["correct"] | ~seen["scored"]
    metrics = task.metrics("val/")
    metrics.update(**seen)
    assert _computed(metrics) == _computed(expected)


def test_copy_accuracy_does_not_depend_on_what_is_trained_on() -> None:
    values = []
    for name in ("induction", "induction, all"):
        seen = _validation(TASKS[name]())
        everything = _validation(TASKS["induction, all"]())["targets"]
        guesses = torch.where(torch.arange(20) % 3 == 0, everything, 0)
        metric = CopyAccuracy()
        metric.update(seen["ids"], guesses == seen["targets"], seen["scored"])
        values.append(float(metric.compute()))
    assert values[0] == values[1]
    assert 0.2 < values[0] < 0.5


def _one_head(ids: Tensor, key: Callable[[int, list[int]], int]) -> Tensor:
    """(1, B, 1, T, T): all weight of each query on one key."""
    maps = torch.zeros(1, len(ids), 1, ids.size(1), ids.size(1))
    for b, row in enumerate(ids.tolist()):
        for at in range(len(row)):
            maps[0, b, 0, at, key(at, row)] = 1
    return maps


def test_ideal_heads_score_one_and_others_nothing() -> None:
    seen = _validation(TASKS["induction"]())
    ids, scored = seen["ids"], seen["scored"]
    heads: dict[str, Tensor] = {
        "induction": _one_head(
            ids, lambda at, row: 1 + max([s for s in range(at) if row[s] == row[at]], default=-1)
        ),
        "duplicate": _one_head(
            ids, lambda at, row: max([s for s in range(at) if row[s] == row[at]], default=0)
        ),
        "previous": _one_head(ids, lambda at, row: max(at - 1, 0)),
    }
    scores: dict[str, tuple[float, float]] = {}
    for name, maps in heads.items():
        prefix, previous = PrefixMatching(), PreviousToken()
        prefix.update(ids, scored, maps)
        previous.update(scored, maps)
        scores[name] = (
            float(prefix.compute()["prefix_matching/max"]),
            float(previous.compute()["previous_token/max"]),
        )
    assert scores["induction"][0] == 1
    assert scores["duplicate"][0] == scores["previous"][0] == 0
    assert scores["previous"][1] == 1
    assert scores["induction"][1] < 0.1


def test_attention_is_asked_for_where_it_is_used_alone() -> None:
    wanted = {name: asks_for(make().metrics("val/"), "attention") for name, make in TASKS.items()}
    assert wanted == {"induction": True, "induction, all": True, "two_hop": False, "mqar": False}
    assert not asks_for(language_metrics("val/", text=True), "attention")


@pytest.mark.parametrize("name", TASKS)
def test_names_carry_the_prefix_and_no_measure_of_text(name: str) -> None:
    task = TASKS[name]()
    metrics = task.metrics("test/")
    metrics.update(**_validation(task))
    names: dict[str, Any] = metrics.compute()
    assert {"test/loss", "test/accuracy"} < set(names)
    assert all(key.startswith("test/") and key.count("test/") == 1 for key in names)
    assert not {"test/perplexity", "test/bits_per_byte"} & set(names)
