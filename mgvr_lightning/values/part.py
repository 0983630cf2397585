"""The three kinds of parts that equation (0) is composed of.

    V'[t,h] = a[t,h] · V[t,h]  +  Σ_j M[t,h,j] · S[t,j]          (0)

Shapes: B batch, T tokens, D width, H key-value heads, Dh head width. x is the layer's normalised input x̂
(B, T, D), V = x W_V its own values, V' what attention and its cache see.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import torch
from torch import Tensor

from mgvr_lightning.values.declared import Declared
from mgvr_lightning.values.identity import Identity, Project
from mgvr_lightning.values.shape import Shape


def in_fp32(x: Tensor) -> Tensor:
    """At least fp32: ½ plus a small logit is ½ again in bf16."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Part(Declared, ABC):
    """A part of a value path.

    Attributes:
        projects: whether it applies W_V, which is built only if some part does.
        replayable: whether what it gave for a past token follows from that token's id and its first values
            alone, so that a cache needs no copy of it. False is always right, and costs memory.

    Args:
        shape: the sizes to build it from.
    """

    projects: ClassVar[bool] = False
    replayable: ClassVar[bool] = False

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    @abstractmethod
    def flops(self) -> int:
        """FLOPs of its forward pass per token (a multiply-add is 2), applications of W_V aside."""


class Source(Part):
    """S: where token identity is read from.

    Attributes:
        earliest: the first layer that it exists in; earlier layers keep their own values.
    """

    earliest: ClassVar[int] = 0

    def join(self, first: Self) -> None:
        """Lets a source share parameters with that of the first layer which has one; here it shares none.

        Called once for every layer's source, before anything is initialised.
        """
        return

    @abstractmethod
    def forward(self, identity: Identity, project: Project) -> Tensor:
        """Reads the source.

        Args:
            identity: what is known about the tokens.
            project: the layer's own W_V.

        Returns:
            S, (B, T, H, Dh).
        """


class Gate(Part):
    """a: how much of its own values a layer keeps."""

    projects: ClassVar[bool] = True

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor | float | None:
        """Computes the gate.

        Args:
            x: (B, T, D).

        Returns:
            a, broadcastable to (B, T, H, 1), or None where the source replaces V.
        """


class Mix(Part):
    """M: which heads of the source reach which head of the values."""

    @abstractmethod
    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """Mixes the source's heads.

        Args:
            x: (B, T, D).
            source: S, (B, T, H, Dh).

        Returns:
            M S, (B, T, H, Dh).
        """

    @abstractmethod
    def coefficients(self, x: Tensor) -> Tensor | float:
        """Computes M.

        Args:
            x: (B, T, D).

        Returns:
            One share for all heads; (H, H); (B, T, H), the diagonal of each token's matrix; or (B, T, H, H).
        """
