import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from mgvr_lightning.metrics import BitsPerByte, NatsPerToken, Perplexity, TokenAccuracy, language_metrics

Parts = tuple[Tensor, Tensor, Tensor, Tensor]


def _tokens(rows: int, length: int = 5, seed: int = 0) -> Parts:
    generator = torch.Generator().manual_seed(seed)
    nll = torch.rand(rows, length, generator=generator) * 8
    correct = torch.rand(rows, length, generator=generator) < 0.3
    scored = torch.rand(rows, length, generator=generator) < 0.6
    sizes = torch.randint(0, 4, (rows, length), generator=generator)
    return nll, correct, scored, sizes


def _expected(parts: Parts) -> dict[str, float]:
    nll, correct, scored, sizes = (part.double().flatten().tolist() for part in parts)
    losses = [loss for loss, here in zip(nll, scored, strict=True) if here]
    right = [hit for hit, here in zip(correct, scored, strict=True) if here]
    text = [(loss, size) for loss, here, size in zip(nll, scored, sizes, strict=True) if here and size]
    mean = math.fsum(losses) / len(losses)
    return {
        "loss": mean,
        "perplexity": math.exp(mean),
        "accuracy": sum(right) / len(right),
        "bits_per_byte": math.fsum(loss for loss, _ in text) / sum(size for _, size in text) / math.log(2),
    }


@pytest.mark.parametrize("split", [[9], [4, 4, 1], [1, 8], [1] * 9, [2, 3, 4]])
def test_any_batching_gives_the_value_of_one_big_batch(split: Sequence[int]) -> None:
    parts = _tokens(9)
    metrics = language_metrics("val/", text=True)
    for batch in zip(*(part.split(list(split)) for part in parts), strict=True):
        metrics.update(*batch)
    for key, value in metrics.compute().items():
        assert value.dtype == torch.float64
        assert float(value) == pytest.approx(_expected(parts)[key.removeprefix("val/")], rel=1e-13)


def test_a_mean_of_batch_means_would_be_another_value() -> None:
    nll = torch.tensor([[1.0, 1.0, 1.0, 9.0]])
    scored = torch.ones_like(nll, dtype=torch.bool)
    metric = NatsPerToken()
    for batch in (slice(0, 3), slice(3, 4)):
        metric.update(nll[:, batch], scored[:, batch], scored[:, batch], scored[:, batch].long())
    assert float(metric.compute()) == 3.0


def test_bits_per_byte_leaves_control_tokens_out_on_both_sides() -> None:
    nll = torch.tensor([[math.log(2), 100.0, 3 * math.log(2)]], dtype=torch.float64)
    yes = torch.ones(1, 3, dtype=torch.bool)
    metric = BitsPerByte()
    metric.update(nll, yes, yes, torch.tensor([[1, 0, 3]]))
    assert float(metric.compute()) == pytest.approx(1.0, rel=1e-15)


def test_an_unscored_token_counts_nowhere_even_with_an_infinite_loss_beside_it() -> None:
    nll, correct, scored, sizes = _tokens(4)
    expected = _expected((nll, correct, scored, sizes))
    nll[~scored] = 1e30
    correct[~scored] = True
    metrics = language_metrics("", text=True)
    metrics.update(nll, correct, scored, sizes)
    for key, value in metrics.compute().items():
        assert float(value) == pytest.approx(expected[key], rel=1e-13)


def test_without_text_there_are_no_bits_per_byte() -> None:
    assert set(language_metrics("test/", text=False)) == {"test/loss", "test/perplexity", "test/accuracy"}


def test_nothing_scored_is_nan() -> None:
    nll, correct, scored, sizes = _tokens(2)
    metrics = language_metrics("", text=True)
    metrics.update(nll, correct, torch.zeros_like(scored), sizes)
    assert all(value.isnan() for value in metrics.compute().values())


def test_control_tokens_alone_have_a_loss_but_no_bits_per_byte() -> None:
    nll, correct, scored, sizes = _tokens(2)
    metrics = language_metrics("", text=True)
    metrics.update(nll, correct, scored, torch.zeros_like(sizes))
    values = metrics.compute()
    assert values["bits_per_byte"].isnan()
    assert values["loss"].isfinite()


def test_a_confident_mistake_leaves_perplexity_finite() -> None:
    yes = torch.ones(1, 2, dtype=torch.bool)
    metric = Perplexity()
    metric.update(torch.tensor([[200.0, 0.0]]), yes, yes, yes.long())
    assert float(metric.compute()) == pytest.approx(math.exp(100.0))


def test_counts_past_the_integers_of_float32_are_exact() -> None:
    count = 2**24 + 1
    yes = torch.ones(1, 1, dtype=torch.bool)
    for metric in (NatsPerToken(), TokenAccuracy(), BitsPerByte()):
        metric.count, metric.total = torch.tensor(count - 1), torch.tensor(count - 1.0, dtype=torch.float64)
        metric.update(torch.ones(1, 1), yes, yes, yes.long())
        assert int(metric.count) == count
        assert float(metric.total) == count


def test_reset_forgets() -> None:
    metrics = language_metrics("", text=True)
    metrics.update(*_tokens(3, seed=1))
    metrics.reset()
    parts = _tokens(3, seed=2)
    metrics.update(*parts)
    assert float(metrics.compute()["loss"]) == pytest.approx(_expected(parts)["loss"], rel=1e-13)
