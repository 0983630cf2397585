"""A source that looks values up by token id, defined here alone: networks take it as it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from helpers import VOCABULARY, perturbed, tiny, tokens
from torch import Tensor

from mgvr_lightning.model import Sampling, Transformer, generate
from mgvr_lightning.optim import AdamW, role_groups
from mgvr_lightning.values import (
    Draws,
    Identity,
    Layers,
    Project,
    Replace,
    Role,
    ScalarGate,
    ScalarMix,
    Shape,
    Source,
    TokenMatrix,
    ValueSpec,
)


@dataclass(frozen=True)
class Projected:
    """x0 of every token through W_V of one layer."""

    layer: int

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        table = draws.tokens() @ draws.projection(self.layer).T
        assert table.shape == size
        return table


class TokenTable(Source):
    """E[token id], starting as x0 W_V."""

    replayable: ClassVar[bool] = True

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.table: Tensor
        size = (shape.vocabulary, shape.kv_heads * shape.head_width)
        self.declare("table", size, Projected(shape.layer), Role.TABLE)

    def forward(self, identity: Identity, project: Project) -> Tensor:
        rows = F.embedding(identity.ids, self.table)
        return rows.view(*rows.shape[:-1], self.shape.kv_heads, self.shape.head_width)

    def flops(self) -> int:
        return 0


def scale(shape: Shape) -> ScalarMix:
    return ScalarMix(shape, 1.0, learned=True)


def bank(layers: Layers = "last_third") -> ValueSpec:
    return ValueSpec(TokenTable, Replace, scale, layers)


def decoded(network: Transformer, ids: Tensor, prompt: int) -> Tensor:
    cache = network.cache(ids.size(0), ids.size(1))
    pieces = [network.logits(part, cache) for part in (ids[:, :prompt], *ids[:, prompt:].split(1, 1))]
    return torch.cat(pieces, 1)


@pytest.mark.parametrize("kv_heads", [None, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-7)])
def test_starts_at_the_token_projection(dtype: torch.dtype, tolerance: float, kv_heads: int | None) -> None:
    ids = tokens(2, 9)
    table = tiny(bank(), dtype=dtype, kv_heads=kv_heads).logits(ids)
    projection = tiny("token_projection", dtype=dtype, kv_heads=kv_heads).logits(ids)
    torch.testing.assert_close(table, projection, rtol=0, atol=tolerance)
    assert not torch.allclose(table, tiny("transformer", dtype=dtype, kv_heads=kv_heads).logits(ids))


def test_equals_the_token_projection_to_rounding_once_its_rows_are_made_in_fp64() -> None:
    table, projection = tiny(bank(), dtype=torch.float64), tiny("token_projection", dtype=torch.float64)
    ids = torch.arange(VOCABULARY)[None]
    x0 = []
    projection.layers[0].attention.register_forward_pre_hook(lambda _, inputs: x0.append(inputs[0][0]))
    expected = projection.logits(ids)
    for one, other in zip(table.layers[4:], projection.layers[4:], strict=True):
        assert other.attention.value is not None
        one.attention.path.source.table.data.copy_(x0[0] @ other.attention.value.weight.T)
    torch.testing.assert_close(table.logits(ids), expected, rtol=0, atol=1e-12)


def test_its_layers_have_no_value_projection() -> None:
    network = tiny(bank())
    assert [block.attention.value is None for block in network.layers] == 4 * [False] + 2 * [True]
    assert all(block.attention.value is None for block in tiny(bank("all")).layers)


def test_its_rows_form_the_group_of_tables() -> None:
    network = tiny(bank())
    tables = role_groups(network)[Role.TABLE]
    assert set(tables) == {f"blocks.{layer}.attention.path.source.table" for layer in (4, 5)}
    optimizer = AdamW(multipliers={"table": 3.0}).build(role_groups(network))
    (group,) = [group for group in optimizer.param_groups if group["role"] == "table"]
    assert group["lr"] == pytest.approx(6e-3)
    assert group["weight_decay"] == 0


@pytest.mark.parametrize("layers", ["last_third", "all", [0], [3]])
@pytest.mark.parametrize("prompt", [1, 5])
def test_decodes_from_a_cache_without_values(layers: Layers, prompt: int) -> None:
    network = perturbed(tiny(bank(layers), dtype=torch.float64, kv_heads=2))
    ids = tokens(2, 9)
    torch.testing.assert_close(decoded(network, ids, prompt), network.logits(ids), rtol=0, atol=1e-9)
    stored = [values is not None for values in network.cache(1, 4).values]
    assert stored == [block.attention.value is not None for block in network.layers]
    assert not all(stored)


def test_generates_the_same_with_and_without_a_cache() -> None:
    network = perturbed(tiny(bank(), dtype=torch.float64))
    prompt = tokens(2, 3)
    generated = torch.stack(list(generate(network, prompt, 6, Sampling(temperature=0))), 1)
    ids = prompt
    for _ in range(6):
        ids = torch.cat((ids, network.logits(ids)[:, -1].argmax(-1, keepdim=True)), 1)
    assert torch.equal(generated, ids[:, 3:])


@pytest.mark.parametrize(
    ("gate", "mix"),
    [
        (Replace, lambda shape: TokenMatrix(shape, 0.5)),
        (lambda shape: ScalarGate(shape, 0.5, learned=True), scale),
    ],
)
def test_values_that_also_read_the_hidden_state_are_stored(
    gate: Callable[[Shape], Replace | ScalarGate], mix: Callable[[Shape], TokenMatrix | ScalarMix]
) -> None:
    network = perturbed(tiny(ValueSpec(TokenTable, gate, mix, "last_third"), dtype=torch.float64))
    ids = tokens(2, 9)
    torch.testing.assert_close(decoded(network, ids, 4), network.logits(ids), rtol=0, atol=1e-9)
    assert all(values is not None for values in network.cache(1, 4).values)


def test_rows_of_the_tokens_seen_learn_and_no_others() -> None:
    network = perturbed(tiny(bank()))
    ids = tokens(2, 5)
    network(ids, tokens(2, 5, seed=1)).nll.backward()
    for table in role_groups(network)[Role.TABLE].values():
        assert table.grad is not None
        moved = table.grad.abs().sum(1) > 0
        assert set(moved.nonzero().flatten().tolist()) == set(ids.flatten().tolist())
