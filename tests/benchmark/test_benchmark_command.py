"""The benchmark on networks so small that its numbers mean nothing, but all of it runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import CONFIGS
from scipy import stats

from mgvr_lightning.benchmark.request import values_of
from mgvr_lightning.benchmark.step import Setting, Step
from mgvr_lightning.benchmark.timing import Spread, interleaved, ratio
from mgvr_lightning.commands.benchmark import main
from mgvr_lightning.errors import InputError
from mgvr_lightning.model import TransformerConfig

SMALL = ["--network.width", "16", "--network.layers", "2", "--network.heads", "2", "--vocabulary", "64"]
SMALL += ["--context", "40", "--batch", "2", "--bf16", "false", "--compile", "false", "--rounds", "3"]
PRESETS = [str(CONFIGS / f"{name}.yaml") for name in ("transformer", "mgvr")]


def measured(folder: Path, *given: str) -> dict[str, Any]:
    main([*SMALL, "--presets", json.dumps(PRESETS), "--output", str(folder), *given])
    content: dict[str, Any] = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    return content


def test_everything_is_measured_and_told_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = measured(tmp_path)
    assert set(found["tokens_per_second"]) == {"transformer", "mgvr"}
    assert set(found["step_time_ratio"]) == {"mgvr", "transformer again"}
    for name in ("median", "low", "high"):
        assert found["step_time_ratio"]["mgvr"][name] > 0
        assert found["loop_ratio"][name] > 0
    assert found["memory_ratio"]["transformer"] == 1
    assert 0 < found["ceiling_share"]["mgvr"] < 1
    assert len(found["seconds_per_step"]["mgvr"]) == 3
    assert found["cache_bytes_per_token"]["mgvr"] == 2 * 2 * 16 * 4 + 4
    assert (tmp_path / "step_time_ratio.svg").is_file()
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, (line for line in printed if not line.startswith("Written")))) <= 80


def test_parts_can_be_chosen_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    found = measured(tmp_path, "--parts", "[decode]")
    assert "decoded_tokens_per_second" in found
    assert "step_time_ratio" not in found
    with pytest.raises(InputError, match=r"parts: speed\. Expected some of step, memory, loop, decode"):
        main([*SMALL, "--parts", "[speed]"])


def test_a_file_without_value_paths_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("trainer: {max_steps: 1}\n", encoding="utf-8")
    for path in (tmp_path / "empty.yaml", tmp_path / "missing.yaml"):
        with pytest.raises(InputError, match=r"\.yaml: no model\.values in it"):
            values_of(path)


def test_things_take_turns_in_an_order_that_turns_around() -> None:
    order: list[str] = []
    things = {name: (lambda name=name: order.append(name)) for name in "abc"}
    seconds = interleaved(things, 3, torch.device("cpu"))
    assert "".join(order) == "abccbaabc"
    assert all(len(own) == 3 for own in seconds.values())


def test_medians_have_intervals_of_their_own_order() -> None:
    values = np.arange(1.0, 52.0)
    spread = Spread.of(values)
    assert spread.median == 26
    assert (spread.low, spread.high) == (19, 33)
    inside = stats.binom.cdf(32, 51, 0.5) - stats.binom.cdf(18, 51, 0.5)
    assert inside >= 0.95 > stats.binom.cdf(31, 51, 0.5) - stats.binom.cdf(19, 51, 0.5)
    assert Spread.of(np.array([2.0])) == Spread(2.0, 2.0, 2.0)
    assert ratio(2 * values, values) == Spread(2.0, 2.0, 2.0)


def test_a_step_learns_the_batch_that_it_repeats() -> None:
    setting = Setting(
        TransformerConfig(width=32, layers=2, heads=2), 64, 16, 4, False, False, torch.device("cpu")
    )
    step = Step(values_of(PRESETS[1]), setting)
    losses = [float(step()) for _ in range(80)]
    assert losses[0] == pytest.approx(np.log(64), abs=0.5)
    assert losses[-1] < losses[0] / 2
