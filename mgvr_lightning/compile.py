"""Whether `torch.compile` can work here."""

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import torch


def compile_obstacle(device: torch.device) -> str | None:
    """Says what stands in the way of compiling for a device; None if nothing is known to."""
    if device.type not in ("cpu", "cuda"):
        return f"it isn't supported on {device.type}"
    if device.type == "cuda" and find_spec("triton") is None:
        return "triton isn't installed"
    if not any(shutil.which(name) for name in compilers(device.type)):
        return "there is no compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers aren't installed"
    return None


def compilers(kind: str) -> list[str]:
    """The compilers that Inductor, on a CPU, and Triton, on a GPU, look for."""
    if kind == "cuda":
        return [os.environ["CC"]] if os.environ.get("CC") else ["gcc", "clang"]
    if os.environ.get("CXX"):
        return [os.environ["CXX"]]
    return {"darwin": ["clang++"], "win32": ["cl"]}.get(sys.platform, ["g++"])
