"""How the next token is chosen."""

import pytest
import torch
from helpers import VOCABULARY, perturbed, tiny, tokens
from torch import Tensor

from mgvr_lightning.errors import InputError
from mgvr_lightning.model import Sampling, Transformer, generate
from mgvr_lightning.model.generate import next_token

LOGITS = torch.tensor([0.3, 2.0, -1.0, 1.1, 0.9, -0.2, 1.7, -3.0], dtype=torch.float64)
DRAWS = 20_000


def network() -> Transformer:
    return perturbed(tiny("mgvr", dtype=torch.float64))


def continued(
    model: Transformer, sampling: Sampling, vocabulary: int | None = None, count: int = 12
) -> Tensor:
    return torch.stack(list(generate(model, tokens(3, 4), count, sampling, vocabulary)), 1)


def naive_probabilities(sampling: Sampling) -> Tensor:
    """The distribution that draws from LOGITS follow."""
    weights = {token: torch.exp(logit / sampling.temperature).item() for token, logit in enumerate(LOGITS)}
    ranked = sorted(weights, key=lambda token: -weights[token])[: sampling.top_k]
    total = sum(weights[token] for token in ranked)
    kept: list[int] = []
    for token in ranked:
        if sum(weights[other] for other in kept) / total >= sampling.top_p:
            break
        kept.append(token)
    return normalised({token: weights[token] for token in kept})


def normalised(weights: dict[int, float]) -> Tensor:
    probabilities = torch.zeros(len(LOGITS), dtype=torch.float64)
    for token, weight in weights.items():
        probabilities[token] = weight / sum(weights.values())
    return probabilities


def frequencies(sampling: Sampling) -> Tensor:
    drawn = next_token(LOGITS.expand(DRAWS, -1).clone(), sampling, torch.Generator().manual_seed(1))
    assert drawn.shape == (DRAWS,)
    return torch.bincount(drawn, minlength=len(LOGITS)).double() / DRAWS


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [None, 1, 3, 8, 50])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.5, 1e-3])
def test_draws_follow_the_restricted_distribution(
    temperature: float, top_k: int | None, top_p: float
) -> None:
    sampling = Sampling(temperature, top_k, top_p)
    expected, actual = naive_probabilities(sampling), frequencies(sampling)
    assert not (actual[expected == 0] > 0).any()
    common = expected > 0.002
    assert (actual[common] > 0).all()
    assert (actual - expected).abs().max() < 0.018


@pytest.mark.parametrize("top_p", [0.5, 0.75])
def test_mass_that_is_met_exactly_keeps_no_further_token(top_p: float) -> None:
    logits = torch.log(torch.tensor([[0.25, 0.5, 0.125, 0.125]], dtype=torch.float64)).expand(500, -1)
    drawn = next_token(logits, Sampling(1.0, None, top_p + 1e-12), torch.Generator().manual_seed(0))
    assert len(set(drawn.tolist())) == {0.5: 2, 0.75: 3}[top_p]
    drawn = next_token(logits, Sampling(1.0, None, top_p - 1e-12), torch.Generator().manual_seed(0))
    assert len(set(drawn.tolist())) == {0.5: 1, 0.75: 2}[top_p]


def test_rows_are_drawn_by_their_own_logits() -> None:
    logits = torch.full((3, 5), -50.0)
    logits[torch.arange(3), torch.tensor([4, 0, 2])] = 50.0
    assert next_token(logits, Sampling(), torch.Generator()).tolist() == [4, 0, 2]


def test_logits_are_left_as_they_were() -> None:
    logits = LOGITS[None].clone()
    next_token(logits, Sampling(0.5, 2, 0.5), torch.Generator())
    assert torch.equal(logits, LOGITS[None])


@pytest.mark.parametrize(
    "sampling", [Sampling(0.0), Sampling(0.0, top_k=3, top_p=0.1), Sampling(1.0, top_k=1)]
)
def test_greedy_choice_is_the_most_likely_token(sampling: Sampling) -> None:
    model = network()
    chosen = continued(model, sampling)
    text = torch.cat((tokens(3, 4), chosen), 1)
    assert torch.equal(chosen, model.logits(text)[:, 3:-1].argmax(-1))


def test_low_temperature_is_greedy() -> None:
    assert torch.equal(continued(network(), Sampling(1e-5)), continued(network(), Sampling(0.0)))


def test_one_seed_gives_one_text_whatever_the_global_state() -> None:
    torch.manual_seed(0)
    one = continued(network(), Sampling(1.0, seed=4))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    assert torch.equal(continued(network(), Sampling(1.0, seed=4)), one)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(continued(network(), Sampling(1.0, seed=5)), one)


@pytest.mark.parametrize(
    "sampling", [Sampling(0.0), Sampling(3.0), Sampling(1.0, top_k=5), Sampling(1.0, top_p=0.9)]
)
def test_padding_of_the_vocabulary_is_never_chosen(sampling: Sampling) -> None:
    model, vocabulary = network(), VOCABULARY - 9
    assert continued(model, sampling, count=30).max() >= vocabulary
    chosen = continued(model, sampling, vocabulary, count=30)
    assert chosen.max() < vocabulary
    assert len(chosen.unique()) > 1


def test_greedy_choice_without_padding_is_the_most_likely_of_the_rest() -> None:
    model, vocabulary = network(), VOCABULARY - 9
    chosen = continued(model, Sampling(0.0), vocabulary)
    text = torch.cat((tokens(3, 4), chosen), 1)
    assert torch.equal(chosen, model.logits(text)[:, 3:-1, :vocabulary].argmax(-1))


def test_as_many_tokens_as_asked_for() -> None:
    assert [len(list(generate(network(), tokens(2, 1), count, Sampling()))) for count in (0, 1, 5)] == [
        0,
        1,
        5,
    ]


@pytest.mark.parametrize(
    ("option", "value"),
    [("temperature", -0.1), ("top_k", 0), ("top_k", -3), ("top_p", 0.0), ("top_p", 1.1), ("top_p", -0.5)],
)
def test_bad_setting_names_the_option_and_the_value(option: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"{option}: {value}"):
        Sampling(**{option: value})
