"""Banks of values: tables by token id inside a network."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from helpers import VOCABULARY, perturbed, tiny, tokens
from torch import Tensor

from mgvr_lightning.errors import InputError
from mgvr_lightning.model import Sampling, Transformer, generate
from mgvr_lightning.optim import AdamW, role_groups
from mgvr_lightning.values import (
    Identity,
    Layers,
    Replace,
    Role,
    ScalarGate,
    ScalarMix,
    Shape,
    TokenMatrix,
    TokenTable,
    ValuePath,
    ValueSpec,
)
from mgvr_lightning.values.tables import fetched


def scale(shape: Shape) -> ScalarMix:
    return ScalarMix(shape, 1.0, learned=True)


def bank(layers: Layers = "last_third", **options: Any) -> ValueSpec:
    table = partial(TokenTable, **{"start": "projection", "shared": False, **options})
    return ValueSpec(table, Replace, scale, layers)


def tables_of(network: Transformer) -> dict[str, Tensor]:
    return dict(role_groups(network)[Role.TABLE])


def decoded(network: Transformer, ids: Tensor, prompt: int) -> Tensor:
    cache = network.cache(ids.size(0), ids.size(1))
    pieces = [network.logits(part, cache) for part in (ids[:, :prompt], *ids[:, prompt:].split(1, 1))]
    return torch.cat(pieces, 1)


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize("ids", [torch.arange(VOCABULARY)[None], tokens(3, 11), tokens(2, 40, seed=1)])
def test_starts_at_the_token_projection_bit_for_bit(ids: Tensor, kv_heads: int | None) -> None:
    table, projection = (tiny(name, kv_heads=kv_heads) for name in ("bank_of_values", "token_projection"))
    assert torch.equal(table.logits(ids), projection.logits(ids))
    assert not torch.allclose(table.logits(ids), tiny("transformer", kv_heads=kv_heads).logits(ids))


def test_starts_at_the_token_projection_bit_for_bit_with_embeddings_of_another_spread() -> None:
    table, projection = (tiny(name, embedding_std=0.8) for name in ("bank_of_values", "token_projection"))
    assert torch.equal(table.logits(tokens(3, 11)), projection.logits(tokens(3, 11)))


def test_starts_at_the_token_projection_to_rounding_where_one_token_is_projected_alone() -> None:
    """A matrix product of very few rows adds up in another order than one of many."""
    table, projection = tiny("bank_of_values"), tiny("token_projection")
    for token in range(VOCABULARY):
        ids = torch.tensor([[token]])
        torch.testing.assert_close(table.logits(ids), projection.logits(ids), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize("name", ["bank_of_values_mix", "bank_of_values_fixed"])
def test_other_mixes_start_at_the_bank_bit_for_bit(name: str, kv_heads: int | None) -> None:
    one, other, ids = tiny(name, kv_heads=kv_heads), tiny("bank_of_values", kv_heads=kv_heads), tokens(3, 11)
    assert torch.equal(one.logits(ids), other.logits(ids))
    loss = [network(ids, tokens(3, 11, seed=1)).nll for network in (one, other)]
    assert torch.equal(*loss)


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
    table = partial(TokenTable, start="projection", shared=False)
    network = perturbed(tiny(ValueSpec(table, gate, mix, "last_third"), dtype=torch.float64))
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


def test_shared_table_is_one_parameter_that_starts_as_the_first_of_its_layers_would() -> None:
    shared, own, ids = tiny("bank_of_values_shared"), tiny("bank_of_values"), tokens(2, 9)
    name = "blocks.4.attention.path.source.table"
    assert set(tables_of(shared)) == {name}
    assert [key for key in shared.state_dict() if key.endswith("table")] == [name]
    assert torch.equal(tables_of(shared)[name], tables_of(own)[name])
    sources = [path.source for path in shared.paths if isinstance(path, ValuePath)]
    x = torch.zeros(2, 9, 16)
    rows = [source(Identity(ids), lambda _: x) for source in sources if source is not None]
    assert len(rows) == 2
    assert torch.equal(*rows)


def test_shared_table_gathers_the_gradients_of_all_layers_that_read_it() -> None:
    def gradient(network: Transformer) -> Tensor:
        network(tokens(2, 9), tokens(2, 9, seed=1)).nll.backward()
        return torch.stack([table.grad for table in tables_of(network).values() if table.grad is not None])

    shared, own = (perturbed(tiny(bank(shared=shared), dtype=torch.float64)) for shared in (True, False))
    for table in tables_of(own).values():
        table.data.copy_(tables_of(shared)["blocks.4.attention.path.source.table"])
    own.load_state_dict(shared.state_dict(), strict=False)
    torch.testing.assert_close(gradient(shared)[0], gradient(own).sum(0), rtol=1e-10, atol=1e-12)


def test_random_start_has_the_spread_of_a_projection_of_normalised_tokens() -> None:
    network = tiny(bank(start="random"), width=64)
    for table in tables_of(network).values():
        assert table.std().item() == pytest.approx(64**-0.5, rel=0.06)
        assert table.abs().max() <= 3**0.5 * 64**-0.5 + 1e-6


@pytest.mark.parametrize("start", ["projection", "random"])
def test_bf16_table_is_the_rounded_fp32_one_and_halves_its_bytes(start: str) -> None:
    half, whole = tiny(bank(start=start, dtype="bfloat16")), tiny(bank(start=start))
    for name, table in tables_of(half).items():
        assert table.dtype == torch.bfloat16
        assert torch.equal(table, tables_of(whole)[name].bfloat16())
    half(tokens(2, 9), tokens(2, 9, seed=1)).nll.backward()
    assert all(
        table.grad is not None and table.grad.dtype == torch.bfloat16 for table in tables_of(half).values()
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [({"start": "zero"}, "values.source.start"), ({"dtype": "float16"}, "values.source.dtype")],
)
def test_unknown_options_are_refused_by_name(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        tiny(bank(**options))


@pytest.mark.parametrize("shared", [False, True])
def test_table_in_host_memory_gives_the_same_logits_and_gradients(shared: bool) -> None:
    here, host = (
        perturbed(tiny(bank(shared=shared, host=host), dtype=torch.float64, kv_heads=2))
        for host in (False, True)
    )
    ids = tokens(2, 9)
    assert torch.equal(host.logits(ids), here.logits(ids))
    assert torch.equal(decoded(host, ids, 4), decoded(here, ids, 4))
    for network in (here, host):
        network(ids, tokens(2, 9, seed=1)).nll.backward()
    for one, other in zip(here.parameters(), host.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-12, atol=1e-12)


def test_table_in_host_memory_stays_there_where_the_rest_goes_elsewhere() -> None:
    network, other = tiny(bank(host=True)), tiny(bank())
    before = {name: table.clone() for name, table in tables_of(network).items()}
    network.to("meta")
    other.to("meta")
    assert all(table.is_meta for table in tables_of(other).values())
    for name, parameter in network.named_parameters():
        assert parameter.is_meta != (name in before)
    assert all(torch.equal(table, before[name]) for name, table in tables_of(network).items())
    assert all(table.dtype == torch.float64 for table in tables_of(network.double()).values())


def test_tables_move_between_host_and_device_through_a_checkpoint() -> None:
    here, host = perturbed(tiny(bank())), tiny(bank(host=True))
    host.load_state_dict(here.state_dict())
    assert torch.equal(host.logits(tokens(2, 9)), here.logits(tokens(2, 9)))


def test_rows_from_host_memory_cross_over_once_each() -> None:
    ids = torch.tensor([[3, 1, 3], [1, 1, 0]])
    table = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    rows = fetched(ids, table)
    assert torch.equal(rows, table[ids])
    (gradient,) = torch.autograd.grad(rows.sum(), table)
    assert gradient[:, 0].tolist() == [1, 3, 0, 2, 0]
