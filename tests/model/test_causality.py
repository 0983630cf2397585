"""No token reaches the logits of an earlier one."""

import pytest
import torch
from helpers import PRESETS, VOCABULARY, perturbed, tiny, tokens
from torch import Tensor

from mgvr_lightning.model import Transformer
from mgvr_lightning.values import FirstValues, Mix, ScalarGate, Shape, ValueSpec

LENGTH = 9


class AverageOverTime(Mix):
    """A mix that looks ahead."""

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        return source.mean(1, keepdim=True).expand_as(source)

    def coefficients(self, x: Tensor) -> float:
        return 1.0

    def flops(self) -> int:
        return 0


class PeekAtNext(Mix):
    """A mix that looks one token ahead."""

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        return source.roll(-1, 1)

    def coefficients(self, x: Tensor) -> float:
        return 1.0

    def flops(self) -> int:
        return 0


@torch.no_grad()
def assert_causal(network: Transformer) -> None:
    """Changing all tokens from t on leaves the logits before t as they are, and changes those at t."""
    ids = tokens(2, LENGTH)
    logits = network.logits(ids)
    for start in (1, 2, 5, LENGTH - 1):
        changed = ids.clone()
        changed[:, start:] = (ids[:, start:] + 1 + tokens(2, LENGTH - start, seed=2) % 30) % VOCABULARY
        other = network.logits(changed)
        assert torch.equal(other[:, :start], logits[:, :start]), (
            f"tokens from {start} on reach earlier logits"
        )
        assert not torch.isclose(other[:, start], logits[:, start]).all()


@pytest.mark.parametrize("kv_heads", [None, 2])
@pytest.mark.parametrize("name", PRESETS)
def test_no_future_token_leaks(name: str, kv_heads: int | None) -> None:
    assert_causal(perturbed(tiny(name, dtype=torch.float64, kv_heads=kv_heads)))


@pytest.mark.parametrize("mix", [AverageOverTime, PeekAtNext])
def test_planted_leak_is_caught(mix: type[Mix]) -> None:
    def gate(shape: Shape) -> ScalarGate:
        return ScalarGate(shape, 0.5, learned=False)

    leaking = tiny(ValueSpec(FirstValues, gate, mix, [5]), dtype=torch.float64)
    with pytest.raises(AssertionError, match="reach earlier logits"):
        assert_causal(leaking)
