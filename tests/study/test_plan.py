from pathlib import Path

import pytest
from recorded import recorded
from studies import make_up, plan

from mgvr_lightning.analysis.plan_file import read_plan
from mgvr_lightning.errors import InputError
from mgvr_lightning.study.plan import judged, rank, score
from mgvr_lightning.study.spec import Judge, Pilot, Tuning

RATE = "model.optimizer.init_args.learning_rate"


def test_every_arm_runs_in_every_cell_on_every_seed_pairs_first(tmp_path: Path) -> None:
    jobs = plan(tmp_path, grid={RATE: [0.001, 0.003]}, options={"trainer.max_steps": 20}).report()
    assert [job.name for job in jobs[:5]] == [
        "learning_rate_0.001-transformer-seed0",
        "learning_rate_0.001-mgvr-seed0",
        "learning_rate_0.003-transformer-seed0",
        "learning_rate_0.003-mgvr-seed0",
        "learning_rate_0.001-transformer-seed1",
    ]
    assert len({job.name for job in jobs}) == 8
    arguments = jobs[3].arguments(Path("runs"))
    assert arguments[:3] == ["fit", "--config", str(tmp_path / "mgvr.yaml")]
    for option, value in (
        ("--trainer.max_steps", "20"),
        (f"--{RATE}", "0.003"),
        ("--model.seed", "0"),
        ("--data.seed", "0"),
        ("--run", "learning_rate_0.003-mgvr-seed0"),
        ("--trainer.default_root_dir", "runs"),
    ):
        assert arguments[arguments.index(option) + 1] == value


def test_a_run_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    found = plan(tmp_path)
    job = found.report()[0]
    assert "--ckpt_path" not in job.resumed(found.folder)
    make_up(job, found.folder, 3.0, planned=40)
    assert not job.finished(found.folder)
    last = found.folder / job.name / "version_0" / "checkpoints" / "last.ckpt"
    assert job.resumed(found.folder)[-2:] == ["--ckpt_path", str(last)]


def test_the_best_trial_by_its_mean_over_seeds_is_run_on_the_reported_seeds(tmp_path: Path) -> None:
    rates = [0.1, 0.2, 0.3]
    trials = {arm: [{RATE: rate} for rate in rates] for arm in ("transformer", "mgvr")}
    found = plan(tmp_path, tuning=Tuning([7, 8], trials))
    losses = {"transformer": [3.0, 2.0, 2.5], "mgvr": [2.0, 1.9, 1.0]}
    jobs = found.tuning()
    assert len(jobs) == 2 * 3 * 2
    for job in jobs:
        assert job.trial is not None
        make_up(job, found.folder, losses[job.arm][job.trial] + 0.1 * (job.seed == 8))
    assert found.winner({}, "transformer") == 1
    reported = {(job.arm, job.seed): job.options[RATE] for job in found.report()}
    assert reported == {("transformer", 0): 0.2, ("transformer", 1): 0.2, ("mgvr", 0): 0.3, ("mgvr", 1): 0.3}
    found.write([*jobs, *found.report()])
    recorded = read_plan(found.folder)["trials"]
    assert len(recorded) == 6
    assert [(trial["arm"], trial["options"][RATE]) for trial in recorded if trial["taken"]] == [
        ("transformer", 0.2),
        ("mgvr", 0.3),
    ]


def test_trials_that_never_get_there_are_ranked_by_where_they_ended(tmp_path: Path) -> None:
    trials = {arm: [{RATE: 0.1}, {RATE: 0.2}, {RATE: 0.3}] for arm in ("transformer", "mgvr")}
    found = plan(tmp_path, tuning=Tuning([7, 8], trials), judge=Judge("val/loss", 2.5))
    # losses are one higher at step 10 than at step 20, and an onset needs two evaluations
    losses = {
        "transformer": [(4.0, 4.0), (3.0, 3.2), (3.0, 3.1)],
        "mgvr": [(1.4, 4.0), (1.4, 1.4), (1.2, 9.0)],
    }
    for job in found.tuning():
        assert job.trial is not None
        make_up(job, found.folder, losses[job.arm][job.trial][job.seed - 7])
    assert found.winner({}, "transformer") == 2
    assert found.winner({}, "mgvr") == 1
    found.write([*found.tuning(), *found.report()])
    recorded = {
        (one["arm"], one["options"][RATE]): one["scores"] for one in read_plan(found.folder)["trials"]
    }
    assert recorded["mgvr", 0.1] == [10.0, None]
    assert recorded["transformer", 0.1] == [None, None]


def test_metrics_that_rise_are_ranked_the_right_way_round(tmp_path: Path) -> None:
    runs = [
        [recorded("a", 0, [10.0], [3.0], extra=[{"step": 10, "val/accuracy": value}])] for value in (0.4, 0.9)
    ]
    judge = Judge("val/accuracy")
    assert min(runs, key=lambda own: rank(own, judge)) is runs[1]
    assert score(runs[1][0], judge) == 0.9
    assert judged(judge) == "last val/accuracy, more being better"


@pytest.mark.parametrize(
    ("losses", "effect", "used"),
    [([3.0, 3.001, 2.999, 3.0], 0.1, 2), ([3.0, 3.1, 2.9, 3.0], 0.2, 5), ([3.0, 4.0, 2.0, 3.0], 0.01, 8)],
)
def test_the_pilot_says_how_many_seeds_are_run(
    tmp_path: Path, losses: list[float], effect: float, used: int
) -> None:
    found = plan(tmp_path, seeds=list(range(8)), pilot=Pilot("transformer", [20, 21, 22, 23], effect))
    for job in found.pilot():
        make_up(job, found.folder, losses[job.seed - 20])
    assert found.seeds_used() == used
    assert {job.seed for job in found.report()} == set(range(used))
    cell = found.pilot_cells()[""]
    assert cell["scores"] == losses
    assert cell["needed"] is None or cell["needed"] >= used or used == 2


def test_a_pilot_that_failed_asks_for_all_seeds(tmp_path: Path) -> None:
    found = plan(tmp_path, pilot=Pilot("transformer", [20, 21], 0.1))
    make_up(found.pilot()[0], found.folder, 3.0)
    assert found.seeds_used() == 2
    found.write([*found.pilot(), *found.report()])
    assert read_plan(found.folder)["pilot"]["cells"][""]["scores"] == [3.0, None]


def test_runs_that_have_begun_cannot_be_planned_otherwise(tmp_path: Path) -> None:
    found = plan(tmp_path)
    found.write(found.report())
    found.write(found.report())
    (tmp_path / "mgvr.yaml").write_text("run: other\n", encoding="utf-8")
    found.write(found.report())  # nothing has begun
    make_up(found.report()[1], found.folder, 3.0)
    (tmp_path / "mgvr.yaml").write_text("run: third\n", encoding="utf-8")
    with pytest.raises(InputError, match="mgvr-seed0: has begun with other options"):
        found.write(found.report())


def test_starting_again_forgets_nothing_of_what_follows(tmp_path: Path) -> None:
    trials = {arm: [{RATE: 0.1}, {RATE: 0.2}] for arm in ("transformer", "mgvr")}
    found = plan(tmp_path, tuning=Tuning([7], trials))
    for job in found.tuning():
        make_up(job, found.folder, 3.0 - (job.trial or 0))
    found.write([*found.tuning(), *found.report()])
    make_up(found.report()[0], found.folder, 3.0)
    found.write(found.tuning())
    kept = read_plan(found.folder)
    assert [job["phase"] for job in kept["jobs"]].count("report") == 4
    assert len(kept["trials"]) == 4
    other = {arm: [{RATE: 0.1}, {RATE: 0.4}] for arm in ("transformer", "mgvr")}
    changed = plan(tmp_path, tuning=Tuning([7], other))
    with pytest.raises(InputError, match="trial1-seed7: has begun with other options"):
        changed.write(changed.tuning())
    with pytest.raises(InputError, match="transformer-seed0: has begun with other options"):
        changed.write(changed.report())


def test_seeds_can_be_added(tmp_path: Path) -> None:
    found = plan(tmp_path)
    found.write(found.report())
    make_up(found.report()[1], found.folder, 3.0)
    more = plan(tmp_path, seeds=[0, 1, 2])
    more.write(more.report())
    assert len(read_plan(more.folder)["jobs"]) == 6
