"""The MLPs."""

import torch.nn.functional as F
from torch import Tensor, nn

from mgvr_lightning.model.config import TransformerConfig
from mgvr_lightning.model.layers import Linear, output_initial
from mgvr_lightning.values import Uniform


class SquaredReLU(nn.Module):
    """W₂ relu(W₁ x)². Source: Primer, arXiv 2109.08668.

    Args:
        config: the network's shape.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden_width
        self.up = Linear(width, hidden, Uniform(config.mlp_scale * width**-0.5))
        self.down = Linear(hidden, width, output_initial(config, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, T, D) to (B, T, D)."""
        down: Tensor = self.down(F.relu(self.up(x)).square())
        return down


class SwiGLU(nn.Module):
    """W₂ (silu(W₁ x) ⊙ W₃ x). Source: GLU Variants Improve Transformer, arXiv 2002.05202.

    Args:
        config: the network's shape.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden_width
        self.gate = Linear(width, hidden, Uniform(config.mlp_scale * width**-0.5))
        self.up = Linear(width, hidden, Uniform(config.mlp_scale * width**-0.5))
        self.down = Linear(hidden, width, output_initial(config, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, T, D) to (B, T, D)."""
        down: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return down


MLPS = {"squared_relu": SquaredReLU, "swiglu": SwiGLU}
