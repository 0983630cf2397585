"""What parts hold before training: their start, exactly, and what they declare."""

import pytest
import torch
from torch import Tensor

from mgvr_lightning.errors import InputError
from mgvr_lightning.values import (
    Between,
    ChannelShare,
    Constant,
    Diagonal,
    HeadGate,
    HeadMatrix,
    Normal,
    Role,
    ScalarGate,
    ScalarMix,
    Shape,
    TokenGate,
    TokenMatrix,
    TokenShare,
    TokenTable,
    Uniform,
    declarations,
)

SHAPE = Shape(width=8, kv_heads=3, head_width=4, layer=1, layers=2, vocabulary=7)
X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
SOURCE = torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(1))


class KeyedDraws:
    """Draws that supply a generator and nothing else."""

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(0)

    def tokens(self) -> Tensor:
        raise NotImplementedError

    def projection(self, layer: int) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize(
    "gate",
    [
        ScalarGate(SHAPE, 0.5, learned=False),
        ScalarGate(SHAPE, 0.5, learned=True),
        HeadGate(SHAPE, 0.5),
        TokenGate(SHAPE, 0.5),
        TokenGate(SHAPE, 0.5, static=True),
    ],
)
def test_gate_starts_exactly_at_its_start(gate: torch.nn.Module) -> None:
    assert torch.equal(torch.as_tensor(gate(X)).expand(2, 5, 3, 1), torch.full((2, 5, 3, 1), 0.5))


@pytest.mark.parametrize(
    "mix",
    [
        ScalarMix(SHAPE, 0.5, learned=False),
        ScalarMix(SHAPE, 0.5, learned=True),
        HeadMatrix(SHAPE, 0.5),
        TokenShare(SHAPE, 0.5),
        TokenMatrix(SHAPE, 0.5),
        TokenMatrix(SHAPE, 0.5, static=True),
    ],
)
def test_mix_starts_exactly_at_a_share_of_the_same_head(mix: torch.nn.Module) -> None:
    assert torch.equal(mix(X, SOURCE), 0.5 * SOURCE)


def test_channel_share_reads_its_first_channels_alone_and_stays_within_its_scale() -> None:
    mix = ChannelShare(SHAPE, 5, 3.0)
    with torch.no_grad():
        mix.weight.fill_(100.0)
    other = X.clone()
    other[..., 5:] = 7.0
    assert torch.equal(mix.coefficients(X), mix.coefficients(other))
    assert mix.coefficients(X).min() >= 0
    assert 2.9 < mix.coefficients(X).max() <= 3


@pytest.mark.parametrize("channels", [0, 9, -1])
def test_channel_share_of_channels_that_do_not_exist_is_refused(channels: int) -> None:
    with pytest.raises(InputError, match=r"values\.mix\.channels.*1 to 8"):
        ChannelShare(SHAPE, channels, 3.0)


def test_token_gate_stays_between_zero_and_twice_its_start() -> None:
    gate = TokenGate(SHAPE, 0.5)
    with torch.no_grad():
        gate.weight.fill_(100.0)
    values = gate(X)
    assert values.min() >= 0
    assert values.max() <= 1
    assert values.max() - values.min() > 0.9


def test_coefficients_are_fp32_under_bf16_autocast() -> None:
    gate, mix = TokenGate(SHAPE, 0.5), TokenMatrix(SHAPE, 0.5)
    with torch.autocast("cpu", torch.bfloat16):
        assert gate(X).dtype == mix.coefficients(X).dtype == torch.float32


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (ScalarGate(SHAPE, 0.5, learned=False), {}),
        (ScalarGate(SHAPE, 0.5, learned=True), {"coefficient": ((), Role.OWN_SCALAR)}),
        (HeadGate(SHAPE, 0.5), {"coefficient": ((3,), Role.OWN_SCALAR)}),
        (TokenGate(SHAPE, 0.5), {"weight": ((3, 8), Role.TOKEN_DEPENDENT)}),
        (ScalarMix(SHAPE, 0.5, learned=True), {"coefficient": ((), Role.SOURCE_SCALAR)}),
        (HeadMatrix(SHAPE, 0.5), {"matrix": ((3, 3), Role.SOURCE_SCALAR)}),
        (TokenShare(SHAPE, 0.5), {"weight": ((3, 8), Role.TOKEN_DEPENDENT)}),
        (ChannelShare(SHAPE, 5, 3.0), {"weight": ((3, 5), Role.TOKEN_DEPENDENT)}),
        (TokenTable(SHAPE, "random", shared=False), {"table": ((7, 12), Role.TABLE)}),
        (TokenTable(SHAPE, "projection", shared=True), {"table": ((7, 12), Role.TABLE)}),
        (
            TokenMatrix(SHAPE, 0.5, static=True),
            {"weight": ((9, 8), Role.TOKEN_DEPENDENT), "matrix": ((3, 3), Role.SOURCE_SCALAR)},
        ),
    ],
)
def test_part_declares_its_parameters(
    part: torch.nn.Module, expected: dict[str, tuple[tuple[int, ...], Role]]
) -> None:
    declared = {name: (declaration.size, declaration.role) for name, declaration in declarations(part)}
    assert declared == expected
    sizes = {name: tuple(parameter.shape) for name, parameter in part.named_parameters()}
    assert sizes == {name: size for name, (size, _) in expected.items()}


def test_initial_values_have_the_size_and_spread_they_state() -> None:
    draws = KeyedDraws()
    assert torch.equal(Constant(0.3)((2, 3), draws), torch.full((2, 3), 0.3))
    assert torch.equal(Diagonal(0.3)((3, 3), draws), 0.3 * torch.eye(3))
    between = Between(0.1, 0.4)((100, 200), draws)
    assert between.min() >= 0.1
    assert between.max() <= 0.4
    assert between.mean().item() == pytest.approx(0.25, rel=0.01)
    normal, uniform = Normal(0.2)((100, 200), draws), Uniform(0.2)((100, 200), draws)
    for drawn in (normal, uniform):
        assert drawn.shape == (100, 200)
        assert drawn.mean().abs() < 0.01
        assert drawn.std().item() == pytest.approx(0.2, rel=0.03)
    assert normal.abs().max() > 0.6
    assert 0.34 < uniform.abs().max() <= 0.2 * 3**0.5 + 1e-7
