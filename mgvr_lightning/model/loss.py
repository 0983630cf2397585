"""Cross-entropy of a linear head, in chunks: the logits of a few tokens at a time and none kept."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

IGNORE = -100
"""The target of a position that isn't scored."""


class LossSums(NamedTuple):
    """Totals over targets, so that they add up over batches, ranks and micro-batches.

    Attributes:
        nll: () sum of the negative log likelihoods, nats, fp32 or wider; differentiable.
        correct: () int64, targets that were the most likely token.
        targets: () int64, number of targets.
    """

    nll: Tensor
    correct: Tensor
    targets: Tensor


def scored_alone(hidden: Tensor, targets: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Leaves out positions that aren't scored, as far as a fixed shape allows.

    Args:
        hidden: (B, T, D).
        targets: (B, T), IGNORE where nothing is scored.
        most: at least the number of scored targets in any row.

    Returns:
        hidden (B, most, D) and targets (B, most): the scored positions of each row in order, then others.
    """
    places = (targets == IGNORE).to(torch.int8).argsort(dim=1, stable=True)[:, :most]
    index = places[..., None].expand(-1, -1, hidden.size(-1))
    return hidden.gather(1, index), targets.gather(1, places)


def head_logits(hidden: Tensor, weight: Tensor, softcap: float | None) -> Tensor:
    """Logits of a linear head, (..., V), in fp32 or wider."""
    logits = F.linear(hidden, weight)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def token_losses(
    hidden: Tensor, weight: Tensor, targets: Tensor, softcap: float | None, chunk: int
) -> tuple[Tensor, Tensor]:
    """Negative log likelihood of every target and the most likely token in its place, without gradients.

    Args:
        hidden: (N, D).
        weight: (V, D).
        targets: (N,), IGNORE where nothing is scored.
        softcap: c in c·tanh(logits/c), or None.
        chunk: the most tokens whose logits exist at once.

    Returns:
        nll (N,) in nats, 0 where nothing is scored, and predictions (N,), int64.
    """
    nll, predictions = [], []
    for part, target in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        logits = head_logits(part, weight, softcap)
        nll.append(F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="none"))
        predictions.append(logits.argmax(-1))
    return torch.cat(nll), torch.cat(predictions)


class _SummedCrossEntropy(torch.autograd.Function):
    """Computes the gradients along with the loss, while a chunk's logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, softcap: float | None, chunk: int
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(weight.dtype, torch.float32)
        total = hidden.new_zeros((), dtype=wide)
        correct = hidden.new_zeros((), dtype=torch.int64)
        grad_hidden: list[Tensor] = []
        grad_weight = torch.zeros_like(weight)
        for part, target in zip(hidden.split(chunk), targets.split(chunk), strict=True):
            scored = target != IGNORE
            logits = head_logits(part, weight, softcap)  # (n, V)
            log_total = logits.logsumexp(-1, keepdim=True)
            index = torch.where(scored, target, 0)[:, None]
            total = total + ((log_total - logits.gather(-1, index))[:, 0] * scored).sum()
            correct = correct + (logits.argmax(-1) == target).sum()
            grad = torch.exp(logits - log_total)
            is_target = torch.arange(grad.size(-1), device=grad.device) == index
            grad = (grad - is_target.to(wide)) * scored[:, None]
            if softcap is not None:
                grad = grad * (1 - (logits / softcap).square())
            grad = grad.to(part.dtype)
            grad_hidden.append(grad @ weight.to(grad.dtype))
            grad_weight = grad_weight + (grad.T @ part).to(weight.dtype)
        ctx.save_for_backward(torch.cat(grad_hidden), grad_weight)
        ctx.mark_non_differentiable(correct)
        return total, correct

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        total = grads[0]
        return grad_hidden * total.to(grad_hidden.dtype), grad_weight * total, None, None, None


def summed_loss(
    hidden: Tensor, weight: Tensor, targets: Tensor, softcap: float | None, chunk: int
) -> LossSums:
    """Summed cross-entropy of a linear head; see `token_losses` for the arguments."""
    if torch.is_autocast_enabled(hidden.device.type):
        hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    nll, correct = _SummedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, softcap, chunk
    )
    return LossSums(nll, correct, (targets != IGNORE).sum())
