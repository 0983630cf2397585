"""What Lightning costs: its loop against a bare one, over the same module, data and optimizer."""

import time
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from mgvr_lightning.benchmark.step import Setting
from mgvr_lightning.benchmark.timing import Seconds, Spread, wait
from mgvr_lightning.callbacks import DataHash, OptimizerSteps, TrainingLog
from mgvr_lightning.data.batch import TrainBatches
from mgvr_lightning.data.tasks.induction import Induction
from mgvr_lightning.model import Sampling
from mgvr_lightning.module import LanguageModule
from mgvr_lightning.optim import AdamW
from mgvr_lightning.schedule import Constant
from mgvr_lightning.values import ValueSpec

SKIPPED = 5
LONGEST_PERIOD = 30


class Clock(Callback):
    """When each step began."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.times: list[float] = []

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Notes the time, once the step before is done."""
        wait(self.device)
        self.times.append(time.perf_counter())


def loop_ratio(values: ValueSpec, setting: Setting, steps: int, rounds: int) -> Spread:
    """Seconds of a step in Lightning's loop, with this project's callbacks, over those in a bare loop.

    Blocks of both take turns over one network, so that the same compiled code runs.

    Args:
        values: the value paths.
        setting: everything else; the context is that of the synthetic sequences.
        steps: of a block.
        rounds: blocks of each kind.
    """
    module = LanguageModule(
        values,
        setting.config,
        AdamW(),
        Constant(0),
        Sampling(),
        compile=setting.compiled,
        vocabulary=setting.vocabulary,
    )
    data = Induction(
        symbols=setting.vocabulary - 1,
        context=setting.context,
        global_batch=setting.batch,
        period_max=min(LONGEST_PERIOD, setting.context - 2),
    )
    ratios = []
    for number in range(rounds + 1):
        with_lightning = np.median(_lightning(module, data, setting, steps))
        bare = np.median(_bare(module, data, setting, steps))
        if number:  # the first compiles
            ratios.append(float(with_lightning / bare))
    return Spread.of(np.array(ratios))


def _lightning(module: LanguageModule, data: Induction, setting: Setting, steps: int) -> Seconds:
    clock = Clock(setting.device)
    trainer = Trainer(
        max_steps=steps,
        accelerator="gpu" if setting.device.type == "cuda" else setting.device.type,
        devices=1,
        precision="bf16-mixed" if setting.bf16 else "32-true",
        gradient_clip_val=1.0,
        val_check_interval=steps,
        check_val_every_n_epoch=None,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[OptimizerSteps(), TrainingLog(), DataHash(), clock],
    )
    trainer.fit(module, data)
    return np.diff(clock.times)[SKIPPED:]


def _bare(module: LanguageModule, data: Induction, setting: Setting, steps: int) -> Seconds:
    network, optimizer = module.network, module._build_optimizer()
    module.to(setting.device)
    network.train()
    batches, times = TrainBatches(data.examples(), data.layout), []
    for number in range(steps + 1):
        wait(setting.device)
        times.append(time.perf_counter())
        batch = batches[number]
        ids, targets = batch.ids.to(setting.device), batch.targets.to(setting.device)
        with torch.autocast(setting.device.type, torch.bfloat16, enabled=setting.bf16):
            sums = network(ids, targets)
        (sums.nll / batch.step_targets).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return np.diff(times)[SKIPPED:]
