"""Text as language-modelling windows."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgvr_lightning.data.batch import Examples, Ids
from mgvr_lightning.data.builtin import Builtin
from mgvr_lightning.data.corpus import Corpus
from mgvr_lightning.data.order import Indices, Order
from mgvr_lightning.data.prepare import Prepared, prepare
from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.data.tokens import Tokens
from mgvr_lightning.errors import InputError


class Windows(Examples):
    """Consecutive windows of a token sequence, shuffled. Each one's last target is the next one's first id.

    Args:
        tokens: the token sequence.
        context: T, tokens of a window.
        seed: of the order.
    """

    def __init__(self, tokens: Tokens, context: int, seed: int) -> None:
        self.tokens, self.context = tokens, context
        self.count = max(0, (len(tokens) - 1) // context)
        self.order = Order(max(1, self.count), seed)

    def window(self, index: int) -> Ids:
        """(T + 1,) ids of window `index`."""
        return self.tokens.read(index * self.context, self.context + 1)

    def rows(self, positions: Indices) -> tuple[Ids, Ids]:
        """Makes the windows at `positions`."""
        rows = np.stack([self.window(int(index)) for index in self.order(positions)])
        return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])

    def scored(self, positions: Indices) -> int:
        """Every target is scored."""
        return len(positions) * self.context

    def spread(self, count: int | None) -> tuple[Ids, Ids]:
        """At most `count` windows, evenly spread, in their own order; None for all."""
        count = self.count if count is None else min(count, self.count)
        rows = np.stack([self.window(index * self.count // count) for index in range(count)])
        return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])


class Text(TokenData):
    """Language modelling on a corpus, prepared once and cached as tokens.

    Args:
        corpus: where the text comes from; null for the built-in corpus.
        vocabulary: entries of the byte-level BPE that is trained on the corpus.
        tokenizer: a tokenizer.json to use instead of training one.
        context: T, tokens of a window.
        held_out: share of the documents that goes to validation, and again to test, chosen by content hash.
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
        corpus: Corpus | None = None,
        vocabulary: int = 4096,
        tokenizer: str | None = None,
        context: int = 256,
        held_out: float = 0.02,
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
        self.corpus = corpus if corpus is not None else Builtin()
        self._vocabulary, self._tokenizer = vocabulary, tokenizer
        self._context, self._held_out = context, held_out
        self.validation_windows, self._prompts, self._cache = validation_windows, prompts, cache
        self.prepared: Prepared | None = None

    def prepare_data(self) -> None:
        """Prepares the tokens, in one process per machine."""
        if self.prepared is None:
            self.prepared = self._prepare(progress=True)

    def setup(self, stage: str) -> None:
        """Opens the tokens.

        Raises:
            InputError: a split is shorter than a window.
        """
        if self.prepared is None:
            self.prepared = self._prepare(progress=False)
        for split in ("train", "validation", "test"):
            tokens: Tokens = getattr(self.prepared, split)
            if len(tokens) <= self.context:
                raise InputError(
                    f"{self.prepared.folder}: the {split} split has {len(tokens)} tokens, but a window needs "
                    f"{self.context + 1}. Give more text, a smaller data.context or a larger data.held_out."
                )

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self._opened.tokenizer.size

    @property
    def context(self) -> int:
        """T, tokens of a window."""
        return self._context

    @property
    def token_bytes(self) -> NDArray[np.int64]:
        """(vocabulary,) bytes of text that each id stands for, 0 for control tokens."""
        return self._opened.tokenizer.token_bytes()

    @property
    def facts(self) -> dict[str, Any]:
        """Tokenizer, tokens, windows and order."""
        prepared = self._opened
        validation = self._windows("validation")
        count = validation.count if self.validation_windows is None else self.validation_windows
        return {
            "tokenizer": prepared.tokenizer.hash,
            "train_tokens": prepared.train.hash,
            "validation_tokens": prepared.validation.hash,
            "validation_windows": min(count, validation.count),
            "context": self.context,
            "global_batch": self.global_batch,
            "data_seed": self.seed,
        }

    def describe(self) -> dict[str, Any]:
        """The manifest of the prepared tokens."""
        return self._opened.manifest

    def examples(self) -> Windows:
        """The training windows."""
        return self._windows("train")

    def held_out(self, split: str) -> tuple[Ids, Ids]:
        """The windows of `validation` or `test`."""
        return self._windows(split).spread(self.validation_windows if split == "validation" else None)

    def epochs(self, steps: int) -> float:
        """How often a run of so many steps goes through the training windows."""
        return steps * self.global_batch / self._windows("train").count

    def yardsticks(self) -> dict[str, float]:
        """Bits per byte that gzip and xz need for the validation text."""
        compression = self._opened.manifest["compression"]
        return {name: compression[name] for name in ("gzip", "xz")}

    def decode(self, ids: list[int]) -> str:
        """Text of token ids."""
        return self._opened.tokenizer.decode(ids)

    def prompts(self) -> list[list[int]]:
        """Token ids of the prompts."""
        if self._prompts is None:
            return super().prompts()
        tokenizer = self._opened.tokenizer
        return [[tokenizer.separator, *tokenizer.encode(text)] for text in self._prompts]

    @property
    def _opened(self) -> Prepared:
        assert self.prepared is not None, "setup comes first"
        return self.prepared

    def _windows(self, split: str) -> Windows:
        return Windows(getattr(self._opened, split), self.context, self.seed)

    def _prepare(self, progress: bool) -> Prepared:
        tokenizer = None if self._tokenizer is None else Path(self._tokenizer)
        vocabulary = self._vocabulary if tokenizer is None else None
        return prepare(
            self.corpus,
            Path(self._cache),
            vocabulary=vocabulary,
            tokenizer=tokenizer,
            held_out=self._held_out,
            progress=progress,
        )
