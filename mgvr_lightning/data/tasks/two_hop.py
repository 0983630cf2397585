"""Two-hop recall: pairs a → b and b → c among others; asked for a, the answer is c."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from torchmetrics import Metric

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.noise import Noise
from mgvr_lightning.data.order import Indices
from mgvr_lightning.data.tasks.task import Sequences, Task, at_least
from mgvr_lightning.data.tasks.task_metrics import AmongEnds, HopAccuracy, StoppedAfterOne
from mgvr_lightning.errors import InputError
from mgvr_lightning.model.loss import IGNORE

Order = Literal["random", "forward"]
BOS, ONE_HOP, TWO_HOPS, SYMBOLS = range(4)


@dataclass(frozen=True)
class Chains(Sequences):
    """BOS, the pairs of all chains and of distractors, mixed, then queries (Q1 or Q2, a).

    All symbols of a sequence are distinct and of one vocabulary, so that no token shows its role. Answers
    aren't part of the input: they would allow to find the last ones by elimination.
    """

    chains: int
    symbols: int
    distractors: int
    queries: int
    one_hop: float
    order: Order

    def __post_init__(self) -> None:
        at_least(1, "chains", self.chains)
        at_least(0, "distractors", self.distractors)
        at_least(1, "queries", self.queries)
        if self.symbols < self.used:
            raise InputError(
                f"data.symbols: {self.symbols} symbols, but {self.chains} chains and {self.distractors} "
                f"distractors need {self.used} different ones. Expected {self.used} or more."
            )
        if not 0 <= self.one_hop <= 1:
            raise InputError(f"data.one_hop: {self.one_hop} is outside [0, 1].")
        if not self._fits(self.queries, self.one_hop):
            shares = [one / self.queries for one in range(self.queries + 1)]
            shares = [share for share in shares if self._fits(self.queries, share)]
            counts = [count for count in range(1, 2 * self.chains + 1) if self._fits(count, self.one_hop)]
            hints = [
                f"{option} {min(fits, key=lambda value: abs(value - given)):.4g}"
                for option, fits, given in (
                    ("one_hop", shares, self.one_hop),
                    ("queries", counts, self.queries),
                )
                if fits
            ]
            raise InputError(
                f"data.queries: {self.queries} queries with one_hop {self.one_hop} are "
                f"{self.queries * self.one_hop:.4g} one-hop and {self.queries * (1 - self.one_hop):.4g} "
                f"two-hop queries. Each kind takes a whole number, at most the {self.chains} chains.\n"
                f"Nearest that does: {' or '.join(hints)}."
            )

    def _fits(self, queries: int, one_hop: float) -> bool:
        one = queries * one_hop
        return abs(one - round(one)) < 1e-6 and queries - self.chains <= round(one) <= self.chains

    @property
    def used(self) -> int:
        """Number of symbols in a sequence."""
        return 3 * self.chains + 2 * self.distractors

    @property
    def pairs(self) -> int:
        """Number of pairs in a sequence."""
        return 2 * self.chains + self.distractors

    @property
    def vocabulary(self) -> int:
        """BOS, Q1, Q2 and the symbols."""
        return SYMBOLS + self.symbols

    @property
    def length(self) -> int:
        """T, tokens of a sequence."""
        return 1 + 2 * self.pairs + 2 * self.queries

    @property
    def most_scored(self) -> int:
        """The answers to the queries."""
        return self.queries

    def rows(self, noise: Noise, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the sequences at `positions`."""
        count, n = len(positions), self.chains
        symbols = SYMBOLS + noise.stream("symbols").choose(self.used, self.symbols, positions)
        a, b, c, others = np.split(symbols, [n, 2 * n, 3 * n], axis=1)
        firsts = np.concatenate([a, b, others[:, ::2]], axis=1)
        seconds = np.concatenate([b, c, others[:, 1::2]], axis=1)
        slots = self._slots(noise, positions)
        ids = np.full((count, self.length), BOS)
        np.put_along_axis(ids, 1 + 2 * slots, firsts, axis=1)
        np.put_along_axis(ids, 2 + 2 * slots, seconds, axis=1)

        one = round(self.queries * self.one_hop)
        asked_one = noise.stream("one-hop queries").choose(one, n, positions)
        asked_two = noise.stream("two-hop queries").choose(self.queries - one, n, positions)
        asked = np.take_along_axis(a, np.concatenate([asked_one, asked_two], axis=1), axis=1)
        answers = np.concatenate(
            [np.take_along_axis(b, asked_one, axis=1), np.take_along_axis(c, asked_two, axis=1)], axis=1
        )
        hops = np.where(np.arange(self.queries) < one, ONE_HOP, TWO_HOPS)
        places = noise.stream("query order").choose(self.queries, self.queries, positions)
        places = 1 + 2 * self.pairs + 2 * places
        targets = np.full_like(ids, IGNORE)
        np.put_along_axis(ids, places, np.broadcast_to(hops, asked.shape), axis=1)
        np.put_along_axis(ids, places + 1, asked, axis=1)
        np.put_along_axis(targets, places + 1, answers, axis=1)
        return ids, targets

    def _slots(self, noise: Noise, positions: Indices) -> Indices:
        """Where each pair stands among the pairs, (n, pairs)."""
        slots = noise.stream("pair order").choose(self.pairs, self.pairs, positions)
        if self.order == "forward":
            first, second = slots[:, : self.chains], slots[:, self.chains : 2 * self.chains]
            both = np.minimum(first, second), np.maximum(first, second)
            slots = np.concatenate([*both, slots[:, 2 * self.chains :]], axis=1)
        return slots

    def scored(self, noise: Noise, positions: Indices) -> int:
        """The answers to the queries."""
        return len(positions) * self.queries


class TwoHop(Task):
    """Two-hop recall in context: among pairs a → b and b → c, a query with a asks for c, or for b.

    Args:
        chains: number of chains a → b → c.
        symbols: number of symbols; those of one sequence are all different.
        distractors: number of pairs that belong to no chain.
        queries: number of queries, no two of them the same.
        one_hop: share of them that ask for b.
        order: whether a → b always comes `forward`, before its b → c, or they come in `random` order.
        validation_sequences: size of the validation set.
        test_sequences: size of the test set.
        global_batch: sequences per optimizer step, over all processes.
        micro_batch: sequences per forward pass and process; accumulation follows from it. Null for a
            process's whole share of the step.
        workers: loader processes; 0 to load in the training process.
        seed: the data seed.
    """

    sequences: Chains

    def __init__(
        self,
        chains: int = 4,
        symbols: int = 32,
        distractors: int = 0,
        queries: int = 8,
        one_hop: float = 0.5,
        order: Order = "forward",
        validation_sequences: int = 256,
        test_sequences: int = 1024,
        global_batch: int = 128,
        micro_batch: int | None = None,
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        rule = Chains(chains, symbols, distractors, queries, one_hop, order)
        sizes = validation_sequences, test_sequences
        super().__init__(rule, *sizes, global_batch, micro_batch, workers, seed)

    def own_metrics(self) -> dict[str, Metric]:
        """Accuracy by kind of query, and what is answered while two hops aren't learnt."""
        pairs = self.sequences.pairs
        return {
            "one_hop_accuracy": HopAccuracy(ONE_HOP),
            "two_hop_accuracy": HopAccuracy(TWO_HOPS),
            "two_hop_among_ends": AmongEnds(TWO_HOPS, pairs),
            "two_hop_stopped_after_one": StoppedAfterOne(TWO_HOPS, pairs),
        }

    def token_name(self, token: int) -> str:
        """BOS, Q1, Q2, or the number of the symbol."""
        return ("BOS", "Q1", "Q2")[token] if token < SYMBOLS else str(token - SYMBOLS)

    def prompts(self) -> list[list[int]]:
        """Validation sequences up to their last query."""
        ids, _ = self.held_out("validation")
        rows: list[list[int]] = ids[:4].tolist()
        return rows
