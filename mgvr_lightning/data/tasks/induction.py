"""Copying by induction: a stretch of symbols repeats; what follows a symbol is what followed it before."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torchmetrics import Metric

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.noise import Noise
from mgvr_lightning.data.order import Indices
from mgvr_lightning.data.tasks.attention_metrics import PrefixMatching, PreviousToken
from mgvr_lightning.data.tasks.task import Sequences, Task, at_least
from mgvr_lightning.data.tasks.task_metrics import CopyAccuracy
from mgvr_lightning.errors import InputError
from mgvr_lightning.model.loss import IGNORE

LossOn = Literal["repeated", "all"]
BOS = 0


@dataclass(frozen=True)
class Repetitions(Sequences):
    """BOS, then distinct symbols over and over; the period is drawn anew for each sequence.

    Without a spread of periods a head could copy from a fixed distance and need no match.
    """

    symbols: int
    period_min: int
    period_max: int
    context: int
    loss_on: LossOn

    def __post_init__(self) -> None:
        at_least(2, "period_min", self.period_min)
        if self.period_max <= self.period_min:
            raise InputError(
                f"data.period_max: {self.period_max} isn't above period_min ({self.period_min}), so that "
                f"all sequences could be copied from one distance. Nearest: {self.period_min + 1}."
            )
        if self.symbols < self.period_max:
            raise InputError(
                f"data.symbols: {self.symbols} symbols can't fill a period of {self.period_max} without "
                f"repeating one. Expected {self.period_max} or more."
            )
        if self.context < self.period_max + 2:
            raise InputError(
                f"data.context: {self.context} tokens end before a period of {self.period_max} comes back. "
                f"Expected {self.period_max + 2} or more."
            )

    @property
    def vocabulary(self) -> int:
        """BOS and the symbols."""
        return 1 + self.symbols

    @property
    def length(self) -> int:
        """T, tokens of a sequence."""
        return self.context

    def periods(self, noise: Noise, positions: Indices) -> Indices:
        """The periods, (n,)."""
        spread = self.period_max - self.period_min + 1
        return self.period_min + noise.stream("period").below(spread, positions, 1)[:, 0]

    @property
    def most_scored(self) -> int:
        """Every target, or those after the shortest period."""
        return self.context if self.loss_on == "all" else self.context - 1 - self.period_min

    def rows(self, noise: Noise, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the sequences at `positions`."""
        periods = self.periods(noise, positions)[:, None]
        stretch = 1 + noise.stream("symbols").choose(self.period_max, self.symbols, positions)
        steps = np.arange(self.context)
        targets = np.take_along_axis(stretch, steps % periods, axis=1)
        ids = np.concatenate([np.full_like(periods, BOS), targets[:, :-1]], axis=1)
        if self.loss_on == "repeated":
            targets[steps <= periods] = IGNORE
        return ids, targets

    def scored(self, noise: Noise, positions: Indices) -> int:
        """Every target, or those after a symbol that was there before."""
        total = len(positions) * self.context
        if self.loss_on == "all":
            return total
        return total - len(positions) - int(self.periods(noise, positions).sum())


class Induction(Task):
    """A stretch of distinct symbols repeated to the end, its length drawn anew for each sequence.

    From the second time on, the token after a symbol is the one that followed it before.

    Args:
        symbols: number of symbols.
        period_min: the least length of the stretch.
        period_max: its greatest length.
        context: T, tokens of a sequence.
        loss_on: whether `repeated` or `all` targets are trained on; the first time a symbol occurs, what
            follows is chance.
        validation_sequences: size of the validation set.
        test_sequences: size of the test set.
        global_batch: sequences per optimizer step, over all processes.
        micro_batch: sequences per forward pass and process; accumulation follows from it. Null for a
            process's whole share of the step.
        workers: loader processes; 0 to load in the training process.
        seed: the data seed.
    """

    sequences: Repetitions

    def __init__(
        self,
        symbols: int = 63,
        period_min: int = 12,
        period_max: int = 30,
        context: int = 64,
        loss_on: LossOn = "repeated",
        validation_sequences: int = 256,
        test_sequences: int = 1024,
        global_batch: int = 64,
        micro_batch: int | None = None,
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        rule = Repetitions(symbols, period_min, period_max, context, loss_on)
        sizes = validation_sequences, test_sequences
        super().__init__(rule, *sizes, global_batch, micro_batch, workers, seed)

    def own_metrics(self) -> dict[str, Metric]:
        """Accuracy where a symbol came back, and what each head attends to."""
        return {
            "copy_accuracy": CopyAccuracy(),
            "prefix_matching": PrefixMatching(),
            "previous_token": PreviousToken(),
        }

    def token_name(self, token: int) -> str:
        """BOS, or the number of the symbol."""
        return "BOS" if token == BOS else str(token)

    def prompts(self) -> list[list[int]]:
        """The beginnings of validation sequences, up to where every period has come back."""
        ids, _ = self.held_out("validation")
        rows: list[list[int]] = ids[:4, : self.sequences.period_max + 2].tolist()
        return rows
