import math

import pytest

from mgvr_lightning.analysis.survival import Time, logrank, median


def reached(*steps: float) -> list[Time]:
    return [Time(step, reached=True) for step in steps]


def missed(*steps: float) -> list[Time]:
    return [Time(step, reached=False) for step in steps]


def middle(times: list[Time]) -> float | None:
    found = median(times)
    return None if found is None else found.estimate


def test_without_censoring_it_is_the_ordinary_median() -> None:
    assert middle(reached(30, 10, 20)) == 20
    assert middle(reached(10, 40, 20, 30)) == 25
    assert middle(reached(7)) == 7


def test_runs_that_did_not_get_there_count_as_later() -> None:
    assert middle([*reached(10, 20, 30), *missed(100, 100)]) == 30
    assert middle([*reached(10, 20), *missed(100)]) == 20


def test_half_that_never_got_there_leave_no_median() -> None:
    assert middle([*reached(10), *missed(100)]) is None
    assert middle([*reached(10, 20), *missed(100, 100, 100)]) is None
    assert middle(missed(100)) is None


def test_an_early_end_says_nothing_about_later() -> None:
    # Kaplan-Meier by hand: S = 1, then 3/4 at 10, nothing at 15, 3/4 · 1/2 at 20
    assert middle([*reached(10, 20, 30), *missed(15)]) == 20


def test_the_interval_of_brookmeyer_and_crowley() -> None:
    steps = range(10, 210, 10)
    found = median(reached(*steps))
    assert found is not None
    assert found.estimate == 105
    lows, highs = {}, {}
    for number, step in enumerate(steps[:-1], 1):  # Greenwood's variance of log(-log S), by hand
        survival = 1 - number / 20
        variance = sum(1 / ((20 - i) * (19 - i)) for i in range(number))
        half = 1.959964 * math.sqrt(variance) / abs(math.log(survival))
        lows[step], highs[step] = survival ** math.exp(half), survival ** math.exp(-half)
    assert found.low == next(step for step, low in lows.items() if low <= 0.5)
    assert found.high == next(step for step, high in highs.items() if high <= 0.5)


def test_ends_that_were_not_reached_are_infinite() -> None:
    found = median(reached(10, 20, 30))
    assert found is not None
    assert math.isinf(found.high)


def test_the_logrank_test_tells_groups_apart() -> None:
    early, late = reached(*range(10, 20)), reached(*range(100, 110))
    assert logrank(early, late) < 1e-3  # type: ignore[operator]
    assert logrank(early, [Time(time.step + 0.5, reached=True) for time in early]) > 0.3  # type: ignore[operator]
    assert logrank(early, missed(*[200] * 10)) < 1e-3  # type: ignore[operator]


def test_the_logrank_test_needs_an_event_and_a_difference() -> None:
    assert logrank(missed(10), missed(20)) is None
    assert logrank(reached(10, 10), reached(10, 10)) is None


@pytest.mark.parametrize(("time", "text"), [(reached(1200)[0], "1,200"), (missed(300)[0], "> 300")])
def test_times_say_whether_they_were_reached(time: Time, text: str) -> None:
    assert str(time) == text
