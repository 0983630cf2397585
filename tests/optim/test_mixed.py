import io
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from mgvr_lightning.optim import MuonAdamWOptimizer

SHAPES = [(5, 3), (5, 3), (3, 5), (7,), ()]
MUON = {
    "rule": "muon",
    "role": "matrix",
    "lr": 0.02,
    "momentum": (0.85, 0.97, 0.9),
    "momentum_warmup": 3,
    "beta": 0.9,
    "weight_decay": 0.28,
    "dtype": "float32",
    "steps": 10,
    "decay_start": 5,
}
ADAMW = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-10, "weight_decay": 0.05}


def _random(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _parameters(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [_random(shape, seed, dtype).requires_grad_() for seed, shape in enumerate(SHAPES)]


def _adamw(**changes: Any) -> dict[str, Any]:
    return {"rule": "adamw", "role": "head", "fused": True, **ADAMW, **changes}


def _mixed(parameters: list[Tensor]) -> MuonAdamWOptimizer:
    return MuonAdamWOptimizer([{**MUON, "params": parameters[:3]}, _adamw(params=parameters[3:])])


def _train(optimizer: torch.optim.Optimizer, parameters: list[Tensor], steps: range) -> None:
    for step in steps:
        for index, parameter in enumerate(parameters):
            shape = tuple(parameter.shape)
            parameter.grad = _random(shape, 100 * (step + 1) + index, parameter.dtype)
        optimizer.step()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_adamw_groups_are_torch_adamw(dtype: torch.dtype, fused: bool) -> None:
    ours, theirs = _parameters(dtype), _parameters(dtype)
    slower = {"lr": 0.002, "weight_decay": 0.0}
    groups = [_adamw(params=ours[:2], fused=fused), _adamw(params=ours[2:], fused=fused, **slower)]
    other = torch.optim.AdamW(
        [{"params": theirs[:2]}, {"params": theirs[2:], **slower}], **ADAMW, fused=fused
    )
    optimizer = MuonAdamWOptimizer(groups)
    _train(optimizer, ours, range(20))
    _train(other, theirs, range(20))
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=0 if fused else 1e-6, atol=0)
        assert optimizer.state[one].keys() == other.state[two].keys()


def test_saved_as_plain_data_and_restored_it_goes_on_bit_for_bit() -> None:
    parameters = _parameters()
    optimizer = _mixed(parameters)
    _train(optimizer, parameters, range(4))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    copies = [parameter.detach().clone().requires_grad_() for parameter in parameters]
    restored = _mixed(copies)
    restored.load_state_dict(torch.load(file, weights_only=True))
    _train(optimizer, parameters, range(4, 9))
    _train(restored, copies, range(4, 9))
    for one, two in zip(parameters, copies, strict=True):
        assert torch.equal(one, two)
        ours, theirs = optimizer.state[one], restored.state[two]
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(torch.as_tensor(ours[key]), torch.as_tensor(theirs[key])) for key in ours)
    groups = zip(optimizer.param_groups, restored.param_groups, strict=True)
    assert all({**one, "params": 0} == {**two, "params": 0} for one, two in groups)


def test_a_step_takes_a_closure_and_returns_its_loss() -> None:
    parameters = _parameters()
    optimizer = _mixed(parameters)
    before = deepcopy(parameters)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = sum((parameter.square().sum() for parameter in parameters), torch.zeros(()))
        loss.backward()
        return loss.detach()

    expected = sum(parameter.square().sum().item() for parameter in before)
    assert float(optimizer.step(closure)) == pytest.approx(expected)  # type: ignore[arg-type]
    assert not any(torch.equal(one, two) for one, two in zip(parameters, before, strict=True))


def test_no_gradient_at_all_changes_nothing() -> None:
    parameters = _parameters()
    before = deepcopy(parameters)
    optimizer = _mixed(parameters)
    optimizer.step()
    assert all(torch.equal(one, two) for one, two in zip(parameters, before, strict=True))
    assert not optimizer.state
