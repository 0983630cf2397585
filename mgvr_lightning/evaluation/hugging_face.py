"""Causal language models of `transformers`."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from mgvr_lightning.errors import InputError
from mgvr_lightning.evaluation.language_model import LanguageModel


class HuggingFace(LanguageModel):
    """A causal language model of `transformers`.

    Args:
        model: the model, in evaluation on its device.
        tokenizer: its tokenizer.
        context: the most tokens of a sequence; None for what the model's configuration says.
        name: for reports.
    """

    def __init__(self, model: Any, tokenizer: Any, context: int | None, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.context = context or getattr(model.config, "max_position_embeddings", None)
        self.device = model.device
        self.start = next(
            ([token] for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None),
            [],
        )

    def encode(self, text: str) -> list[int]:
        """Ids of a text behind the token that begins a text, or else the one that ends it."""
        return [*self.start, *self.tokenizer.encode(text, add_special_tokens=False)]

    def remember(self, ids: Tensor) -> Any:
        """Runs what several sequences have in common; see LanguageModel."""
        return self.model(ids, use_cache=True, logits_to_keep=1).past_key_values

    def repeated(self, past: Any, sequences: int, room: int) -> Any:
        """A past of several sequences; see LanguageModel."""
        copy = deepcopy(past)
        copy.batch_repeat_interleave(sequences)
        return copy

    def logits(self, ids: Tensor, past: Any, wanted: Tensor) -> Tensor:
        """The logits asked for; see LanguageModel."""
        first = int(wanted.any(0).nonzero()[0])
        kept = ids.size(1) - first
        logits = self.model(ids, past_key_values=past, use_cache=past is not None, logits_to_keep=kept).logits
        chosen: Tensor = logits[:, -kept:][wanted[:, first:]]
        return chosen.to(torch.promote_types(chosen.dtype, torch.float32))


def load_hugging_face(name: str, device: torch.device, context: int | None = None) -> HuggingFace:
    """A model by its name on the hub, or its folder.

    Raises:
        InputError: `transformers` isn't installed, or can't load it.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415  (an optional extra)
    except ImportError as error:
        raise InputError(
            "hf: needs transformers, which isn't installed. Install the extra: "
            "pip install -c constraints.txt -e '.[evaluation]'"
        ) from error
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(f"hf: transformers can't load {name!r} ({error}).") from error
    return HuggingFace(model.eval().to(device), tokenizer, context, name)
