"""Text as language-modelling windows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgvr_lightning.data.batch import Ids
from mgvr_lightning.data.corpora.builtin import Builtin
from mgvr_lightning.data.corpora.corpus import Corpus
from mgvr_lightning.data.mixture import BLOCK, shares
from mgvr_lightning.data.preparation.prepare import Part, Preparation, fingerprint
from mgvr_lightning.data.preparation.prepared import Prepared, load
from mgvr_lightning.data.preparation.splits import (
    TEST,
    TRAIN,
    VALIDATION,
    Everything,
    HeldOut,
    Splits,
    Without,
)
from mgvr_lightning.data.preparation.tokenizer import Tokenizer
from mgvr_lightning.data.preparation.vocabulary import Lesson, learn
from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.data.windows import FILLER, TextExamples, Windows, inputs_and_targets
from mgvr_lightning.errors import InputError
from mgvr_lightning.model.loss import IGNORE

VOCABULARY = 4096


@dataclass
class Source:
    """A corpus in a mixture.

    Args:
        corpus: where the text comes from.
        weight: its share of the windows, in any unit.
    """

    corpus: Corpus
    weight: float = 1.0


class Text(TokenData):
    """Language modelling on a corpus, or on several mixed by weight, prepared once and cached as tokens.

    Args:
        corpus: where the text comes from; null for the built-in corpus. A list of corpora with weights mixes
            them: the shares of the windows that are trained on, and of those that are validated on.
        vocabulary: entries of the byte-level BPE that is trained on the corpus; null for 4,096.
        vocabulary_bytes: the most text that the BPE is trained on, in bytes, from all over the corpus.
        tokenizer: a tokenizer.json to use instead of training one.
        context: T, tokens of a window.
        held_out: share of the documents that goes to validation, and again to test, chosen by content hash.
        validation: a corpus to validate on instead; nothing is held out then, documents that it shares with
            the training text are left out of training, and `test` takes all of it.
        isolate_documents: whether a token attends to its own document only; otherwise windows are read
            across the separators in them.
        validation_windows: number of windows to validate on, evenly spread over the held-out text; null for
            all. `test` always takes all of its split.
        prompts: texts that `predict` continues; null for the beginnings of validation windows.
        cache: folder that prepared tokens are kept in.
        global_batch: sequences per optimizer step, over all processes.
        micro_batch: sequences per forward pass and process; accumulation follows from it. Null for a
            process's whole share of the step.
        workers: loader processes; 0 to load in the training process.
        seed: the data seed.
    """

    def __init__(
        self,
        corpus: Corpus | list[Source] | None = None,
        vocabulary: int | None = None,
        vocabulary_bytes: int = 2**26,
        tokenizer: str | None = None,
        context: int = 256,
        held_out: float = 0.02,
        validation: Corpus | None = None,
        isolate_documents: bool = False,
        validation_windows: int | None = 128,
        prompts: list[str] | None = None,
        cache: str = "data",
        global_batch: int = 16,
        micro_batch: int | None = None,
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(global_batch, micro_batch, workers, seed)
        if context < 1:
            raise InputError(f"data.context: {context} tokens. Expected 1 or more.")
        if validation_windows is not None and validation_windows < 1:
            raise InputError(
                f"data.validation_windows: {validation_windows}. Expected 1 or more, or null for all."
            )
        self.sources = corpus if isinstance(corpus, list) else [Source(corpus or Builtin())]
        shares(self.weights, BLOCK)  # refuses what isn't a weight
        self.validation, self._held_out = validation, HeldOut(held_out)
        self._vocabulary, self._vocabulary_bytes, self._tokenizer = vocabulary, vocabulary_bytes, tokenizer
        self._context, self.isolate_documents = context, isolate_documents
        self.validation_windows, self._prompts, self._cache = validation_windows, prompts, Path(cache)
        self.prepared: list[Prepared] = []

    @property
    def weights(self) -> list[float]:
        """The shares of the sources."""
        return [source.weight for source in self.sources]

    def prepare_data(self) -> None:
        """Prepares the tokens, in one process per machine."""
        if not self.prepared:
            self.prepare(progress=True)

    def prepare(
        self, part: Part | None = None, processes: int | None = None, progress: bool = True
    ) -> list[Path]:
        """Prepares the tokens, or a part of them.

        Args:
            part: the share of the work; None to see all of it through.
            processes: how many to use; None for one per core.
            progress: whether to say how it goes.

        Returns:
            The prepared folders, one per source, then the validation corpus's; empty if pieces of other parts
            are still missing.

        Raises:
            InputError: a corpus cannot be read or holds too little, or an option doesn't fit.
        """
        rule: Splits = self._held_out
        held_apart = []
        if self.validation is not None:
            if self.validation.tokenized:
                raise InputError(
                    f"data.validation: {type(self.validation).__name__} holds token ids. "
                    "Expected a corpus of text."
                )
            known = fingerprint(self.validation, self._cache, progress)
            rule = Without(self.validation, known)
            held_apart = [(self.validation, known, Everything())]
        marks = [fingerprint(source.corpus, self._cache, progress) for source in self.sources]
        tokenizer = self._learned(marks, rule, progress)
        corpora = [source.corpus for source in self.sources]
        work = [*zip(corpora, marks, [rule] * len(marks), strict=True), *held_apart]
        results = [
            Preparation(corpus, mark, tokenizer, splits, self._cache, progress).run(part, processes)
            for corpus, mark, splits in work
        ]
        self.prepared = [result for result in results if result is not None]
        if len(self.prepared) < len(results):
            self.prepared = []
        return [prepared.folder for prepared in self.prepared]

    def setup(self, stage: str) -> None:
        """Opens the tokens; those that one process of each machine prepared.

        Raises:
            InputError: a split is shorter than a window.
        """
        if self.trainer is not None and self.trainer.world_size > 1:
            folders = [str(prepared.folder) for prepared in self.prepared]
            theirs = self.trainer.strategy.broadcast(folders)
            if self.prepared and folders != theirs:
                raise InputError(
                    f"the first process prepared {', '.join(theirs)}, process {self.trainer.global_rank} "
                    f"{', '.join(folders)}: they'd train on different tokens.\nGive all machines the same "
                    "corpus (of the hub: the same `revision`), versions and options."
                )
            self.prepared = self.prepared or [load(Path(folder)) for folder in theirs]
        if not self.prepared:
            self.prepare(progress=False)
        for prepared in self.prepared:
            for split, tokens in prepared.splits.items():
                if len(tokens) <= self.context:
                    raise InputError(
                        f"{prepared.folder}: the {split} split has {len(tokens)} tokens, but a window needs "
                        f"{self.context + 1}. Give more text, a smaller data.context or a larger "
                        "data.held_out."
                    )

    @property
    def tokenizer(self) -> Tokenizer:
        """What made the tokens."""
        assert self.prepared, "setup comes first"
        return self.prepared[0].tokenizer

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.tokenizer.size

    @property
    def context(self) -> int:
        """T, tokens of a window."""
        return self._context

    @property
    def document_start(self) -> int | None:
        """The separator, where documents are isolated."""
        return self.tokenizer.separator if self.isolate_documents else None

    @property
    def token_bytes(self) -> NDArray[np.int64]:
        """(vocabulary,) bytes of text that each id stands for, 0 for control tokens."""
        return self.tokenizer.token_bytes()

    @property
    def facts(self) -> dict[str, Any]:
        """Tokenizer, tokens, windows and order."""
        counts = [count for _, count in self._validation_counts()]
        train = [windows.tokens.hash for windows in self._windows(TRAIN)]
        validation = [windows.tokens.hash for windows in self._windows(VALIDATION)]
        return {
            "tokenizer": self.tokenizer.hash,
            "train_tokens": train[0] if len(train) == 1 else train,
            "validation_tokens": validation[0] if len(validation) == 1 else validation,
            "validation_windows": counts[0] if len(counts) == 1 else counts,
            "weights": None if len(train) == 1 else self.weights,
            "context": self.context,
            "isolate_documents": self.isolate_documents,
            "global_batch": self.global_batch,
            "data_seed": self.seed,
        }

    def describe(self) -> dict[str, Any]:
        """The manifests of the prepared tokens."""
        manifests = [prepared.manifest for prepared in self.prepared]
        return manifests[0] if len(manifests) == 1 else {"sources": manifests}

    def examples(self) -> TextExamples:
        """The training windows."""
        return TextExamples(self._windows(TRAIN), self.weights, self.seed)

    def held_out(self, split: str) -> tuple[Ids, Ids]:
        """The windows of `validation`, or all of `test` to the last token."""
        if split == VALIDATION:
            parts = [windows.spread(count) for windows, count in self._validation_counts()]
        else:
            parts = [
                part for windows in self._windows(TEST) for part in (windows.spread(None), windows.rest())
            ]
        ids, targets = inputs_and_targets(np.concatenate(parts))
        ids[ids == FILLER], targets[targets == FILLER] = 0, IGNORE
        return ids, targets

    def epochs(self, steps: int) -> float:
        """How often a run of so many steps goes through the windows of its most repeated source."""
        return self.examples().order.epochs(steps * self.global_batch)

    def yardsticks(self) -> dict[str, float]:
        """Bits per byte that gzip and xz need for the validation text; sources weighted as in training."""
        texts = [self.prepared[-1]] if self.validation is not None else self.prepared
        weights = [1.0] if self.validation is not None else self.weights
        return {
            name: float(np.average([text.manifest["compression"][name] for text in texts], weights=weights))
            for name in ("gzip", "xz")
        }

    def decode(self, ids: list[int]) -> str:
        """Text of token ids."""
        return self.tokenizer.decode(ids)

    def prompts(self) -> list[list[int]]:
        """Token ids of the prompts."""
        if self._prompts is None:
            return super().prompts()
        return [[self.tokenizer.separator, *self.tokenizer.encode(text)] for text in self._prompts]

    def _learned(self, marks: list[str], rule: Splits, progress: bool) -> Tokenizer:
        if self._tokenizer is not None:
            tokenizer = Tokenizer.load(Path(self._tokenizer))
            if self._vocabulary not in (None, tokenizer.size):
                raise InputError(
                    f"data.vocabulary: {self._vocabulary}, but the tokenizer {self._tokenizer} has "
                    f"{tokenizer.size} entries. Leave one of the two out."
                )
            return tokenizer
        lessons = [
            Lesson(source.corpus, mark, rule, source.weight)
            for source, mark in zip(self.sources, marks, strict=True)
        ]
        size = VOCABULARY if self._vocabulary is None else self._vocabulary
        return learn(lessons, size, self._vocabulary_bytes, self._cache, progress)

    def _windows(self, split: str) -> list[Windows]:
        """The windows of each source, or of the validation corpus."""
        assert self.prepared, "setup comes first"
        if self.validation is not None:
            if split != TRAIN:
                return [Windows(self.prepared[-1].splits[VALIDATION], self.context)]
            return [Windows(prepared.splits[TRAIN], self.context) for prepared in self.prepared[:-1]]
        return [Windows(prepared.splits[split], self.context) for prepared in self.prepared]

    def _validation_counts(self) -> list[tuple[Windows, int]]:
        """How many windows to validate on, of each source."""
        sources = self._windows(VALIDATION)
        if self.validation_windows is None:
            return [(windows, windows.count) for windows in sources]
        if len(sources) == 1:
            return [(sources[0], min(self.validation_windows, sources[0].count))]
        wanted = shares(self.weights, max(self.validation_windows, len(sources)))
        return [
            (windows, min(int(count), windows.count)) for windows, count in zip(sources, wanted, strict=True)
        ]
