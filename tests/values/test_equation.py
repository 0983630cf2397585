"""Every part and the composed path against equation (0) written out number by number."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from mgvr_lightning.values import (
    ChannelShare,
    FirstValues,
    Gate,
    HeadGate,
    HeadMatrix,
    Identity,
    Mix,
    OwnValues,
    Part,
    Replace,
    ScalarGate,
    ScalarMix,
    Shape,
    Source,
    TokenGate,
    TokenMatrix,
    TokenProjection,
    TokenShare,
    TokenTable,
    ValuePath,
    mix_heads,
)

AnyPart = TypeVar("AnyPart", bound=Part)
BATCH, LENGTH, WIDTH, HEAD_WIDTH = 2, 3, 5, 3
START, CHANNELS = 0.7, 2

GATES: dict[str, Callable[[Shape], Gate]] = {
    "fixed": lambda shape: ScalarGate(shape, START, learned=False),
    "learned": lambda shape: ScalarGate(shape, START, learned=True),
    "head": lambda shape: HeadGate(shape, START),
    "token": lambda shape: TokenGate(shape, START),
    "token_static": lambda shape: TokenGate(shape, START, static=True),
}
MIXES: dict[str, Callable[[Shape], Mix]] = {
    "fixed": lambda shape: ScalarMix(shape, START, learned=False),
    "learned": lambda shape: ScalarMix(shape, START, learned=True),
    "head_matrix": lambda shape: HeadMatrix(shape, START),
    "token_share": lambda shape: TokenShare(shape, START),
    "channel_share": lambda shape: ChannelShare(shape, CHANNELS, 3.0),
    "token_matrix": lambda shape: TokenMatrix(shape, START),
    "token_matrix_static": lambda shape: TokenMatrix(shape, START, static=True),
}
SOURCES: dict[str, Callable[[Shape], Source]] = {
    "first_values": FirstValues,
    "token_projection": TokenProjection,
    "token_table": lambda shape: TokenTable(shape, "random", shared=False),
}
READS_X = TokenShare | ChannelShare | TokenMatrix
heads_of_one_and_three = pytest.mark.parametrize("heads", [1, 3])


def shape(heads: int) -> Shape:
    return Shape(WIDTH, heads, HEAD_WIDTH, layer=1, layers=2, vocabulary=7)


def random(*size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, dtype=torch.float64, generator=generator).requires_grad_()


def moved(part: AnyPart) -> AnyPart:
    part.double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return part


def elements(size: Sequence[int], number: Callable[..., Tensor]) -> Tensor:
    numbers = [number(*index) for index in product(*map(range, size))]
    return torch.stack(numbers).view(tuple(size))


def logit(weight: Tensor, row: int, x: Tensor) -> Tensor:
    return torch.stack([weight[row, channel] * x[channel] for channel in range(WIDTH)]).sum()


def sigmoid(z: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-z))


def naive_gate(gate: Gate, x: Tensor, head: int) -> Tensor:
    """a of one token, x (D,), and one head."""
    match gate:
        case ScalarGate():
            return torch.as_tensor(gate.coefficient if gate.learned else START, dtype=torch.float64)
        case HeadGate():
            return gate.coefficient[head]
        case TokenGate():
            scale = gate.coefficient[head] if gate.static else START
            return 2 * scale * sigmoid(logit(gate.weight, head, x))
    raise NotImplementedError


def naive_mix(mix: Mix, x: Tensor, head: int, other: int) -> Tensor:
    """M of one token, x (D,), receiving head and giving head."""
    heads = mix.shape.kv_heads
    same = torch.tensor(float(head == other), dtype=torch.float64)
    match mix:
        case ScalarMix():
            return same * (mix.coefficient if mix.learned else START)
        case HeadMatrix():
            return mix.matrix[head, other]
        case TokenShare():
            return same * 2 * START * sigmoid(logit(mix.weight, head, x))
        case ChannelShare():
            return (
                same * 3 * sigmoid(sum(mix.weight[head, channel] * x[channel] for channel in range(CHANNELS)))
            )
        case TokenMatrix():
            base = mix.matrix[head, other] if mix.static else same * START
            return base + logit(mix.weight, head * heads + other, x)
    raise NotImplementedError


def naive_projection(weight: Tensor, x: Tensor, head: int, channel: int) -> Tensor:
    return logit(weight, head * HEAD_WIDTH + channel, x)


def assert_same(actual: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    """The outputs agree, and their gradients with respect to all `inputs`."""
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    upstream = random(*expected.shape, seed=4).detach()
    gradients = [
        torch.autograd.grad(output, inputs, upstream, materialize_grads=True) for output in (actual, expected)
    ]
    assert all(gradient.abs().sum() > 0 for gradient in gradients[1])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@heads_of_one_and_three
@pytest.mark.parametrize("name", GATES)
def test_gate_gives_one_number_per_token_and_head(name: str, heads: int) -> None:
    gate, x = moved(GATES[name](shape(heads))), random(BATCH, LENGTH, WIDTH)
    size = (BATCH, LENGTH, heads, 1)
    expected = elements(size, lambda b, t, h, _: naive_gate(gate, x[b, t], h))
    actual = torch.as_tensor(gate(x), dtype=torch.float64).expand(size)
    inputs = [*gate.parameters(), *([x] if isinstance(gate, TokenGate) else [])]
    if inputs:
        assert_same(actual, expected, inputs)
    else:
        torch.testing.assert_close(actual, expected)


@heads_of_one_and_three
@pytest.mark.parametrize("name", MIXES)
def test_mix_is_a_sum_over_the_sources_heads(name: str, heads: int) -> None:
    mix, x = moved(MIXES[name](shape(heads))), random(BATCH, LENGTH, WIDTH)
    source = random(BATCH, LENGTH, heads, HEAD_WIDTH, seed=2)

    def number(b: int, t: int, h: int, d: int) -> Tensor:
        return torch.stack([naive_mix(mix, x[b, t], h, j) * source[b, t, j, d] for j in range(heads)]).sum()

    inputs = [*mix.parameters(), source, *([x] if isinstance(mix, READS_X) else [])]
    assert_same(mix(x, source), elements(source.shape, number), inputs)


@heads_of_one_and_three
@pytest.mark.parametrize("per_token", [False, True])
def test_rows_of_a_matrix_receive_and_columns_give(per_token: bool, heads: int) -> None:
    matrix = random(*((BATCH, LENGTH) if per_token else ()), heads, heads)
    source = random(BATCH, LENGTH, heads, HEAD_WIDTH, seed=2)

    def number(b: int, t: int, h: int, d: int) -> Tensor:
        of_token = matrix[b, t] if per_token else matrix
        return torch.stack([of_token[h, j] * source[b, t, j, d] for j in range(heads)]).sum()

    assert_same(mix_heads(matrix, source), elements(source.shape, number), [matrix, source])


@heads_of_one_and_three
@pytest.mark.parametrize("mix_name", MIXES)
@pytest.mark.parametrize("gate_name", ["replace", *GATES])
@pytest.mark.parametrize("source_name", SOURCES)
def test_path_is_equation_zero(source_name: str, gate_name: str, mix_name: str, heads: int) -> None:
    sizes = shape(heads)
    gate = moved(Replace(sizes) if gate_name == "replace" else GATES[gate_name](sizes))
    mix = moved(MIXES[mix_name](sizes))
    x, x0 = random(BATCH, LENGTH, WIDTH), random(BATCH, LENGTH, WIDTH, seed=1)
    first, weight = (
        random(BATCH, LENGTH, heads, HEAD_WIDTH, seed=2),
        random(heads * HEAD_WIDTH, WIDTH, seed=3),
    )

    def project(hidden: Tensor) -> Tensor:
        return (hidden @ weight.T).view(*hidden.shape[:-1], heads, HEAD_WIDTH)

    ids = torch.tensor([[3, 0, 6], [3, 3, 1]])
    part = moved(SOURCES[source_name](sizes))

    def source(b: int, t: int, j: int, d: int) -> Tensor:
        match part:
            case FirstValues():
                return first[b, t, j, d]
            case TokenTable():
                return part.table[ids[b, t], j * HEAD_WIDTH + d]
        return naive_projection(weight, x0[b, t], j, d)

    def number(b: int, t: int, h: int, d: int) -> Tensor:
        total = torch.stack([naive_mix(mix, x[b, t], h, j) * source(b, t, j, d) for j in range(heads)]).sum()
        if gate_name == "replace":
            return total
        return total + naive_gate(gate, x[b, t], h) * naive_projection(weight, x[b, t], h, d)

    path = ValuePath(part, gate, mix)
    uses_x = gate_name != "replace" or isinstance(mix, READS_X)
    uses_weight = gate_name != "replace" or source_name == "token_projection"
    reads = {"first_values": [first], "token_projection": [x0], "token_table": []}
    inputs = [
        *path.parameters(),
        *reads[source_name],
        *([x] if uses_x else []),
        *([weight] if uses_weight else []),
    ]
    assert_same(
        path(x, Identity(ids, x0, first), project),
        elements((*x.shape[:2], heads, HEAD_WIDTH), number),
        inputs,
    )
    assert path.projections == (gate_name != "replace") + (source_name == "token_projection")


@pytest.mark.parametrize("name", GATES)
def test_path_without_a_source_scales_its_own_values(name: str) -> None:
    gate, x = moved(GATES[name](shape(3))), random(BATCH, LENGTH, WIDTH)
    own = random(BATCH, LENGTH, 3, HEAD_WIDTH, seed=2)
    path = ValuePath(None, gate, None)
    expected = elements(own.shape, lambda b, t, h, d: naive_gate(gate, x[b, t], h) * own[b, t, h, d])
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    assert_same(path(x, Identity(ids), lambda _: own), expected, [own, *path.parameters()])


def test_own_values_are_the_projection_itself() -> None:
    own = random(BATCH, LENGTH, 3, HEAD_WIDTH)
    identity = Identity(torch.zeros(BATCH, LENGTH, dtype=torch.int64))
    assert OwnValues()(random(BATCH, LENGTH, WIDTH), identity, lambda _: own) is own


def test_only_paths_that_read_no_hidden_state_are_replayable() -> None:
    sizes = shape(3)
    static = {"fixed", "learned", "head_matrix"}
    for name, mix in MIXES.items():
        assert ValuePath(FirstValues(sizes), Replace(sizes), mix(sizes)).replayable == (name in static)
        table = TokenTable(sizes, "random", shared=False)
        assert ValuePath(table, Replace(sizes), mix(sizes)).replayable == (name in static)
        assert not ValuePath(TokenProjection(sizes), Replace(sizes), mix(sizes)).replayable
        for gate in GATES.values():
            assert not ValuePath(FirstValues(sizes), gate(sizes), mix(sizes)).replayable
