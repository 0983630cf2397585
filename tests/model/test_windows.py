"""Sliding windows: layers whose tokens see themselves and a number of tokens before."""

from itertools import product
from typing import Any

import pytest
import torch
from helpers import PRESETS, perturbed, tiny, tiny_config, tokens
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mgvr_lightning.errors import InputError
from mgvr_lightning.model import Transformer, TransformerConfig
from mgvr_lightning.model.attention import attend
from mgvr_lightning.model.mask import attention_mask, window_mask

SEPARATOR, LENGTH, WINDOW = 5, 11, 3
WINDOWS: dict[str, Any] = {"windows": "SSSL", "window": WINDOW}
SHORT = [True, True, True, False, True, False]
"""Of six layers, those with a window: the last one has none whatever the pattern says."""


def network_of(name: str, separator: int | None = None, **changes: Any) -> Transformer:
    network = perturbed(tiny(name, dtype=torch.float64, **WINDOWS, **changes))
    network.separator = separator
    return network


def ids_with_separators() -> Tensor:
    ids = tokens(2, LENGTH)
    ids[ids == SEPARATOR] += 1
    ids[0, 4] = ids[1, 0] = ids[1, 8] = SEPARATOR
    return ids


def seen(row: list[int], query: int, key: int, window: int | None, separator: int | None) -> bool:
    """Whether a token sees another."""
    near = window is None or query - key <= window
    return key <= query and near and (separator is None or separator not in row[key + 1 : query + 1])


@pytest.mark.parametrize("separator", [None, SEPARATOR])
@pytest.mark.parametrize("window", [1, 3, LENGTH - 2])
@pytest.mark.parametrize("new", [1, 4, LENGTH])
def test_mask_is_its_definition(new: int, window: int, separator: int | None) -> None:
    ids = ids_with_separators()
    mask = attention_mask(ids, new, separator, window)
    assert mask is not None
    mask = mask.expand(2, 1, new, LENGTH)
    for b, i, j in product(range(2), range(new), range(LENGTH)):
        expected = seen(ids[b].tolist(), LENGTH - new + i, j, window, separator)
        assert mask[b, 0, i, j] == expected


@pytest.mark.parametrize("window", [None, LENGTH - 1, 2 * LENGTH])
def test_a_window_over_all_tokens_is_no_mask(window: int | None) -> None:
    assert attention_mask(ids_with_separators(), LENGTH, None, window) is None


@pytest.mark.parametrize("kv_heads", [6, 2, 1])
@pytest.mark.parametrize("new", [LENGTH, 4, 1])
def test_attend_is_a_softmax_over_the_window(new: int, kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(kv_heads)
    sizes = [(2, new, 6, 4), (2, LENGTH, kv_heads, 4), (2, LENGTH, kv_heads, 4)]
    inputs = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
    query, key, value = (x.requires_grad_() for x in inputs)
    actual = attend(query, key, value, window_mask(new, LENGTH, WINDOW, query.device))
    rows = []
    for b, t, h in product(range(2), range(new), range(6)):
        last = LENGTH - new + t
        past = slice(max(0, last - WINDOW), last + 1)
        source = h * kv_heads // 6
        weights = torch.exp(key[b, past, source] @ query[b, t, h] / 2)
        rows.append(weights / weights.sum() @ value[b, past, source])
    expected = torch.stack(rows).view(2, new, 6, 4)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    upstream = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    gradients = [torch.autograd.grad(out, (query, key, value), upstream) for out in (actual, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


def test_pattern_is_repeated_and_the_last_layer_sees_everything() -> None:
    windows = [block.attention.window for block in tiny("transformer", **WINDOWS).layers]
    assert windows == [WINDOW if short else None for short in SHORT]
    config = tiny_config(windows="S", window=2, layers=3)
    assert [config.window_of(layer) for layer in range(3)] == [2, 2, None]
    assert {tiny_config(window=2).window_of(layer) for layer in range(6)} == {None}


@pytest.mark.parametrize("separator", [None, SEPARATOR])
@pytest.mark.parametrize("name", ["transformer", "mgvr"])
def test_every_layer_sees_what_it_should(name: str, separator: int | None) -> None:
    network, ids = network_of(name, separator), ids_with_separators()
    maps = network.attention_maps(ids)
    for layer, b, t, s in product(range(6), range(2), range(LENGTH), range(LENGTH)):
        window = WINDOW if SHORT[layer] else None
        expected = seen(ids[b].tolist(), t, s, window, separator)
        assert ((maps[layer, b, :, t, s] > 0) == expected).all()


def test_masks_are_made_once_for_each_window(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Tensor | None] = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def watched(*tensors: Tensor, attn_mask: Tensor | None, **options: bool) -> Tensor:
        given.append(attn_mask)
        return attention(*tensors, attn_mask=attn_mask, **options)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", watched)
    network_of("transformer").logits(ids_with_separators())
    assert [mask is not None for mask in given] == SHORT
    assert len({id(mask) for mask in given if mask is not None}) == 1


@pytest.mark.parametrize("name", ["transformer", "mgvr", "bank_of_values"])
def test_a_window_over_all_tokens_changes_no_bit(name: str) -> None:
    ids = tokens(2, LENGTH)
    wide = perturbed(tiny(name, windows="S", window=LENGTH))
    assert torch.equal(wide.logits(ids), perturbed(tiny(name)).logits(ids))
    assert not torch.allclose(wide.logits(ids), perturbed(tiny(name, **WINDOWS)).logits(ids), atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("separator", [None, SEPARATOR])
@pytest.mark.parametrize("steps", [LENGTH * [1], [7, 1, 1, 1, 1], [3, 5, 3]])
@pytest.mark.parametrize("name", PRESETS)
def test_cached_decoding(name: str, steps: list[int], separator: int | None) -> None:
    network, ids = network_of(name, separator, kv_heads=2), ids_with_separators()
    cache = network.cache(2, LENGTH + 2)
    decoded = torch.cat([network.logits(part, cache) for part in ids.split(steps, 1)], 1)
    torch.testing.assert_close(decoded, network.logits(ids), rtol=0, atol=1e-9)


@pytest.mark.parametrize("context", [2, WINDOW, 10])
def test_flops_count_the_window_in_place_of_the_context(context: int) -> None:
    """The counter sees masked products whole; what lies outside the windows is taken off by hand."""
    network = tiny("transformer", **WINDOWS)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        network.logits(tokens(2, context))
    outside = sum(SHORT) * 4 * 16 * max(0, context - WINDOW)
    assert network.flops_per_token(context) == 3 * (counter.get_total_flops() / (2 * context) - outside)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"windows": ""}, "network.windows"),
        ({"windows": "SSX", "window": 4}, "network.windows: 'SSX'"),
        ({"windows": "SL"}, "network.window: not set"),
        ({"windows": "SL", "window": 0}, "network.window: 0"),
        ({"qk_scale": 1.2, "qk_norm": False}, "network.qk_scale"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        TransformerConfig(**options)


def test_scaled_queries_and_keys_sharpen_attention() -> None:
    """Scores go with the square of the scale."""
    plain, scaled = tiny("transformer", dtype=torch.float64), tiny("transformer", qk_scale=1.5).double()
    ids = tokens(2, LENGTH)
    one, other = plain.attention_maps(ids)[0], scaled.attention_maps(ids)[0]
    expected = (1.5**2 * one.log()).softmax(-1)
    torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)
