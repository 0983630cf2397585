"""Ends a run once it has shown what it was for."""

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from mgvr_lightning.analysis.onset import Onset
from mgvr_lightning.analysis.run import FINISHED, Run
from mgvr_lightning.errors import InputError
from mgvr_lightning.logger import log, run_folder


class StopAtOnset(Callback):
    """Stops when a metric has reached a threshold for sure.

    Args:
        metric: `val/two_hop_accuracy`, say; null to train all steps.
        threshold: what it must reach; losses reach theirs from above, everything else from below.
        hysteresis: how far it may fall back at the validations that confirm it.
        hold: validations that must confirm it, the first among them.
        extra: validations after that, so that later thresholds can be seen too.
    """

    def __init__(
        self,
        metric: str | None = None,
        threshold: float = 0.9,
        hysteresis: float = 0.05,
        hold: int = 2,
        extra: int = 0,
    ) -> None:
        for name, value in (("hysteresis", hysteresis), ("hold", hold - 1), ("extra", extra)):
            if value < 0:
                least = 1 if name == "hold" else 0
                raise InputError(f"stop.{name}: expected {least} or more.")
        self.onset = None if metric is None else Onset(metric, threshold, hysteresis, hold)
        self.extra = extra

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stops if the onset is sure.

        Raises:
            InputError: there is no such metric.
        """
        folder = run_folder(trainer)
        fitting = trainer.state.fn == "fit" and not trainer.sanity_checking
        if self.onset is None or folder is None or not fitting:
            return
        sure = trainer.is_global_zero and self._sure(Run(folder), self.onset)
        if trainer.strategy.broadcast(sure):
            trainer.should_stop = True
            rank_zero_info(f"{self.onset}: reached for sure by step {trainer.global_step}. Stopping.")
            log(trainer, {FINISHED: f"onset of {self.onset}"})

    def _sure(self, run: Run, onset: Onset) -> bool:
        curve = run.curve(onset.metric)
        if not len(curve.steps):
            known = sorted(key for key in run.metrics if key.startswith("val/"))
            raise InputError(f"stop.metric: no {onset.metric} in this run. There are: {', '.join(known)}.")
        time = onset.time(curve)
        return time.reached and int((curve.steps > time.step).sum()) >= onset.hold - 1 + self.extra
