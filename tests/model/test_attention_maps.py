"""Attention maps are the weights of the real forward pass."""

from typing import Any

import pytest
import torch
from helpers import perturbed, tiny, tokens
from torch import Tensor, nn

from mgvr_lightning.model import Transformer

LENGTH, HEADS, HEAD_WIDTH, SEPARATOR = 9, 4, 4, 5
presets = pytest.mark.parametrize("name", ["transformer", "mgvr", "first_values", "token_projection"])
shapes = pytest.mark.parametrize(
    "shape", [{}, {"qk_norm": False}, {"kv_heads": 2}, {"kv_heads": 1, "qk_norm": False}]
)
separators = pytest.mark.parametrize("separator", [None, SEPARATOR])


def network_of(name: str, separator: int | None, **shape: Any) -> Transformer:
    network = perturbed(tiny(name, dtype=torch.float64, **shape))
    network.separator = separator
    return network


def ids_with_separators() -> Tensor:
    ids = tokens(2, LENGTH)
    ids[ids == SEPARATOR] += 1
    ids[0, 4] = ids[1, 0] = ids[1, 2] = SEPARATOR
    return ids


@torch.no_grad()
def attended_and_values(network: Transformer, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What every layer's W_O reads, (B, T, D), and its V', (B, T, H, Dh), in the forward pass."""
    attended, values = [], []

    def keep_input(layer: nn.Module, given: tuple[Tensor]) -> None:
        attended.append(given[0])

    def keep_values(layer: nn.Module, given: Any, result: tuple[Tensor, Tensor]) -> None:
        values.append(result[1])

    for block in network.layers:
        block.attention.output.register_forward_pre_hook(keep_input)
        block.attention.register_forward_hook(keep_values)
    network.logits(ids)
    return attended, values


@separators
@shapes
@presets
def test_values_weighted_by_them_are_the_output(
    name: str, shape: dict[str, Any], separator: int | None
) -> None:
    network, ids = network_of(name, separator, **shape), ids_with_separators()
    maps = network.attention_maps(ids)
    assert maps.shape == (6, 2, HEADS, LENGTH, LENGTH)
    for weights, attended, values in zip(maps, *attended_and_values(network, ids), strict=True):
        wide = values.repeat_interleave(HEADS // values.size(2), 2)
        expected = torch.einsum("bhts,bshd->bthd", weights, wide).flatten(2)
        assert attended.abs().max() > 0.1
        torch.testing.assert_close(attended, expected, rtol=0, atol=1e-12)


@separators
@shapes
def test_rows_are_distributions_over_what_a_token_sees(shape: dict[str, Any], separator: int | None) -> None:
    ids = ids_with_separators()
    maps = network_of("mgvr", separator, **shape).attention_maps(ids)
    torch.testing.assert_close(maps.sum(-1), torch.ones(6, 2, HEADS, LENGTH, dtype=torch.float64))
    for b, t, s in torch.cartesian_prod(torch.arange(2), torch.arange(LENGTH), torch.arange(LENGTH)).tolist():
        seen = s <= t and (separator is None or separator not in ids[b, s + 1 : t + 1])
        assert ((maps[:, b, :, t, s] > 0) == seen).all()


def test_they_leave_the_network_as_it_was() -> None:
    network, ids = network_of("mgvr", None), ids_with_separators()
    before = network.logits(ids)
    first = network.attention_maps(ids)
    assert not first.requires_grad
    assert torch.equal(network.attention_maps(ids), first)
    assert torch.equal(network.logits(ids), before)
    assert not any(module._forward_pre_hooks for module in network.modules())


def test_under_autocast_they_are_exact_softmaxes_of_what_it_computes() -> None:
    network, ids = network_of("mgvr", None).float(), ids_with_separators()
    exact = network.attention_maps(ids)
    with torch.autocast("cpu", torch.bfloat16):
        maps = network.attention_maps(ids)
    assert maps.dtype == torch.float32
    torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps.sum(-1)), rtol=0, atol=1e-6)
    assert 0 < (maps - exact).abs().max() < 0.1
