"""How fast data are prepared and loaded, against the bare encoder and against what training consumes.

    python benchmarks/data.py encode --config my_corpus.yaml
    python benchmarks/data.py load

`encode` prepares the corpus of a configuration, into a cache that it deletes, and sets the rate
against the bare `tokenizers` batch encoder on texts in memory. `load` times the loader alone, for text and
for each task, and a short run of the Transformer on the same data. Both print JSON.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import tokenizers

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.callbacks.provenance import processor
from mgvr_lightning.data.batch import TrainBatches
from mgvr_lightning.data.parse import parse_data
from mgvr_lightning.data.preparation import prepare
from mgvr_lightning.data.text import Text
from mgvr_lightning.data.token_data import TokenData

ROOT = Path(__file__).parents[1]
LOADED = {
    "text": [],
    "induction": ["configs/induction.yaml"],
    "two_hop": ["configs/two_hop.yaml"],
    "mqar": ["configs/mqar.yaml"],
}
LOAD_SECONDS = 3.0
BATCHES = (64, 256, 1024)
TRIED = 2000


class PeakMemory:
    """The most memory that this process and its children held together, in bytes, and what it held before."""

    def __enter__(self) -> "PeakMemory":
        self.before, self.peak, self.over = self._held(), 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.over.wait(1.0):  # adding pages up takes the kernel tens of milliseconds
            self.peak = max(self.peak, self._held())

    def _held(self) -> int:
        total = 0
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                total += process.memory_full_info().pss
            except psutil.Error:
                continue
        return total


class EncodingTime:
    """Seconds from the first text that is read to the last token file, start of processes included."""

    def __enter__(self) -> "EncodingTime":
        self.seconds, self.own = 0.0, prepare.encode
        prepare.encode = self._timed
        return self

    def __exit__(self, *error: object) -> None:
        prepare.encode = self.own

    def _timed(self, *arguments: Any) -> None:
        start = time.perf_counter()
        self.own(*arguments)
        self.seconds += time.perf_counter() - start


def seconds(action: Callable[[], Any]) -> float:
    """Wall time of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


class Bare:
    """The batch encoder alone, in the kind and batch size that are fastest on the first megabytes.

    Args:
        path: a tokenizer.json.
        texts: what to encode.
    """

    def __init__(self, path: Path, texts: list[str]) -> None:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        kinds = [tokenizer.encode_batch, tokenizer.encode_batch_fast]
        sample = texts[:TRIED]
        self.texts = texts
        self.best = min(
            ((kind, size) for kind in kinds for size in BATCHES), key=lambda best: self.time(sample, *best)
        )

    def time(self, texts: list[str], kind: Any, size: int) -> float:
        """Seconds for some texts, on all cores."""
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        start = time.perf_counter()
        for first in range(0, len(texts), size):
            kind(texts[first : first + size], add_special_tokens=False)
        return time.perf_counter() - start

    def seconds(self) -> float:
        """Seconds for all texts."""
        return self.time(self.texts, *self.best)


def encode(config: list[str], repeats: int) -> dict[str, Any]:
    """Rates of preparation and of the bare encoder, interleaved."""
    data = parse_data(config)
    if not isinstance(data, Text):
        raise SystemExit("encode wants a configuration whose data are Text")
    cache = Path(tempfile.mkdtemp(prefix="mgvr-benchmark-"))
    data._cache = cache
    try:
        learning = seconds(lambda: data.prepare(progress=False))
        tokenizer = data.prepared[0].folder / "tokenizer.json"
        kept = cache / "kept.json"
        shutil.copy(tokenizer, kept)
        data._tokenizer = str(kept)
        corpora = [source.corpus for source in data.sources]
        corpora += [data.validation] if data.validation is not None else []
        texts = [text for corpus in corpora for text in corpus.texts()]
        size = sum(len(text.encode()) for text in texts)
        ours, encoding, theirs, peaks = [], [], [], []
        for _ in range(repeats):
            theirs.append(Bare(kept, texts).seconds())
            for prepared in data.prepared:
                shutil.rmtree(prepared.folder)
            held, texts = texts, []
            with PeakMemory() as memory, EncodingTime() as phase:
                ours.append(seconds(lambda: data.prepare(progress=False)))
            encoding.append(phase.seconds)
            peaks.append(memory.peak - memory.before)
            texts = held
    finally:
        shutil.rmtree(cache)
    rates = [size / time_ / 1e6 for time_ in encoding], [size / time_ / 1e6 for time_ in theirs]
    return {
        "megabytes": size / 1e6,
        "first_preparation_seconds": learning,
        "prepare_seconds": ours,
        "encoding_megabytes_per_second": rates[0],
        "bare_megabytes_per_second": rates[1],
        "ratio": statistics.median(a / b for a, b in zip(*rates, strict=True)),
        "peak_memory_megabytes": [peak / 1e6 for peak in peaks],
    }


def loaded(data: TokenData) -> float:
    """Tokens per second of the loader alone, in this process."""
    batches = TrainBatches(data.examples(), data.layout)
    batches[0]
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < LOAD_SECONDS:
        count += 1
        batches[count]
    return count * data.global_batch * data.context / (time.perf_counter() - start)


def trained(overlays: list[str], folder: Path) -> float:
    """Tokens per second of a short run of the Transformer."""
    configs = [
        argument for path in ["configs/transformer.yaml", *overlays] for argument in ("--config", path)
    ]
    command = [sys.executable, "-m", "mgvr_lightning", "fit", *configs, "--run", str(folder / "run")]
    limits = [
        "--trainer.max_steps",
        "60",
        "--trainer.val_check_interval",
        "60",
        "--trainer.log_every_n_steps",
        "10",
    ]
    subprocess.run([*command, *limits], cwd=ROOT, check=True, capture_output=True)
    values = Run.find(str(folder / "run")).series("time/tokens_per_second").values()
    return statistics.median(float(value) for value in values)


def load() -> dict[str, Any]:
    """Rates of the loader and of training, for text and each task."""
    rates = {}
    for name, overlays in LOADED.items():
        data = parse_data([str(ROOT / path) for path in overlays])
        data.prepare_data()
        data.setup("fit")
        folder = Path(tempfile.mkdtemp(prefix="mgvr-benchmark-"))
        try:
            consumed = trained(overlays, folder)
        finally:
            shutil.rmtree(folder)
        rate = loaded(data)
        rates[name] = {
            "loaded_tokens_per_second": rate,
            "trained_tokens_per_second": consumed,
            "ratio": rate / consumed,
        }
    return rates


def main() -> None:
    """Runs one of the two and prints what it gave."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["encode", "load"])
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    measured = encode(given.config, given.repeats) if given.what == "encode" else load()
    machine = {"cpu": processor(), "cores": os.cpu_count(), "memory": psutil.virtual_memory().total}
    versions = {"python": platform.python_version(), "tokenizers": tokenizers.__version__}
    text = json.dumps({given.what: measured, "machine": machine, "versions": versions}, indent=2)
    sys.stdout.write(text + "\n")
    if given.output is not None:
        given.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
