"""The LightningModule: loss, metrics, optimizer."""

from typing import Any, Literal

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor

from mgvr_lightning.compile import compile_obstacle
from mgvr_lightning.data.batch import Batch
from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.errors import InputError
from mgvr_lightning.logger import log
from mgvr_lightning.metrics import asks_for, metric_device
from mgvr_lightning.model import (
    IGNORE,
    LossSums,
    Sampling,
    Transformer,
    TransformerConfig,
    generate,
    initialise,
)
from mgvr_lightning.optim import Optimizer, RunFacts, role_groups
from mgvr_lightning.schedule import Schedule
from mgvr_lightning.values import ValueSpec


class LanguageModule(LightningModule):
    """A language model whose layers differ from the Transformer's in nothing but their value path.

    Args:
        values: the value paths: what a variant is.
        network: the Transformer around them.
        optimizer: how it is optimised.
        schedule: of the learning rate.
        sampling: how `predict` chooses tokens.
        compile: whether to compile the network for training: auto for where a compiler is found.
        seed: of the initial weights.
        vocabulary: number of token ids; null for the data's, rounded up to a multiple of 64.
    """

    network: Transformer
    token_bytes: Tensor | None

    def __init__(
        self,
        values: ValueSpec,
        network: TransformerConfig,
        optimizer: Optimizer,
        schedule: Schedule,
        sampling: Sampling,
        compile: Literal["auto"] | bool = "auto",
        seed: int = 0,
        vocabulary: int | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)
        for name in [name for name, value in self.hparams.items() if not is_plain(value)]:
            del self.hparams[name]  # objects given from Python; from the command line everything is plain
        with torch.device("meta"):
            values.build(network.shapes(vocabulary or 1))  # refuses what can't be built before data are read
        self.values, self.config = values, network
        self.optimizer_spec, self.schedule, self.sampling = optimizer, schedule, sampling
        self.compile_choice, self.seed, self.vocabulary = compile, seed, vocabulary
        self.compiled = False
        self.step_sums: list[LossSums] = []
        self.grad_norm: Tensor | None = None

    @property
    def data(self) -> TokenData:
        """The data module."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, TokenData)
        return data

    def configure_model(self) -> None:
        """Builds the network once the vocabulary is known; the data say whether documents see each other."""
        if not hasattr(self, "network"):
            self._build()
        if self._trainer is not None:
            self.network.separator = self.data.document_start
            self.network.most_scored = self.data.most_scored

    def _build(self) -> None:
        """Builds the network with its keyed initial weights."""
        if self.vocabulary is None:
            self.vocabulary = -(-self.data.vocabulary // 64) * 64
            self.hparams["vocabulary"] = self.vocabulary
        elif self._trainer is not None and self.vocabulary < self.data.vocabulary:
            raise InputError(
                f"model.vocabulary: {self.vocabulary} ids, but the data have {self.data.vocabulary}. "
                "Leave it out to have it follow from the data."
            )
        with torch.device("meta"):
            network = Transformer(self.config, self.values, self.vocabulary)
        self.network = network.to_empty(device="cpu")
        initialise(self.network, self.seed)

    def setup(self, stage: str) -> None:
        """Prepares the metrics.

        Raises:
            InputError: the precision needs a loss scaler, which clipping here doesn't undo.
        """
        if stage == "fit" and (
            self.trainer.gradient_clip_algorithm == "value" or (self.trainer.gradient_clip_val or 0) < 0
        ):
            raise InputError(
                "trainer.gradient_clip_val: clipping here limits the norm. Expected 0 (none) or more."
            )
        if stage == "fit" and str(self.trainer.precision).startswith("16"):
            raise InputError(
                f"trainer.precision: {self.trainer.precision} isn't supported. Use bf16-mixed or 32-true."
            )
        token_bytes = self.data.token_bytes
        table = None if token_bytes is None else torch.from_numpy(token_bytes)
        self.register_buffer("token_bytes", table, persistent=False)
        self.held_out_metrics = {
            name: self.data.metrics(f"{prefix}/")
            for name, prefix in (("validation", "val"), ("test", "test"))
        }

    def on_fit_start(self) -> None:
        """Compiles the network in place: names of parameters and of checkpoints stay as they are."""
        if self.compile_choice is False:
            return
        obstacle = compile_obstacle(self.trainer.strategy.root_device)
        if obstacle is None or self.compile_choice is True:
            self.network.compile(dynamic=False)
            self.compiled = True
        else:
            rank_zero_info(f"Not compiling: {obstacle}. Training runs eagerly.")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Records what the weights were trained on."""
        checkpoint["data_facts"] = self.data.facts
        checkpoint["separator"] = self.network.separator

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses weights that were trained with another tokenizer, and to go on on other data.

        Without data, documents see each other as they did in training.

        Raises:
            InputError: the tokenizers, or for training any of the data's facts, differ.
        """
        if self._trainer is None:
            self.network.separator = checkpoint.get("separator")
            return
        theirs, ours = checkpoint.get("data_facts", {}), self.data.facts
        for key in ours if self.trainer.state.fn == "fit" else ["tokenizer"]:
            if theirs.get(key) != ours.get(key):
                raise InputError(
                    f"the checkpoint was trained with {key} {theirs.get(key)}, "
                    f"the data have {ours.get(key)}. Give the data options that it was trained with."
                )
        self._keep_options(checkpoint)

    def _keep_options(self, checkpoint: dict[str, Any]) -> None:
        """Lets this run's optimizer options win over those that the checkpoint's optimizer was saved with.

        Raises:
            InputError: the checkpoint has the state of an optimizer of another kind, or of other roles.
        """
        if self.trainer.state.fn != "fit" or not checkpoint.get("optimizer_states"):
            return
        wanted = {group["role"]: group for group in self._build_optimizer().param_groups}
        factor = self.schedule.factor(
            min(checkpoint["global_step"] + 1, self.trainer.max_steps), self.trainer.max_steps
        )
        groups = checkpoint["optimizer_states"][0]["param_groups"]
        theirs = [group["role"] for group in groups]
        if theirs != list(wanted):
            raise InputError(
                f"the checkpoint has parameters of the roles {', '.join(theirs)}, "
                f"this run's network {', '.join(wanted)}. Give the model options that it was trained with."
            )
        for group in groups:
            if group.get("rule") != wanted[group["role"]].get("rule"):
                raise InputError(
                    f"the checkpoint's {group['role']} parameters were trained by another optimizer than "
                    "model.optimizer names. Give the one that they were trained with."
                )
            options = {name: value for name, value in wanted[group["role"]].items() if name != "params"}
            group.update(options, initial_lr=options["lr"], lr=options["lr"] * factor)
        checkpoint["lr_schedulers"][0]["base_lrs"] = [group["initial_lr"] for group in groups]

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a micro-batch as its share of the step's mean over all targets.

        Lightning divides by the number of micro-batches and DDP averages over ranks; both are undone here, so
        that neither weighs a target more than another.
        """
        sums: LossSums = self.network(batch.ids, batch.targets)
        if batch_idx % self.trainer.accumulate_grad_batches == 0:
            self.step_sums.clear()
        self.step_sums.append(LossSums(sums.nll.detach(), sums.correct, sums.targets))
        parts = self.trainer.accumulate_grad_batches * self.trainer.world_size
        return sums.nll * (parts / batch.step_targets)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation metrics."""
        self._held_out_step("validation", batch)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the test metrics."""
        self._held_out_step("test", batch)

    def predict_step(self, batch: list[int], batch_idx: int) -> str:
        """Continues a prompt, after a ▸, by as many tokens as fit into the context, at most 128."""
        prompt = torch.tensor([batch], device=self.device)
        count = max(1, min(128, self.data.context - len(batch)))
        ids = generate(self.network, prompt, count, self.sampling, self.data.vocabulary)
        return self.data.decode(batch) + "▸" + self.data.decode([int(token) for token in ids])

    def on_validation_epoch_end(self) -> None:
        """Logs the validation metrics."""
        self._log_held_out("validation")

    def on_test_epoch_end(self) -> None:
        """Logs the test metrics."""
        self._log_held_out("test")

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimizer over role groups, and its schedule in optimizer steps."""
        optimizer = self._build_optimizer()
        total = self.trainer.max_steps
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda done: self.schedule.factor(min(done + 1, total), total)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _build_optimizer(self) -> torch.optim.Optimizer:
        steps = self.trainer.max_steps
        facts = RunFacts(
            width=self.config.width,
            batch_tokens=self.data.global_batch * self.data.context,
            steps=steps,
            decay_start=self.schedule.decay_start(steps),
        )
        return self.optimizer_spec.build(role_groups(self.network), facts)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips the norm over all parameters, also where Lightning refuses (fused optimizers under bf16)."""
        limit = gradient_clip_val or float("inf")
        self.grad_norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), limit)

    def _held_out_step(self, name: str, batch: Batch) -> None:
        nll, predictions = self.network.token_losses(batch.ids, batch.targets)
        sizes = torch.zeros_like(batch.targets)
        if self.token_bytes is not None:
            sizes = self.token_bytes[batch.targets.clamp_min(0)]
        seen = {
            "nll": nll,
            "predictions": predictions,
            "correct": predictions == batch.targets,
            "scored": batch.targets != IGNORE,
            "bytes": sizes,
            "ids": batch.ids,
            "targets": batch.targets,
        }
        home = metric_device(self.device)
        metrics = self.held_out_metrics[name].to(home)
        if asks_for(metrics, "attention"):
            seen["attention"] = self.network.attention_maps(batch.ids)
        metrics.update(**{name: part.to(home) for name, part in seen.items()})

    def _log_held_out(self, name: str) -> None:
        metrics = self.held_out_metrics[name]
        values = metrics.compute()
        metrics.reset()
        fitting = self.trainer.state.fn == "fit"
        self.log_dict(values, logger=not fitting)  # what isn't logged isn't in the table that validate prints
        if fitting:
            log(self.trainer, values)


def is_plain(value: object) -> bool:
    """Whether a value is made of plain types alone, as everything in a checkpoint must be."""
    if isinstance(value, dict):
        return all(is_plain(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return all(is_plain(inner) for inner in value)
    return value is None or isinstance(value, bool | int | float | str)
