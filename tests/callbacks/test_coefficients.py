from pathlib import Path

import pytest
import torch
from helpers import PRESETS, perturbed, tiny, tokens
from runs import checkpoint, fit

from mgvr_lightning.analysis.coefficients import last_coefficients
from mgvr_lightning.callbacks.coefficients import read
from mgvr_lightning.model import Transformer
from mgvr_lightning.values import ValuePath


def inputs(network: Transformer, ids: torch.Tensor) -> list[torch.Tensor]:
    """What each layer's value path reads, (B, T, D)."""
    seen: list[torch.Tensor] = []
    hooks = [path.register_forward_pre_hook(lambda _, given: seen.append(given[0])) for path in network.paths]
    with torch.no_grad():
        network.hidden(ids)
    for hook in hooks:
        hook.remove()
    return seen


def test_token_dependent_ones_are_statistics_of_what_acts() -> None:
    network, ids = perturbed(tiny("mgvr", dtype=torch.float64, kv_heads=2)), tokens(2, 9)
    found = read(network, ids)
    for layer, x in enumerate(inputs(network, ids)):
        path = network.paths[layer]
        if not isinstance(path, ValuePath):
            assert not any(key.endswith(f"/layer{layer}") for key in found)
            continue
        gate, mix = path.gate(x)[..., 0].flatten(), path.mix.coefficients(x)  # type: ignore[union-attr]
        diagonal = torch.stack([mix[..., h, h] for h in range(2)]).flatten()
        across = torch.stack([mix[..., 0, 1], mix[..., 1, 0]]).abs()
        expected = {
            "gate": gate.mean(),
            "gate_spread": (gate - gate.mean()).square().mean().sqrt(),
            "mix": diagonal.mean(),
            "mix_spread": (diagonal - diagonal.mean()).square().mean().sqrt(),
            "mix_across": across.mean(),
        }
        for kind, value in expected.items():
            assert found[f"coefficients/{kind}/layer{layer}"] == pytest.approx(value.item(), rel=1e-9)


def test_scalars_are_told_as_they_are_however_large() -> None:
    network = tiny("bank_of_values")
    values = {4: 11.5, 5: -2.25}
    for layer, value in values.items():
        path = network.paths[layer]
        assert isinstance(path, ValuePath)
        path.mix.coefficient.data.fill_(value)  # type: ignore[union-attr,operator]
    assert read(network, tokens(1, 5)) == {f"coefficients/mix/layer{at}": v for at, v in values.items()}


@pytest.mark.parametrize("name", PRESETS)
def test_exactly_what_is_learned_is_told(name: str) -> None:
    network = tiny(name)
    found = read(network, tokens(1, 5))
    parameters = [key for key, _ in network.named_parameters() if ".path.gate." in key or ".path.mix." in key]
    layers = {key.split(".")[1] for key in parameters}
    assert {key.rsplit("layer", 1)[1] for key in found} == layers
    assert any("/gate/" in key for key in found) == any(".gate." in key for key in parameters)
    assert any("/mix/" in key for key in found) == any(".mix." in key for key in parameters)


def test_a_run_logs_and_draws_its_own(tmp_path: Path) -> None:
    run = fit(tmp_path, preset="value_residual_learned")
    assert list(run.series("coefficients/gate/layer1")) == [2, 4, 6]
    weights = torch.load(checkpoint(run), weights_only=True)["state_dict"]
    for kind in ("gate", "mix"):
        expected = {
            layer: weights[f"network.blocks.{layer}.attention.path.{kind}.coefficient"].item()
            for layer in (1, 2)
        }
        assert last_coefficients(run, kind) == pytest.approx(expected, rel=1e-6)
        assert all(value != 0.5 for value in expected.values())
    assert (run.folder / "coefficients.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_without_learned_ones_draws_nothing(tmp_path: Path) -> None:
    run = fit(tmp_path, preset="value_residual")
    assert not (run.folder / "coefficients.png").exists()
    assert not any(key.startswith("coefficients") for record in run.records for key in record)
