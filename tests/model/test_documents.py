"""No token reaches another document, and each document is treated as if it were alone."""

from itertools import pairwise

import pytest
import torch
from helpers import PRESETS, VOCABULARY, perturbed, preset, tiny, tiny_config, tokens
from torch import Tensor

from mgvr_lightning.model import Sampling, Transformer, generate, initialise
from mgvr_lightning.model.attention import attend
from mgvr_lightning.model.mask import causal_mask, document_mask

SEPARATOR, LENGTH = 5, 11
STARTS = [[4, 8], [0, 5, 6, 10], []]
every_preset = pytest.mark.parametrize("name", PRESETS)
kv_heads_of_every_kind = pytest.mark.parametrize("kv_heads", [None, 2, 1])


def network_of(name: str, kv_heads: int | None = None, separator: int | None = SEPARATOR) -> Transformer:
    network = Transformer(tiny_config(kv_heads=kv_heads), preset(name), VOCABULARY, 7, separator)
    initialise(network, 0)
    return perturbed(network.double())


def packed(starts: list[list[int]], length: int = LENGTH, seed: int = 0) -> Tensor:
    """(B, T) random ids, with a separator at every one of a row's `starts` and nowhere else."""
    ids = tokens(len(starts), length, seed)
    ids[ids == SEPARATOR] += 1
    for row, places in zip(ids, starts, strict=True):
        row[places] = SEPARATOR
    return ids


def documents(row: Tensor) -> list[slice]:
    """Where each document of a row, (T,), is; the first one may begin without a separator."""
    edges = sorted({0, *(place for place, token in enumerate(row.tolist()) if token == SEPARATOR), len(row)})
    return [slice(*edge) for edge in pairwise(edges)]


def random(*size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, dtype=torch.float64, generator=generator).requires_grad_()


def logits_and_gradients(network: Transformer, ids: Tensor, part: slice) -> list[Tensor]:
    """The logits of a part of the tokens, and how a sum over them depends on every parameter."""
    logits = network.logits(ids)[:, part]
    upstream = random(*logits.shape, seed=3).detach()
    return [logits.detach(), *torch.autograd.grad(logits, list(network.parameters()), upstream)]


@pytest.mark.parametrize("new", [1, 4, LENGTH])
def test_mask_is_its_definition(new: int) -> None:
    ids = packed(STARTS)
    mask = document_mask(ids, SEPARATOR, new)
    assert mask.shape == (3, 1, new, LENGTH)
    for b, row in enumerate(ids.tolist()):
        for i in range(LENGTH - new, LENGTH):
            seen = [j <= i and SEPARATOR not in row[j + 1 : i + 1] for j in range(LENGTH)]
            assert seen[i]
            assert mask[b, 0, i - LENGTH].tolist() == seen


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_attend_is_a_loop_over_documents(kv_heads: int) -> None:
    ids = packed(STARTS)
    inputs = [random(3, LENGTH, heads, 4, seed=heads + i) for i, heads in enumerate((6, kv_heads, kv_heads))]
    rows = []
    for b, row in enumerate(ids):
        query, key, value = (x[b].repeat_interleave(6 // x.size(2), 1).transpose(0, 1) for x in inputs)
        parts = []
        for place in documents(row):
            scores = query[:, place] @ key[:, place].mT / 2
            later = torch.ones_like(scores[0]).triu(1).bool()
            weights = torch.exp(scores).masked_fill(later, 0.0)
            parts.append(weights @ value[:, place] / weights.sum(-1, keepdim=True))
        rows.append(torch.cat(parts, 1).transpose(0, 1))
    expected = torch.stack(rows)
    actual = attend(*inputs, document_mask(ids, SEPARATOR, LENGTH))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    upstream = random(*expected.shape, seed=9).detach()
    for one, other in zip(
        torch.autograd.grad(actual, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
        strict=True,
    ):
        assert other.abs().max() > 0.1
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_windows_of_several_kernel_blocks(dtype: torch.dtype) -> None:
    """Blocks that a token sees nothing of leave no trace."""
    start, length = 1100, 1300
    inputs = [random(1, length, 2, 8, seed=seed).detach().to(dtype).requires_grad_() for seed in range(3)]
    mask = document_mask(packed([[start]], length), SEPARATOR, length)

    def second(first: float) -> list[Tensor]:
        moved = [torch.cat((first * x[:, :start], x[:, start:]), 1) for x in inputs]
        out = attend(*moved, mask)[:, start:]
        return [out, *(x[:, start:] for x in torch.autograd.grad(out.float().square().sum(), inputs))]

    for one, other in zip(second(1.0), second(-30.0), strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)


@kv_heads_of_every_kind
@every_preset
def test_another_document_changes_nothing(name: str, kv_heads: int | None) -> None:
    first, second = slice(0, 6), slice(6, LENGTH)
    ids = packed([[0, 6], [6]])
    before, after = ids.clone(), ids.clone()
    before[:, 1:6] = packed([[], []], 5, seed=7)
    after[:, 7:] = packed([[], []], LENGTH - 7, seed=8)
    assert not (before == ids)[:, 1:6].all()
    for changed, part in ((before, second), (after, first)):
        network = network_of(name, kv_heads)
        pairs = list(
            zip(
                logits_and_gradients(network, ids, part),
                logits_and_gradients(network, changed, part),
                strict=True,
            )
        )
        assert all(torch.equal(one, other) for one, other in pairs)
    network = network_of(name, kv_heads, separator=None)
    pairs = list(
        zip(
            logits_and_gradients(network, ids, second),
            logits_and_gradients(network, before, second),
            strict=True,
        )
    )
    assert all((one - other).abs().max() > 1e-6 for one, other in pairs[:2])


@kv_heads_of_every_kind
@every_preset
def test_network_is_a_loop_over_documents(name: str, kv_heads: int | None) -> None:
    network, alone = network_of(name, kv_heads), network_of(name, kv_heads, separator=None)
    ids = packed(STARTS)
    rows = [torch.cat([alone.logits(row[None, place]) for place in documents(row)], 1) for row in ids]
    expected, actual = torch.cat(rows), network.logits(ids)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9)
    upstream = random(*expected.shape, seed=9).detach()
    for one, other in zip(
        torch.autograd.grad(actual, list(network.parameters()), upstream),
        torch.autograd.grad(expected, list(alone.parameters()), upstream),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
    crossing = alone.logits(ids)
    for b, row in enumerate(ids):
        places = documents(row)
        torch.testing.assert_close(actual[b, places[0]], crossing[b, places[0]], rtol=0, atol=1e-9)
        for place in places[1:]:
            assert (actual[b, place] - crossing[b, place]).abs().max() > 1e-4


def test_losses_are_those_of_isolated_logits() -> None:
    network, ids, targets = network_of("mgvr"), packed(STARTS), tokens(3, LENGTH, seed=1)
    logits = network.logits(ids)
    expected = torch.nn.functional.cross_entropy(logits.mT, targets, reduction="none")
    nll, predictions = network.token_losses(ids, targets)
    torch.testing.assert_close(nll, expected)
    assert torch.equal(predictions, logits.argmax(-1))
    torch.testing.assert_close(network(ids, targets).nll, expected.sum())


@torch.no_grad()
def assert_decodes(network: Transformer, ids: Tensor, steps: list[int]) -> None:
    assert sum(steps) == ids.size(1)
    cache = network.cache(ids.size(0), ids.size(1) + 3)
    decoded = torch.cat([network.logits(part, cache) for part in ids.split(steps, 1)], 1)
    torch.testing.assert_close(decoded, network.logits(ids), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "steps", [LENGTH * [1], [4, *7 * [1]], [5, *6 * [1]], [3, 4, 3, 1], [1, 5, 5], [LENGTH]]
)
@pytest.mark.parametrize("kv_heads", [None, 2])
@every_preset
def test_cached_decoding(name: str, kv_heads: int | None, steps: list[int]) -> None:
    assert_decodes(network_of(name, kv_heads), packed(STARTS), steps)


@every_preset
def test_generation_goes_on_after_a_generated_separator(name: str) -> None:
    network, prompt, count = network_of(name), packed([[0]], 4), 8
    met = 0
    for separator in range(VOCABULARY):
        network.separator = separator
        generated = torch.stack(list(generate(network, prompt, count, Sampling(temperature=0))), 1)
        ids = torch.cat((prompt, generated), 1)
        with torch.no_grad():
            assert torch.equal(network.logits(ids)[:, 3:-1].argmax(-1), generated)
        met += separator in generated[:, :-2]
    assert met > 0


@kv_heads_of_every_kind
@every_preset
def test_without_a_separator_attention_is_causal_to_the_bit(name: str, kv_heads: int | None) -> None:
    network, ids = network_of(name, kv_heads, separator=None), packed(STARTS)
    before = perturbed(tiny(name, dtype=torch.float64, kv_heads=kv_heads))
    assert torch.equal(network.logits(ids), before.logits(ids))
    x = random(2, 5, 4, 8, seed=1)
    heads = [x.transpose(1, 2)] * 3
    plain = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)
    assert torch.equal(attend(x, x, x), plain)


def test_without_a_separator_there_is_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Tensor | None, bool]] = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def watched(*tensors: Tensor, attn_mask: Tensor | None, is_causal: bool, enable_gqa: bool) -> Tensor:
        given.append((attn_mask, is_causal))
        return attention(*tensors, attn_mask=attn_mask, is_causal=is_causal, enable_gqa=enable_gqa)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", watched)
    network_of("mgvr", separator=None).logits(packed(STARTS))
    assert given == 6 * [(None, True)]
    given.clear()
    network_of("mgvr").logits(packed(STARTS))
    masks = {id(mask) for mask, causal in given if not causal}
    assert len(given) == 6
    assert len(masks) == 1


def test_causal_mask_of_the_last_tokens() -> None:
    expected = [[True, True, False], [True, True, True]]
    assert causal_mask(2, 3, torch.device("cpu")).tolist() == expected
