"""Decoding with the key-value cache is the full forward pass, in the Transformer's bytes."""

from typing import Any

import pytest
import torch
from helpers import PRESETS, perturbed, tiny, tokens
from torch import Tensor

from mgvr_lightning.model import Sampling, Transformer, generate

LENGTH = 9
OTHER_SHAPES: dict[str, dict[str, Any]] = {
    "softcap": {"softcap": 0.5},
    "tied": {"tied": True},
    "swiglu": {"mlp": "swiglu"},
    "no_qk_norm": {"qk_norm": False},
    "one_layer": {"layers": 1},
}
UNSTORED = {
    "first_values": 2,
    "first_values_fixed": 2,
    "first_values_every_second": 3,
    "first_values_all": 5,
    "bank_of_values": 2,
    "bank_of_values_fixed": 2,
    "bank_of_values_shared": 2,
    "bank_of_values_all": 6,
}
"""Layers of six whose values follow from the token ids and the first values; none of any other preset."""

kv_heads_of_every_kind = pytest.mark.parametrize("kv_heads", [None, 2, 1])
every_preset = pytest.mark.parametrize("name", PRESETS)


def network_of(name: str, **changes: Any) -> Transformer:
    return perturbed(tiny(name, dtype=torch.float64, **changes))


@torch.no_grad()
def decoded(network: Transformer, ids: Tensor, steps: list[int]) -> Tensor:
    """Logits of `ids`, taken in `steps` tokens at a time into a cache with room to spare."""
    assert sum(steps) == ids.size(1)
    cache = network.cache(ids.size(0), ids.size(1) + 3)
    return torch.cat([network.logits(part, cache) for part in ids.split(steps, 1)], 1)


def assert_decodes(network: Transformer, steps: list[list[int]]) -> None:
    ids = tokens(2, LENGTH)
    with torch.no_grad():
        full = network.logits(ids)
    for parts in steps:
        torch.testing.assert_close(decoded(network, ids, parts), full, rtol=0, atol=1e-9)


@kv_heads_of_every_kind
@every_preset
def test_token_by_token_from_nothing(name: str, kv_heads: int | None) -> None:
    assert_decodes(network_of(name, kv_heads=kv_heads), [LENGTH * [1]])


@kv_heads_of_every_kind
@every_preset
def test_after_a_prompt_and_in_chunks(name: str, kv_heads: int | None) -> None:
    after_prompts = [[prompt, *(LENGTH - prompt) * [1]] for prompt in (2, 8)]
    assert_decodes(network_of(name, kv_heads=kv_heads), [*after_prompts, [3, 4, 2], [1, 5, 1, 2], [LENGTH]])


@pytest.mark.parametrize("shape", OTHER_SHAPES)
@pytest.mark.parametrize("name", ["transformer", "mgvr", "first_values", "token_projection"])
def test_in_networks_of_other_shapes(name: str, shape: str) -> None:
    assert_decodes(network_of(name, **OTHER_SHAPES[shape]), [LENGTH * [1], [4, 3, 1, 1]])


@kv_heads_of_every_kind
@every_preset
def test_generates_what_the_full_forward_pass_chooses(name: str, kv_heads: int | None) -> None:
    network, prompt = network_of(name, kv_heads=kv_heads), tokens(2, 4)
    generated = torch.stack(list(generate(network, prompt, 5, Sampling(temperature=0))), 1)
    ids = prompt
    with torch.no_grad():
        for _ in range(5):
            ids = torch.cat((ids, network.logits(ids)[:, -1].argmax(-1, keepdim=True)), 1)
    assert torch.equal(generated, ids[:, 4:])


@kv_heads_of_every_kind
@every_preset
def test_bytes(name: str, kv_heads: int | None) -> None:
    batch, capacity, layers, head_width, element = 3, 10, 6, 4, 8
    of_one_store = batch * capacity * (kv_heads or 4) * head_width * element
    whole = 4 * batch * capacity + 2 * layers * of_one_store
    saved = UNSTORED.get(name, 0) * of_one_store
    network = network_of(name, kv_heads=kv_heads)
    assert network.cache(batch, capacity).bytes == whole - saved
    assert network_of("transformer", kv_heads=kv_heads).cache(batch, capacity).bytes == whole


def test_dtype_is_the_networks_unless_another_is_asked_for() -> None:
    network = network_of("mgvr")
    caches = [network.cache(2, 7), network.cache(2, 7, torch.bfloat16)]
    assert [cache.keys[0].dtype for cache in caches] == [torch.float64, torch.bfloat16]
    assert [cache.values[1].dtype for cache in caches] == [torch.float64, torch.bfloat16]
    assert caches[0].bytes - caches[1].bytes == 2 * 6 * 2 * 7 * 16 * (8 - 2)


def test_more_tokens_than_its_capacity_are_refused() -> None:
    network = network_of("transformer")
    cache = network.cache(1, 4)
    network.logits(tokens(1, 3), cache)
    with pytest.raises(AssertionError, match="holds 4 tokens, asked for 5"):
        network.logits(tokens(1, 2), cache)


def test_rows_of_a_batch_do_not_see_each_other() -> None:
    network, ids = network_of("mgvr"), tokens(3, LENGTH)
    together = decoded(network, ids, [4, 3, 1, 1])
    alone = torch.cat([decoded(network, row, [4, 3, 1, 1]) for row in ids.split(1)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
