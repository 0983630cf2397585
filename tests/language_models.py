"""Tiny language models of both kinds behind a tokenizer of bytes."""

from typing import Any

import torch
from helpers import perturbed, preset, tiny_config
from torch import Tensor

from mgvr_lightning.evaluation.checkpoint import Network
from mgvr_lightning.evaluation.hugging_face import HuggingFace
from mgvr_lightning.evaluation.language_model import LanguageModel
from mgvr_lightning.model import Transformer, initialise

START, VOCABULARY = 256, 257


class Bytes:
    """A tokenizer of bytes, as both kinds of model know one."""

    separator = bos_token_id = eos_token_id = START

    def encode(self, text: str, **_: Any) -> list[int]:
        return list(text.encode())


def ours(name: str = "bank_of_values", context: int = 400) -> Network:
    network = Transformer(tiny_config(kv_heads=2), preset(name), VOCABULARY)
    initialise(network, 0)
    return Network(perturbed(network.double()), Bytes(), context, name)  # type: ignore[arg-type]


def gpt2(context: int = 400) -> HuggingFace:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCABULARY, n_positions=context, n_embd=16, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, dtype=torch.float64))
    return HuggingFace(model, Bytes(), None, "gpt2")


@torch.no_grad()
def naive_logits(model: LanguageModel, ids: list[int]) -> Tensor:
    """(T, V) of one sequence, in one forward pass, without any cache."""
    batch = torch.tensor([ids])
    if isinstance(model, Network):
        return model.network.logits(batch)[0]
    assert isinstance(model, HuggingFace)
    logits: Tensor = model.model(batch).logits[0]
    return logits
