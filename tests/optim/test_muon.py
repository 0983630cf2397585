"""Muon against the formulas, written out over the entries of one matrix with Python's own numbers."""

import math

import pytest
import torch
from torch import Tensor

from mgvr_lightning.optim import MuonAdamWOptimizer
from mgvr_lightning.optim.muon import POLAR_EXPRESS, polar_express

Matrix = list[list[float]]
SHAPES = [(6, 3), (3, 5), (4, 4), (6, 3), (1, 4), (4, 1)]
RATE, DECAY, BETA, WARMUP, STEPS, DECAY_START = 0.03, 0.3, 0.9, 5, 24, 12
MOMENTUM = (0.85, 0.97, 0.9)


def _group(parameters: list[Tensor], **changes: object) -> dict[str, object]:
    options = {"lr": RATE, "momentum": MOMENTUM, "momentum_warmup": WARMUP, "beta": BETA, "dtype": "float64"}
    ends = {"weight_decay": DECAY, "steps": STEPS, "decay_start": DECAY_START}
    return {"params": parameters, "role": "matrix", "rule": "muon", **options, **ends, **changes}


def _random(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _product(one: Matrix, other: Matrix) -> Matrix:
    columns = list(zip(*other, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in one]


def _turned(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def _norm(matrix: Matrix) -> float:
    return math.sqrt(sum(entry**2 for row in matrix for entry in row))


def _orthogonal(matrix: Matrix) -> Matrix:
    """X ← aX + b(XXᵀ)X + c(XXᵀ)²X, whatever the shape."""
    norm = 1.01 * _norm(matrix) + 1e-6
    x = [[entry / norm for entry in row] for row in matrix]
    for a, b, c in POLAR_EXPRESS:
        cubed = _product(_product(x, _turned(x)), x)
        fifth = _product(_product(x, _turned(x)), cubed)
        x = [
            [a * one + b * three + c * five for one, three, five in zip(*rows, strict=True)]
            for rows in zip(x, cubed, fifth, strict=True)
        ]
    return x


class Naive:
    """One matrix, its momentum, and a second moment for each of its longer side's entries."""

    def __init__(self, weights: Matrix) -> None:
        self.weights, self.done = weights, 0
        self.rows, self.columns = len(weights), len(weights[0])
        self.momentum = [[0.0] * self.columns for _ in weights]
        self.seconds = [0.0] * max(self.rows, self.columns)

    def rates(self) -> tuple[float, float]:
        """Momentum and weight decay of the next update, from their descriptions."""
        if self.done < WARMUP:
            momentum = 0.85 + 0.12 * self.done / WARMUP
        else:
            momentum = 0.97 - 0.07 * max(0, self.done - DECAY_START) / (STEPS - DECAY_START)
        return momentum, DECAY * math.cos(math.pi * self.done / STEPS / 2) ** 2

    def step(self, gradient: Matrix) -> None:
        """One update."""
        m, decay = self.rates()
        ahead = [[0.0] * self.columns for _ in gradient]
        for i, row in enumerate(gradient):
            for j, g in enumerate(row):
                self.momentum[i][j] = m * self.momentum[i][j] + (1 - m) * g
                ahead[i][j] = m * self.momentum[i][j] + (1 - m) * g
        update = self._normalised(_orthogonal(ahead))
        for i, row in enumerate(update):
            for j, u in enumerate(row):
                w = self.weights[i][j]
                rate = RATE * math.sqrt(max(1, self.rows / self.columns))
                self.weights[i][j] = w - rate * u - (rate * decay * w if u * w >= 0 else 0)
        self.done += 1

    def _normalised(self, update: Matrix) -> Matrix:
        tall = self.rows >= self.columns
        lines = update if tall else _turned(update)
        for index, line in enumerate(lines):
            square = sum(entry**2 for entry in line) / len(line)
            self.seconds[index] = BETA * self.seconds[index] + (1 - BETA) * square
        scaled = [
            [entry / math.sqrt(second) for entry in line]
            for line, second in zip(lines, self.seconds, strict=True)
        ]
        back = _norm(lines) / _norm(scaled)
        scaled = [[back * entry for entry in line] for line in scaled]
        return scaled if tall else _turned(scaled)


def test_twenty_updates_follow_the_formulas() -> None:
    parameters = [_random(shape, seed).requires_grad_() for seed, shape in enumerate(SHAPES)]
    naive = [Naive(parameter.tolist()) for parameter in parameters]
    optimizer = MuonAdamWOptimizer([_group(parameters)])
    for step in range(20):
        for index, (parameter, expected) in enumerate(zip(parameters, naive, strict=True)):
            parameter.grad = _random(tuple(parameter.shape), 100 * step + index)
            expected.step(parameter.grad.tolist())
        optimizer.step()
    for parameter, expected in zip(parameters, naive, strict=True):
        weights = torch.tensor(expected.weights, dtype=torch.float64)
        torch.testing.assert_close(parameter.detach(), weights, rtol=1e-10, atol=1e-11)
        state = optimizer.state[parameter]
        momentum = torch.tensor(expected.momentum, dtype=torch.float64)
        torch.testing.assert_close(state["momentum_buffer"], momentum, rtol=1e-12, atol=1e-13)
        assert state["second_moment"].flatten().tolist() == pytest.approx(expected.seconds, rel=1e-9)
        assert state["step"] == 20


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(48, 16), (16, 48), (32, 32)])
def test_singular_values_end_close_to_one(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Measured: 0.8587 to 1.1421; the polynomial itself, in fp64: 0.8588 to 1.1412 from 1/1000 on."""
    left = torch.linalg.qr(_random((shape[0], min(shape)), 0))[0]
    right = torch.linalg.qr(_random((shape[1], min(shape)), 1))[0]
    matrix = left * torch.logspace(0, -2, min(shape), dtype=torch.float64) @ right.mT
    found = polar_express(matrix[None], dtype)[0]
    assert found.dtype == dtype
    values = torch.linalg.svdvals(found.double())
    assert values.min() > 0.85
    assert values.max() < 1.15
    assert torch.linalg.matrix_norm(found.double() - left @ right.mT, 2) < 0.15


def test_a_batch_is_orthogonalised_matrix_by_matrix() -> None:
    matrices = _random((3, 5, 4), 0) * torch.tensor([1e-6, 1.0, 1e6])[:, None, None]
    alone = torch.cat([polar_express(matrix[None], torch.float64) for matrix in matrices])
    torch.testing.assert_close(polar_express(matrices, torch.float64), alone)


@pytest.mark.parametrize("shape", [(6, 3), (3, 5)])
def test_decay_leaves_entries_alone_that_the_update_moves_away_from_zero(shape: tuple[int, int]) -> None:
    start, gradient = _random(shape, 0), _random(shape, 1)
    ends = {}
    for decay in (0.0, 0.5):
        parameter = start.clone().requires_grad_()
        parameter.grad = gradient.clone()
        MuonAdamWOptimizer([_group([parameter], weight_decay=decay)]).step()
        ends[decay] = parameter.detach()
    grows = (ends[0.0].abs() > start.abs()) & (ends[0.0] * start > 0)
    assert grows.any()
    assert not grows.all()
    assert torch.equal(ends[0.5][grows], ends[0.0][grows])
    rate = RATE * math.sqrt(max(1, shape[0] / shape[1]))
    shrunk = (ends[0.0] - rate * 0.5 * start)[~grows]
    torch.testing.assert_close(ends[0.5][~grows], shrunk, rtol=1e-12, atol=1e-14)


def test_a_parameter_without_gradient_stays_and_counts_no_update() -> None:
    moved, still = (_random((3, 4), seed).requires_grad_() for seed in (0, 1))
    before = still.detach().clone()
    optimizer = MuonAdamWOptimizer([_group([moved, still])])
    moved.grad = _random((3, 4), 2)
    optimizer.step()
    assert torch.equal(still.detach(), before)
    assert still not in optimizer.state
    alone = _random((3, 4), 1).requires_grad_()
    other = MuonAdamWOptimizer([_group([alone])])
    still.grad, alone.grad = _random((3, 4), 3), _random((3, 4), 3)
    optimizer.step()
    other.step()
    torch.testing.assert_close(still, alone, rtol=1e-12, atol=1e-14)
    assert [optimizer.state[parameter]["step"] for parameter in (moved, still)] == [2, 1]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_parameters_of_lower_precision_stay_close(kind: torch.dtype, dtype: str) -> None:
    exact, rounded = _random((8, 4), 0).requires_grad_(), _random((8, 4), 0).to(kind).requires_grad_()
    for parameter, name in ((exact, "float64"), (rounded, dtype)):
        optimizer = MuonAdamWOptimizer([_group([parameter], dtype=name)])
        for step in range(5):
            parameter.grad = _random((8, 4), 10 + step).to(parameter.dtype)
            optimizer.step()
        assert optimizer.state[parameter]["momentum_buffer"].dtype == parameter.dtype
    loose = torch.bfloat16 in (kind, getattr(torch, dtype))
    torch.testing.assert_close(rounded.double(), exact, rtol=0, atol=0.02 if loose else 1e-4)
