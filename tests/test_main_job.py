import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["transformer", "mgvr"])
def test_the_default_run_takes_six_minutes_and_needs_fewer_bits_than_xz(tmp_path: Path, preset: str) -> None:
    config = str(ROOT / "configs" / f"{preset}.yaml")
    command = [sys.executable, "-m", "mgvr_lightning", "fit", "--config", config]
    all_cores = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    subprocess.run(command, cwd=tmp_path, check=True, timeout=360, env=all_cores)

    run = tmp_path / "checkpoints" / preset / "version_0"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    bits = [line["val/bits_per_byte"] for line in lines if "val/bits_per_byte" in line]
    compression = json.loads((run / "provenance.json").read_text(encoding="utf-8"))["corpus"]["compression"]
    assert bits[-1] < compression["xz"] < compression["gzip"]
