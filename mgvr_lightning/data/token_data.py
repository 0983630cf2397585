"""The LightningDataModule that every corpus and task shares."""

from abc import abstractmethod
from multiprocessing import get_all_start_methods
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch import LightningDataModule
from numpy.typing import NDArray
from torch.utils.data import DataLoader
from torchmetrics import MetricCollection

from mgvr_lightning.data.batch import Batch, Examples, FixedBatches, Ids, Remaining, TrainBatches
from mgvr_lightning.data.layout import Layout
from mgvr_lightning.data.preparation.prepare import Part
from mgvr_lightning.errors import InputError
from mgvr_lightning.metrics import language_metrics


class TokenData(LightningDataModule):
    """Batches of token ids whose order is a pure function of (data seed, step).

    Args:
        global_batch: sequences per optimizer step, over all processes.
        micro_batch: sequences per forward pass and process; accumulation follows from it. Null for a
            process's whole share of the step.
        workers: loader processes; 0 to load in the training process.
        seed: the data seed.
    """

    def __init__(self, global_batch: int, micro_batch: int | None, workers: int, seed: int) -> None:
        super().__init__()
        if workers < 0:
            raise InputError(f"data.workers: {workers} is negative. Expected 0 or more.")
        self.global_batch, self.micro_batch, self.workers, self.seed = (
            global_batch,
            micro_batch,
            workers,
            seed,
        )

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of token ids."""

    @property
    @abstractmethod
    def context(self) -> int:
        """T, tokens of a sequence."""

    @property
    @abstractmethod
    def token_bytes(self) -> NDArray[np.int64] | None:
        """(vocabulary,) bytes of text that each id stands for, 0 for control tokens; None if not text."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What two runs must have in common to be comparable, as plain JSON."""

    @property
    def most_scored(self) -> int | None:
        """The most targets of a row that are scored; None for all."""
        return None

    @property
    def document_start(self) -> int | None:
        """Id of the token that begins a document which attends to nothing before it.

        None where attention crosses documents.
        """
        return None

    def describe(self) -> dict[str, Any]:
        """Where the data come from, as plain JSON."""
        return {}

    @abstractmethod
    def examples(self) -> Examples:
        """The training examples."""

    @abstractmethod
    def held_out(self, split: str) -> tuple[Ids, Ids]:
        """(N, T) ids and targets of the fixed set `validation` or `test`."""

    def prepare(
        self, part: Part | None = None, processes: int | None = None, progress: bool = True
    ) -> list[Path]:
        """Does ahead of a run what takes long.

        Args:
            part: the share of the work of one of several machines; None to see all of it through.
            processes: how many to use; None for one per core.
            progress: whether to say how it goes.

        Returns:
            The folders that training reads; none if it needs none, or parts are still missing.
        """
        return []

    def metrics(self, prefix: str) -> MetricCollection:
        """What validation and test measure, under `prefix`.

        Each metric is updated with those alone of these named arguments that its `update` has: nll,
        predictions, correct, scored, bytes, ids and targets, (B, T) each; attention, (L, B, Hq, T, T).
        Rows that fill up a batch have no scored target and must count nothing.
        """
        return language_metrics(prefix, text=self.token_bytes is not None)

    def epochs(self, steps: int) -> float | None:
        """How often a run of so many steps goes through the training examples; None if they don't repeat."""
        return None

    def yardsticks(self) -> dict[str, float]:
        """Compressor → bits per byte that it needs for the validation text."""
        return {}

    def decode(self, ids: list[int]) -> str:
        """Text of token ids."""
        return " ".join(map(str, ids))

    def prompts(self) -> list[list[int]]:
        """Token ids of the prompts that `predict` continues."""
        ids, _ = self.held_out("validation")
        return [row[: self.context // 2].tolist() for row in ids[:4]]

    @property
    def layout(self) -> Layout:
        """How this trainer's processes divide a step."""
        ranks, rank = (self.trainer.world_size, self.trainer.global_rank) if self.trainer else (1, 0)
        return Layout.of(self.global_batch, self.micro_batch, ranks, rank)

    def train_dataloader(self) -> DataLoader[Batch]:
        """What is left of the run after the trainer's present step."""
        assert self.trainer is not None
        layout, steps = self.layout, self.trainer.max_steps
        assert steps >= 1, "an endless run has no length"
        sampler = Remaining(self.trainer.global_step * layout.accumulation, steps * layout.accumulation)
        # no fork: a process that runs tokenizer or torch threads can dead-lock
        start = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
        return DataLoader(
            TrainBatches(self.examples(), layout),
            batch_size=None,
            sampler=sampler,
            num_workers=self.workers,
            multiprocessing_context=start if self.workers else None,
            pin_memory=self._on_cuda,
        )

    def val_dataloader(self) -> DataLoader[Batch]:
        """The fixed validation set."""
        return self._held_out_loader("validation")

    def test_dataloader(self) -> DataLoader[Batch]:
        """The fixed test set."""
        return self._held_out_loader("test")

    def predict_dataloader(self) -> DataLoader[list[list[int]]]:
        """The prompts, one at a time."""
        return DataLoader(self.prompts(), batch_size=None)  # type: ignore[arg-type]

    def _held_out_loader(self, split: str) -> DataLoader[Batch]:
        layout = self.layout
        batches = FixedBatches(*self.held_out(split), layout.micro_batch, layout.ranks, layout.rank)
        return DataLoader(batches, batch_size=None, pin_memory=self._on_cuda)

    @property
    def _on_cuda(self) -> bool:
        return self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
