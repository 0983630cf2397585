"""Proof of what was trained on."""

from hashlib import blake2b
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from mgvr_lightning.callbacks.optimizer_steps import step_ends
from mgvr_lightning.logger import log


class DataHash(Callback):
    """Logs a hash of every token id consumed so far, as `data/hash`, at every validation.

    Each step's rows are hashed and the hashes added up over micro-batches and ranks, so the layout doesn't
    matter; the sums of steps are chained, so their order does.
    """

    def __init__(self) -> None:
        self.chain = "0" * 16
        self.pending: list[int] = []
        self.step_sum = 0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Adds a micro-batch."""
        self.step_sum = (self.step_sum + batch.digest) % 2**64
        if step_ends(trainer, batch_idx):
            self.pending.append(self.step_sum)
            self.step_sum = 0

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Brings the chain up to date and logs it."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._advance(trainer)
            log(trainer, {"data/hash": self.chain})

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Brings the chain up to date on every rank; the states of callbacks were collected before."""
        self._advance(trainer)
        checkpoint["callbacks"][self.state_key] = self.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """The chain."""
        return {"chain": self.chain}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the chain."""
        self.chain = state_dict["chain"]

    def _advance(self, trainer: Trainer) -> None:
        if not self.pending:
            return
        signed = [value - 2**64 if value >= 2**63 else value for value in self.pending]
        sums = torch.tensor(signed, dtype=torch.int64, device=trainer.strategy.root_device)
        for value in trainer.strategy.reduce(sums, reduce_op="sum").tolist():
            payload = f"{self.chain}{value % 2**64:016x}"
            self.chain = blake2b(payload.encode(), digest_size=8).hexdigest()
        self.pending.clear()
