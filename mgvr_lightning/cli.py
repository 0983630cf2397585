"""The command line: one front door for training and evaluation."""

import os
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from mgvr_lightning.analysis.run import METRICS, Run
from mgvr_lightning.callbacks import (
    Budget,
    Coefficients,
    DataHash,
    Extent,
    Induction,
    LastCheckpoint,
    LossMatching,
    OptimizerSteps,
    Predictions,
    Progress,
    Provenance,
    StopAtOnset,
    Summary,
    TrainingLog,
)
from mgvr_lightning.checkpoint import RUNS, check_checkpoint
from mgvr_lightning.data import catalogue  # noqa: F401  (configurations name its classes)
from mgvr_lightning.data.text import Text
from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.logger import RunLogger
from mgvr_lightning.module import LanguageModule
from mgvr_lightning.optim import AdamW
from mgvr_lightning.parser import Parser
from mgvr_lightning.schedule import WarmupStableDecay

TRAINER_DEFAULTS: dict[str, Any] = {
    "max_steps": 260,
    "val_check_interval": 20,
    "check_val_every_n_epoch": None,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "precision": "bf16-mixed",
    "gradient_clip_val": 1.0,
    "use_distributed_sampler": False,
    "enable_model_summary": False,
}


class CommandLine(LightningCLI):
    """LightningCLI with this project's parts.

    Args:
        args: the arguments; None for those of the process.
    """

    def __init__(self, args: list[str] | None = None) -> None:
        super().__init__(
            LanguageModule,
            TokenData,
            subclass_mode_data=True,
            trainer_defaults=TRAINER_DEFAULTS,
            save_config_kwargs={"overwrite": True},
            seed_everything_default=0,
            auto_configure_optimizers=False,
            parser_class=Parser,
            parser_kwargs={"default_env": True, "env_prefix": "MGVR"},
            args=args,
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Adds the run's name and the callbacks with options, and says which parts are the default."""
        parser.add_argument(
            "--run",
            type=str,
            default=None,
            help=f"name of the run's folder under {RUNS}/; null for the names of the configuration files",
        )
        parser.add_lightning_class_args(LossMatching, "matching")
        parser.add_lightning_class_args(Budget, "budget")
        parser.add_lightning_class_args(Induction, "induction")
        parser.add_lightning_class_args(StopAtOnset, "stop")
        defaults = {"data": Text, "model.optimizer": AdamW, "model.schedule": WarmupStableDecay}
        parser.set_defaults(
            {key: {"class_path": f"{part.__module__}.{part.__name__}"} for key, part in defaults.items()}
        )

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Builds the trainer with the run's logger and callbacks."""
        config = self.config[self.subcommand]
        training = self.subcommand == "fit"
        if training and config.matching.reference is not None:
            Run.find(config.matching.reference)  # a missing reference is told before data are read
        if config.trainer.logger in (None, True):
            kwargs["logger"] = run_logger(config) if training else False
        if not training:
            self.save_config_callback = None
        given = self._get(self.config_init, "trainer")["callbacks"] or []
        kwargs["callbacks"] = [
            *(given if isinstance(given, list) else [given]),
            *callbacks(config.trainer, training),
        ]
        return super().instantiate_trainer(**kwargs)

    def before_fit(self) -> None:
        """Prepares the data before other processes are started, so that bad input is told once."""
        if not {"LOCAL_RANK", "SLURM_PROCID"} & os.environ.keys():
            self.datamodule.prepare_data()

    def _parse_ckpt_path(self) -> None:
        """Lets the command line win: LightningCLI would put the checkpoint's hyper-parameters over it."""
        path = self.config[self.config.subcommand].get("ckpt_path")
        if path and path not in ("best", "last"):
            check_checkpoint(Path(path))


def callbacks(trainer: Namespace, training: bool) -> list[Callback]:
    """The callbacks that every trainer has, as far as its options allow them."""
    always: list[Callback] = [
        OptimizerSteps(),
        TrainingLog(),
        Coefficients(),
        DataHash(),
        Provenance(),
        Extent(),
        Summary(),
        Predictions(),
    ]
    if trainer.enable_progress_bar is not False:
        always.append(Progress())
    if training and trainer.enable_checkpointing is not False and not trainer.fast_dev_run:
        best = ModelCheckpoint(
            filename="best", monitor="val/loss", save_on_train_epoch_end=False, enable_version_counter=False
        )
        always += [best, LastCheckpoint()]
    return always


def run_logger(config: Namespace) -> RunLogger:
    """The logger of a new run, or of the run that a checkpoint belongs to unless another is named."""
    if config.ckpt_path:
        folder = Path(os.path.relpath(config.ckpt_path)).parent.parent
        if (folder / METRICS).is_file() and config.run in (None, folder.parent.name):
            step = check_checkpoint(Path(config.ckpt_path))
            return RunLogger(str(folder.parent.parent), folder.parent.name, folder.name, after=step)
    stems = [Path(str(path)).stem for path in config.config or []]
    return RunLogger(config.trainer.default_root_dir or RUNS, config.run or "-".join(stems) or "run")
