"""What evaluation asks of a language model."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Scores(NamedTuple):
    """The scored tokens of a sequence: (N,) nats of each, and (N,) whether it was the likeliest."""

    nats: Tensor
    likeliest: Tensor


class LanguageModel(ABC):
    """A causal language model and its tokenizer.

    Attributes:
        name: for reports.
        context: the most tokens of a sequence; None for no limit.
        device: where token ids go.
    """

    name: str
    context: int | None
    device: torch.device

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids of a text, behind the token that begins a document, if the model has one."""

    @abstractmethod
    def remember(self, ids: Tensor) -> Any:
        """Runs what several sequences have in common, (1, T), and returns it as a past."""

    @abstractmethod
    def repeated(self, past: Any, sequences: int, room: int) -> Any:
        """A past of several sequences from that of one, which stays as it is.

        Args:
            past: what `remember` returned.
            sequences: B, how many go on from there.
            room: tokens that each adds at most.

        Returns:
            The past of B sequences, to be given to `logits` once.
        """

    @abstractmethod
    def logits(self, ids: Tensor, past: Any, wanted: Tensor) -> Tensor:
        """(N, V) logits, in fp32 or wider, where `wanted`, (B, T), is true.

        Args:
            ids: (B, T) tokens behind the past.
            past: what `repeated` returned; None for nothing.
            wanted: (B, T).
        """

    @torch.inference_mode()
    def score(self, sequences: list[list[int]], scored: list[int], batch: int) -> list[Scores]:
        """Scores the last tokens of sequences; what all have in common is run once.

        Args:
            sequences: two tokens or more in each, and no more than the context.
            scored: how many of the last tokens of each are scored, at least one and all but one at most.
            batch: the most sequences that are run at once.
        """
        # the last shared token is run again in each: it predicts the first token of its own
        last = min(len(ids) - count for ids, count in zip(sequences, scored, strict=True)) - 1
        first = sequences[0]
        shared = next((i for i in range(last) if any(ids[i] != first[i] for ids in sequences)), last)
        past = self.remember(torch.tensor([first[:shared]], device=self.device)) if shared else None
        scores: list[Scores] = []
        for start in range(0, len(sequences), batch):
            part, counts = sequences[start : start + batch], scored[start : start + batch]
            longest = max(map(len, part)) - shared
            own = None if past is None else self.repeated(past, len(part), longest)
            ids = torch.zeros(len(part), longest, dtype=torch.int64)
            for row, sequence in zip(ids, part, strict=True):
                row[: len(sequence) - shared] = torch.tensor(sequence[shared:])
            scores += self._scores(ids.to(self.device), [len(one) - shared for one in part], counts, own)
        return scores

    def _scores(self, ids: Tensor, lengths: list[int], counts: list[int], past: Any) -> list[Scores]:
        places = torch.arange(ids.size(1), device=ids.device)
        ends = torch.tensor(lengths, device=ids.device)[:, None]
        starts = ends - torch.tensor(counts, device=ids.device)[:, None]
        wanted = (places >= starts - 1) & (places < ends - 1)
        targets = ids[:, 1:][wanted[:, :-1]]
        logits = self.logits(ids, past, wanted)
        nats = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        right = logits.argmax(-1) == targets
        return [Scores(*pair) for pair in zip(nats.split(counts), right.split(counts), strict=True)]
