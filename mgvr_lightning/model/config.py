"""The shape of the Transformer around the value paths."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from mgvr_lightning.errors import InputError
from mgvr_lightning.values import Shape

MLPName = Literal["squared_relu", "swiglu"]
MLPS: tuple[str, ...] = get_args(MLPName)
POSITIVE = (
    *("width", "layers", "heads", "kv_heads", "mlp_width", "rotary_base", "softcap"),
    *("window", "qk_scale", "embedding_std", "head_std", "mlp_scale"),
)
"""Options that must be positive and finite."""


@dataclass
class TransformerConfig:
    """A decoder-only Transformer: RMSNorm without gain, rotary embeddings, causal attention, no biases.

    Args:
        width: D, channels of the residual stream.
        layers: number of blocks.
        heads: query heads; must divide the width.
        kv_heads: key-value heads; must divide the query heads. Null for as many as query heads.
        mlp: squared_relu (W₂ relu(W₁ x)²) or swiglu (W₂ (silu(W₁ x) ⊙ W₃ x)).
        mlp_width: hidden channels of the MLP. Null for 4·width, and for swiglu for the multiple of 64
            nearest to ⅔ of that, which costs the same.
        qk_norm: whether queries and keys are RMS-normalised per head, after the rotation.
        rotary_base: base of the rotary frequencies.
        tied: whether the head shares the embedding's weights.
        softcap: c in logits ← c·tanh(logits/c); null for none.
        windows: which layers see the whole context (L) and which a window of it (S), as a pattern that is
            repeated over the layers. The last layer sees the whole context whatever the pattern says.
        window: tokens before itself that a token sees in the layers S, as FlashAttention counts them.
        qk_scale: factor of normalised queries and keys.
        embedding_std: standard deviation of the embedding at the start.
        head_std: standard deviation of the head at the start.
        mlp_scale: factor of the MLP's first matrices at the start.
        zero_outputs: whether the matrices that write to the residual stream start at zero.
    """

    width: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int | None = None
    mlp: MLPName = "squared_relu"
    mlp_width: int | None = None
    qk_norm: bool = True
    rotary_base: float = 10_000.0
    tied: bool = False
    softcap: float | None = None
    windows: str = "L"
    window: int | None = None
    qk_scale: float = 1.0
    embedding_std: float = 0.02
    head_std: float = 0.02
    mlp_scale: float = 1.0
    zero_outputs: bool = False

    def __post_init__(self) -> None:
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"network.{name}: {value} is not a positive, finite number.")
        if self.mlp not in MLPS:
            raise InputError(f"network.mlp: no MLP named {self.mlp!r}. Expected one of {', '.join(MLPS)}.")
        if self.width % self.heads or self.head_width % 2:
            fits = [heads for heads in range(1, self.width // 2 + 1) if self.width % (2 * heads) == 0]
            near = sorted(sorted(fits, key=lambda heads: abs(heads - self.heads))[:3])
            hint = f"Nearest that do: {near}." if near else "Choose an even width."
            raise InputError(
                f"network.heads: {self.heads} heads don't divide width {self.width} into an even number of "
                f"channels each, which rotary embeddings need. {hint}"
            )
        if self.heads % self.key_value_heads:
            fits = [heads for heads in range(1, self.heads + 1) if self.heads % heads == 0]
            raise InputError(
                f"network.kv_heads: {self.kv_heads} doesn't divide heads ({self.heads}). These do: {fits}."
            )
        if not self.windows or set(self.windows) - {"L", "S"}:
            raise InputError(
                f"network.windows: {self.windows!r}. Expected a pattern of L (whole context) and S (window)."
            )
        if "S" in self.windows and self.window is None:
            raise InputError(
                "network.window: not set, but network.windows has S. Expected a number of tokens."
            )
        if self.qk_scale != 1 and not self.qk_norm:
            raise InputError("network.qk_scale: scales normalised queries and keys. Set network.qk_norm too.")

    @property
    def head_width(self) -> int:
        """Channels of one head."""
        return self.width // self.heads

    @property
    def key_value_heads(self) -> int:
        """H, the number of key-value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def hidden_width(self) -> int:
        """Hidden channels of the MLP."""
        if self.mlp_width is not None:
            return self.mlp_width
        return 4 * self.width if self.mlp == "squared_relu" else 64 * max(1, round(8 * self.width / 3 / 64))

    def window_of(self, layer: int) -> int | None:
        """Tokens before itself that a token sees in a layer; None for all of them."""
        short = self.windows[layer % len(self.windows)] == "S" and layer < self.layers - 1
        return self.window if short else None

    def shapes(self, vocabulary: int) -> list[Shape]:
        """Shapes of the value paths, one per layer."""
        return [
            Shape(self.width, self.key_value_heads, self.head_width, layer, self.layers, vocabulary)
            for layer in range(self.layers)
        ]
