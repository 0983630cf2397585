from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
import yaml
from documents import KEPT
from helpers import perturbed
from runs import checkpoint, command, fit, saved
from torch import Tensor
from torch.nn import functional as F

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.module import LanguageModule
from mgvr_lightning.values import Constant, Gate, Role, Shape


class ToyGate(Gate):
    """A tanh of the input around a learned number.

    Args:
        shape: the sizes to build it from.
        start: the initial value.
    """

    def __init__(self, shape: Shape, start: float) -> None:
        super().__init__(shape)
        self.weight: Tensor
        self.level: Tensor
        self.declare("weight", (1, shape.width), Constant(0.0), Role.TOKEN_DEPENDENT)
        self.declare("level", (), Constant(start), Role.OWN_SCALAR)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the gate, (B, T, 1, 1)."""
        return self.level + torch.tanh(F.linear(x, self.weight))[..., None]

    def flops(self) -> int:
        """FLOPs per token."""
        return 2 * self.shape.width + self.shape.kv_heads * self.shape.head_width


@cache
def _run() -> Run:
    KEPT.append(TemporaryDirectory(prefix="mgvr-toy-"))
    folder = Path(KEPT[-1].name)
    gate = {"class_path": f"{__name__}.ToyGate", "init_args": {"start": 0.75}}
    (folder / "toy.yaml").write_text(yaml.safe_dump({"model": {"values": {"gate": gate}}}), encoding="utf-8")
    return fit(folder, "--config", "toy.yaml", preset="value_residual", name="toy")


def test_a_gate_of_ones_own_trains_from_the_command_line() -> None:
    losses = list(_run().series("train/loss").values())
    assert losses[-1] < losses[0]
    weights = torch.load(checkpoint(_run()), weights_only=False)["state_dict"]
    own = {name: tensor for name, tensor in weights.items() if name.endswith(("gate.weight", "gate.level"))}
    assert len(own) == 4
    assert all((tensor != (0.75 if name.endswith("level") else 0)).any() for name, tensor in own.items())


def test_its_parameters_are_grouped_by_their_roles() -> None:
    by_role = _run().provenance["network"]["parameters_by_role"]
    assert (by_role["token_dependent"], by_role["own_scalar"]) == (2 * 16, 2)
    assert (
        set(_run().series("lr/own_scalar")) == set(_run().series("lr/token_dependent")) == {1, 2, 3, 4, 5, 6}
    )


def test_it_decodes_with_a_cache_as_without() -> None:
    network = LanguageModule.load_from_checkpoint(checkpoint(_run())).network
    network = perturbed(network.to(torch.float64))
    ids = torch.randint(0, 300, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        full, cache = network.logits(ids), network.cache(2, 12)
        pieces = [network.logits(piece, cache) for piece in ids.split([5, 1, 1, 4, 1], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), full)


def test_it_reloads_from_its_checkpoint(tmp_path: Path) -> None:
    weights = torch.load(checkpoint(_run()), weights_only=False)["state_dict"]
    module = LanguageModule.load_from_checkpoint(checkpoint(_run()))
    assert all(torch.equal(tensor, weights[name]) for name, tensor in module.state_dict().items())
    metrics = command(tmp_path, "validate", *saved(_run())).trainer.callback_metrics
    assert float(metrics["val/loss"]) == pytest.approx(_run().series("val/loss")[6], rel=1e-12)
