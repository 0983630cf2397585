"""Progress: a bar on a terminal, lines elsewhere."""

import sys
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from tqdm import tqdm

from mgvr_lightning.callbacks.optimizer_steps import step_ends


class Progress(ProgressBar):
    """Optimizer steps, loss, speed and the time that is left.

    On a terminal it is a bar; elsewhere one line per logging interval, so that log files stay readable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bar: tqdm[Any] | None = None
        self.enabled = True
        self.started = 0.0
        self.first = 0

    def disable(self) -> None:
        """Keeps quiet, as on ranks other than 0."""
        self.enabled = False

    def enable(self) -> None:
        """Speaks up again."""
        self.enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens the bar."""
        self.started, self.first = time.perf_counter(), trainer.global_step
        if self.enabled and sys.stderr.isatty():
            self.bar = tqdm(total=trainer.max_steps, initial=self.first, unit="step", dynamic_ncols=True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Advances by one optimizer step."""
        if not self.enabled or not step_ends(trainer, batch_idx):
            return
        if self.bar is not None:
            self.bar.update()
        if trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            self._say(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says what validation gave."""
        if not self.enabled or trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self._say(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _say(self, trainer: Trainer) -> None:
        if self.bar is not None:
            self.bar.set_postfix_str(describe(trainer))
            return
        done = trainer.global_step
        seconds = (
            (time.perf_counter() - self.started) * (trainer.max_steps - done) / max(1, done - self.first)
        )
        text = f"step {done}/{trainer.max_steps}  {describe(trainer)}  {seconds / 60:.1f} min left"
        print(text, file=sys.stderr, flush=True)  # noqa: T201


def describe(trainer: Trainer) -> str:
    """The newest numbers, in one line."""
    numbers = trainer.callback_metrics
    formats = {
        "loss": ("loss", ".3f"),
        "tokens/s": ("tokens/s", ",.0f"),
        "val/loss": ("val loss", ".3f"),
        "val/bits_per_byte": ("val bits/byte", ".3f"),
    }
    return "  ".join(
        f"{label} {float(numbers[key]):{form}}" for key, (label, form) in formats.items() if key in numbers
    )
