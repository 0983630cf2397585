from typing import Any

import pytest
import torch
from helpers import perturbed, tiny, tokens
from torch import Tensor, nn

from mgvr_lightning.compile import compile_obstacle

OBSTACLE = compile_obstacle(torch.device("cpu"))


def loss_and_gradients(network: nn.Module, forward: nn.Module) -> tuple[Tensor, list[Tensor]]:
    loss = forward(tokens(2, 12), tokens(2, 12, seed=1)).nll
    return loss.detach(), list(torch.autograd.grad(loss, list(network.parameters())))


@pytest.mark.slow
@pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
@pytest.mark.parametrize(
    ("name", "options", "separator"),
    [
        ("mgvr", {"layers": 2, "kv_heads": 2}, None),
        ("mgvr", {"layers": 2, "kv_heads": 2}, int(tokens(2, 12)[0, 5])),
        ("bank_of_values_shared", {"layers": 6, "windows": "SL", "window": 4}, None),
    ],
)
def test_compiled_whole_without_breaks_equals_eager(
    name: str, options: dict[str, Any], separator: int | None
) -> None:
    torch._dynamo.reset()
    network = perturbed(tiny(name, **options), 0.1)
    network.separator = separator
    loss, gradients = loss_and_gradients(network, network)
    compiled = torch.compile(network, fullgraph=True, dynamic=False)
    compiled_loss, compiled_gradients = loss_and_gradients(network, compiled)
    torch.testing.assert_close(compiled_loss, loss, rtol=1e-5, atol=1e-5)
    for one, other in zip(compiled_gradients, gradients, strict=True):
        assert (one - other).norm() < 1e-5 * (1 + other.norm())
