"""What the synthetic tasks share: sequences made on the fly, each a pure function of its position."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from torchmetrics import Metric, MetricCollection

from mgvr_lightning.data.batch import Examples, Ids
from mgvr_lightning.data.noise import Noise
from mgvr_lightning.data.order import Indices
from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.errors import InputError
from mgvr_lightning.metrics import NatsPerToken, TokenAccuracy, collection

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Sequences(ABC):
    """The rule by which sequences are made. Its fields are the options that what is made depends on."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of token ids."""

    @property
    @abstractmethod
    def length(self) -> int:
        """T, tokens of a sequence."""

    @property
    @abstractmethod
    def most_scored(self) -> int:
        """The most targets of a sequence that are scored."""

    @abstractmethod
    def rows(self, noise: Noise, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the sequences at `positions` (n,).

        Returns:
            ids and targets, (n, T) each; IGNORE where nothing is scored.
        """

    @abstractmethod
    def scored(self, noise: Noise, positions: Indices) -> int:
        """Number of scored targets in the sequences at `positions` (n,)."""


class TaskExamples(Examples):
    """An endless run of sequences, none of which is meant to come back.

    Args:
        sequences: the rule that makes them.
        noise: what they are drawn from.
    """

    def __init__(self, sequences: Sequences, noise: Noise) -> None:
        self.sequences, self.noise = sequences, noise

    def rows(self, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the sequences at `positions`."""
        return self.sequences.rows(self.noise, positions)

    def scored(self, positions: Indices) -> int:
        """Number of scored targets among the sequences at `positions`."""
        return self.sequences.scored(self.noise, positions)


class Task(TokenData):
    """A synthetic task: endless training sequences, and fixed ones for validation and test.

    Args:
        sequences: the rule that makes them.
        validation_sequences: size of the validation set.
        test_sequences: size of the test set.
        global_batch: sequences per optimizer step, over all processes.
        micro_batch: sequences per forward pass and process; accumulation follows from it. Null for a
            process's whole share of the step.
        workers: loader processes; 0 to load in the training process.
        seed: the data seed.
    """

    def __init__(
        self,
        sequences: Sequences,
        validation_sequences: int,
        test_sequences: int,
        global_batch: int,
        micro_batch: int | None,
        workers: int,
        seed: int,
    ) -> None:
        super().__init__(global_batch, micro_batch, workers, seed)
        self.sequences = sequences
        self.sizes = {
            "validation": at_least(1, "validation_sequences", validation_sequences),
            "test": at_least(1, "test_sequences", test_sequences),
        }

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.sequences.vocabulary

    @property
    def context(self) -> int:
        """T, tokens of a sequence."""
        return self.sequences.length

    @property
    def most_scored(self) -> int:
        """The most targets of a sequence that are scored."""
        return self.sequences.most_scored

    @property
    def token_bytes(self) -> None:
        """There is no text."""
        return

    @property
    def facts(self) -> dict[str, Any]:
        """The task, its options and the order; under `tokenizer` what the ids mean."""
        name = type(self).__name__
        return {
            "tokenizer": f"{name} of {self.vocabulary} ids",
            "task": name,
            **asdict(self.sequences),
            "validation_sequences": self.sizes["validation"],
            "global_batch": self.global_batch,
            "data_seed": self.seed,
        }

    def describe(self) -> dict[str, Any]:
        """The task and its options."""
        return {"task": type(self).__name__, **asdict(self.sequences)}

    def examples(self) -> TaskExamples:
        """The training sequences."""
        return TaskExamples(self.sequences, Noise(self.seed, "train"))

    def held_out(self, split: str) -> tuple[Ids, Ids]:
        """The sequences of `validation` or `test`, each drawn from a stream of its own."""
        return self.sequences.rows(Noise(self.seed, split), np.arange(self.sizes[split]))

    def metrics(self, prefix: str) -> MetricCollection:
        """Loss, accuracy and the task's own."""
        return collection(prefix, {"loss": NatsPerToken(), "accuracy": TokenAccuracy(), **self.own_metrics()})

    def own_metrics(self) -> dict[str, Metric]:
        """What the task measures beside loss and accuracy, by name."""
        return {}

    def decode(self, ids: list[int]) -> str:
        """The tokens' names."""
        return " ".join(self.token_name(token) for token in ids)

    @abstractmethod
    def token_name(self, token: int) -> str:
        """What a reader calls a token."""


def at_least(least: Number, option: str, value: Number) -> Number:
    """Hands an option's value on.

    Raises:
        InputError: it is too small.
    """
    if not least <= value < float("inf"):
        raise InputError(f"data.{option}: {value}. Expected {least} or more.")
    return value
