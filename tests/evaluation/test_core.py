"""Every kind of task against a computation written out for one sequence at a time."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bundles import KINDS, WORDS, bundle, words, write_bundle
from language_models import START, gpt2, naive_logits, ours

from mgvr_lightning.commands.core import main
from mgvr_lightning.errors import InputError
from mgvr_lightning.evaluation.bundle import read_tasks
from mgvr_lightning.evaluation.language_model import LanguageModel
from mgvr_lightning.evaluation.report import as_csv, as_table
from mgvr_lightning.evaluation.suite import Result, Share, run_task


def naive_nats(model: LanguageModel, ids: list[int]) -> list[float]:
    """Of each token but the first."""
    logits = naive_logits(model, ids)
    return [-float(logits[i].log_softmax(-1)[ids[i + 1]]) for i in range(len(ids) - 1)]


def naive_right(model: LanguageModel, kind: str, row: dict[str, Any], shots: list[dict[str, Any]]) -> bool:
    """One question, with tokens that are bytes, so that places in texts are places in tokens."""
    delimiter = "\nAnswer: " if kind == "multiple_choice" else " "
    assert model.context is not None

    def nats(text: str) -> list[float]:
        return naive_nats(model, [START, *text.encode()][-model.context :])  # type: ignore[operator]

    if kind == "multiple_choice":
        before = "".join(f"{r['query']}{delimiter}{r['choices'][r['gold']]}\n\n" for r in shots)
        texts = [before + row["query"] + delimiter + choice for choice in row["choices"]]
        same = 0
        while all(len(text) > same + 1 and text[same] == texts[0][same] for text in texts):
            same += 1
        means = [sum(part) / len(part) for part in (nats(text)[same - len(text) :] for text in texts)]
        return means.index(min(means)) == row["gold"]
    if kind == "schema":
        before = "".join(f"{r['context_options'][r['gold']]} {r['continuation']}\n\n" for r in shots)
        ends = [nats(f"{before}{c} {row['continuation']}") for c in row["context_options"]]
        scored = len(" " + row["continuation"])
        means = [sum(end[-scored:]) / scored for end in ends]
        return means.index(min(means)) == row["gold"]
    before = "".join(f"{r['context'].strip()} {r['continuation']}\n\n" for r in shots)
    ids = [START, *f"{before}{row['context'].strip()} {row['continuation']}".encode()][-model.context :]
    predicted = naive_logits(model, ids).argmax(-1).tolist()
    scored = len(" " + row["continuation"])
    return all(predicted[i - 1] == ids[i] for i in range(len(ids) - scored, len(ids)))


def naive_accuracy(model: LanguageModel, folder: Path, kind: str, shots: int, limit: int | None) -> float:
    lines = (folder / "eval_data" / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    random.Random(1337).shuffle(rows)
    right = []
    for place, row in enumerate(rows[:limit]):
        shown = random.Random(1234 + place).sample(rows[:place] + rows[place + 1 :], shots)
        right.append(naive_right(model, kind, row, shown))
    return sum(right) / len(right)


def run(model: LanguageModel, folder: Path, **options: Any) -> list[Result]:
    return [run_task(model, task, Share(), **options) for task in read_tasks(folder, "core.yaml")]


@pytest.mark.parametrize("build", [ours, lambda: ours("mgvr"), lambda: ours("first_values"), gpt2])
@pytest.mark.parametrize(("shots", "limit", "batch"), [(2, None, 3), (0, 5, 1), (3, 7, 8)])
def test_accuracies_are_the_naive_ones(
    build: Callable[[], LanguageModel], shots: int, limit: int | None, batch: int, tmp_path: Path
) -> None:
    model, folder = build(), bundle(tmp_path, shots=shots)
    for result in run(model, folder, limit=limit, batch=batch):
        assert result.accuracy == naive_accuracy(model, folder, result.task.kind, shots, limit)
        assert result.questions == (limit or 12)
        assert result.cropped == 0


@pytest.mark.parametrize("build", [ours, gpt2])
def test_scores_are_the_naive_ones_whatever_is_shared(build: Callable[[], LanguageModel]) -> None:
    model, draw = build(), random.Random(0)
    first = model.encode(words(draw, 6))
    sequences = [first + model.encode(words(draw, n))[1:] for n in (1, 4, 2)] + [first]
    scored = [3, 10, 2, 1]
    for batch in (1, 2, 9):
        scores = model.score(sequences, scored, batch)
        for ids, count, score in zip(sequences, scored, scores, strict=True):
            expected = torch.tensor(naive_nats(model, ids)[-count:], dtype=torch.float64)
            torch.testing.assert_close(score.nats, expected, rtol=0, atol=1e-9)
            likeliest = naive_logits(model, ids)[-count - 1 : -1].argmax(-1)
            assert torch.equal(score.likeliest, likeliest == torch.tensor(ids[-count:]))


def test_what_all_have_in_common_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ours()
    seen: list[int] = []
    hidden = model.network.hidden

    def watched(ids: torch.Tensor, cache: Any = None) -> torch.Tensor:
        seen.append(ids.numel())
        return hidden(ids, cache)

    monkeypatch.setattr(model.network, "hidden", watched)
    shared = model.encode(words(random.Random(0), 20))
    model.score([[*shared, end, end] for end in (1, 2, 3, 4)], [2] * 4, 3)
    assert seen == [len(shared) - 1, 3 * 3, 1 * 3]


def test_continuations_are_right_exactly_where_the_model_writes_them(tmp_path: Path) -> None:
    model = ours()
    letters = torch.zeros(257, 1, dtype=torch.float64)
    letters[ord("a") : ord("z") + 1] = 1
    model.network.head_weight.data *= letters  # all other tokens have a logit of 0
    rows = []
    for seed in range(6):
        context = words(random.Random(seed), 4)
        ids = model.encode(context)
        for _ in range(3):
            ids.append(int(naive_logits(model, ids)[-1].argmax()))
        written = bytes(ids[-3:]).decode()
        wrong = written[:2] + ("a" if written[2] != "a" else "b")
        rows += [{"context": context, "continuation": end} for end in (written, wrong, written)]
    entry = {"label": "t", "dataset_uri": "t", "num_fewshot": 0, "icl_task_type": "language_modeling"}
    folder = write_bundle(tmp_path / "b", [{**entry, "continuation_delimiter": ""}], {"t": rows})
    for batch in (1, 5):
        assert run(model, folder, batch=batch)[0].accuracy == pytest.approx(12 / 18)


def test_a_choice_that_another_one_begins_with_is_scored_too(tmp_path: Path) -> None:
    entry = {"label": "multiple_choice", "dataset_uri": "t", "num_fewshot": 0}
    entry = {**entry, "icl_task_type": "multiple_choice", "continuation_delimiter": "\nAnswer: "}
    rows = [{"query": q, "choices": ["red", "red car", "re"], "gold": i % 3} for i, q in enumerate(WORDS)]
    folder = write_bundle(tmp_path / "b", [entry], {"multiple_choice.jsonl": rows, "t": rows})
    model = ours()
    assert run(model, folder)[0].accuracy == naive_accuracy(model, folder, "multiple_choice", 0, None)


def test_longer_questions_lose_their_beginnings_and_are_counted(tmp_path: Path) -> None:
    model, folder = ours(context=40), bundle(tmp_path)
    for result in run(model, folder, batch=3):
        assert result.accuracy == naive_accuracy(model, folder, result.task.kind, 2, None)
        assert result.cropped == 12


def test_a_report_centres_on_random_guesses(tmp_path: Path) -> None:
    results = run(ours(), bundle(tmp_path))
    for result in results:
        assert result.centred == pytest.approx((result.accuracy - 0.25) / 0.75)
    lines = [line.split(",") for line in as_csv(results).splitlines()]
    assert [line[0] for line in lines[1:]] == [*KINDS, *sorted(KINDS), "CORE"]
    mean = sum(result.centred for result in results) / 3
    assert float(lines[-1][-1]) == pytest.approx(mean, abs=1e-6)
    assert f"{mean:+.4f}" in as_table(results).splitlines()[-1]


def test_processes_share_the_questions_out(tmp_path: Path) -> None:
    folder, model = bundle(tmp_path), ours()
    for task, whole in zip(read_tasks(folder, "core.yaml"), run(model, folder), strict=True):
        parts: list[torch.Tensor] = []

        def kept(sums: torch.Tensor, parts: list[torch.Tensor] = parts) -> torch.Tensor:
            parts.append(sums.clone())
            return sums

        for rank in range(5):
            run_task(model, task, Share(rank, 5, kept))
        right, count, _ = torch.stack(parts).sum(0).tolist()
        assert (count, right / count) == (whole.questions, whole.accuracy)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", r"multiple_choice\.jsonl:13: not JSON"),
        ('{"query": "a", "gold": 0}', r"jsonl:13: not a row of multiple_choice \(KeyError: 'choices'\)"),
        ('{"query": "a", "choices": ["b", "c"], "gold": 2}', r"jsonl:13: .*gold is 2, not an index of 2"),
        ('{"query": 3, "choices": ["b", "c"], "gold": 1}', r"jsonl:13: .*3 is not a text"),
        ("[]", r"jsonl:13: not a row"),
    ],
)
def test_a_malformed_line_is_named(line: str, told: str, tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    with (folder / "eval_data" / "multiple_choice.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=told):
        run(ours(), folder)


@pytest.mark.parametrize("missing", ["core.yaml", "eval_meta_data.csv", "eval_data/schema.jsonl"])
def test_a_missing_file_is_named(missing: str, tmp_path: Path) -> None:
    folder = bundle(tmp_path)
    (folder / missing).unlink()
    with pytest.raises(InputError, match=missing.replace(".", r"\.")):
        main(["--bundle", str(folder), "--hf", "nothing"])


def test_other_faults_of_a_bundle_are_named(tmp_path: Path) -> None:
    folder = bundle(tmp_path, count=2)
    with pytest.raises(InputError, match="2 rows, but schema shows 2 others"):
        _ = read_tasks(folder, "core.yaml")[1].questions
    with pytest.raises(InputError, match=r"has no task 'copa'\. It has multiple_choice, schema"):
        read_tasks(folder, "core.yaml", ["copa"])
    meta = folder / "eval_meta_data.csv"
    meta.write_text(meta.read_text(encoding="utf-8").replace(",25,", ",x,"), encoding="utf-8")
    with pytest.raises(InputError, match=r"eval_meta_data\.csv:2: .*Random baseline"):
        read_tasks(folder, "core.yaml")
    with pytest.raises(InputError, match="one of --checkpoint and --hf"):
        main(["--bundle", str(folder)])


def test_random_guesses_of_a_centred_score_are_zero(tmp_path: Path) -> None:
    (task, *_) = read_tasks(bundle(tmp_path), "core.yaml")
    assert Result(task, 4, 0.25, 0).centred == 0
    assert math.isclose(Result(task, 4, 1.0, 0).centred, 1)
