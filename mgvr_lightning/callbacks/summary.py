"""What a run is, said at its start and at its end."""

import sys

from lightning.pytorch import Callback, LightningModule, Trainer

from mgvr_lightning.logger import run_folder
from mgvr_lightning.module import LanguageModule
from mgvr_lightning.optim import parameter_counts


class Summary(Callback):
    """Says before the first step what is trained, on how much and where it goes; at the end what came out."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says what begins."""
        assert isinstance(pl_module, LanguageModule)
        if not trainer.is_global_zero:
            return
        data, steps = pl_module.data, trainer.max_steps
        counts = parameter_counts(pl_module.network)
        roles = ", ".join(f"{count:,} {role}" for role, count in counts.items())
        tokens = data.global_batch * data.context
        epochs = data.epochs(steps)
        share = "" if epochs is None else f", {epochs:.2f} epochs"
        say(f"{sum(counts.values()):,} parameters: {roles}")
        say(f"{steps:,} steps of {tokens:,} tokens: {steps * tokens:,} tokens{share}")
        if (folder := run_folder(trainer)) is not None:
            say(f"Writing to {folder}. Watch with: tensorboard --logdir {folder.parents[1]}")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says what came out."""
        assert isinstance(pl_module, LanguageModule)
        metrics = trainer.callback_metrics
        if not trainer.is_global_zero or "val/loss" not in metrics:
            return
        text = f"Validation after step {trainer.global_step}: {metrics['val/loss']:.3f} nats per token"
        if "val/bits_per_byte" in metrics:
            text += f", {metrics['val/bits_per_byte']:.3f} bits per byte"
            others = [f"{name} -9 {bits:.3f}" for name, bits in pl_module.data.yardsticks().items()]
            text += f" (on the whole split: {', '.join(others)})" if others else ""
        elif pl_module.data.token_bytes is None:
            text += f", {metrics['val/accuracy']:.1%} right"
        say(text)


def say(text: str) -> None:
    """Writes a line beside the progress bar."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
