"""What produced a run, written into its folder."""

import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from mgvr_lightning import __version__
from mgvr_lightning.analysis.memory import memory_of
from mgvr_lightning.analysis.run import MACHINE, PROVENANCE
from mgvr_lightning.logger import log, run_folder
from mgvr_lightning.model.activations import activation_bytes
from mgvr_lightning.module import LanguageModule
from mgvr_lightning.optim import parameter_counts

PACKAGES = (
    "torch",
    "lightning",
    "torchmetrics",
    "datasets",
    "tokenizers",
    "tensorboard",
    "jsonargparse",
    "numpy",
)


class Provenance(Callback):
    """Writes `provenance.json` when a run starts: versions, machine, data, network and initial weights."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the file, on rank 0 and not when a run is resumed, and logs the machine at every start."""
        assert isinstance(pl_module, LanguageModule)
        folder = run_folder(trainer)
        if folder is None or not trainer.is_global_zero:
            return
        here = {**machine(trainer), "compiled": pl_module.compiled}
        log(trainer, {MACHINE: blake2b(json.dumps(here).encode(), digest_size=8).hexdigest()})
        if (folder / PROVENANCE).exists():
            return
        content = {
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"mgvr_lightning": __version__, "python": platform.python_version(), **_versions()},
            "commit": commit(),
            "machine": here,
            "data": pl_module.data.facts,
            "corpus": pl_module.data.describe(),
            "network": network_facts(pl_module, "bf16" in str(trainer.precision)),
            "tokens_per_step": pl_module.data.global_batch * pl_module.data.context,
            "initial_tensors": {
                name: tensor_hash(tensor) for name, tensor in pl_module.network.named_parameters()
            },
            "command": sys.argv[1:],
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / PROVENANCE
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def machine(trainer: Trainer) -> dict[str, Any]:
    """What decides how fast a step is: step times of two runs compare only where this is equal."""
    device = trainer.strategy.root_device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {
        "device": name,
        "type": device.type,
        "processes": trainer.world_size,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "precision": str(trainer.precision),
    }


def processor() -> str:
    """The CPU's model name."""
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def network_facts(module: LanguageModule, bf16: bool) -> dict[str, Any]:
    """Sizes and costs, of cache and activations in the run's precision."""
    network, context = module.network, module.data.context
    counts = parameter_counts(network)
    kept = activation_bytes(network.config, module.values, network.vocabulary, context, bf16)
    return {
        "parameters": sum(counts.values()),
        "parameters_by_role": counts,
        "flops_per_token": network.flops_per_token(context),
        "cache_bytes_per_token": memory_of(network, torch.bfloat16 if bf16 else torch.float32).per_token,
        "activation_bytes_per_token": kept // context,
        "vocabulary": module.vocabulary,
        "seed": module.seed,
    }


def tensor_hash(tensor: torch.Tensor) -> str:
    """Hash of a tensor's bytes."""
    content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return blake2b(content.tobytes(), digest_size=8).hexdigest()


def commit() -> str | None:
    """The revision of the code, with `+` behind it if it was changed since; None outside a repository."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _versions() -> dict[str, str]:
    return {package: version(package) for package in PACKAGES}
