"""What a part of a value path is built from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The sizes that one layer's value path is built from.

    Args:
        width: D, channels of the residual stream.
        kv_heads: H, key-value heads. Grouped-query attention has fewer of them than query heads; a value
            path never sees the query heads.
        head_width: Dh, channels of one head.
        layer: index of this layer, from 0.
        layers: number of layers in the network.
        vocabulary: number of token ids, padding included.
    """

    width: int
    kv_heads: int
    head_width: int
    layer: int
    layers: int
    vocabulary: int
