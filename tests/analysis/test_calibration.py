"""Simulations with known truth: what the intervals say is so as often as they say it."""

import math

import numpy as np
import pytest
from recorded import recorded

from mgvr_lightning.analysis.arm import Arm
from mgvr_lightning.analysis.comparison import Comparison
from mgvr_lightning.analysis.curve import Curve
from mgvr_lightning.analysis.onset import Onset
from mgvr_lightning.analysis.survival import Time, median

DRAWS = 1_000
STEPS = np.arange(20.0, 401.0, 20.0)


def loss(steps: np.ndarray) -> np.ndarray:
    return 2.5 + 9.0 * steps**-0.35


def planted(ratio: float, seeds: int, generator: np.random.Generator) -> Comparison:
    """A variant that needs `ratio` of the reference's steps for a loss, give or take 3% from seed to seed."""
    arms = []
    shared = generator.normal(0, 0.02, seeds)
    for name, factor in (("reference", 1.0), ("variant", ratio)):
        own = factor * np.exp(generator.normal(0, 0.03 / math.sqrt(2), seeds))
        runs = {
            (seed, seed): recorded(name, seed, list(STEPS), list(loss(STEPS / own[seed]) + shared[seed]))
            for seed in range(seeds)
        }
        arms.append(Arm(name, runs))
    return Comparison(arms[1], arms[0])


@pytest.mark.parametrize("seeds", [3, 5, 8])
def test_intervals_cover_the_planted_saving_as_often_as_they_say(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    covered, estimates = 0, []
    for _ in range(DRAWS):
        end = planted(0.84, seeds, generator).at_end
        assert end.saved is not None
        covered += not end.saved.excludes(1 - 0.84)
        estimates.append(end.saved.estimate)
    assert 0.93 <= covered / DRAWS <= 0.97
    assert np.mean(estimates) == pytest.approx(0.16, abs=0.003)


@pytest.mark.parametrize("seeds", [3, 5, 8])
def test_a_against_a_is_rarely_called_a_gain(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    gains = losses = lower = 0
    for _ in range(DRAWS):
        comparison = planted(1.0, seeds, generator)
        saved = comparison.at_end.saved
        assert saved is not None
        gains += saved.low > 0
        losses += saved.high < 0
        lower += comparison.differences[0].verdict == "lower"
    assert gains / DRAWS <= 0.065
    assert losses / DRAWS <= 0.065
    assert lower / DRAWS <= 0.065


def test_at_no_step_is_a_against_a_often_called_a_gain() -> None:
    generator = np.random.default_rng(1)
    gains = np.zeros(len(STEPS))
    for _ in range(300):
        for match in planted(1.0, 5, generator).matching:
            gains[np.flatnonzero(match.step == STEPS)] += match.saved is not None and match.saved.low > 0
    assert (gains / 300).max() <= 0.065


@pytest.mark.parametrize("seeds", [5, 8])
def test_censored_medians_are_unbiased_where_reached(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    truth, found, missing = 1_000.0, [], 0
    for _ in range(DRAWS):
        times = truth * np.exp(generator.normal(0, 0.1, seeds))
        middle = median([Time(min(time, 1_150.0), time <= 1_150.0) for time in times])
        missing += middle is None
        if middle is not None:
            found.append(math.log(middle.estimate / truth))
    assert missing / DRAWS < 0.1
    assert abs(np.mean(found)) < 0.01


def test_a_median_that_half_of_the_runs_miss_is_not_reached() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        times = 1_000.0 * np.exp(generator.normal(0, 0.1, 8))
        end = np.sort(times)[4]  # the fifth of eight, so that four came before
        assert median([Time(min(time, end - 1), time < end) for time in times]) is None


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_onsets_are_found_in_noise(noise: float) -> None:
    generator = np.random.default_rng(0)
    steps = np.arange(10.0, 1_001.0, 10.0)
    errors = []
    for _ in range(DRAWS):
        planted_at = generator.uniform(200, 800)
        clean = 1 / (1 + np.exp(-(steps - planted_at) / 15 - math.log(9)))  # 0.9 at the planted step
        values = clean + generator.normal(0, noise, len(steps))
        time = Onset("val/copy_accuracy", 0.9, hysteresis=3 * noise).time(Curve(steps, values))
        assert time.reached
        errors.append(time.step - planted_at)
    assert abs(np.mean(errors)) < 20  # two evaluations
    assert np.quantile(np.abs(errors), 0.95) < 60


def test_no_onset_is_found_in_noise_below_the_threshold() -> None:
    generator = np.random.default_rng(0)
    steps = np.arange(10.0, 1_001.0, 10.0)
    found = sum(
        Onset("val/copy_accuracy", 0.9, hysteresis=0.05, hold=3)
        .time(Curve(steps, 0.8 + generator.normal(0, 0.03, len(steps))))
        .reached
        for _ in range(200)
    )
    assert found == 0
