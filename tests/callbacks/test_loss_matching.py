import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from documents import KEPT
from runs import fit
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mgvr_lightning.analysis.curve import matches
from mgvr_lightning.analysis.run import Run
from mgvr_lightning.callbacks.loss_matching import time_ratio
from mgvr_lightning.errors import InputError

FAST = ["--model.optimizer.learning_rate", "0.02", "--trainer.max_steps", "8"]


@cache
def _reference() -> Run:
    KEPT.append(TemporaryDirectory(prefix="mgvr-reference-"))
    return fit(Path(KEPT[-1].name), *FAST)


def _matched(folder: Path, *given: str, preset: str = "transformer") -> Run:
    return fit(folder, *FAST, *given, "--matching.reference", str(_reference().folder), preset=preset)


def test_a_run_against_itself_saves_exactly_nothing(tmp_path: Path) -> None:
    run = _matched(tmp_path)
    assert run.series("matching/steps_saved") == {2: 0, 4: 0, 6: 0, 8: 0}
    assert run.series("matching/reference_steps") == {2: 2, 4: 4, 6: 6, 8: 8}
    assert run.series("matching/speedup") == {2: 1, 4: 1, 6: 1, 8: 1}


def test_the_event_file_holds_the_matching_curves(tmp_path: Path) -> None:
    run = _matched(tmp_path, preset="mgvr")
    events = EventAccumulator(str(run.folder))
    events.Reload()
    for key in ("steps_saved", "effective_compute", "reference_steps", "speedup"):
        points = {event.step: event.value for event in events.Scalars(f"matching/{key}")}
        assert points
        assert points == pytest.approx(run.series(f"matching/{key}"), rel=1e-6)


def test_matches_are_logged_at_the_steps_of_the_reference(tmp_path: Path) -> None:
    run = _matched(tmp_path, preset="value_residual")
    expected = {int(match.step): match for match in matches(run.curve(), _reference().curve())}
    assert len(expected) >= 2
    saved = {step: match.steps_saved for step, match in expected.items()}
    assert run.series("matching/steps_saved") == pytest.approx(saved, rel=1e-12)
    assert any(value != 0 for value in saved.values())


def test_present_loss_is_matched_at_every_validation_that_the_reference_reached(tmp_path: Path) -> None:
    run = _matched(tmp_path, preset="value_residual")
    losses = run.series("val/loss")
    needed = {step: _reference().curve().steps_to(loss) for step, loss in losses.items()}
    reached = {step: value for step, value in needed.items() if value is not None}
    assert run.series("matching/reference_steps") == pytest.approx(reached, rel=1e-12)
    speedup = {step: value / step for step, value in reached.items()}
    assert run.series("matching/speedup") == pytest.approx(speedup, rel=1e-12)


def test_effective_compute_divides_by_the_ratio_of_step_times(tmp_path: Path) -> None:
    run = _matched(tmp_path)
    effective = run.series("matching/effective_compute")
    ratio = time_ratio(run, _reference())
    assert ratio is not None
    assert list(effective) == [2, 4, 6, 8]
    assert effective[8] == pytest.approx(1 / ratio, rel=1e-9)
    assert all(math.isfinite(value) and value > 0 for value in effective.values())


def test_a_reference_is_found_by_name_at_another_validation_interval(tmp_path: Path) -> None:
    fit(tmp_path, *FAST, name="transformer")
    given = ["--matching.reference", "checkpoints/transformer", "--trainer.val_check_interval", "3"]
    run = fit(tmp_path, *FAST, *given, name="variant")
    assert list(run.series("val/loss")) == [3, 6, 8]
    assert set(run.series("matching/steps_saved")) <= {2, 4, 6, 8}
    assert run.series("matching/steps_saved")[8] == 0


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--data.context", "16"], "context is 32, this run's is 16"),
        (["--data.seed", "1"], "data_seed is 0, this run's is 1"),
        (["--data.global_batch", "8"], "global_batch is 16, this run's is 8"),
        (["--data.validation_windows", "4"], "validation_windows is 8, this run's is 4"),
    ],
)
def test_a_reference_that_saw_other_data_is_refused(tmp_path: Path, given: list[str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        _matched(tmp_path, *given)
    assert not (tmp_path / "checkpoints" / "run").exists()


def test_the_layout_may_differ_from_the_reference(tmp_path: Path) -> None:
    run = _matched(tmp_path, "--data.micro_batch", "4")
    assert run.series("matching/steps_saved")[6] == pytest.approx(0, abs=1e-5)


def test_a_reference_that_does_not_exist_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no run here.*Train one first"):
        fit(tmp_path, "--matching.reference", "checkpoints/transformer")
    fit(tmp_path, name="transformer")
    with pytest.raises(InputError, match="Runs there: checkpoints/transformer/version_0"):
        fit(tmp_path, "--matching.reference", "checkpoints/transfromer", name="other")
    assert not (tmp_path / "checkpoints" / "other").exists()
