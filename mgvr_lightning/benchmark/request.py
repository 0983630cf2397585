"""What is measured, as plain JSON, so that it can be told to another process."""

from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentParser

from mgvr_lightning.benchmark.step import Setting
from mgvr_lightning.errors import InputError
from mgvr_lightning.model import TransformerConfig
from mgvr_lightning.values import ValueSpec


def setting_of(request: dict[str, Any]) -> Setting:
    """The setting of a request: `network`, `vocabulary`, `context`, `batch`, `bf16`, `compiled`, `device`."""
    return Setting(
        config=TransformerConfig(**request["network"]),
        vocabulary=request["vocabulary"],
        context=request["context"],
        batch=request["batch"],
        bf16=request["bf16"],
        compiled=request["compiled"],
        device=torch.device(request["device"]),
    )


def values_of(path: str | Path) -> ValueSpec:
    """The value paths of a configuration file.

    Raises:
        InputError: it isn't readable, or has none.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        values = content["model"]["values"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no model.values in it ({type(error).__name__}: {error}).") from error
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(ValueSpec, "values")
    spec: ValueSpec = parser.instantiate(parser.parse_object({"values": values}))["values"]
    return spec
