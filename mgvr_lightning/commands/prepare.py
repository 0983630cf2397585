"""`python -m mgvr_lightning prepare`: turns a corpus into tokens ahead of a run."""

import re
import sys

from jsonargparse.typing import PositiveInt

from mgvr_lightning.data.parse import data_parser
from mgvr_lightning.data.preparation.prepare import Part
from mgvr_lightning.data.text import Text
from mgvr_lightning.data.token_data import TokenData
from mgvr_lightning.errors import InputError
from mgvr_lightning.parser import Parser


def main(args: list[str]) -> None:
    """Prepares what a configuration's `data` names, and prints the folders on standard output.

    Args:
        args: the arguments behind `prepare`.

    Raises:
        InputError: the corpus cannot be read, or an option doesn't fit.
    """
    parser = _parser()
    config = parser.parse_args(args)
    data: TokenData = parser.instantiate(config).data
    part = None if config.part is None else parse_part(config.part)
    folders = data.prepare(part, config.processes)
    if not folders and not isinstance(data, Text):
        sys.stderr.write(f"{type(data).__name__} needs no preparation.\n")
    for folder in folders:
        sys.stdout.write(f"{folder}\n")


def parse_part(text: str) -> Part:
    """Reads `2/8`.

    Raises:
        InputError: the text isn't of that form, or there is no such part.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found:
        raise InputError(f"part: {text!r} isn't a part. Expected i/n, such as 2/8 for the second of eight.")
    return Part(int(found[1]), int(found[2]))


def _parser() -> Parser:
    parser = data_parser(
        "mgvr_lightning prepare",
        "Turns a corpus into tokens ahead of a run. Takes the configurations of `fit` and uses "
        "their `data`. An interrupted preparation goes on where it stopped.",
        "MGVR_PREPARE",
    )
    parser.add_argument(
        "--part",
        type=str | None,
        default=None,
        help="i/n: the share of one of n machines, such as 2/8; they share data.cache, or their caches are "
        "copied together and joined by a run without this option",
    )
    parser.add_argument("--processes", type=PositiveInt | None, default=None, help="null for one per core")
    return parser
