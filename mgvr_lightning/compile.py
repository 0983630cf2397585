"""Whether `torch.compile` can work here."""

import os
import shutil
from importlib.util import find_spec

import torch


def compile_obstacle(device: torch.device) -> str | None:
    """Says what stands in the way of compiling for a device; None if nothing is known to."""
    if device.type == "cuda":
        return None if find_spec("triton") else "triton isn't installed"
    if device.type == "cpu":
        names = [os.environ.get("CXX", ""), "g++", "clang++", "cl"]
        return None if any(name and shutil.which(name) for name in names) else "there is no C++ compiler"
    return f"it isn't supported on {device.type}"
