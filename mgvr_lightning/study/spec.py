"""What a study asks for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mgvr_lightning.errors import InputError

Options = dict[str, Any]


@dataclass(frozen=True)
class Judge:
    """What trials are ranked by, and what the pilot's spread is of.

    Attributes:
        metric: a metric of the validation.
        threshold: if given, the step at which the metric reaches it for good counts, less being better;
            otherwise the metric's last value, of which losses are better lower and everything else higher.
    """

    metric: str = "val/loss"
    threshold: float | None = None


@dataclass(frozen=True)
class Pilot:
    """Runs of one arm that tell how many seeds an effect needs.

    Attributes:
        arm: label of the arm, usually the baseline.
        seeds: seeds of the pilot, none of them reported.
        effect: what is to be found: nats, or with `judge.threshold` the share of steps saved.
        power: probability of finding it at the 5% level.
    """

    arm: str
    seeds: list[int]
    effect: float
    power: float = 0.8


@dataclass(frozen=True)
class Tuning:
    """Trials of every arm, the same number for each; the best is run on the seeds that are reported.

    Attributes:
        seeds: seeds of the trials, none of them reported.
        trials: label of an arm → options of each of its trials; a change of form is a trial like any other.
    """

    seeds: list[int]
    trials: dict[str, list[Options]]


@dataclass(frozen=True)
class Study:
    """Arms × grid × seeds.

    Attributes:
        arms: label → configuration files, such as [configs/mgvr.yaml]; the first is the reference.
        seeds: seeds of weights and data; with a pilot, as many of them as it asks for, from the first.
        question: what the study is to answer, for its report.
        configs: configuration files that are laid over every arm.
        options: options of `fit` that are laid over those.
        grid: option → values; every combination is a cell, in which the arms are compared.
        judge: what trials and pilot go by.
        pilot: how many seeds are needed; null to run all.
        tuning: trials before the runs that are reported; null for none.
        keep_checkpoints: whether runs that came to their end keep their checkpoints.
    """

    arms: dict[str, list[str]]
    seeds: list[int]
    question: str = ""
    configs: list[str] = field(default_factory=list)
    options: Options = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    judge: Judge = field(default_factory=Judge)
    pilot: Pilot | None = None
    tuning: Tuning | None = None
    keep_checkpoints: bool = False

    def __post_init__(self) -> None:
        if not self.arms:
            raise InputError("arms: none. Expected a label and configuration files for each.")
        for label in self.arms:
            if not label or not all(char.isalnum() or char in "_.+-" for char in label):
                raise InputError(
                    f"arms: {label!r} can't name a folder. Expected letters, digits, and _ . + -"
                )
        _distinct("seeds", self.seeds)
        for name, values in self.grid.items():
            if not values:
                raise InputError(f"grid.{name}: no value. Expected one or more.")
        for part, seeds in (("pilot", self.pilot), ("tuning", self.tuning)):
            if seeds is not None:
                self._fresh(part, seeds.seeds)
        if self.pilot is not None:
            self._check_pilot(self.pilot)
        if self.tuning is not None:
            self._check_trials(self.tuning.trials)

    def _fresh(self, part: str, seeds: Sequence[int]) -> None:
        _distinct(f"{part}.seeds", seeds)
        both = sorted(set(seeds) & set(self.seeds))
        if both:
            raise InputError(
                f"{part}.seeds: {both} are reported too. Expected seeds of its own, so that what was chosen "
                "is shown on others."
            )

    def _check_pilot(self, pilot: Pilot) -> None:
        if pilot.arm not in self.arms:
            raise InputError(f"pilot.arm: no arm named {pilot.arm}. There are: {', '.join(self.arms)}.")
        if len(pilot.seeds) < 2:
            raise InputError("pilot.seeds: one seed has no spread. Expected two or more.")
        if pilot.effect <= 0 or not 0 < pilot.power < 1:
            raise InputError("pilot: expected an effect above 0 and a power between 0 and 1.")
        if self.judge.threshold is not None and pilot.effect >= 1:
            raise InputError("pilot.effect: expected a share of steps saved, below 1.")

    def _check_trials(self, trials: dict[str, list[Options]]) -> None:
        for label in [*trials, *self.arms]:
            if label not in trials or label not in self.arms:
                raise InputError(
                    f"tuning.trials: {label} is not both an arm and tuned. Expected trials of every arm."
                )
        for name in {name for own in trials.values() for trial in own for name in trial}:
            if name in self.grid:
                raise InputError(
                    f"tuning.trials: {name} is in the grid, too, which would win. Leave one out."
                )
        numbers = {label: len(own) for label, own in trials.items()}
        if len(set(numbers.values())) > 1 or 0 in numbers.values():
            told = ", ".join(f"{label} {number}" for label, number in numbers.items())
            raise InputError(
                f"tuning.trials: {told}. Expected the same number for every arm; anything else is unfair."
            )


def _distinct(name: str, seeds: Sequence[int]) -> None:
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"{name}: {list(seeds)}. Expected one or more, each once.")
