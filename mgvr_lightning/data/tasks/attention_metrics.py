"""What heads attend to: a score for each layer and head, and the greatest of them.

Arguments of every `update`: ids (B, T) int64; scored (B, T) bool; attention (L, B, Hq, T, T), the weights
that a query (the last but one axis) gives each key.
"""

import torch
from torch import Tensor
from torchmetrics import Metric

from mgvr_lightning.data.tasks.task_metrics import came_before


class HeadMeans(Metric):
    """A mean for each layer and head; NaN if nothing was seen."""

    full_state_update = False
    label: str
    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        # becomes (L, Hq) with the first batch
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def compute(self) -> dict[str, Tensor]:
        """Scores by layer and head, both from 0, and the greatest."""
        means = torch.atleast_2d(self.total / self.count)
        scores = {
            f"{self.label}/layer{layer}_head{head}": score
            for layer, heads in enumerate(means)
            for head, score in enumerate(heads)
        }
        return {f"{self.label}/max": means.max(), **scores}


class PrefixMatching(HeadMeans):
    """Attention from a token that occurred before to the tokens that followed it then.

    Olsson et al. 2022, "In-context Learning and Induction Heads": the mark of an induction head.
    """

    label = "prefix_matching"

    def update(self, ids: Tensor, scored: Tensor, attention: Tensor) -> None:
        """Adds a batch; scored positions count whose token occurred before."""
        before = came_before(ids)
        copied = scored & before.any(-1)
        followed = torch.zeros_like(before)
        followed[:, :, 1:] = before[:, :, :-1]
        weights = (followed & copied[:, :, None]).double()
        self.total = self.total + torch.einsum("lbhts,bts->lh", attention.double(), weights)
        self.count += copied.sum()


class PreviousToken(HeadMeans):
    """Attention from a token to the one before it."""

    label = "previous_token"

    def update(self, scored: Tensor, attention: Tensor) -> None:
        """Adds a batch; every token but the first counts, in sequences with a scored target."""
        real = scored.any(1)
        weights = attention.diagonal(-1, dim1=-2, dim2=-1).double()
        self.total = self.total + torch.einsum("lbht,b->lh", weights, real.double())
        self.count += real.sum() * (scored.size(1) - 1)
