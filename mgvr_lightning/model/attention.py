"""Causal attention around a value path."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgvr_lightning.model.cache import Cache
from mgvr_lightning.model.config import TransformerConfig
from mgvr_lightning.model.layers import Linear, Rotary, norm, output_initial
from mgvr_lightning.model.mask import causal_mask
from mgvr_lightning.values import Identity, OwnValues, Uniform, ValuePath


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax attention.

    Args:
        query: (B, T, Hq, Dh), the last T of the keys' tokens.
        key: (B, S, H, Dh) with S ≥ T.
        value: (B, S, H, Dh).
        mask: (B, 1, T, S) or (T, S), true where a token sees another; None where it sees all up to itself.

    Returns:
        (B, T, Hq, Dh).
    """
    new, total = query.size(1), key.size(1)
    causal = mask is None and new == total
    if mask is not None:
        # beside a mask, fused kernels on GPUs take no grouped heads
        key, value = ungrouped(key, query.size(2)), ungrouped(value, query.size(2))
    elif 1 < new < total:
        mask = causal_mask(new, total, query.device)
    out = F.scaled_dot_product_attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        attn_mask=mask,
        is_causal=causal,
        enable_gqa=query.size(2) != key.size(2),
    )
    return out.transpose(1, 2)


def attention_map(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """The weights that `attend` gives the values, (B, Hq, T, S), written out, in fp32 or wider."""
    wide = torch.promote_types(query.dtype, torch.float32)
    if mask is None:
        mask = causal_mask(query.size(1), key.size(1), query.device)
    with torch.autocast(query.device.type, enabled=False):
        keys = ungrouped(key, query.size(2)).to(wide)
        scores = torch.einsum("bthd,bshd->bhts", query.to(wide), keys) / math.sqrt(query.size(-1))
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def ungrouped(x: Tensor, heads: int) -> Tensor:
    """Keys or values, (B, S, H, Dh), as often as query heads read them, (B, S, Hq, Dh)."""
    return x if x.size(2) == heads else x.repeat_interleave(heads // x.size(2), 2)


class Attention(nn.Module):
    """Owns W_Q, W_K, W_O and the value path, and W_V if some part of the path applies it.

    Args:
        config: the network's shape.
        layer: index of the layer, from 0.
        path: the layer's value path.
    """

    def __init__(self, config: TransformerConfig, layer: int, path: ValuePath | OwnValues) -> None:
        super().__init__()
        width, self.head_width, self.layer = config.width, config.head_width, layer
        self.qk_norm, self.qk_scale = config.qk_norm, config.qk_scale
        self.window = config.window_of(layer)
        kv_width = config.key_value_heads * config.head_width
        self.query = Linear(width, width, Uniform(width**-0.5))
        self.key = Linear(width, kv_width, Uniform(width**-0.5))
        self.value = Linear(width, kv_width, value_initial(config)) if path.projections else None
        self.output = Linear(width, width, output_initial(config, width))
        self.path = path

    def project(self, x: Tensor) -> Tensor:
        """W_V, as it is lent to the value path: (B, T, D) → (B, T, H, Dh)."""
        assert self.value is not None, "no part of this value path declares that it projects"
        return self._heads(self.value(x))

    def forward(
        self,
        x: Tensor,
        identity: Identity,
        rotary: Rotary,
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attends.

        Args:
            x: (B, T, D) the normalised residual stream.
            identity: what is known about these tokens.
            rotary: the rotation at their positions.
            mask: (B, 1, T, S) or (T, S), which tokens they see; None for all up to themselves.
            cache: the past, if there is one; extended in place.

        Returns:
            The output, (B, T, D), and V' of these tokens (of all tokens where the cache replays them).
        """
        query, key = self.query_and_key(x, rotary)
        replay = cache is not None and self.path.replayable
        known = cache.history() if cache is not None and replay else identity
        value = self.path(x, known, self.project).to(key.dtype)
        keys, values = key, value
        if cache is not None:
            keys = cache.keys_with(self.layer, key)
            values = value if replay else cache.values_with(self.layer, value)
        return self.output(attend(query, keys, values, mask).flatten(2)), value

    def query_and_key(self, x: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """What is compared: (B, T, Hq, Dh) and (B, T, H, Dh); see `forward` for the arguments."""
        query, key = rotary(self._heads(self.query(x))), rotary(self._heads(self.key(x)))
        if not self.qk_norm:
            return query, key
        query, key = norm(query), norm(key)
        return (query, key) if self.qk_scale == 1 else (self.qk_scale * query, self.qk_scale * key)

    def flops(self, context: int) -> int:
        """FLOPs of a forward pass per token at a context of `context` tokens.

        Counted as in arXiv 2606.02780: as if every token saw the whole context, or `window` tokens of it.
        """
        linears = [self.query, self.key, self.output]
        projections = 0 if self.value is None else self.path.projections * self.value.weight.numel()
        seen = context if self.window is None else min(self.window, context)
        products = 2 * seen * self.query.weight.size(0)
        return (
            2 * (sum(linear.weight.numel() for linear in linears) + projections + products)
            + self.path.flops()
        )

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_width)


def value_initial(config: TransformerConfig) -> Uniform:
    """How W_V starts, in every layer."""
    return Uniform(config.width**-0.5)
