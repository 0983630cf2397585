"""Which runs a study is made of, as far as is known yet."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mgvr_lightning.analysis.onset import Onset
from mgvr_lightning.analysis.plan_file import PLAN, read_plan
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.analysis.statistics import seeds_needed
from mgvr_lightning.errors import InputError
from mgvr_lightning.study.job import Job, told
from mgvr_lightning.study.spec import Judge, Options, Study


@dataclass(frozen=True)
class Plan:
    """A study in its folder.

    Attributes:
        study: what is asked for.
        folder: where its runs lie.
    """

    study: Study
    folder: Path

    @property
    def cells(self) -> list[Options]:
        """Every combination of the grid."""
        names, values = list(self.study.grid), list(self.study.grid.values())
        return [dict(zip(names, chosen, strict=True)) for chosen in product(*values)]

    def pilot(self) -> list[Job]:
        """The pilot's runs."""
        pilot = self.study.pilot
        if pilot is None:
            return []
        return [self._job("pilot", cell, pilot.arm, seed) for cell in self.cells for seed in pilot.seeds]

    def tuning(self) -> list[Job]:
        """All trials."""
        tuning = self.study.tuning
        if tuning is None:
            return []
        return [
            self._job("tuning", cell, arm, seed, number, options)
            for cell in self.cells
            for arm in self.study.arms
            for number, options in enumerate(tuning.trials[arm])
            for seed in tuning.seeds
        ]

    def report(self) -> list[Job]:
        """The runs that are reported; pilot and trials must have ended."""
        count = self.seeds_used()
        found = []
        for seed, cell, arm in product(self.study.seeds[:count], self.cells, self.study.arms):
            number = self.winner(cell, arm)
            options = (
                {} if number is None or self.study.tuning is None else self.study.tuning.trials[arm][number]
            )
            found.append(self._job("report", cell, arm, seed, None, options))
        return found

    def pilot_cells(self) -> dict[str, dict[str, Any]]:
        """Cell → scores of the pilot, their standard deviation, and the pairs of seeds that it asks for.

        The number is None if it is above 1,000 or if nobody could tell; so are numbers that aren't finite.
        Without knowing how far pairs of seeds go together, it is that of two independent runs.
        """
        pilot, judge = self.study.pilot, self.study.judge
        if pilot is None:
            return {}
        found: dict[str, dict[str, Any]] = {}
        for cell in self.cells:
            jobs = [self._job("pilot", cell, pilot.arm, seed) for seed in pilot.seeds]
            scores = [score(self.result(job), judge) for job in jobs]
            values, effect = np.array(scores), pilot.effect
            if judge.threshold is not None:
                values, effect = np.log(values), -math.log(1 - pilot.effect)
            deviation = float(np.std(values, ddof=1)) if np.isfinite(values).all() else math.inf
            needed = seeds_needed(effect, math.sqrt(2) * deviation, pilot.power)
            found[told(cell)] = {
                "scores": [finite(one) for one in scores],
                "deviation": finite(deviation),
                "needed": needed,
            }
        return found

    def seeds_used(self) -> int:
        """How many of the seeds are run."""
        needed = [cell["needed"] for cell in self.pilot_cells().values()]
        most = len(self.study.seeds)
        return min(most, max((most if number is None else number for number in needed), default=most))

    def trials(self, cell: Options, arm: str) -> list[list[Run | None]]:
        """The runs of each trial of an arm, one for each seed; None for those that haven't ended."""
        tuning = self.study.tuning
        assert tuning is not None
        return [
            [self.result(self._job("tuning", cell, arm, seed, number, options)) for seed in tuning.seeds]
            for number, options in enumerate(tuning.trials[arm])
        ]

    def winner(self, cell: Options, arm: str) -> int | None:
        """Number of the best trial; None where nothing is tried."""
        if self.study.tuning is None:
            return None
        ranks = [rank(runs, self.study.judge) for runs in self.trials(cell, arm)]
        return min(range(len(ranks)), key=lambda number: ranks[number])

    def result(self, job: Job) -> Run | None:
        """The run of a job, if it came to its end."""
        run = job.run(self.folder)
        return run if run is not None and run.finished else None

    def _job(
        self,
        phase: str,
        cell: Options,
        arm: str,
        seed: int,
        trial: int | None = None,
        options: Options | None = None,
    ) -> Job:
        files = (*self.study.arms[arm], *self.study.configs)
        return Job(phase, cell, arm, seed, files, {**self.study.options, **(options or {})}, trial)

    def write(self, jobs: Sequence[Job]) -> None:
        """Records the study and its runs, so that reports need neither this file nor its configurations.

        Raises:
            InputError: a run that has begun was planned otherwise.
        """
        path = self.folder / PLAN
        earlier = read_plan(self.folder) if path.is_file() else {}
        before = {one["name"]: one for one in earlier.get("jobs", [])}
        facts = [job.facts() for job in jobs]
        for job, fact in zip(jobs, facts, strict=True):
            other = before.get(job.name, fact)
            if other["digest"] != fact["digest"] and job.run(self.folder) is not None:
                raise InputError(
                    f"{self.folder / job.name}: has begun with other options than it has now. Give the study "
                    "another folder with --folder, or remove this run."
                )
        phases = {fact["phase"] for fact in facts}
        later = [one for one in before.values() if one["phase"] not in phases]
        content = {
            "question": self.study.question,
            "arms": list(self.study.arms),
            "judged": judged(self.study.judge),
            "pilot": self._pilot_facts() if phases - {"pilot"} else earlier.get("pilot"),
            "trials": self._trial_facts() if "report" in phases else earlier.get("trials"),
            "jobs": [*facts, *later],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(path)

    def _pilot_facts(self) -> dict[str, Any] | None:
        pilot = self.study.pilot
        if pilot is None:
            return None
        return {"arm": pilot.arm, "effect": pilot.effect, "power": pilot.power, "cells": self.pilot_cells()}

    def _trial_facts(self) -> list[dict[str, Any]]:
        tuning = self.study.tuning
        if tuning is None:
            return []
        return [
            {
                "arm": arm,
                "cell": told(cell),
                "options": tuning.trials[arm][number],
                "seeds": tuning.seeds,
                "scores": [finite(score(run, self.study.judge)) for run in runs],
                "taken": number == self.winner(cell, arm),
            }
            for cell, arm in product(self.cells, self.study.arms)
            for number, runs in enumerate(self.trials(cell, arm))
        ]


def judged(judge: Judge) -> str:
    """What runs are ranked by, as a text."""
    if judge.threshold is not None:
        return f"step of {Onset(judge.metric, judge.threshold)}, less being better"
    better = "less" if Onset(judge.metric, 0.0).falling else "more"
    return f"last {judge.metric}, {better} being better"


def finite(number: float) -> float | None:
    """A number as JSON knows it."""
    return number if math.isfinite(number) else None


def score(run: Run | None, judge: Judge) -> float:
    """What a run is judged by; NaN if it hasn't ended, diverged or didn't get there."""
    if run is None:
        return math.nan
    if judge.threshold is None:
        return last(run, judge)
    time = Onset(judge.metric, judge.threshold).time(run.curve(judge.metric))
    return time.step if time.reached else math.nan


def last(run: Run, judge: Judge) -> float:
    """The last value of the metric; NaN if there is none."""
    return run.value(judge.metric, max(run.series(judge.metric), default=0))


def rank(runs: Sequence[Run | None], judge: Judge) -> tuple[int, float, float]:
    """Less is better: seeds without a score, then the mean score, then the mean of the last values."""
    scores = [score(run, judge) for run in runs]
    lasts = [math.nan if run is None else last(run, judge) for run in runs]
    sign = 1.0 if Onset(judge.metric, 0.0).falling else -1.0
    known = [one for one in scores if math.isfinite(one)]
    mean = float(np.mean(known)) * (1.0 if judge.threshold is not None else sign) if known else math.inf
    ends = [sign * one for one in lasts if math.isfinite(one)]
    return len(scores) - len(known), mean, float(np.mean(ends)) if ends else math.inf


def phases(plan: Plan) -> Iterator[list[Job]]:
    """The runs of each phase in turn, once those of the one before have ended."""
    for build in (plan.pilot, plan.tuning, plan.report):
        jobs = build()
        if jobs:
            yield jobs
