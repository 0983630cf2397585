"""The key-value cache."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mgvr_lightning.values import Identity


class Cache:
    """Keys of every layer, values of the layers that can't replay them, and the token ids once.

    A layer whose values follow from the token ids and the first values alone stores none: it computes them
    anew from those, for the whole past.

    Args:
        replayable: for each layer, whether its values can be replayed.
        batch: B, sequences decoded at once.
        capacity: the most tokens of a sequence.
        kv_heads: H.
        head_width: Dh.
        dtype: of keys and values.
        device: where it lives.
    """

    def __init__(
        self,
        replayable: Sequence[bool],
        batch: int,
        capacity: int,
        kv_heads: int,
        head_width: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        size = (batch, capacity, kv_heads, head_width)
        self.length = 0
        self.capacity = capacity
        self.ids = torch.zeros((batch, capacity), dtype=torch.int32, device=device)
        self.keys = [torch.zeros(size, dtype=dtype, device=device) for _ in replayable]
        self.values = [
            None if skip else torch.zeros_like(key) for skip, key in zip(replayable, self.keys, strict=True)
        ]

    @property
    def bytes(self) -> int:
        """Bytes that the cache holds."""
        tensors = [self.ids, *self.keys, *(values for values in self.values if values is not None)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def extend(self, ids: Tensor) -> None:
        """Takes in the ids of new tokens, (B, T), before their keys and values."""
        end = self.length + ids.size(1)
        assert end <= self.capacity, f"the cache holds {self.capacity} tokens, asked for {end}"
        self.ids[:, self.length : end] = ids
        self.length = end

    def keys_with(self, layer: int, new: Tensor) -> Tensor:
        """Stores the keys of the new tokens, (B, T, H, Dh), and returns those of all tokens so far."""
        return self._append(self.keys[layer], new)

    def values_with(self, layer: int, new: Tensor) -> Tensor:
        """Stores the values of the new tokens, (B, T, H, Dh), and returns those of all tokens so far."""
        values = self.values[layer]
        assert values is not None, f"layer {layer} replays its values"
        return self._append(values, new)

    def history(self) -> Identity:
        """What is known about all tokens so far; layer 0's values are complete once layer 0 has run."""
        first = self.values[0]
        return Identity(self.ids[:, : self.length], None, None if first is None else first[:, : self.length])

    def repeated(self, batch: int, capacity: int) -> "Cache":
        """A cache of `batch` sequences with what the one sequence of this one holds, and room to go on."""
        assert self.ids.size(0) == 1
        skipped = [values is None for values in self.values]
        _, _, heads, head_width = self.keys[0].shape
        like = self.keys[0]
        other = Cache(skipped, batch, capacity, heads, head_width, like.dtype, like.device)
        other.length = self.length
        pairs = [(self.ids, other.ids), *zip(self.keys, other.keys, strict=True)]
        for ours, theirs in zip(self.values, other.values, strict=True):
            if ours is not None and theirs is not None:
                pairs.append((ours, theirs))
        for ours, theirs in pairs:
            theirs[:, : self.length] = ours[:, : self.length]
        return other

    def _append(self, store: Tensor, new: Tensor) -> Tensor:
        store[:, self.length - new.size(1) : self.length] = new
        return store[:, : self.length]
