import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_default_run_needs_fewer_bits_per_byte_than_xz(tmp_path: Path) -> None:
    config = str(ROOT / "configs" / "mgvr.yaml")
    command = [sys.executable, "-m", "mgvr_lightning", "fit", "--config", config]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=900)

    run = tmp_path / "checkpoints" / "mgvr" / "version_0"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    bits = [line["val/bits_per_byte"] for line in lines if "val/bits_per_byte" in line]
    compression = json.loads((run / "provenance.json").read_text(encoding="utf-8"))["corpus"]["compression"]
    assert bits[-1] < compression["xz"] < compression["gzip"]
