"""What a layer is told about the tokens themselves."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

Project = Callable[[Tensor], Tensor]
"""The layer's own value projection W_V, lent: (B, T, D) → (B, T, H, Dh)."""


class Identity(NamedTuple):
    """Token identity, handed to every block as an explicit input so that compilers and checkpointing see it.

    Attributes:
        ids: (B, T) token ids.
        x0: (B, T, D) the tensor that W_V reads in layer 0; None when a past is replayed from a cache.
        first: (B, T, H, Dh) the values of layer 0; None in layer 0 itself.
    """

    ids: Tensor
    x0: Tensor | None = None
    first: Tensor | None = None
