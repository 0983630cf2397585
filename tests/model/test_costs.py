"""Parameters and FLOPs of every preset against formulas and against a counter."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers import PRESETS, VOCABULARY, perturbed, tiny, tokens
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mgvr_lightning.model import Transformer
from mgvr_lightning.optim import AdamW, role_groups
from mgvr_lightning.values import Role, Shape, TokenGate, TokenMatrix, ValuePath, declarations

WIDTH, HEADS, HEAD_WIDTH, LAYERS = 16, 4, 4, 6
LAST_THIRD, EVERY_SECOND = 2, 3

EXTRA: dict[str, Callable[[int], int]] = {
    "transformer": lambda h: 0,
    "value_residual": lambda h: 0,
    "value_residual_learned": lambda h: 2 * (LAYERS - 1),
    "mgvr": lambda h: WIDTH * h * (h + 1) * (LAYERS - 1),
    "gate_only": lambda h: WIDTH * h * (LAYERS - 1),
    "mix_only": lambda h: WIDTH * h**2 * (LAYERS - 1),
    "static_mix": lambda h: (h + h**2) * (LAYERS - 1),
    "share": lambda h: WIDTH * h * (LAYERS - 1),
    "add_first_values": lambda h: 0,
    "add_first_values_learned": lambda h: 2 * LAST_THIRD,
    "add_token_projection": lambda h: 0,
    "add_token_projection_learned": lambda h: 2 * LAST_THIRD,
    "token_projection": lambda h: LAST_THIRD,
    "token_projection_fixed": lambda h: 0,
    "token_projection_every_second": lambda h: EVERY_SECOND,
    "scaled_values": lambda h: LAST_THIRD,
    "first_values": lambda h: LAST_THIRD * (1 - WIDTH * h * HEAD_WIDTH),
    "first_values_fixed": lambda h: -LAST_THIRD * WIDTH * h * HEAD_WIDTH,
    "first_values_every_second": lambda h: EVERY_SECOND * (1 - WIDTH * h * HEAD_WIDTH),
    "first_values_all": lambda h: -(LAYERS - 1) * WIDTH * h * HEAD_WIDTH,
    "bank_of_values": lambda h: LAST_THIRD * (1 + (VOCABULARY - WIDTH) * h * HEAD_WIDTH),
    "bank_of_values_fixed": lambda h: LAST_THIRD * (VOCABULARY - WIDTH) * h * HEAD_WIDTH,
    "bank_of_values_shared": lambda h: LAST_THIRD + (VOCABULARY - LAST_THIRD * WIDTH) * h * HEAD_WIDTH,
    "bank_of_values_all": lambda h: LAYERS * (1 + (VOCABULARY - WIDTH) * h * HEAD_WIDTH),
    "bank_of_values_mix": lambda h: (
        LAST_THIRD * ((VOCABULARY - WIDTH) * h * HEAD_WIDTH + WIDTH * h**2 + h**2)
    ),
    "add_bank_of_values": lambda h: LAST_THIRD * (2 + VOCABULARY * h * HEAD_WIDTH),
    "value_embedding": lambda h: EVERY_SECOND * (VOCABULARY * h * HEAD_WIDTH + 12 * h),
}
"""Parameters beyond the Transformer's, by the number of key-value heads."""

every_preset = pytest.mark.parametrize("name", PRESETS)
heads_of_two_kinds = pytest.mark.parametrize("kv_heads", [4, 2])


def expected_role(name: str) -> Role:
    if name in ("embedding.weight", "head.weight"):
        return Role.EMBEDDING if name == "embedding.weight" else Role.HEAD
    if ".path." not in name:
        return Role.MATRIX
    if name.endswith(".table"):
        return Role.TABLE
    if name.endswith(".weight"):
        return Role.TOKEN_DEPENDENT
    return Role.OWN_SCALAR if ".gate." in name else Role.SOURCE_SCALAR


def parameters_of(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def pointwise(network: Transformer) -> int:
    """Forward FLOPs per token of the value paths that aren't matrix products, and that no counter sees."""
    products = sum(
        2 * torch.Size(declaration.size).numel()
        for _, declaration in declarations(network)
        if declaration.role == Role.TOKEN_DEPENDENT
    )
    return sum(path.flops() for path in network.paths) - products


def counted(network: Transformer, context: int) -> float:
    """Forward FLOPs per token of all matrix products; attention as two whole products over the context."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        network.logits(tokens(2, context))
    return counter.get_total_flops() / (2 * context)


def backward(network: Transformer) -> None:
    network(tokens(4, 12), tokens(4, 12, seed=1)).nll.backward()


@heads_of_two_kinds
@every_preset
def test_parameters(name: str, kv_heads: int) -> None:
    attention = 2 * WIDTH * WIDTH + 2 * WIDTH * kv_heads * HEAD_WIDTH
    transformer = LAYERS * (attention + 8 * WIDTH * WIDTH) + 2 * VOCABULARY * WIDTH
    assert parameters_of(tiny("transformer", kv_heads=kv_heads)) == transformer
    assert parameters_of(tiny(name, kv_heads=kv_heads)) == transformer + EXTRA[name](kv_heads)


def test_parameters_of_other_shapes() -> None:
    plain = parameters_of(tiny("transformer"))
    assert parameters_of(tiny("transformer", tied=True)) == plain - VOCABULARY * WIDTH
    swiglu = parameters_of(tiny("transformer", mlp="swiglu", mlp_width=24))
    assert swiglu == plain + LAYERS * WIDTH * (3 * 24 - 2 * 64)


@every_preset
def test_every_parameter_learns_from_its_start_on(name: str) -> None:
    """What a coefficient of zero hides at the start learns once that coefficient has moved."""
    stepped = tiny(name, kv_heads=2)
    hidden = [table for key, table in stepped.named_parameters() if key.endswith("table")]
    optimizer = AdamW().build(role_groups(stepped))
    backward(stepped)
    if name != "add_bank_of_values":
        assert all(table.grad is not None and table.grad.abs().sum() > 0 for table in hidden)
    optimizer.step()
    for network in (stepped, perturbed(tiny(name, kv_heads=2))):
        network.zero_grad()
        backward(network)
        dead = [
            parameter_name
            for parameter_name, parameter in network.named_parameters()
            if parameter.grad is None or not parameter.grad.abs().sum() > 0
        ]
        assert not dead


@every_preset
def test_every_parameter_has_its_role(name: str) -> None:
    network = tiny(name)
    roles = {parameter: role for role, group in role_groups(network).items() for parameter in group}
    assert roles == {parameter: expected_role(parameter) for parameter, _ in network.named_parameters()}
    optimizer = AdamW().build(role_groups(network))
    ids = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(ids) == sorted(id(parameter) for parameter in network.parameters())


def test_undeclared_parameter_belongs_to_no_group() -> None:
    network = tiny("mgvr")
    network.layers[2].scale = nn.Parameter(torch.ones(3))
    with pytest.raises(AssertionError, match=r"undeclared.*blocks\.2\.scale"):
        role_groups(network)


def test_training_makes_the_matrices_vary_over_tokens_and_heads() -> None:
    network = tiny("mgvr")
    optimizer = AdamW(learning_rate=1e-2).build(role_groups(network))
    for _ in range(5):
        optimizer.zero_grad()
        backward(network)
        optimizer.step()
    x = torch.randn(1, 20, WIDTH, generator=torch.Generator().manual_seed(0))
    for path in network.paths[1:]:
        assert isinstance(path, ValuePath)
        assert isinstance(path.mix, TokenMatrix)
        gates, matrices = path.gate(x)[0, ..., 0], path.mix.coefficients(x)[0]
        assert path.mix.weight.abs().min() > 0
        assert path.gate.weight.abs().min() > 0
        assert matrices.std(0).min() > 1e-3, "matrices are the same for all tokens"
        learned = matrices - 0.5 * torch.eye(HEADS)
        assert learned.std((1, 2)).min() > 1e-3, "matrices are the same for all heads"
        assert gates.std(0).min() > 1e-3
        assert gates.std(1).min() > 1e-4
        diagonal = matrices.diagonal(dim1=1, dim2=2)
        assert (diagonal - 0.5).abs().max() < 0.5, "matrices left their start at once"


@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2}, {"kv_heads": 1}, {"mlp": "swiglu"}, {"tied": True}])
@every_preset
def test_flops_are_the_counted_products_and_the_paths_pointwise_part(
    name: str, shape: dict[str, Any]
) -> None:
    network, context = tiny(name, **shape), 10
    stated = network.flops_per_token(context)
    assert stated == 3 * (counted(network, context) + pointwise(network))
    assert 3 * pointwise(network) < 0.1 * stated


@pytest.mark.parametrize("context", [1, 7, 32])
def test_flops_grow_with_the_context_as_counted(context: int) -> None:
    network = tiny("mgvr", kv_heads=2)
    assert network.flops_per_token(context) == 3 * (counted(network, context) + pointwise(network))


def test_flops_beyond_the_transformers() -> None:
    base = tiny("transformer").flops_per_token(8)
    channels = HEADS * HEAD_WIDTH
    projection = 2 * WIDTH * channels
    expected = {
        "value_residual": (LAYERS - 1) * 3 * channels,
        "mgvr": (LAYERS - 1) * (2 * WIDTH * HEADS * (HEADS + 1) + 2 * HEADS * channels + 2 * channels),
        "gate_only": (LAYERS - 1) * (2 * WIDTH * HEADS + 3 * channels),
        "mix_only": (LAYERS - 1) * (2 * WIDTH * HEADS**2 + 2 * HEADS * channels + 2 * channels),
        "static_mix": (LAYERS - 1) * (2 * HEADS * channels + 2 * channels),
        "share": (LAYERS - 1) * (2 * WIDTH * HEADS + 3 * channels),
        "first_values": LAST_THIRD * (channels - projection),
        "first_values_all": (LAYERS - 1) * (channels - projection),
        "scaled_values": LAST_THIRD * channels,
        "bank_of_values": LAST_THIRD * (channels - projection),
        "bank_of_values_all": LAYERS * (channels - projection),
        "bank_of_values_mix": LAST_THIRD * (2 * WIDTH * HEADS**2 + 2 * HEADS * channels - projection),
        "add_bank_of_values": LAST_THIRD * 3 * channels,
        "value_embedding": EVERY_SECOND * (2 * 12 * HEADS + 3 * channels),
        "token_projection": LAST_THIRD * channels,
        "add_first_values": LAST_THIRD * 3 * channels,
        "add_token_projection": LAST_THIRD * (3 * channels + projection),
        "add_token_projection_learned": LAST_THIRD * (3 * channels + projection),
    }
    actual = {name: tiny(name).flops_per_token(8) - base for name in expected}
    assert actual == {name: 3 * flops for name, flops in expected.items()}


def test_reference_size_of_the_full_variant() -> None:
    """Width 768 with 6 key-value heads."""
    shape = Shape(768, 6, 128, 1, 12, 100)
    assert parameters_of(TokenGate(shape, 0.5)) + parameters_of(TokenMatrix(shape, 0.5)) == 32_256
