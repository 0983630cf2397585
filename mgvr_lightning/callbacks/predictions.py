"""What `predict` gives, on standard output."""

import sys

from lightning.pytorch import Callback, LightningModule, Trainer


class Predictions(Callback):
    """Prints what `predict` gives."""

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Prints one prediction on standard output."""
        if trainer.is_global_zero:
            sys.stdout.write(f"{outputs}\n\n")
