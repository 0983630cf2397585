"""The few layers that everything else is made of."""

import torch
import torch.nn.functional as F
from torch import Tensor

from mgvr_lightning.model.config import TransformerConfig
from mgvr_lightning.values import Constant, Declared, Initial, Role, Uniform


def norm(x: Tensor) -> Tensor:
    """RMSNorm over the last dimension, without gain, in the input's dtype."""
    return F.rms_norm(x, (x.size(-1),)).to(x.dtype)


class Linear(Declared):
    """y = x Wᵀ, without bias.

    Args:
        inputs: channels of x.
        outputs: channels of y.
        initial: how W, (outputs, inputs), starts.
        role: what W is for.
    """

    def __init__(self, inputs: int, outputs: int, initial: Initial, role: Role = Role.MATRIX) -> None:
        super().__init__()
        self.weight: Tensor
        self.declare("weight", (outputs, inputs), initial, role)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (..., inputs) to (..., outputs)."""
        return F.linear(x, self.weight)


def output_initial(config: TransformerConfig, inputs: int) -> Initial:
    """How a matrix starts that writes to the residual stream."""
    return Constant(0.0) if config.zero_outputs else Uniform((2 * config.layers * inputs) ** -0.5)


class Embedding(Declared):
    """Rows of a table by index.

    Args:
        rows: number of rows.
        width: channels of a row.
        initial: how the table, (rows, width), starts.
        role: what the table is for.
    """

    def __init__(self, rows: int, width: int, initial: Initial, role: Role = Role.EMBEDDING) -> None:
        super().__init__()
        self.weight: Tensor
        self.declare("weight", (rows, width), initial, role)

    def forward(self, ids: Tensor) -> Tensor:
        """Maps (...) to (..., width)."""
        return F.embedding(ids, self.weight)


class Rotary:
    """Rotary position embeddings, RoFormer (arXiv 2104.09864), the two halves of a head as pairs.

    Args:
        positions: (T,) positions of the tokens.
        head_width: Dh.
        base: base of the frequencies.
    """

    def __init__(self, positions: Tensor, head_width: int, base: float) -> None:
        wide = (
            torch.float32 if positions.device.type == "mps" else torch.float64
        )  # Apple's GPUs have no float64
        half = torch.arange(0, head_width, 2, device=positions.device, dtype=wide)
        angles = positions[:, None].to(wide) * base ** (-half / head_width)  # (T, Dh/2)
        self.cos = torch.cos(angles)[:, None]  # (T, 1, Dh/2)
        self.sin = torch.sin(angles)[:, None]

    def __call__(self, x: Tensor) -> Tensor:
        """Rotates (B, T, heads, Dh), at least in fp32, and returns it in the input's dtype."""
        wide = torch.promote_types(x.dtype, torch.float32)
        cos, sin = self.cos.to(wide), self.sin.to(wide)
        a, b = x.to(wide).chunk(2, -1)
        return torch.cat((a * cos + b * sin, b * cos - a * sin), -1).to(x.dtype)
