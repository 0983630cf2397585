"""Peak memory of a training step, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")
WARM_UP, STEPS = 3, 3


def peak_bytes(request: dict[str, Any]) -> int | None:
    """The most that three steps take beyond what the process took before the network was built.

    Args:
        request: what `mgvr_lightning.benchmark.memory` is told on its standard input.

    Returns:
        Bytes; None where they can't be told: on CPUs of systems other than Linux.
    """
    if request["device"] == "cpu" and not PEAK_RESET.exists():
        return None
    command = [sys.executable, "-m", "mgvr_lightning.benchmark.memory"]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def measure(request: dict[str, Any]) -> int:
    """Makes the steps; see `peak_bytes`."""
    from mgvr_lightning.benchmark.request import setting_of, values_of  # noqa: PLC0415
    from mgvr_lightning.benchmark.step import Step  # noqa: PLC0415

    setting = setting_of(request)
    on_cpu = setting.device.type == "cpu"
    before = _status("VmRSS") if on_cpu else 0
    step = Step(values_of(request["preset"]), setting)
    for _ in range(WARM_UP):
        step()
    if on_cpu:
        PEAK_RESET.write_text("5", encoding="ascii")
    else:
        torch.cuda.reset_peak_memory_stats(setting.device)
    for _ in range(STEPS):
        step()
    return _status("VmHWM") - before if on_cpu else torch.cuda.max_memory_allocated(setting.device)


def _status(name: str) -> int:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{STATUS} has no {name}")


if __name__ == "__main__":
    sys.stdout.write(f"{measure(json.loads(sys.stdin.read()))}\n")
