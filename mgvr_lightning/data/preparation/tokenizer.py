"""Text to token ids and back: byte-level BPE, or any ``tokenizer.json``."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from mgvr_lightning.errors import InputError

SEPARATOR = "<|endoftext|>"
SEPARATORS = (
    SEPARATOR,
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|eos|>",
    "<|im_end|>",
    "<｜end▁of▁sentence｜>",
    "[EOS]",
    "[SEP]",
)
SMALLEST = 257
# The trainer takes time quadratic in a word's length: text without spaces is cut for it, not for encoding.
_LONG_RUN = re.compile(r"\S{200}|\s{200}")
_LONGEST = 2**19
_SEARCHED = 2**14
_WORD_START = re.compile(r"(?<=\S) (?=\S)")
_BYTE_FALLBACK = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Tokenizer:
    """A vocabulary and its rules; text never turns into a special token.

    Build one with ``load`` or ``train``.

    Args:
        content: The text of a ``tokenizer.json``. Truncation, padding and post-processing (such as a start
            token) in it are not applied.
        origin: Where it came from, for messages.

    Attributes:
        size: Number of rows that an embedding needs: the largest id plus one, the separator included.
        separator: Id of the special token between documents.
        hash: Hex digest of the content, whatever its layout and the order of its keys.

    Raises:
        InputError: If the content is no tokenizer or has no token that separates documents.
    """

    def __init__(self, content: str, origin: str = "the tokenizer") -> None:
        try:
            parsed = json.loads(content)
            self._tokenizer = tokenizers.Tokenizer.from_str(content)
        except Exception as error:  # the library raises nothing narrower
            raise InputError(
                f"{origin} is not a tokenizer.json of the `tokenizers` library: {error}\n"
                "Give a file that `tokenizers.Tokenizer.from_file` reads."
            ) from error
        self._content = content
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.separator = _find_separator(self._tokenizer, origin)
        self._tokenizer.encode_special_tokens = True
        self.size = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        canonical = json.dumps(parsed, sort_keys=True, separators=(",", ":"))
        self.hash = hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        self._byte_level = "ByteLevel" in json.dumps([parsed.get("pre_tokenizer"), parsed.get("decoder")])
        text = self.decode([self.separator])
        if self.separator in self.encode(text):
            raise InputError(
                f"{origin} turns the text {text!r} into its own document separator, id {self.separator}.\n"
                "Give a tokenizer that keeps control tokens out of ordinary text."
            )

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, without start, end or separator."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[npt.NDArray[np.uint32]]:
        """Return the ids of each text, as ``encode`` does, on all cores.

        A byte-level tokenizer gets long texts in parts, cut where a word ends and a space begins the next, so
        that memory does not grow with a text's length; the ids are the same. (A text without such a place is
        cut anywhere, each half million characters.)
        """
        parts = [self._parts(text) for text in texts]
        encoded = self._encoded([part for own in parts for part in own])
        return [np.concatenate([next(encoded) for _ in own]) for own in parts]

    def _encoded(self, parts: list[str]) -> Iterator[npt.NDArray[np.uint32]]:
        """Encode some at a time: the library's encodings take about 80 bytes an id."""
        start = 0
        while start < len(parts):
            end, characters = start, 0
            while end < len(parts) and characters < 2 * _LONGEST:
                characters += len(parts[end])
                end += 1
            for encoding in self._tokenizer.encode_batch_fast(parts[start:end], add_special_tokens=False):
                yield _ids(encoding)
            start = end

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, special tokens spelled out; half characters become U+FFFD."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def token_bytes(self) -> npt.NDArray[np.int64]:
        """Return how many bytes of UTF-8 text each id stands for, shape ``(size,)``; 0 for special tokens.

        Exact for byte-level vocabularies, where the bytes of a document's ids add up to the document's bytes.
        Elsewhere it is the length of the token with the marks for spaces and bytes undone.
        """
        added = self._tokenizer.get_added_tokens_decoder()
        sizes = np.zeros(self.size, dtype=np.int64)
        for token, index in self._tokenizer.get_vocab(with_added_tokens=True).items():
            if index in added:
                sizes[index] = 0 if added[index].special else len(added[index].content.encode())
            elif self._byte_level:
                sizes[index] = len(token)  # one printable character stands for each byte
            else:
                sizes[index] = _visible_bytes(token)
        return sizes

    def _parts(self, text: str) -> list[str]:
        if len(text) <= _LONGEST or not self._byte_level:
            return [text]
        parts = []
        start = 0
        while len(text) - start > _LONGEST:
            end = start + _LONGEST
            spaces = list(_WORD_START.finditer(text, max(start + 1, end - _SEARCHED), end))
            cut = spaces[-1].start() if spaces else end
            parts.append(text[start:cut])
            start = cut
        return [*parts, text[start:]]

    def save(self, path: Path) -> None:
        """Write the ``tokenizer.json`` that ``load`` reads back with the same hash."""
        path.write_text(self._content, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a ``tokenizer.json``.

        Raises:
            InputError: If the file is missing, is no tokenizer or has no token that separates documents.
        """
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the tokenizer {path}: {error}\nGive a tokenizer.json.") from error
        return cls(content, str(path))

    @classmethod
    def train(cls, texts: Iterable[str], size: int, progress: bool = True) -> Tokenizer:
        """Learn a byte-level BPE without normalisation; the same texts in the same order give the same one.

        A corpus too small for ``size`` gives a smaller vocabulary and a warning that names both numbers.

        Args:
            texts: What to learn from; read once.
            size: Number of ids: 256 bytes, the separator and the merges.
            progress: Whether to draw a progress bar.

        Raises:
            InputError: If ``size`` is under 257.
        """
        if size < SMALLEST:
            raise InputError(
                f"a vocabulary of {size:,} ids is too small: 256 bytes and the document separator take "
                f"{SMALLEST}.\nAsk for at least {SMALLEST}; a few thousand are usual for small models."
            )
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[SEPARATOR],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=progress and sys.stdout.isatty(),  # elsewhere it prints empty lines
        )
        pieces = itertools.chain.from_iterable(map(_pieces, texts))
        tokenizer.train_from_iterator(pieces, trainer=trainer)
        trained = cls(tokenizer.to_str())
        if trained.size < size:
            warnings.warn(
                f"the vocabulary has {trained.size:,} ids, not the {size:,} asked for: the training text is "
                "too small to learn more. Use more text or ask for fewer.",
                stacklevel=2,
            )
        return trained


def _ids(encoding: tokenizers.Encoding) -> npt.NDArray[np.uint32]:
    return np.frombuffer(array("I", encoding.ids), dtype=np.uintc)  # three times as fast as np.array


def _find_separator(tokenizer: tokenizers.Tokenizer, origin: str) -> int:
    added = {token.content: index for index, token in tokenizer.get_added_tokens_decoder().items()}
    for text in SEPARATORS:
        if text in added:
            tokenizer.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False)])
            return added[text]
    raise InputError(
        f"{origin} has no token that separates documents; looked for {', '.join(SEPARATORS)}\n"
        f"among its added tokens: {', '.join(added) or 'none'}. Give a tokenizer with one of them."
    )


def _pieces(text: str) -> Iterator[str]:
    start = 0
    for run in _LONG_RUN.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    yield text[start:]


def _visible_bytes(token: str) -> int:
    if _BYTE_FALLBACK.fullmatch(token):
        return 1
    return len(token.removeprefix("##").replace("▁", " ").encode("utf-8", "surrogatepass"))
