"""Whether a language model copies what it has read."""

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.noise import Noise
from mgvr_lightning.data.tasks.attention_metrics import PrefixMatching
from mgvr_lightning.data.tasks.induction import Repetitions
from mgvr_lightning.data.tasks.task_metrics import CopyAccuracy
from mgvr_lightning.data.text import Text
from mgvr_lightning.errors import InputError
from mgvr_lightning.logger import log
from mgvr_lightning.metrics import metric_device
from mgvr_lightning.model import IGNORE
from mgvr_lightning.module import LanguageModule

SHORTEST = 16


class Induction(Callback):
    """Logs, at every validation on text, how well random tokens are copied when they come again.

    Behind the separator stand distinct random tokens of the vocabulary over and over, the same in every run.
    Where a token was there before, `induction/copy_accuracy` is the share of right predictions,
    `induction/loss` the nats per token, and `induction/prefix_matching/layerL_headH` the attention to the
    tokens that followed it then (Olsson et al. 2022), with its greatest as `/max`.

    Args:
        sequences: how many are read at a validation; 0 for none.
        length: tokens of a sequence, at most the context; its period lies between a quarter and a half.
    """

    def __init__(self, sequences: int = 16, length: int = 64) -> None:
        if sequences < 0:
            raise InputError(f"induction.sequences: {sequences}. Expected 0 or more.")
        if length < SHORTEST:
            raise InputError(f"induction.length: {length} tokens. Expected {SHORTEST} or more.")
        self.sequences, self.length = sequences, length

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Reads the sequences, on every rank: metrics add up over ranks, which leaves means as they are."""
        assert isinstance(pl_module, LanguageModule)
        data = pl_module.data
        fitting = trainer.state.fn == "fit" and not trainer.sanity_checking
        if not fitting or not isinstance(data, Text):
            return
        length = min(self.length, data.context)
        if self.sequences and length >= SHORTEST:
            rows = repeated_tokens(self.sequences, length, data.vocabulary, data.tokenizer.separator)
            ids, targets = (torch.from_numpy(part).to(pl_module.device) for part in rows)
            log(trainer, scores(pl_module, ids, targets))


def repeated_tokens(sequences: int, length: int, vocabulary: int, separator: int) -> tuple[Ids, Ids]:
    """(sequences, length) ids and targets; targets that nothing foretells are ignored."""
    longest = min(length // 2 - 1, vocabulary - 1)
    kind = Repetitions(vocabulary - 1, longest // 2, longest, length, "repeated")
    ids, targets = kind.rows(Noise(0, "induction"), np.arange(sequences))
    meaning = np.array([separator, *(id for id in range(vocabulary) if id != separator)])
    return meaning[ids], np.where(targets == IGNORE, IGNORE, meaning[np.maximum(targets, 0)])


@torch.no_grad()
def scores(module: LanguageModule, ids: Tensor, targets: Tensor) -> dict[str, float]:
    """What the callback logs, of (B, T) ids and targets."""
    nll, predictions = module.network.token_losses(ids, targets)
    scored, correct, home = targets != IGNORE, predictions == targets, metric_device(module.device)
    copying, matching = CopyAccuracy().to(home), PrefixMatching().to(home)
    copying.update(ids.to(home), correct.to(home), scored.to(home))
    matching.update(ids.to(home), scored.to(home), module.network.attention_maps(ids).to(home))
    found = {
        "copy_accuracy": copying.compute(),
        "loss": nll[scored].to(home).double().mean(),
        **matching.compute(),
    }
    return {f"induction/{name}": value.item() for name, value in found.items()}
