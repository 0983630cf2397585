"""Multi-query associative recall (Zoology, Arora et al. 2023, arXiv 2312.04927)."""

from dataclasses import dataclass

import numpy as np
from torchmetrics import Metric

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.noise import Noise
from mgvr_lightning.data.order import Indices
from mgvr_lightning.data.tasks.task import Sequences, Task, at_least
from mgvr_lightning.data.tasks.task_metrics import QueryAccuracy
from mgvr_lightning.errors import InputError
from mgvr_lightning.model.loss import IGNORE

BLANK = 0


@dataclass(frozen=True)
class Recall(Sequences):
    """Pairs of a key and its value, then the keys again, scattered; the target at each is its value.

    As in the authors' generator (HazyResearch/zoology, multiquery_ar.py): keys are ids below V/2 but 0,
    values the others; the i-th query comes 2·g tokens after the pairs, where g + 1 is drawn without
    replacement with weights (g + 1)^(a − 1), so most come soon; the earlier pairs are drawn first.
    """

    vocabulary_size: int
    context: int
    pairs: int
    power: float
    fill: bool

    def __post_init__(self) -> None:
        at_least(1, "pairs", self.pairs)
        at_least(0.0, "power", self.power)
        if self.context % 2 or self.context < 4 * self.pairs:
            nearest = max(4 * self.pairs, self.context + self.context % 2)
            raise InputError(
                f"data.context: {self.context} tokens. {self.pairs} pairs and a query for each take an even "
                f"number, {4 * self.pairs} or more. Nearest: {nearest}."
            )
        least = max(2 * self.pairs + 2, self.context + 1)
        if self.vocabulary_size < least:
            raise InputError(
                f"data.vocabulary: {self.vocabulary_size} ids for {self.pairs} different keys and a "
                f"context of {self.context}. Expected {least} or more."
            )

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.vocabulary_size

    @property
    def length(self) -> int:
        """T, tokens of a sequence."""
        return self.context

    @property
    def values_from(self) -> int:
        """The least id of a value."""
        return self.vocabulary_size // 2

    @property
    def most_scored(self) -> int:
        """The answers to the queries."""
        return self.pairs

    def rows(self, noise: Noise, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the sequences at `positions`."""
        start = self.values_from
        keys = 1 + noise.stream("keys").choose(self.pairs, start - 1, positions)
        values = start + noise.stream("values").choose(self.pairs, self.vocabulary_size - start, positions)
        ids = np.full((len(positions), self.context), BLANK)
        if self.fill:
            ids[:] = noise.stream("fill").below(self.vocabulary_size, positions, self.context)
        ids[:, : 2 * self.pairs : 2], ids[:, 1 : 2 * self.pairs : 2] = keys, values
        queries = 2 * self.pairs + 2 * self._gaps(noise, positions)
        targets = np.full_like(ids, IGNORE)
        np.put_along_axis(ids, queries, keys, axis=1)
        np.put_along_axis(targets, queries, values, axis=1)
        return ids, targets

    def _gaps(self, noise: Noise, positions: Indices) -> Indices:
        """Where the query for each pair stands, in steps of two tokens, (n, pairs).

        Drawing without replacement, one after the other, is taking the first arrivals of independent
        exponential clocks at the rates of the weights.
        """
        space = self.context // 2 - self.pairs
        rates = np.arange(1, space + 1) ** (self.power - 1.0)
        arrivals = -np.log(noise.stream("gaps").unit(positions, space)) / rates
        return np.argsort(arrivals, axis=1, kind="stable")[:, : self.pairs]

    def scored(self, noise: Noise, positions: Indices) -> int:
        """The answers to the queries."""
        return len(positions) * self.pairs


class MQAR(Task):
    """Multi-query associative recall (Zoology, arXiv 2312.04927): key-value pairs, then queries by key.

    Args:
        vocabulary: number of ids; half are keys, half values.
        context: T, tokens of a sequence.
        pairs: number of key-value pairs, and of queries.
        power: a in the weights g^(a − 1) of a query's distance g; 1 for uniform distances, near 0 for most
            of them close.
        fill: whether the tokens between queries are random instead of blank.
        validation_sequences: size of the validation set.
        test_sequences: size of the test set.
        global_batch: sequences per optimizer step, over all processes.
        micro_batch: sequences per forward pass and process; accumulation follows from it. Null for a
            process's whole share of the step.
        workers: loader processes; 0 to load in the training process.
        seed: the data seed.
    """

    sequences: Recall

    def __init__(
        self,
        vocabulary: int = 8192,
        context: int = 64,
        pairs: int = 4,
        power: float = 0.01,
        fill: bool = True,
        validation_sequences: int = 256,
        test_sequences: int = 1024,
        global_batch: int = 256,
        micro_batch: int | None = None,
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        rule = Recall(vocabulary, context, pairs, power, fill)
        sizes = validation_sequences, test_sequences
        super().__init__(rule, *sizes, global_batch, micro_batch, workers, seed)

    def own_metrics(self) -> dict[str, Metric]:
        """Accuracy of the first query, the second, and so on."""
        return {"query_accuracy": QueryAccuracy(self.sequences.pairs)}

    def token_name(self, token: int) -> str:
        """K and the number of a key, V and that of a value, or a dash for blank."""
        if token == BLANK:
            return "-"
        start = self.sequences.values_from
        return f"K{token}" if token < start else f"V{token - start}"

    def prompts(self) -> list[list[int]]:
        """Validation sequences up to their last query."""
        ids, targets = self.held_out("validation")
        ends = [int(np.flatnonzero(row != IGNORE)[-1]) for row in targets[:4]]
        return [row[: end + 1].tolist() for row, end in zip(ids, ends, strict=False)]
