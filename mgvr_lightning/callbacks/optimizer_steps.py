"""One unit for everything: the optimizer step."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.errors import InputError


class OptimizerSteps(Callback):
    """Accumulates as the data's layout says, and validates every so many optimizer steps and at the end.

    Lightning counts `val_check_interval` in micro-batches; here it counts optimizer steps.
    """

    def __init__(self) -> None:
        self.interval: int | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Translates steps into micro-batches."""
        if stage != "fit":
            return
        if trainer.max_steps < 1:
            raise InputError(f"trainer.max_steps: {trainer.max_steps}. Expected 1 or more optimizer steps.")
        if trainer.log_every_n_steps < 1:  # type: ignore[attr-defined]
            raise InputError("trainer.log_every_n_steps: expected 1 or more optimizer steps.")
        data = trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, TokenData)
        if trainer.accumulate_grad_batches != 1 and self.interval is None:
            raise InputError(
                "trainer.accumulate_grad_batches follows from data.global_batch, data.micro_batch and the "
                "number of processes. Set those instead."
            )
        if self.interval is None:
            interval = trainer.val_check_interval
            if not isinstance(interval, int) and not trainer.fast_dev_run:  # type: ignore[attr-defined]
                raise InputError(
                    f"trainer.val_check_interval: {interval}. Expected a number of optimizer steps."
                )
            self.interval = int(interval)
        trainer.accumulate_grad_batches = data.layout.accumulation
        trainer.val_check_interval = self.interval * data.layout.accumulation

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Counts micro-batches in this run's layout; a checkpoint has them in its own."""
        done = trainer.global_step * trainer.accumulate_grad_batches
        loop = trainer.fit_loop.epoch_loop
        progress = loop.batch_progress
        for counts in (progress.total, progress.current):
            for name in ("ready", "started", "processed", "completed"):
                setattr(counts, name, done)
            if loop.restarted_on_train_batch_end:  # Lightning completes the micro-batch that it was saved in
                counts.completed -= 1

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Has the last step validated too, whatever the interval."""
        if trainer.global_step >= trainer.max_steps:
            trainer.should_stop = True


def step_ends(trainer: Trainer, batch_idx: int) -> bool:
    """Whether an optimizer step was made at the end of this micro-batch."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0
