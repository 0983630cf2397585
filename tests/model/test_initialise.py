"""Networks of one seed share every tensor that they have in common, bit for bit."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers import PRESETS, VOCABULARY, preset, tiny, tiny_config, tokens
from torch import Tensor, nn

from mgvr_lightning.model import Transformer, initialise, keyed_generator
from mgvr_lightning.model.initialise import NetworkDraws
from mgvr_lightning.model.layers import Linear
from mgvr_lightning.values import Normal, Role, selected

RECIPE: dict[str, Any] = {
    **{"windows": "SSSL", "window": 3, "softcap": 15.0, "qk_scale": 1.2},
    **{"embedding_std": 0.8, "head_std": 0.001, "mlp_scale": 0.4, "zero_outputs": True},
}
SHAPES = {
    "recipe": RECIPE,
    "plain": {},
    "grouped": {"kv_heads": 2},
    "tied": {"tied": True},
    "swiglu": {"mlp": "swiglu", "mlp_width": 24},
}
VALUES = {f"blocks.{layer}.attention.value.weight" for layer in range(6)}


def unprojected(name: str) -> set[str]:
    """Value projections that a preset does without: those of layers with values from elsewhere alone."""
    spec = preset(name)
    replacing = {"first_values", "bank_of_values"}
    if not any(name.startswith(prefix) for prefix in replacing):
        return set()
    layers = selected(spec.layers, 6) - ({0} if name.startswith("first_values") else set())
    return {f"blocks.{layer}.attention.value.weight" for layer in layers}


def differing(one: nn.Module, other: nn.Module) -> Iterator[str]:
    """Names that both have but whose tensors differ in any bit."""
    tensors = other.state_dict()
    for name, tensor in one.state_dict().items():
        if name in tensors and not torch.equal(tensor, tensors[name]):
            yield name


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PRESETS)
def test_preset_shares_every_common_tensor_with_the_transformer(name: str, shape: str) -> None:
    network, transformer = tiny(name, seed=3, **SHAPES[shape]), tiny("transformer", seed=3, **SHAPES[shape])
    assert not list(differing(network, transformer))
    missing = transformer.state_dict().keys() - network.state_dict().keys()
    assert missing == unprojected(name)
    own = network.state_dict().keys() - transformer.state_dict().keys()
    assert all(".attention.path." in parameter for parameter in own)


@pytest.mark.parametrize("name", [name for name in PRESETS if "token_projection" in name])
def test_token_projections_own_exactly_the_transformers_value_projections(name: str) -> None:
    named = dict(tiny(name, kv_heads=2).named_parameters())
    transformer = dict(tiny("transformer", kv_heads=2).named_parameters())
    assert {parameter for parameter in named if ".value." in parameter} == VALUES
    assert all(torch.equal(named[parameter], transformer[parameter]) for parameter in VALUES)
    path = {parameter for parameter in named if ".path." in parameter}
    assert all(named[parameter].numel() == 1 for parameter in path)


def test_another_seed_draws_every_random_tensor_anew() -> None:
    names = set(differing(tiny("mgvr", seed=0), tiny("mgvr", seed=1)))
    assert names == {name for name in tiny("mgvr").state_dict() if ".path." not in name}


def test_no_two_tensors_of_a_network_are_alike() -> None:
    tensors = [tensor.flatten()[:16] for tensor in tiny("transformer").state_dict().values()]
    assert len({tuple(tensor.tolist()) for tensor in tensors}) == len(tensors)


def test_order_of_construction_does_not_matter() -> None:
    names = ["transformer", "mgvr", "first_values"]
    forwards = {name: tiny(name) for name in names}
    backwards = {name: tiny(name) for name in reversed(names)}
    assert not [name for name in names if list(differing(forwards[name], backwards[name]))]


def test_global_random_state_is_neither_read_nor_moved() -> None:
    torch.manual_seed(0)
    one = tiny("mgvr")
    torch.manual_seed(1)
    state = torch.get_rng_state()
    other = tiny("mgvr")
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(differing(one, other))


def test_an_extra_module_shifts_nothing() -> None:
    network = Transformer(tiny_config(), preset("mgvr"), VOCABULARY)
    network.extra = Linear(16, 16, Normal(1.0))
    initialise(network, 0)
    assert not list(differing(network, tiny("mgvr")))
    assert network.extra.weight.std() > 0.5


def test_initialising_again_restores_the_start() -> None:
    network = tiny("static_mix", seed=2)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(7.0)
    initialise(network, 2)
    assert not list(differing(network, tiny("static_mix", seed=2)))


def test_undeclared_parameter_is_refused() -> None:
    network = Transformer(tiny_config(), preset("transformer"), VOCABULARY)
    network.extra = nn.Linear(2, 2)
    with pytest.raises(AssertionError, match=r"extra\.weight"):
        initialise(network, 0)


def test_keyed_generators_depend_on_seed_and_name() -> None:
    keys = [(0, "a"), (0, "b"), (1, "a"), (10, "a"), (1, "0/a")]
    draws = {tuple(torch.rand(4, generator=keyed_generator(seed, name)).tolist()) for seed, name in keys}
    assert len(draws) == len(keys)
    again = torch.rand(4, generator=keyed_generator(0, "a"))
    assert tuple(again.tolist()) in draws


@pytest.mark.parametrize("kv_heads", [None, 2, 1])
@pytest.mark.parametrize("name", ["transformer", "first_values"])
def test_projection_draw_is_the_transformers_even_where_none_is_built(
    name: str, kv_heads: int | None
) -> None:
    network = tiny(name, seed=5, kv_heads=kv_heads)
    draws = NetworkDraws(network, 5, "anything")
    for layer, block in enumerate(tiny("transformer", seed=5, kv_heads=kv_heads).layers):
        assert block.attention.value is not None
        assert torch.equal(draws.projection(layer), block.attention.value.weight)
    assert (network.layers[-1].attention.value is None) == (name == "first_values")


@pytest.mark.parametrize("name", ["transformer", "first_values"])
def test_token_draw_is_the_x0_that_the_network_computes(name: str) -> None:
    network = tiny(name, seed=5)
    seen: list[Tensor] = []
    network.layers[0].attention.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs[:2]))
    ids = tokens(2, 9)
    network.hidden(ids)
    x, identity = seen
    assert torch.equal(NetworkDraws(network, 5, "anything").tokens()[ids], x)
    assert torch.equal(identity.x0, x)


@pytest.mark.parametrize("mlp", ["squared_relu", "swiglu"])
def test_options_set_the_spread_of_every_tensor(mlp: str) -> None:
    network = tiny("transformer", width=64, layers=2, mlp=mlp, mlp_width=64, **RECIPE)
    for name, parameter in network.named_parameters():
        if "output" in name or "down" in name:
            assert not parameter.any(), name
            continue
        own = {"embedding.weight": 0.8, "head.weight": 0.001}
        std = own.get(name, 0.4 / 8 if ".mlp." in name else 1 / 8)
        assert parameter.std().item() == pytest.approx(std, rel=0.06), name


@pytest.mark.parametrize(("mlp", "hidden"), [("squared_relu", 64), ("swiglu", 64)])
def test_spread_of_every_tensor_is_the_tables(mlp: str, hidden: int) -> None:
    network = tiny("transformer", width=64, layers=2, mlp=mlp, mlp_width=hidden)
    for name, parameter in network.named_parameters():
        if name in ("embedding.weight", "head.weight"):
            std = 0.02
        elif "output" in name or "down" in name:
            std = (2 * 2 * parameter.size(1)) ** -0.5
        else:
            std = 64**-0.5
        assert parameter.std().item() == pytest.approx(std, rel=0.06), name
        assert (parameter.abs().max() <= 3**0.5 * std + 1e-6) == (std != 0.02), name


def test_roles_of_the_networks_own_tensors() -> None:
    network = tiny("mgvr")
    assert network.embedding.declared["weight"].role == Role.EMBEDDING
    assert network.head is not None
    assert network.head.declared["weight"].role == Role.HEAD
    assert network.layers[0].attention.query.declared["weight"].role == Role.MATRIX
