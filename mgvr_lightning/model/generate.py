"""Text generation with the key-value cache."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mgvr_lightning.errors import InputError
from mgvr_lightning.model.transformer import Transformer


@dataclass
class Sampling:
    """How the next token is chosen.

    Args:
        temperature: divides the logits; 0 for the most likely token.
        top_k: keep the k most likely tokens; null for all.
        top_p: keep the fewest most likely tokens whose probabilities sum to p; 1 for all.
        seed: of the draws.
    """

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise InputError(f"temperature: {self.temperature}. Expected 0 (most likely token) or more.")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k: {self.top_k} keeps no token. Expected 1 or more, or null for all.")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p: {self.top_p} is outside (0, 1].")


def next_token(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """Chooses one token per row.

    Args:
        logits: (B, V).
        sampling: how to choose.
        generator: a CPU generator, for draws that don't depend on the device.

    Returns:
        (B,) ids.
    """
    if sampling.temperature == 0:
        return logits.argmax(-1)
    device = logits.device
    logits, order = torch.sort(logits.cpu().double(), stable=True, dim=-1, descending=True)
    logits = (logits - logits[:, :1]) / sampling.temperature
    if sampling.top_k is not None:
        logits[:, sampling.top_k :] = -torch.inf
    probability = logits.softmax(-1)
    if sampling.top_p < 1:
        before = probability.cumsum(-1) - probability  # mass of the likelier tokens
        probability = probability.masked_fill(before >= sampling.top_p, 0.0)
    drawn = torch.multinomial(probability, 1, generator=generator)
    return order.gather(-1, drawn)[:, 0].to(device)


@torch.inference_mode()
def generate(
    network: Transformer, prompt: Tensor, count: int, sampling: Sampling, vocabulary: int | None = None
) -> Iterator[Tensor]:
    """Continues prompts of equal length, one token at a time.

    Args:
        network: the network.
        prompt: (B, T) ids, T ≥ 1.
        count: number of tokens to generate.
        sampling: how to choose them.
        vocabulary: ids from here on, the padding of the vocabulary, are never chosen.

    Yields:
        (B,) ids of the next tokens.
    """
    generator = torch.Generator().manual_seed(sampling.seed)
    cache = network.cache(prompt.size(0), prompt.size(1) + count)
    ids = prompt
    for _ in range(count):
        logits = network.logits(ids, cache)[:, -1, :vocabulary]
        token = next_token(logits, sampling, generator)
        yield token
        ids = token[:, None]
