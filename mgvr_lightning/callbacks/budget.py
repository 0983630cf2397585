"""How long a run is, in tokens or FLOPs."""

import math

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from mgvr_lightning.errors import InputError
from mgvr_lightning.module import LanguageModule


class Budget(Callback):
    """Sets the number of optimizer steps, in place of `trainer.max_steps`, to what a budget pays for.

    Steps are rounded to the nearest. Runs of one budget in FLOPs differ in steps where their networks differ
    in FLOPs per token.

    Args:
        flops: training FLOPs of the run, counted as in `Transformer.flops_per_token`; null for no limit.
        tokens: training tokens of the run; null for no limit.
    """

    def __init__(self, flops: float | None = None, tokens: float | None = None) -> None:
        for name, value in (("flops", flops), ("tokens", tokens)):
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"budget.{name}: {value} is not a positive, finite number.")
        if flops is not None and tokens is not None:
            raise InputError("budget: both flops and tokens are set. Set one of them.")
        self.flops, self.tokens = flops, tokens

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Sets the steps, before the optimizer and the data ask for them.

        Raises:
            InputError: the budget is less than a step.
        """
        assert isinstance(pl_module, LanguageModule)
        budget, name = (self.tokens, "tokens") if self.flops is None else (self.flops, "flops")
        if stage != "fit" or budget is None or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        data, cost = pl_module.data, 1
        if self.flops is not None:
            pl_module.configure_model()  # Lightning builds the network after this; it is built once
            cost = pl_module.network.flops_per_token(data.context)
        batch = data.global_batch * data.context
        steps = round(budget / (cost * batch))
        if steps < 1:
            raise InputError(
                f"budget.{name}: {budget:g} pays for no step, which costs {cost * batch:g}. Give more, or "
                "fewer sequences in data.global_batch."
            )
        trainer.fit_loop.epoch_loop.max_steps = steps
        each = "" if self.flops is None else f" of {cost:.4g} FLOPs"
        rank_zero_info(f"A budget of {budget:g} {name} pays for {steps:,} steps of {batch:,} tokens{each}.")
