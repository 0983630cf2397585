"""Mixes M of the source's heads."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from mgvr_lightning.errors import InputError
from mgvr_lightning.values.declared import Role
from mgvr_lightning.values.initial import Between, Constant, Diagonal
from mgvr_lightning.values.part import Mix, in_fp32
from mgvr_lightning.values.shape import Shape


def mix_heads(matrix: Tensor, source: Tensor) -> Tensor:
    """Σ_j M[..., h, j] · S[..., j] as a sum of products, which compilers fuse into one pointwise kernel.

    Args:
        matrix: M, (H, H) or (B, T, H, H); row h receives, column j gives.
        source: S, (B, T, H, Dh).

    Returns:
        M S, (B, T, H, Dh).
    """
    mixed = matrix[..., 0, None] * source[..., 0:1, :]
    for j in range(1, source.size(-2)):
        mixed = mixed + matrix[..., j, None] * source[..., j : j + 1, :]
    return mixed


class ScalarMix(Mix):
    """Every head receives the same share of its own head of the source.

    Args:
        shape: the sizes to build it from.
        start: the share, or its initial value if it is learned.
        learned: whether it is learned; unbounded.
    """

    replayable: ClassVar[bool] = True

    def __init__(self, shape: Shape, start: float, learned: bool) -> None:
        super().__init__(shape)
        self.start, self.learned = start, learned
        self.coefficient: Tensor
        if learned:
            self.declare("coefficient", (), Constant(start), Role.SOURCE_SCALAR)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """Returns the scaled source, (B, T, H, Dh)."""
        return self.coefficients(x) * source

    def coefficients(self, x: Tensor) -> Tensor | float:
        """Returns the share."""
        return self.coefficient if self.learned else self.start

    def flops(self) -> int:
        """FLOPs per token."""
        return self.shape.kv_heads * self.shape.head_width


class HeadMatrix(Mix):
    """One learned head-by-head matrix for the whole layer.

    Args:
        shape: the sizes to build it from.
        start: the matrix starts as `start` times the identity.
    """

    replayable: ClassVar[bool] = True

    def __init__(self, shape: Shape, start: float) -> None:
        super().__init__(shape)
        self.matrix: Tensor
        self.declare("matrix", (shape.kv_heads, shape.kv_heads), Diagonal(start), Role.SOURCE_SCALAR)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """Returns the mixed source, (B, T, H, Dh)."""
        return mix_heads(self.matrix, source)

    def coefficients(self, x: Tensor) -> Tensor:
        """Returns the matrix, (H, H)."""
        return self.matrix

    def flops(self) -> int:
        """FLOPs per token."""
        return 2 * self.shape.kv_heads**2 * self.shape.head_width


class TokenShare(Mix):
    """One share per token and head of the source's same head, 2 · start · σ(x W); W is zero at the start.

    Source: the form of SATFormer, arXiv 2605.03953, with a sigmoid.

    Args:
        shape: the sizes to build it from.
        start: the initial value of every share.
    """

    def __init__(self, shape: Shape, start: float) -> None:
        super().__init__(shape)
        self.start = start
        self.weight: Tensor
        self.declare("weight", (shape.kv_heads, shape.width), Constant(0.0), Role.TOKEN_DEPENDENT)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """Returns the scaled source, (B, T, H, Dh)."""
        return self.coefficients(x)[..., None] * source

    def coefficients(self, x: Tensor) -> Tensor:
        """Returns the shares, (B, T, H), in fp32 or wider."""
        return 2.0 * self.start * torch.sigmoid(in_fp32(F.linear(x, self.weight)))

    def flops(self) -> int:
        """FLOPs per token."""
        heads = self.shape.kv_heads
        return 2 * self.shape.width * heads + heads * self.shape.head_width


class ChannelShare(Mix):
    """One share per token and head of the source's same head, scale · σ(x[:channels] W) with W ~ U(0, 0.02).

    Source: nanochat's gate of value embeddings, in the form of arXiv 2606.02780.

    Args:
        shape: the sizes to build it from.
        channels: how many of the first channels of x are read.
        scale: the largest share.
    """

    def __init__(self, shape: Shape, channels: int, scale: float) -> None:
        super().__init__(shape)
        if not 0 < channels <= shape.width:
            raise InputError(
                f"values.mix.channels: {channels}. Expected 1 to {shape.width}, the width of the network."
            )
        self.channels, self.scale = channels, scale
        self.weight: Tensor
        self.declare("weight", (shape.kv_heads, channels), Between(0.0, 0.02), Role.TOKEN_DEPENDENT)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """Returns the scaled source, (B, T, H, Dh)."""
        return self.coefficients(x)[..., None] * source

    def coefficients(self, x: Tensor) -> Tensor:
        """Returns the shares, (B, T, H), in fp32 or wider."""
        return self.scale * torch.sigmoid(in_fp32(F.linear(x[..., : self.channels], self.weight)))

    def flops(self) -> int:
        """FLOPs per token."""
        heads = self.shape.kv_heads
        return 2 * self.channels * heads + heads * self.shape.head_width


class TokenMatrix(Mix):
    """One head-by-head matrix per token, M = start · I + x W with W zero at the start.

    Source: Multi-head Gated Value Residuals, reconstructed from its abstract; see docs/method.md.

    Args:
        shape: the sizes to build it from.
        start: every matrix starts as `start` times the identity.
        static: whether that starting matrix is learned too.
    """

    def __init__(self, shape: Shape, start: float, static: bool = False) -> None:
        super().__init__(shape)
        self.start, self.static = start, static
        self.weight: Tensor
        self.matrix: Tensor
        heads = shape.kv_heads
        self.declare("weight", (heads * heads, shape.width), Constant(0.0), Role.TOKEN_DEPENDENT)
        if static:
            self.declare("matrix", (heads, heads), Diagonal(start), Role.SOURCE_SCALAR)

    def coefficients(self, x: Tensor) -> Tensor:
        """Returns M of every token, (B, T, H, H), in fp32 or wider."""
        heads = self.shape.kv_heads
        logits = in_fp32(F.linear(x, self.weight))  # (B, T, H·H)
        if self.static:
            base = self.matrix
        else:
            base = self.start * torch.eye(heads, dtype=logits.dtype, device=logits.device)
        return base + logits.view(*logits.shape[:-1], heads, heads)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """Returns the mixed source, (B, T, H, Dh)."""
        return mix_heads(self.coefficients(x), source)

    def flops(self) -> int:
        """FLOPs per token."""
        heads = self.shape.kv_heads
        return 2 * self.shape.width * heads**2 + 2 * heads**2 * self.shape.head_width
