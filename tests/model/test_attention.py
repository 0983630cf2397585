"""Attention and the small layers around it against their formulas, written out."""

from collections.abc import Callable

import pytest
import torch
from helpers import perturbed, tiny, tokens
from torch import Tensor

from mgvr_lightning.model import TransformerConfig
from mgvr_lightning.model.attention import Attention, attend
from mgvr_lightning.model.layers import Embedding, Linear, Rotary, norm
from mgvr_lightning.model.mlp import SquaredReLU, SwiGLU
from mgvr_lightning.values import Constant, Identity, OwnValues


def random(*size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, dtype=torch.float64, generator=generator).requires_grad_()


def assert_same(actual: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    """The outputs agree, and their gradients with respect to all `inputs`."""
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-12)
    upstream = random(*expected.shape, seed=9).detach()
    for one, other in zip(
        torch.autograd.grad(actual, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
        strict=True,
    ):
        assert other.abs().sum() > 0
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


def naive_attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Softmax over the past of every token and head by itself; the query's tokens are the last ones."""
    batch, new, heads, head_width = query.shape
    past = key.size(1) - new
    key, value = (x.repeat_interleave(heads // x.size(2), 2) for x in (key, value))
    rows = []
    for b in range(batch):
        for t in range(new):
            for h in range(heads):
                weights = [
                    torch.exp(torch.dot(query[b, t, h], key[b, s, h]) / head_width**0.5)
                    for s in range(past + t + 1)
                ]
                total = torch.stack(weights).sum()
                rows.append(sum(w / total * value[b, s, h] for s, w in enumerate(weights)))
    return torch.stack(rows).view(query.shape)


def naive_rotation(x: Tensor, start: int, base: float) -> Tensor:
    """Channel i and i + Dh/2 as a complex number, turned by −position · base^(−2i/Dh)."""
    half = x.size(-1) // 2
    number = torch.complex(x[..., :half], x[..., half:])
    angle = torch.tensor(
        [[(start + t) * base ** (-2 * i / x.size(-1)) for i in range(half)] for t in range(x.size(1))],
        dtype=torch.float64,
    )
    turned = number * torch.polar(torch.ones_like(angle), -angle)[:, None]
    return torch.cat((turned.real, turned.imag), -1)


def naive_norm(x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt()


@pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
@pytest.mark.parametrize(("new", "total"), [(5, 5), (1, 1), (1, 5), (3, 5)])
def test_attend_is_a_softmax_over_the_past(new: int, total: int, kv_heads: int) -> None:
    query = random(2, new, 6, 4)
    key, value = random(2, total, kv_heads, 4, seed=1), random(2, total, kv_heads, 4, seed=2)
    inputs = [value] if total == 1 else [query, key, value]
    assert_same(attend(query, key, value), naive_attend(query, key, value), inputs)


@pytest.mark.parametrize("qk_norm", [True, False])
@pytest.mark.parametrize("kv_heads", [None, 2, 1])
def test_attention_layer(kv_heads: int | None, qk_norm: bool) -> None:
    config = TransformerConfig(
        width=24, heads=4, layers=1, kv_heads=kv_heads, qk_norm=qk_norm, rotary_base=50.0
    )
    layer = Attention(config, 0, OwnValues()).double()
    assert layer.value is not None
    linears = [layer.query, layer.key, layer.value, layer.output]
    for seed, linear in enumerate(linears):
        linear.weight.data.copy_(0.5 * random(*linear.weight.shape, seed=seed))
    x = random(2, 5, 24, seed=7)
    query, key, value = ((x @ linear.weight.T).view(2, 5, -1, 6) for linear in linears[:3])
    query, key = naive_rotation(query, 3, 50.0), naive_rotation(key, 3, 50.0)
    if qk_norm:
        query, key = naive_norm(query), naive_norm(key)
    expected = naive_attend(query, key, value).reshape(2, 5, 24) @ layer.output.weight.T
    rotary = Rotary(torch.arange(3, 8), 6, 50.0)
    actual, values = layer(x, Identity(torch.zeros(2, 5, dtype=torch.int64)), rotary)
    assert_same(actual, expected, [x, *layer.parameters()])
    torch.testing.assert_close(values, value)


@pytest.mark.parametrize("start", [0, 11])
def test_rotary_is_a_complex_rotation(start: int) -> None:
    x = random(2, 5, 3, 6)
    rotary = Rotary(torch.arange(start, start + 5), 6, 100.0)
    assert_same(rotary(x), naive_rotation(x, start, 100.0), [x])


def test_rotated_products_depend_on_the_distance_alone() -> None:
    query, key = random(1, 1, 1, 8), random(1, 1, 1, 8, seed=1)

    def product(at: int, other: int) -> Tensor:
        rotated = [Rotary(torch.tensor([p]), 8, 100.0)(x) for p, x in ((at, query), (other, key))]
        return (rotated[0] * rotated[1]).sum()

    torch.testing.assert_close(product(5, 2), product(105, 102))
    assert not torch.isclose(product(5, 2), product(5, 3))


def test_rotary_turns_half_precision_in_fp32_and_returns_it_as_it_came() -> None:
    x = random(1, 5, 2, 6).detach().to(torch.bfloat16)
    rotary = Rotary(torch.arange(1000, 1005), 6, 10_000.0)
    assert torch.equal(rotary(x), rotary(x.float()).to(torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norm_is_the_root_mean_square(dtype: torch.dtype) -> None:
    x = (3 * random(2, 3, 7)).detach().to(dtype).requires_grad_()
    torch.testing.assert_close(norm(x), naive_norm(x))
    torch.testing.assert_close(norm(x).square().mean(-1), torch.ones(2, 3, dtype=dtype))
    if dtype == torch.float64:
        assert_same(norm(x), naive_norm(x), [x])


def test_norm_keeps_the_dtype_under_autocast() -> None:
    x = random(2, 7).detach().to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert norm(x).dtype == torch.bfloat16


def squared_relu(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    hidden = x @ up.T
    return torch.where(hidden > 0, hidden * hidden, 0.0) @ down.T


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    gates = x @ gate.T
    return (gates / (1 + torch.exp(-gates)) * (x @ up.T)) @ down.T


@pytest.mark.parametrize(("build", "formula"), [(SquaredReLU, squared_relu), (SwiGLU, swiglu)])
def test_mlp_is_its_formula(build: type[SquaredReLU | SwiGLU], formula: Callable[..., Tensor]) -> None:
    mlp = build(TransformerConfig(width=6, heads=1, mlp_width=5)).double()
    for seed, weight in enumerate(mlp.parameters()):
        weight.data.copy_(random(*weight.shape, seed=seed))
    x = random(2, 3, 6, seed=7)
    names = ("gate", "up", "down") if build is SwiGLU else ("up", "down")
    weights = [getattr(mlp, name).weight for name in names]
    assert_same(mlp(x), formula(x, *weights), [x, *weights])


def test_linear_and_embedding_are_their_formulas() -> None:
    linear, embedding = Linear(3, 2, Constant(0.0)).double(), Embedding(4, 3, Constant(0.0)).double()
    for module in (linear, embedding):
        module.weight.data.copy_(random(*module.weight.shape))
    ids = torch.tensor([[3, 0, 3]])
    rows = torch.stack([embedding.weight[i] for i in (3, 0, 3)])[None]
    assert_same(linear(embedding(ids)), rows @ linear.weight.T, [linear.weight, embedding.weight])


def test_network_is_its_blocks_in_a_row() -> None:
    network = perturbed(tiny("transformer", dtype=torch.float64, layers=2, softcap=2.0))
    ids = tokens(2, 5)
    rotary = Rotary(torch.arange(5), 4, 10_000.0)
    x = naive_norm(network.embedding.weight[ids])
    for block in network.layers:
        x = x + block.attention(naive_norm(x), Identity(ids), rotary)[0]
        x = x + block.mlp(naive_norm(x))
    assert network.head is not None
    expected = 2.0 * torch.tanh(naive_norm(x) @ network.head.weight.T / 2.0)
    assert_same(network.logits(ids), expected, list(network.parameters()))
