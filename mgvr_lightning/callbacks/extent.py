"""How far a run is to go, and that it got there."""

from lightning.pytorch import Callback, LightningModule, Trainer

from mgvr_lightning.analysis.run import ALL_STEPS, FINISHED, PLANNED
from mgvr_lightning.logger import log


class Extent(Callback):
    """Logs `run/planned_steps` at every start, a resumed one too, and `run/finished` after the last step."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says how far it goes."""
        log(trainer, {PLANNED: trainer.max_steps})

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says that it went there; a run that something else stopped isn't finished."""
        if trainer.global_step >= trainer.max_steps:
            log(trainer, {FINISHED: ALL_STEPS})
