from pathlib import Path

import pytest
from runs import fit

from mgvr_lightning.callbacks import StopAtOnset
from mgvr_lightning.errors import InputError

LONG = ["--trainer.max_steps", "30", "--model.optimizer.learning_rate", "0.01"]


def test_a_run_ends_once_its_onset_is_sure_and_counts_as_finished(tmp_path: Path) -> None:
    whole = fit(tmp_path, *LONG, name="whole")
    losses = whole.series("val/loss")
    level = (losses[8] + losses[10]) / 2
    stop = [
        "--stop.metric",
        "val/loss",
        "--stop.threshold",
        str(level),
        "--stop.hold",
        "3",
        "--stop.hysteresis",
        "0",
    ]
    run = fit(tmp_path, *LONG, *stop, name="stopped")
    first = next(step for step, loss in losses.items() if loss <= level)
    assert list(run.series("val/loss")) == list(range(2, first + 5, 2))
    assert run.finished
    assert run.planned_steps == 30
    assert (run.folder / "checkpoints" / "last.ckpt").is_file()
    more = fit(tmp_path, *LONG, *stop, "--stop.extra", "2", name="more")
    assert more.step == run.step + 4


def test_a_metric_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no val/copy in this run\. There are: val/accuracy"):
        fit(tmp_path, "--stop.metric", "val/copy")


@pytest.mark.parametrize(("option", "message"), [({"hold": 0}, "hold"), ({"hysteresis": -0.1}, "hysteresis")])
def test_options_out_of_range_are_refused(option: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=rf"stop\.{message}: expected"):
        StopAtOnset("val/loss", 4.0, **option)  # type: ignore[arg-type]
