"""Everything that is measured, in one go."""

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mgvr_lightning.analysis.memory import memory_of
from mgvr_lightning.benchmark.ceiling import ceilings
from mgvr_lightning.benchmark.decode import Decoding
from mgvr_lightning.benchmark.loop import loop_ratio
from mgvr_lightning.benchmark.memory import peak_bytes
from mgvr_lightning.benchmark.request import values_of
from mgvr_lightning.benchmark.step import Setting, Step
from mgvr_lightning.benchmark.timing import Spread, interleaved, ratio
from mgvr_lightning.callbacks.provenance import PACKAGES, processor

WARM_UP = 3
AGAIN = " again"
LOOP_STEPS, LOOP_ROUNDS = 25, 5
DECODED, DECODE_BATCH, DECODE_ROUNDS = 64, 1, 5
Say = Callable[[str], None]


class Benchmark:
    """Measurements of several presets against the first of them.

    Args:
        presets: label → configuration file; the first is the reference.
        setting: what the networks have in common.
        rounds: timed steps of each.
        say: told what is being measured.
    """

    def __init__(self, presets: Mapping[str, str], setting: Setting, rounds: int, say: Say) -> None:
        self.presets, self.setting, self.rounds, self.say = presets, setting, rounds, say
        self.reference = next(iter(presets))

    def run(self, parts: frozenset[str]) -> dict[str, Any]:
        """Measures the parts asked for: step, memory, loop, decode."""
        found: dict[str, Any] = {"machine": machine(self.setting), "setting": facts(self.setting)}
        self.say("ceilings")
        dtype = torch.bfloat16 if self.setting.bf16 else torch.float32
        limits = ceilings(self.setting.device, dtype)
        found["ceiling"] = {name: spread.facts() for name, spread in limits.items()}
        if "step" in parts:
            found |= self._steps(limits["flops_per_second"].median)
        if "memory" in parts:
            found |= self._memory()
        if "loop" in parts:
            self.say("Lightning's loop")
            values = values_of(self.presets[self.reference])
            found["loop_ratio"] = loop_ratio(values, self.setting, LOOP_STEPS, LOOP_ROUNDS).facts()
        if "decode" in parts:
            found |= self._decoding()
        return found

    def _steps(self, ceiling: float) -> dict[str, Any]:
        steps: dict[str, Step] = {}
        for label, path in [*self.presets.items(), (self.reference + AGAIN, self.presets[self.reference])]:
            self.say(f"step: {label}")
            steps[label] = Step(values_of(path), self.setting)
            for _ in range(WARM_UP):
                steps[label]()
        self.say(f"step: {self.rounds} rounds")
        with torch.compiler.set_stance("fail_on_recompile" if self.setting.compiled else "default"):
            seconds = interleaved(steps, self.rounds, self.setting.device)
        tokens = self.setting.tokens
        flops = {label: step.network.flops_per_token(self.setting.context) for label, step in steps.items()}
        rates = {label: Spread.of(tokens / seconds[label]) for label in self.presets}
        return {
            "seconds_per_step": {label: list(np.round(own, 6)) for label, own in seconds.items()},
            "tokens_per_second": {label: rate.facts() for label, rate in rates.items()},
            "flops_per_token": {label: flops[label] for label in self.presets},
            "ceiling_share": {
                label: float(f"{rate.median * flops[label] / ceiling:.4g}") for label, rate in rates.items()
            },
            "step_time_ratio": {
                label: ratio(own, seconds[self.reference]).facts()
                for label, own in seconds.items()
                if label != self.reference
            },
        }

    def _memory(self) -> dict[str, Any]:
        peaks = {}
        for label, path in self.presets.items():
            self.say(f"memory: {label}")
            peaks[label] = peak_bytes({**facts(self.setting), "preset": str(Path(path).absolute())})
        reference = peaks[self.reference]
        known = {label: peak for label, peak in peaks.items() if peak is not None and reference}
        return {
            "peak_bytes": peaks,
            "memory_ratio": {label: float(f"{peak / (reference or 1):.4g}") for label, peak in known.items()},
        }

    def _decoding(self) -> dict[str, Any]:
        setting = replace(self.setting, batch=DECODE_BATCH, compiled=False)
        dtype = torch.bfloat16 if setting.bf16 else torch.float32
        decodings = {}
        for label, path in self.presets.items():
            self.say(f"decoding: {label}")
            decodings[label] = Decoding(values_of(path), setting, DECODED)
        interleaved(decodings, 1, setting.device)
        seconds = interleaved(decodings, DECODE_ROUNDS, setting.device)
        return {
            "decoded_tokens_per_second": {
                label: Spread.of(DECODE_BATCH * DECODED / own).facts() for label, own in seconds.items()
            },
            "cache_bytes_per_token": {
                label: memory_of(decoding.network, dtype).per_token for label, decoding in decodings.items()
            },
        }


def facts(setting: Setting) -> dict[str, Any]:
    """A setting as plain JSON."""
    return {
        "network": asdict(setting.config),
        "vocabulary": setting.vocabulary,
        "context": setting.context,
        "batch": setting.batch,
        "bf16": setting.bf16,
        "compiled": setting.compiled,
        "device": str(setting.device),
    }


def machine(setting: Setting) -> dict[str, Any]:
    """What it was measured on."""
    cuda = setting.device.type == "cuda"
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None
    return {
        "device": torch.cuda.get_device_name(setting.device) if cuda else processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": None if pages is None else round(pages / 2**30, 1),
        "versions": {package: version(package) for package in PACKAGES},
    }
