"""This project's checkpoints."""

from pathlib import Path

import torch
from torch import Tensor

from mgvr_lightning.checkpoint import check_checkpoint
from mgvr_lightning.data.parse import parse_data
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.text import Text
from mgvr_lightning.errors import InputError
from mgvr_lightning.evaluation.language_model import LanguageModel
from mgvr_lightning.model import Cache, Transformer
from mgvr_lightning.model.loss import head_logits
from mgvr_lightning.module import LanguageModule


class Network(LanguageModel):
    """A Transformer of this project.

    Args:
        network: the network, in evaluation on its device.
        tokenizer: what made its tokens.
        context: tokens of a window in training.
        name: for reports.
    """

    def __init__(self, network: Transformer, tokenizer: Tokenizer, context: int, name: str) -> None:
        self.network, self.tokenizer, self.context, self.name = network, tokenizer, context, name
        self.device = network.embedding.weight.device

    def encode(self, text: str) -> list[int]:
        """Ids of a text behind the separator, which begins every document."""
        return [self.tokenizer.separator, *self.tokenizer.encode(text)]

    def remember(self, ids: Tensor) -> Cache:
        """Runs what several sequences have in common; see LanguageModel."""
        cache = self.network.cache(1, ids.size(1))
        self.network.hidden(ids, cache)
        return cache

    def repeated(self, past: Cache, sequences: int, room: int) -> Cache:
        """A past of several sequences; see LanguageModel."""
        return past.repeated(sequences, past.length + room)

    def logits(self, ids: Tensor, past: Cache | None, wanted: Tensor) -> Tensor:
        """The logits asked for; see LanguageModel."""
        hidden = self.network.hidden(ids, past)[wanted]
        return head_logits(hidden, self.network.head_weight, self.network.config.softcap)


def load_checkpoint(path: Path, device: torch.device, tokenizer: Path | None = None) -> Network:
    """A checkpoint, with the tokenizer and the context of the run that it belongs to.

    Args:
        path: `checkpoints/NAME/version_K/checkpoints/best.ckpt`, say.
        device: where to run it.
        tokenizer: its tokenizer.json; None for that of the run's data, which are prepared if need be.

    Raises:
        InputError: there is no checkpoint, or it wasn't trained on text.
    """
    check_checkpoint(path)
    config = path.parent.parent / "config.yaml"
    if not config.is_file():
        raise InputError(
            f"{path}: no {config.name} of its run in {config.parent}, which says what its data are."
        )
    data = parse_data([str(config)])
    if not isinstance(data, Text):
        raise InputError(f"{path}: trained on {type(data).__name__}, not on text. CORE asks in English.")
    if tokenizer is None:
        data.prepare_data()
        data.setup("validate")
        learned = data.tokenizer
    else:
        learned = Tokenizer.load(tokenizer)
    facts = torch.load(path, map_location="meta", weights_only=True, mmap=True)["data_facts"]
    if learned.hash != facts["tokenizer"]:
        raise InputError(
            f"{path}: trained with the tokenizer {facts['tokenizer']}, this one is {learned.hash}. "
            "Give its tokenizer.json with --tokenizer."
        )
    module = LanguageModule.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    return Network(module.network.eval().to(device), learned, data.context, str(path))
