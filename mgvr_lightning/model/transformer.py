"""A decoder-only Transformer whose layers differ in nothing but their value path.

Shapes: B batch, T tokens, D width, H key-value heads, Hq query heads, Dh head width, V vocabulary.
"""

from typing import cast

import torch
from torch import Tensor, nn

from mgvr_lightning.model.attention import Attention, attention_map
from mgvr_lightning.model.cache import Cache
from mgvr_lightning.model.config import TransformerConfig
from mgvr_lightning.model.layers import Embedding, Linear, Rotary, norm
from mgvr_lightning.model.loss import LossSums, head_logits, scored_alone, summed_loss, token_losses
from mgvr_lightning.model.mask import attention_mask
from mgvr_lightning.model.mlp import MLPS
from mgvr_lightning.values import Identity, Normal, OwnValues, Role, ValuePath, ValueSpec


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)).

    Args:
        config: the network's shape.
        layer: index of the layer, from 0.
        path: the layer's value path.
    """

    def __init__(self, config: TransformerConfig, layer: int, path: ValuePath | OwnValues) -> None:
        super().__init__()
        self.attention = Attention(config, layer, path)
        self.mlp = MLPS[config.mlp](config)

    def forward(
        self,
        x: Tensor,
        identity: Identity,
        rotary: Rotary,
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Returns the residual stream after the block, (B, T, D), and its values V' (see Attention)."""
        attended, values = self.attention(norm(x), identity, rotary, mask, cache)
        x = x + attended
        return x + self.mlp(norm(x)), values


class Transformer(nn.Module):
    """The network.

    Args:
        config: its shape.
        values: its value paths.
        vocabulary: V, number of token ids, padding included.
        chunk: the most tokens whose logits exist at once in the loss.
        separator: id of the token that begins each document, if no token is to see another document's.
            Positions go on across documents: rotations depend on distances alone.

    Attributes:
        most_scored: the most targets of a row that are scored, if that is known; the loss then computes no
            logits elsewhere. The result is the same but for rounding.
    """

    def __init__(
        self,
        config: TransformerConfig,
        values: ValueSpec,
        vocabulary: int,
        chunk: int = 2048,
        separator: int | None = None,
    ) -> None:
        super().__init__()
        self.config, self.vocabulary, self.chunk, self.separator = config, vocabulary, chunk, separator
        self.most_scored: int | None = None
        paths = values.build(config.shapes(vocabulary))
        self.embedding = Embedding(vocabulary, config.width, Normal(config.embedding_std))
        self.blocks = nn.ModuleList(Block(config, layer, path) for layer, path in enumerate(paths))
        self.head = (
            None if config.tied else Linear(config.width, vocabulary, Normal(config.head_std), Role.HEAD)
        )

    @property
    def layers(self) -> list[Block]:
        """The blocks, typed."""
        return cast(list[Block], list(self.blocks))

    @property
    def paths(self) -> list[ValuePath | OwnValues]:
        """The value path of every layer."""
        return [block.attention.path for block in self.layers]

    @property
    def head_weight(self) -> Tensor:
        """(V, D) the head's weights."""
        return self.embedding.weight if self.head is None else self.head.weight

    def forward(self, ids: Tensor, targets: Tensor) -> LossSums:
        """Loss totals of a batch.

        Args:
            ids: (B, T).
            targets: (B, T), the token after each; IGNORE where nothing is scored.
        """
        hidden = self.hidden(ids)
        if self.most_scored is not None and self.most_scored < targets.size(1):
            hidden, targets = scored_alone(hidden, targets, self.most_scored)
        return summed_loss(
            hidden.flatten(0, 1), self.head_weight, targets.flatten(), self.config.softcap, self.chunk
        )

    def token_losses(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Per-token nats (B, T) and the most likely token in each target's place (B, T); no gradients."""
        hidden = self.hidden(ids).flatten(0, 1)
        nll, predictions = token_losses(
            hidden, self.head_weight, targets.flatten(), self.config.softcap, self.chunk
        )
        return nll.view_as(targets), predictions.view_as(targets)

    def logits(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """(B, T, V) logits, in fp32 or wider.

        Args:
            ids: (B, T) tokens; with a cache, those that follow the ones it holds.
            cache: the past; extended in place.
        """
        return head_logits(self.hidden(ids, cache), self.head_weight, self.config.softcap)

    @torch.no_grad()
    def attention_maps(self, ids: Tensor) -> Tensor:
        """(L, B, Hq, T, T) attention weights of every layer and query head, in fp32 or wider; no gradients.

        Args:
            ids: (B, T); T² weights per head are kept, so few tokens.
        """
        maps: list[Tensor] = []

        def keep(layer: Attention, given: tuple[Tensor, Identity, Rotary, Tensor | None, None]) -> None:
            x, _, rotary, mask, _ = given
            maps.append(attention_map(*layer.query_and_key(x, rotary), mask))

        hooks = [block.attention.register_forward_pre_hook(keep) for block in self.layers]
        try:
            self.hidden(ids)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.stack(maps)

    def hidden(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """(B, T, D) the normalised residual stream after the last block."""
        start = 0 if cache is None else cache.length
        positions = torch.arange(start, start + ids.size(1), device=ids.device)
        rotary = Rotary(positions, self.config.head_width, self.config.rotary_base)
        if cache is not None:
            cache.extend(ids)
        past = ids if cache is None else cache.history().ids
        masks = {
            window: attention_mask(past, ids.size(1), self.separator, window)
            for window in {block.attention.window for block in self.layers}
        }
        x = norm(self.embedding(ids))
        identity = Identity(ids, x0=norm(x))
        for block in self.layers:
            x, values = block(x, identity, rotary, masks[block.attention.window], cache)
            if identity.first is None:
                identity = identity._replace(first=values)
        return norm(x)

    def cache(self, batch: int, capacity: int, dtype: torch.dtype | None = None) -> Cache:
        """An empty key-value cache for `batch` sequences of at most `capacity` tokens."""
        weight = self.embedding.weight
        replayable = [path.replayable for path in self.paths]
        heads, head_width = self.config.key_value_heads, self.config.head_width
        return Cache(replayable, batch, capacity, heads, head_width, dtype or weight.dtype, weight.device)

    def flops_per_token(self, context: int) -> int:
        """Training FLOPs per token: three times the forward pass's (PaLM, arXiv 2204.02311, appendix B).

        A multiply-add is 2 FLOPs; each product of attention counts the whole context or the layer's window,
        causal or not, of one document or several; normalisations, rotations and softmax aren't counted.

        Args:
            context: tokens of a window.
        """
        mlps = sum(weight.numel() for block in self.layers for weight in block.mlp.parameters())
        attention = sum(block.attention.flops(context) for block in self.layers)
        return 3 * (2 * (mlps + self.head_weight.numel()) + attention)
