"""Loss, learning rate and speed of training."""

import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from mgvr_lightning.callbacks.optimizer_steps import step_ends
from mgvr_lightning.logger import log
from mgvr_lightning.metrics import metric_device
from mgvr_lightning.module import LanguageModule


class TrainingLog(Callback):
    """Logs every `trainer.log_every_n_steps` optimizer steps.

    The loss is that of the step itself: the mean over all of its targets, whatever the micro-batches and
    ranks. Times leave out validation, saving, and the first step of a process, which compiles.
    """

    def __init__(self) -> None:
        self.compiled = False
        self.since: float | None = None
        self.steps = 0
        self.tokens = 0

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Starts the clock."""
        if self.since is None:
            self.since = time.perf_counter()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Drops the interval that a validation falls into."""
        self._restart()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Counts, and logs when it is time."""
        assert isinstance(pl_module, LanguageModule)
        self.tokens += batch.ids.numel() * trainer.world_size
        if not step_ends(trainer, batch_idx):
            return
        self.steps += 1
        if not self.compiled:
            self.compiled = True
            self._restart(time.perf_counter())
        if trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            self._log(trainer, pl_module)
            self._restart(time.perf_counter())

    def _log(self, trainer: Trainer, module: LanguageModule) -> None:
        nll, correct, targets = (
            torch.stack(list(part)).sum() for part in zip(*module.step_sums, strict=True)
        )
        home = metric_device(module.device)
        sums = torch.stack([part.to(home).double() for part in (nll, correct, targets)])
        loss_sum, right, scored = trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        factor = module.schedule.factor(trainer.global_step, trainer.max_steps)
        metrics = {
            "train/loss": loss_sum / scored,
            "train/accuracy": right / scored,
            "train/grad_norm": float("nan") if module.grad_norm is None else module.grad_norm.item(),
            "train/tokens": trainer.global_step * module.data.global_batch * module.data.context,
            **self._speed(module),
        }
        for group in trainer.optimizers[0].param_groups:
            metrics[f"lr/{group['role']}"] = group["initial_lr"] * factor
        shown = {"loss": "train/loss", "tokens/s": "time/tokens_per_second"}
        module.log_dict(
            {short: metrics[name] for short, name in shown.items() if name in metrics}, logger=False
        )
        log(trainer, metrics)

    def _speed(self, module: LanguageModule) -> dict[str, float]:
        if self.since is None or self.steps == 0:
            return {}
        seconds = time.perf_counter() - self.since
        speed = self.tokens / seconds
        return {
            "time/step_seconds": seconds / self.steps,
            "time/tokens_per_second": speed,
            "time/model_flops_per_second": speed * module.network.flops_per_token(module.data.context),
        }

    def _restart(self, since: float | None = None) -> None:
        self.since, self.steps, self.tokens = since, 0, 0
