"""Tiny runs of two processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import CONFIGS
from runs import home

TWO_RANKS = "--trainer.devices 2 --trainer.strategy ddp --trainer.accelerator cpu --data.micro_batch 4"


def two_ranks(folder: Path, preset: str, *given: str) -> tuple[int, str]:
    """Trains in a folder as `small.yaml` says, two micro-batches a step on each of two processes.

    Returns:
        The exit status and the standard error.
    """
    configs = ["--config", str(CONFIGS / f"{preset}.yaml"), "--config", str(home() / "small.yaml")]
    command = [
        sys.executable,
        "-m",
        "mgvr_lightning",
        "fit",
        *configs,
        "--run",
        "run",
        *TWO_RANKS.split(),
        *given,
    ]
    environment = {**os.environ, "PYTHONPATH": str(CONFIGS.parent), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    ranks = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        _, errors = ranks.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(ranks.pid, signal.SIGKILL)
        pytest.fail(f"no end after 60 s:\n{ranks.communicate()[1]}")
    return ranks.returncode, errors
