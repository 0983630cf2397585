import math

import numpy as np
import pytest
from scipy import stats

from mgvr_lightning.analysis.statistics import Interval, bootstrap, paired_t, seeds_needed

VALUES = [0.1, 0.3, -0.05, 0.22, 0.18]


def test_students_interval_is_that_of_the_textbook() -> None:
    expected = stats.ttest_1samp(VALUES, 0).confidence_interval(0.95)
    found = paired_t(VALUES)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert found.estimate == pytest.approx(np.mean(VALUES), rel=1e-12)
    assert found.count == 5


def test_one_pair_has_no_interval_and_excludes_nothing() -> None:
    for interval in (paired_t([0.3]), bootstrap([0.3])):
        assert interval.estimate == 0.3
        assert math.isnan(interval.low)
        assert not interval.excludes(0.0)


def test_no_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        paired_t([])


def test_the_bootstrap_is_repeatable_and_too_narrow_for_few_pairs() -> None:
    found = bootstrap(VALUES)
    assert found == bootstrap(VALUES)
    assert paired_t(VALUES).low < found.low < found.estimate < found.high < paired_t(VALUES).high


def test_mapped_intervals_keep_their_ends_in_order() -> None:
    found = Interval(1.0, 0.5, 2.0, 3).map(lambda value: 1 - value)
    assert (found.estimate, found.low, found.high) == (0.0, -1.0, 0.5)


@pytest.mark.parametrize(("effect", "power"), [(0.5, 0.8), (1.0, 0.8), (2.0, 0.9)])
def test_so_many_pairs_find_the_effect_so_often(effect: float, power: float) -> None:
    count = seeds_needed(effect, 1.0, power)
    assert count is not None
    draws = np.random.default_rng(0).normal(effect, 1.0, (20_000, count))
    found = (stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05) & (draws.mean(axis=1) > 0)
    fewer = draws[:, : count - 1]
    found_with_fewer = (stats.ttest_1samp(fewer, 0, axis=1).pvalue < 0.05) & (fewer.mean(axis=1) > 0)
    assert found.mean() > power - 0.01
    assert count == 2 or found_with_fewer.mean() < power + 0.01


def test_what_no_number_of_pairs_finds_has_none() -> None:
    assert seeds_needed(0.0, 1.0) is None
    assert seeds_needed(0.01, 1.0) is None
    assert seeds_needed(0.1, math.inf) is None
    assert seeds_needed(0.1, 0.0) == 2
