"""`python -m mgvr_lightning report`: a page of what runs or a study show."""

import sys
from pathlib import Path

from mgvr_lightning.analysis.plan_file import PLAN, read_plan
from mgvr_lightning.analysis.report.build import report_runs, report_study
from mgvr_lightning.analysis.report.document import Document
from mgvr_lightning.analysis.run import distinct, find_runs
from mgvr_lightning.errors import InputError
from mgvr_lightning.parser import Parser


def main(args: list[str]) -> None:
    """Writes report.html, report.md and figures/.

    Args:
        args: the arguments behind `report`.

    Raises:
        InputError: runs are missing or not comparable, or an option doesn't fit.
    """
    config = _parser().parse_args(args)
    folders = [Path(folder) for folder in config.runs]
    studies = [folder for folder in folders if (folder / PLAN).is_file()]
    if studies and len(folders) > 1:
        raise InputError(f"report: {studies[0]} is a study. Expected one study, or any number of runs.")
    output = Path(config.output or folders[0] / "report")
    if studies:
        document: Document = report_study(folders[0], read_plan(folders[0]), config.reference, config.allow)
    else:
        runs = distinct([run for folder in folders for run in find_runs(folder)])
        document = report_runs(runs, config.reference, config.allow)
    document.write(output)
    sys.stdout.write(f"Written: {output / 'report.html'}, {output / 'report.md'}\n")


def _parser() -> Parser:
    parser = Parser(
        prog="mgvr_lightning report",
        description="Writes what runs or a study show as one HTML page and as Markdown with pictures. The "
        "same runs give the same bytes.",
        default_env=True,
        env_prefix="MGVR_REPORT",
    )
    parser.add_argument("runs", nargs="+", type=str, help="folder of a study, or run folders as for compare")
    parser.add_argument(
        "--reference", type=str | None, default=None, help="label of an arm; null for the first one"
    )
    parser.add_argument(
        "--allow", type=list[str], default=[], help="facts in which runs may differ, as for compare"
    )
    parser.add_argument(
        "--output",
        type=str | None,
        default=None,
        help="folder to write to; null for report/ in the first one",
    )
    return parser
