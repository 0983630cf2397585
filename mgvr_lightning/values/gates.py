"""Gates a on a layer's own values."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from mgvr_lightning.values.declared import Role
from mgvr_lightning.values.initial import Constant
from mgvr_lightning.values.part import Gate, in_fp32
from mgvr_lightning.values.shape import Shape


class Replace(Gate):
    """No own values: the source replaces them, and W_V isn't built unless the source projects.

    Args:
        shape: the sizes to build it from.
    """

    projects: ClassVar[bool] = False
    replayable: ClassVar[bool] = True

    def forward(self, x: Tensor) -> None:
        """Returns None."""
        return

    def flops(self) -> int:
        """FLOPs per token."""
        return 0


class ScalarGate(Gate):
    """One coefficient for the whole layer.

    Args:
        shape: the sizes to build it from.
        start: its value, or its initial value if it is learned.
        learned: whether it is learned; unbounded.
    """

    def __init__(self, shape: Shape, start: float, learned: bool) -> None:
        super().__init__(shape)
        self.start, self.learned = start, learned
        self.coefficient: Tensor
        if learned:
            self.declare("coefficient", (), Constant(start), Role.OWN_SCALAR)

    def forward(self, x: Tensor) -> Tensor | float:
        """Returns the coefficient."""
        return self.coefficient if self.learned else self.start

    def flops(self) -> int:
        """FLOPs per token."""
        return self.shape.kv_heads * self.shape.head_width


class HeadGate(Gate):
    """One learned coefficient per head.

    Args:
        shape: the sizes to build it from.
        start: the initial value of each.
    """

    def __init__(self, shape: Shape, start: float) -> None:
        super().__init__(shape)
        self.coefficient: Tensor
        self.declare("coefficient", (shape.kv_heads,), Constant(start), Role.OWN_SCALAR)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the coefficients, (H, 1)."""
        return self.coefficient[:, None]

    def flops(self) -> int:
        """FLOPs per token."""
        return self.shape.kv_heads * self.shape.head_width


class TokenGate(Gate):
    """One coefficient per token and head, a = 2 · start · σ(x W) within (0, 2·start); W starts at 0.

    Args:
        shape: the sizes to build it from.
        start: the initial value of every coefficient.
        static: whether `start` is learned too, one number per head.
    """

    def __init__(self, shape: Shape, start: float, static: bool = False) -> None:
        super().__init__(shape)
        self.start, self.static = start, static
        self.weight: Tensor
        self.coefficient: Tensor
        self.declare("weight", (shape.kv_heads, shape.width), Constant(0.0), Role.TOKEN_DEPENDENT)
        if static:
            self.declare("coefficient", (shape.kv_heads,), Constant(start), Role.OWN_SCALAR)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the coefficients, (B, T, H, 1), in fp32 or wider."""
        logits = in_fp32(F.linear(x, self.weight))  # (B, T, H)
        scale = self.coefficient if self.static else self.start
        return (2.0 * scale * torch.sigmoid(logits))[..., None]

    def flops(self) -> int:
        """FLOPs per token."""
        heads = self.shape.kv_heads
        return 2 * self.shape.width * heads + heads * self.shape.head_width
