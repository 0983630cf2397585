"""Tables of values by token id."""

from collections.abc import Callable
from typing import ClassVar, Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from mgvr_lightning.errors import InputError
from mgvr_lightning.values.declared import Role
from mgvr_lightning.values.identity import Identity, Project
from mgvr_lightning.values.initial import Initial, ProjectedTokens, Uniform
from mgvr_lightning.values.part import Source
from mgvr_lightning.values.shape import Shape

Start = Literal["projection", "random"]
Precision = Literal["float32", "bfloat16"]


class TokenTable(Source):
    """A learned table of values by token id, E[id].

    Source: Bank of Values, arXiv 2606.02780; value embeddings in general go back to modded-nanogpt.

    Args:
        shape: the sizes to build it from.
        start: projection for x₀ W_V of the layer, so that the table starts as what it stands in for; random
            for uniform values of standard deviation D^-½.
        shared: one table for all layers, that of the first of them, rather than one each.
        dtype: of the table: float32, or bfloat16 for half the memory and coarser updates.
        host: whether the table stays in host memory wherever the network goes. Each distinct row that a batch
            needs is then fetched. Meant for inference.
    """

    replayable: ClassVar[bool] = True

    def __init__(
        self,
        shape: Shape,
        start: Start,
        shared: bool,
        dtype: Precision = "float32",
        host: bool = False,
    ) -> None:
        super().__init__(shape)
        for option, value, known in (("start", start, Start), ("dtype", dtype, Precision)):
            if value not in get_args(known):
                raise InputError(
                    f"values.source.{option}: no {value!r}. Expected one of {', '.join(get_args(known))}."
                )
        self.shared, self.host = shared, host
        self._owner: tuple[TokenTable, ...] = ()  # in a tuple, so that its table isn't registered here too
        self.table: Tensor
        initial: Initial = (
            ProjectedTokens(shape.layer) if start == "projection" else Uniform(shape.width**-0.5)
        )
        size = (shape.vocabulary, shape.kv_heads * shape.head_width)
        self.declare("table", size, initial, Role.TABLE, getattr(torch, dtype))

    def join(self, first: Self) -> None:
        """Takes the first layer's table for its own, if there is to be one alone."""
        if self.shared and first is not self:
            self._owner = (first,)
            self.withdraw("table")

    def forward(self, identity: Identity, project: Project) -> Tensor:
        """Returns the rows of the tokens, (B, T, H, Dh)."""
        owner = self._owner[0] if self._owner else self
        fetch = fetched if self.host else F.embedding
        rows = fetch(identity.ids, owner.table)
        return rows.view(*rows.shape[:-1], self.shape.kv_heads, self.shape.head_width)

    def flops(self) -> int:
        """FLOPs per token."""
        return 0

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves and casts as any module; a table that stays in host memory is only cast."""
        if not self.host or "table" not in self._parameters or self.table.is_meta:
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]
        with torch.no_grad():
            self.table.data = self.table.data.to(fn(self.table.data[:0]).dtype)
        return self


def fetched(ids: Tensor, table: Tensor) -> Tensor:
    """Rows of a table that may be on another device than their ids; each distinct row crosses over once.

    Args:
        ids: (B, T).
        table: (V, C).

    Returns:
        (B, T, C) on the device of the ids.
    """
    distinct, places = ids.unique(return_inverse=True)
    rows = F.embedding(distinct.to(table.device), table)
    return F.embedding(places, rows.to(ids.device))
