"""Questions of the three kinds, as text and as tokens."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

Encode = Callable[[str], list[int]]


class Answers(NamedTuple):
    """The ways in which a question can be completed.

    Attributes:
        tokens: one sequence for each.
        scored: how many of the last tokens of each are scored.
    """

    tokens: list[list[int]]
    scored: list[int]


class Question(ABC):
    """A row of a task.

    Args:
        row: the row.
        delimiter: what stands between a question and its answer.
    """

    ranked: bool
    """Whether the likeliest completion is the answer; otherwise the only one must be the likeliest text."""
    gold: int = 0
    """Index of the right completion."""

    @abstractmethod
    def __init__(self, row: Any, delimiter: str) -> None: ...

    @abstractmethod
    def solved(self) -> str:
        """The question with its right answer, as it is shown before another question."""

    @abstractmethod
    def answers(self, shots: str, encode: Encode) -> Answers:
        """The completions behind solved questions.

        Args:
            shots: the solved questions, each with an empty line behind it.
            encode: text → ids, with what begins a document.
        """


class MultipleChoice(Question):
    """a query (text), choices (two texts or more) and gold (index of the right choice)."""

    ranked = True

    def __init__(self, row: Any, delimiter: str) -> None:
        self.query, self.delimiter = text(row["query"]), delimiter
        self.choices, self.gold = options(row["choices"], row["gold"])

    def solved(self) -> str:
        """The query and the right choice."""
        return self.query + self.delimiter + self.choices[self.gold]

    def answers(self, shots: str, encode: Encode) -> Answers:
        """What differs is scored: the tokens behind those that all have in common, at least one of each."""
        prompt = shots + self.query + self.delimiter
        tokens = [encode(prompt + choice) for choice in self.choices]
        same = min(common(tokens), *(len(ids) - 1 for ids in tokens))
        return Answers(tokens, [len(ids) - same for ids in tokens])


class Schema(Question):
    """context_options (two texts or more), a continuation (text) and gold (index of the right context)."""

    ranked = True

    def __init__(self, row: Any, delimiter: str) -> None:
        self.continuation, self.delimiter = text(row["continuation"]), delimiter
        self.contexts, self.gold = options(row["context_options"], row["gold"])

    def solved(self) -> str:
        """The right context and the continuation."""
        return self.contexts[self.gold] + self.delimiter + self.continuation

    def answers(self, shots: str, encode: Encode) -> Answers:
        """What all have in common is scored: the last tokens, at least one."""
        tokens = [encode(shots + context + self.delimiter + self.continuation) for context in self.contexts]
        same = max(1, common([ids[::-1] for ids in tokens]))
        return Answers(tokens, [same] * len(tokens))


class Continuation(Question):
    """a context (text) and its continuation (text)."""

    ranked = False

    def __init__(self, row: Any, delimiter: str) -> None:
        self.context, self.continuation = text(row["context"]).strip(), text(row["continuation"])
        self.delimiter = delimiter

    def solved(self) -> str:
        """The context and the continuation."""
        return self.context + self.delimiter + self.continuation

    def answers(self, shots: str, encode: Encode) -> Answers:
        """What the continuation adds is scored; a space before it belongs to its first token."""
        tokens = encode(shots + self.solved())
        prompt = encode((shots + self.context + self.delimiter).rstrip())
        return Answers([tokens], [max(1, len(tokens) - common([prompt, tokens]))])


QUESTIONS: dict[str, type[Question]] = {
    "multiple_choice": MultipleChoice,
    "schema": Schema,
    "language_modeling": Continuation,
}


def common(sequences: Sequence[Sequence[int]]) -> int:
    """How many first tokens all sequences share."""
    return sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, zip(*sequences, strict=False)))


def text(value: Any) -> str:
    """A text of a row."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def options(values: Any, gold: Any) -> tuple[list[str], int]:
    """Texts to choose from, and the index of the right one."""
    if not isinstance(values, list) or len(values) < 2:
        raise ValueError(f"{values!r} are not two or more texts")
    if type(gold) is not int or not 0 <= gold < len(values):
        raise ValueError(f"gold is {gold!r}, not an index of {len(values)}")
    return [text(value) for value in values], gold
