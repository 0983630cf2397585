"""`python -m mgvr_lightning study`: runs a study, or what is left of it."""

import signal
import sys
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout
from jsonargparse import Namespace

from mgvr_lightning.checkpoint import RUNS
from mgvr_lightning.errors import InputError
from mgvr_lightning.parser import Parser
from mgvr_lightning.study.board import Board
from mgvr_lightning.study.job import Job
from mgvr_lightning.study.launcher import Launcher
from mgvr_lightning.study.plan import Plan, phases
from mgvr_lightning.study.runner import Runner
from mgvr_lightning.study.spec import Study
from mgvr_lightning.study.submitit_jobs import Submitit  # noqa: F401  (configurations name it)
from mgvr_lightning.study.subprocesses import Subprocesses

TAIL = 3


def main(args: list[str]) -> None:
    """Runs what isn't finished; a failed run is told and the others go on.

    Args:
        args: the arguments behind `study`.

    Raises:
        InputError: an option doesn't fit, or runs that have begun were planned otherwise.
    """
    parser = _parser()
    config = parser.parse_args(["--config", *args] if args and not args[0].startswith("-") else args)
    built = parser.instantiate(config)
    plan = Plan(_study(built), _folder(config))
    if config.dry_run:
        _tell(plan)
        return
    signal.signal(signal.SIGTERM, _interrupt)
    plan.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(plan.folder / "study.lock", timeout=0):
            failed = _run(plan, built.launcher)
    except Timeout as error:
        raise InputError(f"{plan.folder}: another study is running here. Wait for it, or end it.") from error
    if failed:
        sys.exit(1)
    sys.stdout.write(f"Done. Next: python -m mgvr_lightning report {plan.folder}\n")


def _run(plan: Plan, launcher: Launcher) -> list[Job]:
    planned: list[Job] = []
    failed: list[Job] = []
    with Board(plan.folder) as board:
        runner = Runner(plan.folder, launcher, board, plan.study.keep_checkpoints)
        for jobs in phases(plan):
            planned += jobs
            plan.write(planned)
            failed = runner.run(jobs)
            if failed:
                break  # what follows is chosen by these runs, so all of them must have ended
    for job in failed:
        lines = runner.log(job).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        sys.stderr.write(f"failed: {job.name}, see {runner.log(job)}\n")
        sys.stderr.writelines(f"  {line}\n" for line in lines[-TAIL:])
    return failed


def _tell(plan: Plan) -> None:
    """Prints the command of every run that is known now."""
    for jobs in phases(plan):
        waiting = [job for job in jobs if not job.finished(plan.folder)]
        for job in jobs:
            state = "" if job in waiting else "  # done"
            sys.stdout.write(f"python -m mgvr_lightning {' '.join(job.resumed(plan.folder))}{state}\n")
        if waiting and jobs[0].phase != "report":
            sys.stdout.write(f"# what follows depends on the runs for {jobs[0].phase}\n")
            return


def _study(config: Namespace) -> Study:
    return Study(**{name: config[name] for name in Study.__dataclass_fields__})


def _folder(config: Namespace) -> Path:
    if config.folder is not None:
        return Path(config.folder)
    if not config.config:
        raise InputError("study: no file given. Expected one, such as configs/studies/default.yaml.")
    return Path(RUNS, Path(str(config.config[0])).stem)


def _interrupt(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _parser() -> Parser:
    parser = Parser(
        prog="mgvr_lightning study",
        description="Trains arms × grid × seeds, each by an ordinary `fit`, and what is tried before. Skips "
        "runs that are finished and resumes those that aren't.",
        default_env=True,
        env_prefix="MGVR_STUDY",
    )
    parser.add_argument(
        "--config",
        action="config",
        help="the study's file, such as configs/studies/default.yaml; behind `study` it needs no --config",
    )
    parser.add_class_arguments(Study)
    parser.add_subclass_arguments(Launcher, "launcher", help="how runs are started")
    parser.set_defaults({"launcher": {"class_path": f"{Subprocesses.__module__}.{Subprocesses.__name__}"}})
    parser.add_argument(
        "--folder",
        type=str | None,
        default=None,
        help=f"where the runs go; null for {RUNS}/ and the name of the study's file",
    )
    parser.add_argument(
        "--dry_run", type=bool, default=False, help="only print the commands of the runs that are known now"
    )
    return parser
