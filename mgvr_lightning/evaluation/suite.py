"""Runs tasks: few-shot prompts, shared out over processes, to accuracies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import lt
from random import Random

import torch
from torch import Tensor

from mgvr_lightning.evaluation.bundle import Task
from mgvr_lightning.evaluation.language_model import LanguageModel, Scores
from mgvr_lightning.evaluation.question import Answers, Question

ORDER_SEED = 1337


@dataclass(frozen=True)
class Result:
    """What a task came to.

    Attributes:
        task: the task.
        questions: how many were asked.
        accuracy: share of right answers.
        cropped: questions of which some completion was longer than the context.
    """

    task: Task
    questions: int
    accuracy: float
    cropped: int

    @property
    def centred(self) -> float:
        """0 for random guesses, 1 for all right."""
        return (self.accuracy - self.task.baseline) / (1 - self.task.baseline)


@dataclass(frozen=True)
class Share:
    """The part of one of several processes.

    Attributes:
        rank: which.
        ranks: how many there are.
        add: sums a tensor over all of them.
    """

    rank: int = 0
    ranks: int = 1
    add: Callable[[Tensor], Tensor] = lambda sums: sums


def shuffled(count: int) -> list[int]:
    """Rows in the fixed random order in which they are asked."""
    order = list(range(count))
    Random(ORDER_SEED).shuffle(order)
    return order


def shots(questions: list[Question], order: list[int], place: int, count: int, seed: int) -> str:
    """Solved questions to show before another one, drawn by its place in the order from all others."""
    others = [row for at, row in enumerate(order) if at != place]
    drawn = Random(seed + place).sample(others, count)
    return "".join(questions[row].solved() + "\n\n" for row in drawn)


def run_task(
    model: LanguageModel,
    task: Task,
    share: Share,
    limit: int | None = None,
    seed: int = 1234,
    batch: int = 8,
    asked: Callable[[int], object] = lambda count: None,
) -> Result:
    """Asks the questions of a task.

    Args:
        model: who is asked.
        task: the task.
        share: this process's part.
        limit: the most questions; shots are drawn from all rows all the same.
        seed: of the shots.
        batch: the most sequences that are run at once.
        asked: called with the number of questions done.
    """
    questions = task.questions
    order = shuffled(len(questions))
    places = range(len(order[:limit]))[share.rank :: share.ranks]
    done: list[tuple[bool, bool]] = []

    def prepared() -> Iterator[tuple[Question, Answers, bool]]:
        for place in places:
            question = questions[order[place]]
            shown = shots(questions, order, place, task.shots, seed)
            yield question, *fitted(question.answers(shown, model.encode), model.context)

    for group in grouped(prepared(), batch):
        done += answered(model, group, batch)
        asked(len(group))
    sums = [sum(right for right, _ in done), len(done), sum(cropped for _, cropped in done)]
    right, count, cropped = share.add(torch.tensor(sums, device=model.device)).tolist()
    return Result(task, count, right / count, cropped)


Prepared = tuple[Question, Answers, bool]


def grouped(prepared: Iterator[Prepared], batch: int) -> Iterator[list[Prepared]]:
    """Questions that are run together: those with one completion each in batches, others one by one."""
    waiting: list[Prepared] = []
    for one in prepared:
        if one[0].ranked:
            yield [one]
            continue
        waiting.append(one)
        if len(waiting) == batch:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def answered(model: LanguageModel, group: list[Prepared], batch: int) -> Iterator[tuple[bool, bool]]:
    """Whether each question of a group was answered right, and whether it was cropped."""
    tokens = [ids for _, answers, _ in group for ids in answers.tokens]
    counts = [count for _, answers, _ in group for count in answers.scored]
    scores = iter(model.score(tokens, counts, batch))
    for question, answers, cropped in group:
        yield is_right(question, [next(scores) for _ in answers.tokens]), cropped


def is_right(question: Question, scores: list[Scores]) -> bool:
    """Whether the right completion has the fewest nats per scored token, or is the likeliest text."""
    if not question.ranked:
        return bool(scores[0].likeliest.all())
    means = torch.stack([score.nats.double().mean() for score in scores])
    return int(means.argmin()) == question.gold


def fitted(answers: Answers, context: int | None) -> tuple[Answers, bool]:
    """Completions within the context: of longer ones the last tokens are kept, and all but one scored."""
    tokens = answers.tokens if context is None else [ids[-context:] for ids in answers.tokens]
    scored = [min(count, len(ids) - 1) for ids, count in zip(tokens, answers.scored, strict=True)]
    return Answers(tokens, scored), any(map(lt, map(len, tokens), map(len, answers.tokens)))
