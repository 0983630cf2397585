"""Means over target tokens: sums in float64 and int64, added up over batches and ranks, divided last."""

import math
from inspect import signature

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection


class Ratio(Metric):
    """A sum divided by a count, both totals over what was seen; NaN if nothing was."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        """The mean."""
        return self.total / self.count


class TokenMean(Ratio):
    """A mean over target tokens."""

    def update(self, nll: Tensor, correct: Tensor, scored: Tensor, bytes: Tensor) -> None:
        """Adds a batch.

        Args:
            nll: (B, T) negative log likelihood of each target, nats.
            correct: (B, T) bool, whether the target was the most likely token.
            scored: (B, T) bool, whether the position is scored.
            bytes: (B, T) bytes of text that each target stands for; 0 for control tokens.
        """
        self.total += (nll.double() * scored).sum()
        self.count += scored.sum()


class NatsPerToken(TokenMean):
    """Mean negative log likelihood per target token, nats."""


class Perplexity(TokenMean):
    """exp of the nats per target token."""

    def compute(self) -> Tensor:
        """Perplexity."""
        return super().compute().exp()


class TokenAccuracy(TokenMean):
    """Share of targets that were the most likely token."""

    def update(self, nll: Tensor, correct: Tensor, scored: Tensor, bytes: Tensor) -> None:
        """Adds a batch; see TokenMean."""
        self.total += (correct & scored).sum()
        self.count += scored.sum()


class BitsPerByte(TokenMean):
    """Bits per byte of text; control tokens count on neither side. Independent of the tokenizer."""

    def update(self, nll: Tensor, correct: Tensor, scored: Tensor, bytes: Tensor) -> None:
        """Adds a batch; see TokenMean."""
        text = scored & (bytes > 0)
        self.total += (nll.double() * text).sum()
        self.count += (bytes * text).sum()

    def compute(self) -> Tensor:
        """Bits per byte; NaN if there was no text."""
        return super().compute() / math.log(2)


def metric_device(device: torch.device) -> torch.device:
    """Where sums in float64 are kept: on the device, but for Apple's, which has no float64."""
    return torch.device("cpu") if device.type == "mps" else device


def collection(prefix: str, metrics: dict[str, Metric]) -> MetricCollection:
    """Metrics under `prefix`; each is given those named arguments alone that its `update` has."""
    return MetricCollection(metrics, prefix=prefix, compute_groups=False)  # type: ignore[arg-type]


def asks_for(metrics: MetricCollection, argument: str) -> bool:
    """Whether any of the metrics takes an argument."""
    return any(argument in signature(metric.update).parameters for metric in metrics.values())


def language_metrics(prefix: str, text: bool) -> MetricCollection:
    """Loss, perplexity and accuracy under `prefix`, and bits per byte for text."""
    metrics: dict[str, Metric] = {
        "loss": NatsPerToken(),
        "perplexity": Perplexity(),
        "accuracy": TokenAccuracy(),
    }
    if text:
        metrics["bits_per_byte"] = BitsPerByte()
    return collection(prefix, metrics)
