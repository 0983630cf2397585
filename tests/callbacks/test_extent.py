from pathlib import Path

from runs import checkpoint, command, fit, saved


def test_a_run_says_how_far_it_goes_and_that_it_got_there(tmp_path: Path) -> None:
    run = fit(tmp_path)
    assert (run.start_step, run.planned_steps, run.step, run.finished) == (0, 6, 6, True)


def test_a_run_that_something_else_stopped_is_not_finished(tmp_path: Path) -> None:
    run = fit(tmp_path, "--trainer.limit_train_batches", "4", "--trainer.max_epochs", "1")
    assert run.step == 4
    assert not run.finished


def test_a_longer_continuation_is_unfinished_until_it_ends_and_a_fork_knows_where_it_began(
    tmp_path: Path,
) -> None:
    run = fit(tmp_path, "--trainer.limit_train_batches", "4", "--trainer.max_epochs", "1")
    command(
        tmp_path, "fit", *saved(run), "--trainer.limit_train_batches", "1.0", "--trainer.max_epochs", "-1"
    )
    run = type(run)(run.folder)
    assert run.finished
    assert run.planned_steps == 6
    longer = ["--trainer.max_steps", "8", "--run", "fork"]
    command(
        tmp_path,
        "fit",
        "--config",
        str(run.folder / "config.yaml"),
        "--ckpt_path",
        str(checkpoint(run)),
        *longer,
    )
    fork = type(run).find(tmp_path / "checkpoints" / "fork")
    assert (fork.start_step, fork.planned_steps, fork.finished) == (6, 8, True)
