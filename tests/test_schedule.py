import math

import pytest

from mgvr_lightning.errors import InputError
from mgvr_lightning.schedule import Constant, Cosine, Schedule, WarmupStableDecay

FINAL = 0.05
WARMUP = [0.25, 0.5, 0.75, 1.0]


def _cosine(share: float) -> float:
    return FINAL + (1 - FINAL) * (1 + math.cos(math.pi * share)) / 2


TABLES = [
    (Constant(warmup=4), [*WARMUP, 1, 1, 1, 1, 1, 1]),
    (Cosine(warmup=4, final=FINAL), [*WARMUP, *(_cosine(update / 6) for update in range(1, 7))]),
    (
        WarmupStableDecay(warmup=4, decay=0.5, final=FINAL),
        [*WARMUP, 1, 1, 1, 1 - 0.95 / 3, 1 - 1.9 / 3, FINAL],
    ),
    (WarmupStableDecay(warmup=4, decay=0.0, final=FINAL), [*WARMUP, 1, 1, 1, 1, 1, 1]),
    (
        WarmupStableDecay(warmup=4, decay=1.0, final=FINAL),
        [*WARMUP, *(1 - 0.95 * update / 6 for update in range(1, 7))],
    ),
    (
        WarmupStableDecay(warmup=4, decay=0.5, final=FINAL, share_of="run"),
        [*WARMUP, 1, *(1 - 0.95 * update / 5 for update in range(1, 6))],
    ),
    (
        WarmupStableDecay(warmup=4, decay=0.9, final=FINAL, share_of="run"),
        [*WARMUP, *(1 - 0.95 * update / 6 for update in range(1, 7))],
    ),
    (WarmupStableDecay(warmup=4, decay=0.0, final=FINAL, share_of="run"), [*WARMUP, 1, 1, 1, 1, 1, 1]),
]


def _factors(schedule: Schedule, total: int) -> list[float]:
    return [schedule.factor(update, total) for update in range(1, total + 1)]


@pytest.mark.parametrize(("schedule", "table"), TABLES)
def test_table_for_four_updates_of_warmup_in_ten(schedule: Schedule, table: list[float]) -> None:
    assert _factors(schedule, 10) == pytest.approx(table, rel=1e-12)


@pytest.mark.parametrize("schedule", [schedule for schedule, _ in TABLES])
def test_peak_is_exact_at_the_end_of_warmup(schedule: Schedule) -> None:
    assert schedule.factor(4, 10) == 1.0


@pytest.mark.parametrize("total", [5, 7, 10, 400, 1908])
@pytest.mark.parametrize("decay", [0.1, 0.4, 1 / 3, 1.0])
def test_final_factor_is_exact_at_the_last_update(decay: float, total: int) -> None:
    assert Cosine(warmup=4, final=FINAL).factor(total, total) == FINAL
    assert WarmupStableDecay(warmup=4, decay=decay, final=FINAL).factor(total, total) == FINAL
    whole = WarmupStableDecay(warmup=4, decay=decay, final=FINAL, share_of="run")
    assert whole.factor(total, total) == FINAL or round(decay * total) == 0


@pytest.mark.parametrize("schedule", [schedule for schedule, _ in TABLES])
@pytest.mark.parametrize("total", [1, 3, 4, 5, 10, 11, 100])
def test_the_factor_is_one_from_warmup_to_the_start_of_decay_and_below_one_after(
    schedule: Schedule, total: int
) -> None:
    start = schedule.decay_start(total)
    assert min(4, total) <= start <= total
    for update, factor in enumerate(_factors(schedule, total), 1):
        if update >= 4:
            assert (factor == 1) == (update <= start), update


def test_the_decay_of_the_whole_run_starts_where_the_papers_does() -> None:
    schedule = WarmupStableDecay(warmup=40, decay=0.65, final=FINAL, share_of="run")
    assert schedule.decay_start(3766) == 3766 - round(0.65 * 3766) == 1318
    assert schedule.factor(1318, 3766) == 1
    assert schedule.factor(1318 + 1224, 3766) == pytest.approx((1 + FINAL) / 2)


@pytest.mark.parametrize(
    ("schedule", "start"),
    [
        (Constant(warmup=4), 10),
        (Cosine(warmup=4), 4),
        (WarmupStableDecay(warmup=4, decay=0.25), 8.5),
        (WarmupStableDecay(warmup=4, decay=0.0), 10),
        (WarmupStableDecay(warmup=40, decay=0.5), 10),
        (WarmupStableDecay(warmup=4, decay=0.5, share_of="run"), 5),
        (WarmupStableDecay(warmup=4, decay=0.9, share_of="run"), 4),
        (WarmupStableDecay(warmup=40, decay=0.5, share_of="run"), 10),
    ],
)
def test_where_decay_starts_in_ten_updates(schedule: Schedule, start: float) -> None:
    assert schedule.decay_start(10) == start


@pytest.mark.parametrize("warmup", [0, 1, 2, 4, 40])
@pytest.mark.parametrize("total", [1, 2, 3])
@pytest.mark.parametrize("kind", [Constant, Cosine, WarmupStableDecay])
def test_shortest_runs_update_with_factors_above_zero_and_at_most_one(
    kind: type[Schedule], total: int, warmup: int
) -> None:
    factors = _factors(kind(warmup=warmup), total)
    assert all(0 < factor <= 1 for factor in factors)
    if 0 < warmup <= total:
        assert factors[warmup - 1] == 1.0
    if warmup >= total:
        assert factors[-1] == 1.0


def test_warmup_shrinks_to_a_shorter_run() -> None:
    assert _factors(WarmupStableDecay(warmup=40), 4) == WARMUP


@pytest.mark.parametrize("kind", [Cosine, WarmupStableDecay])
def test_factors_never_rise_after_warmup(kind: type[Schedule]) -> None:
    factors = _factors(kind(warmup=3), 50)[2:]
    assert factors == sorted(factors, reverse=True)


@pytest.mark.parametrize(("name", "value"), [("warmup", -1), ("decay", 1.5), ("share_of", "half")])
def test_an_option_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"schedule\.{name}"):
        WarmupStableDecay(**{name: value})  # type: ignore[arg-type]
