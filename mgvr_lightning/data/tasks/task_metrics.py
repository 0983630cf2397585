"""What is measured on the synthetic tasks, from ids, targets and predictions alone.

Arguments of every `update`: ids, predictions (B, T) int64; correct, scored (B, T) bool.
"""

import torch
from torch import Tensor
from torchmetrics import Metric

from mgvr_lightning.metrics import Ratio


def came_before(ids: Tensor) -> Tensor:
    """(B, T, T) bool: whether the token at t is that at s < t."""
    return (ids[:, :, None] == ids[:, None, :]).tril(-1)


def asked(ids: Tensor, scored: Tensor, mark: int) -> Tensor:
    """(B, T) bool: scored positions right after the token `mark`."""
    return scored & (ids.roll(1, dims=1) == mark)


class CopyAccuracy(Ratio):
    """Share of right predictions where the token occurred before, trained on or not."""

    def update(self, ids: Tensor, correct: Tensor, scored: Tensor) -> None:
        """Adds a batch."""
        copied = scored & came_before(ids).any(-1)
        self.total += (correct & copied).sum()
        self.count += copied.sum()


class HopAccuracy(Ratio):
    """Share of right answers to the queries of one kind.

    Args:
        mark: the token that such a query begins with.
    """

    def __init__(self, mark: int) -> None:
        super().__init__()
        self.mark = mark

    def update(self, ids: Tensor, correct: Tensor, scored: Tensor) -> None:
        """Adds a batch."""
        here = asked(ids, scored, self.mark)
        self.total += (correct & here).sum()
        self.count += here.sum()


class PairAnswers(Ratio):
    """A share of the answers to the queries of one kind, about pairs.

    Args:
        mark: the token that the queries begin with.
        pairs: number of pairs, which follow the first token.
    """

    def __init__(self, mark: int, pairs: int) -> None:
        super().__init__()
        self.mark, self.pairs = mark, pairs


class AmongEnds(PairAnswers):
    """Share of the answers that are the end of some chain, c of a → b → c.

    While it is 1 and the accuracy 1 / chains, ends are told from other symbols but not from one another.
    """

    def update(self, ids: Tensor, predictions: Tensor, scored: Tensor) -> None:
        """Adds a batch."""
        firsts, seconds = split_pairs(ids, self.pairs)
        second_hop = (firsts[:, :, None] == seconds[:, None, :]).any(-1)
        among = ((predictions[:, :, None] == seconds[:, None, :]) & second_hop[:, None, :]).any(-1)
        here = asked(ids, scored, self.mark)
        self.total += (among & here).sum()
        self.count += here.sum()


class StoppedAfterOne(PairAnswers):
    """Share of the answers that are one hop from the query, b of a → b → c."""

    def update(self, ids: Tensor, predictions: Tensor, scored: Tensor) -> None:
        """Adds a batch."""
        firsts, seconds = split_pairs(ids, self.pairs)
        starts = ids[:, :, None] == firsts[:, None, :]
        stopped = (starts & (predictions[:, :, None] == seconds[:, None, :])).any(-1)
        here = asked(ids, scored, self.mark)
        self.total += (stopped & here).sum()
        self.count += here.sum()


class QueryAccuracy(Metric):
    """Share of right answers to the first query of a sequence, to the second, and so on.

    Args:
        queries: scored targets of a sequence.
    """

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, queries: int) -> None:
        super().__init__()
        for name in ("total", "count"):
            self.add_state(name, torch.zeros(queries, dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, correct: Tensor, scored: Tensor) -> None:
        """Adds a batch."""
        number, queries = scored.long().cumsum(1) - 1, len(self.count)
        self.total += torch.bincount(number[scored & correct], minlength=queries)
        self.count += torch.bincount(number[scored], minlength=queries)

    def compute(self) -> dict[str, Tensor]:
        """Accuracy by number of the query, from 1."""
        shares = self.total.double() / self.count
        return {f"query_accuracy/query{number}": share for number, share in enumerate(shares, 1)}


def split_pairs(ids: Tensor, pairs: int) -> tuple[Tensor, Tensor]:
    """First and second tokens of the pairs that follow the first token, (B, pairs) each."""
    return ids[:, 1 : 1 + 2 * pairs : 2], ids[:, 2 : 2 + 2 * pairs : 2]
