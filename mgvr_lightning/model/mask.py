"""Which tokens see which: boolean masks, true where one token sees another."""

import torch
from torch import Tensor


def causal_mask(new: int, total: int, device: torch.device) -> Tensor:
    """(T, S) mask of the last `new` of `total` tokens: each sees itself and those before it."""
    return torch.ones(new, total, dtype=torch.bool, device=device).tril(total - new)


def window_mask(new: int, total: int, window: int, device: torch.device) -> Tensor:
    """(T, S) mask of the last `new` of `total` tokens: each sees itself and the `window` before it."""
    return causal_mask(new, total, device).triu(total - new - window)


def attention_mask(ids: Tensor, new: int, separator: int | None, window: int | None) -> Tensor | None:
    """What the last tokens see.

    Args:
        ids: (B, S) all tokens so far.
        new: T, how many of the tokens, the last ones, are to see.
        separator: id of the token that begins each document, if no token is to see another document's.
        window: tokens before itself that a token sees; None for all of them.

    Returns:
        (B, 1, T, S) or (T, S); None where each sees all up to itself.
    """
    masks = []
    if separator is not None:
        masks.append(document_mask(ids, separator, new))
    if window is not None and window < ids.size(1) - 1:
        masks.append(window_mask(new, ids.size(1), window, ids.device))
    return None if not masks else masks[0] if len(masks) == 1 else masks[0] & masks[1]


def document_mask(ids: Tensor, separator: int, new: int) -> Tensor:
    """Mask of tokens that see themselves and those before them in their own document.

    Args:
        ids: (B, S) all tokens so far.
        separator: id of the token that begins each document.
        new: T, how many of the tokens, the last ones, are to see.

    Returns:
        (B, 1, T, S); the same for every head.
    """
    documents = (ids == separator).cumsum(-1)
    same = documents[:, -new:, None] == documents[:, None, :]
    # GPUs compute all of the products and mask them; FlexAttention would skip blocks that no token sees.
    return (same & causal_mask(new, ids.size(1), ids.device))[:, None]
