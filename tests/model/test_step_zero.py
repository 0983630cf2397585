"""Where variants start: bit for bit at the value residual, or at the Transformer."""

import pytest
import torch
from helpers import perturbed, tiny, tokens
from torch import Tensor

from mgvr_lightning.model import LossSums, Transformer

GROUPS = pytest.mark.parametrize("kv_heads", [None, 2, 1])


def everything(network: Transformer) -> tuple[Tensor, LossSums, list[Tensor]]:
    """Logits, loss totals and V' of every layer."""
    values: list[Tensor] = []
    hooks = [
        block.attention.register_forward_hook(lambda _, inputs, outputs: values.append(outputs[1]))
        for block in network.layers
    ]
    ids, targets = tokens(3, 11), tokens(3, 11, seed=1)
    logits = network.logits(ids)
    for hook in hooks:
        hook.remove()
    return logits, network(ids, targets), values


def same(one: Transformer, other: Transformer) -> bool:
    (logits, loss, values), (other_logits, other_loss, other_values) = everything(one), everything(other)
    assert len(values) == len(other_values) == len(one.layers)
    pairs = [(logits, other_logits), *zip(loss, other_loss, strict=True)]
    return all(torch.equal(*pair) for pair in [*pairs, *zip(values, other_values, strict=True)])


@GROUPS
@pytest.mark.parametrize(
    "name", ["mgvr", "gate_only", "mix_only", "static_mix", "share", "value_residual_learned"]
)
def test_starts_at_the_value_residual_bit_for_bit(name: str, kv_heads: int | None) -> None:
    assert same(tiny(name, kv_heads=kv_heads), tiny("value_residual", kv_heads=kv_heads))


@GROUPS
@pytest.mark.parametrize("name", ["add_first_values_learned", "add_token_projection_learned"])
def test_starts_at_the_transformer_bit_for_bit(name: str, kv_heads: int | None) -> None:
    assert same(tiny(name, kv_heads=kv_heads), tiny("transformer", kv_heads=kv_heads))


def test_start_of_the_value_residual_is_not_the_transformers() -> None:
    assert not same(tiny("value_residual"), tiny("transformer"))


def test_full_variant_leaves_its_start_once_its_weights_move() -> None:
    one, other = tiny("mgvr"), tiny("value_residual")
    assert same(one, other)
    with torch.no_grad():
        for name, parameter in one.named_parameters():
            if ".path." in name:
                parameter.add_(0.01)
    assert not same(one, other)


def test_first_layers_values_are_its_own_in_every_value_residual() -> None:
    first = everything(tiny("transformer"))[2][0]
    for name in ("mgvr", "value_residual", "static_mix"):
        values = everything(tiny(name))[2]
        assert torch.equal(values[0], first)
        assert not torch.equal(values[1], first)


def test_first_values_are_not_detached() -> None:
    network = perturbed(tiny("first_values", layers=2, dtype=torch.float64))
    seen: list[Tensor] = []

    def watch(_: object, inputs: tuple[object, ...], outputs: tuple[Tensor, Tensor]) -> None:
        outputs[1].retain_grad()
        seen.append(outputs[1])

    network.layers[0].attention.register_forward_hook(watch)
    network.layers[0].attention.output.weight.data.zero_()
    network(tokens(2, 5), tokens(2, 5, seed=1)).nll.backward()
    (values,) = seen
    assert values.grad is not None
    assert values.grad.abs().sum() > 0
