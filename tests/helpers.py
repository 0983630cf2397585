"""What several test files need: the presets as they are shipped, and tiny networks."""

from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentParser

from mgvr_lightning.model import Transformer, TransformerConfig, initialise
from mgvr_lightning.values import ValueSpec

CONFIGS = Path(__file__).parents[1] / "configs"
PRESETS = sorted(
    path.stem
    for path in CONFIGS.glob("*.yaml")
    if "values" in yaml.safe_load(path.read_text(encoding="utf-8")).get("model", {})
)
TASKS = ("induction", "mqar", "two_hop")
VOCABULARY = 37


def preset(name: str) -> ValueSpec:
    """The value paths of a shipped preset."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(ValueSpec, "values")
    content = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    config = parser.parse_object({"values": content["model"]["values"]})
    spec: ValueSpec = parser.instantiate(config)["values"]
    return spec


def tiny_config(**changes: Any) -> TransformerConfig:
    """Six layers, so that `last_third` and `every_second` differ."""
    return TransformerConfig(**{"width": 16, "layers": 6, "heads": 4, **changes})


def tiny(
    name_or_spec: str | ValueSpec, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: Any
) -> Transformer:
    """A tiny network with its keyed initial weights."""
    spec = preset(name_or_spec) if isinstance(name_or_spec, str) else name_or_spec
    network = Transformer(tiny_config(**changes), spec, VOCABULARY, chunk=7)
    initialise(network, seed)
    return network if dtype == torch.float32 else network.to(dtype)


def perturbed(network: Transformer, scale: float = 0.3) -> Transformer:
    """The network with every parameter moved, so that no gate or mix is at its start."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(scale * noise.to(parameter.dtype))
    return network


def tokens(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """(batch, length) random ids."""
    return torch.randint(0, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))
