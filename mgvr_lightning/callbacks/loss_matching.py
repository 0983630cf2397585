"""The loss-matching curve against a reference run, live."""

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from mgvr_lightning.analysis.comparable import shared_tensors
from mgvr_lightning.analysis.curve import matches
from mgvr_lightning.analysis.pair import time_ratio
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.errors import InputError
from mgvr_lightning.logger import log, run_folder
from mgvr_lightning.module import LanguageModule


class LossMatching(Callback):
    """How many of a reference run's steps this run saves.

    Once this run has reached the loss that the reference had at step s, it logs, at s,
    `matching/steps_saved` (1 − s'/s, with s' the step of this run) and `matching/effective_compute`
    ((s/s') / r, with r the ratio of the runs' median step times, on equal machines). At every validation it
    logs `matching/reference_steps`, the steps the reference needed for this run's present loss, and
    `matching/speedup`, that number over this run's steps. Levels that weren't reached are left out.

    Args:
        reference: a run folder to match against, `checkpoints/transformer`, say (its newest version), or
            `checkpoints/transformer/version_0`; null for none.
    """

    def __init__(self, reference: str | None = None) -> None:
        self.folder = reference
        self.reference: Run | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Checks that the two runs are comparable, before anything is written.

        Raises:
            InputError: the reference saw other data.
        """
        assert isinstance(pl_module, LanguageModule)
        if self.folder is None or stage != "fit":
            return
        self.reference = Run.find(self.folder)
        theirs, ours = self.reference.provenance["data"], pl_module.data.facts
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            if theirs.get(key) != ours.get(key):
                raise InputError(
                    f"{self.reference.folder}: the reference run isn't comparable.\n"
                    f"Its {key} is {theirs.get(key)}, this run's is {ours.get(key)}. "
                    "Give both the same data options, or drop --matching.reference."
                )
        if not self.reference.series("val/loss"):
            raise InputError(
                f"{self.reference.folder}: the reference run has no validation loss yet. Let it run first."
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says how many initial tensors the two runs share."""
        folder = run_folder(trainer)
        if self.reference is None or folder is None or not trainer.is_global_zero:
            return
        equal, common = shared_tensors(Run(folder), self.reference)
        message = f"{equal} of {common} tensors shared with {self.reference.folder} start equal bit for bit."
        (rank_zero_info if equal == common else rank_zero_warn)(message)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs what the present loss settles."""
        fitting = trainer.state.fn == "fit" and not trainer.sanity_checking
        folder = run_folder(trainer)
        if self.reference is None or folder is None or not fitting:
            return
        run = Run(folder)
        same = trainer.is_global_zero and self._same_data(run, trainer.global_step)
        if not trainer.strategy.broadcast(same):
            raise InputError(
                f"{self.reference.folder}: by step {trainer.global_step} it had trained on other tokens."
            )
        if not trainer.is_global_zero:
            return
        ours, theirs = run.curve(), self.reference.curve()
        ratio = time_ratio(run, self.reference)
        logged = run.series("matching/steps_saved")
        for match in matches(ours, theirs):
            if match.step not in logged:
                point = {"matching/steps_saved": match.steps_saved}
                if ratio is not None:
                    point["matching/effective_compute"] = match.effective_compute(ratio)
                log(trainer, point, step=int(match.step))
        needed = theirs.steps_to(float(ours.losses[-1]))
        if needed is not None:
            point = {"matching/reference_steps": needed, "matching/speedup": needed / trainer.global_step}
            log(trainer, point)

    def _same_data(self, run: Run, step: int) -> bool:
        assert self.reference is not None
        ours, theirs = run.series("data/hash").get(step), self.reference.series("data/hash").get(step)
        return ours is None or theirs is None or ours == theirs
