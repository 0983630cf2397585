"""The newest state of a run."""

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from mgvr_lightning.logger import run_folder


class LastCheckpoint(Checkpoint):
    """Writes `checkpoints/last.ckpt` after every validation and at the end, whatever the loss did.

    Lightning's `save_last` follows the monitored metric: where that isn't a new best, it saves nothing.
    """

    def __init__(self) -> None:
        self.saved = -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Counts what was resumed from as saved."""
        self.saved = trainer.global_step

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Saves."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Saves what no validation followed."""
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        folder = run_folder(trainer)
        if folder is not None and trainer.global_step != self.saved:
            self.saved = trainer.global_step
            trainer.save_checkpoint(folder / "checkpoints" / "last.ckpt")
