"""Error messages of the command line that say what to do."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin

import yaml
from jsonargparse import SUPPRESS
from lightning.pytorch.cli import LightningArgumentParser

UNKNOWN_OPTION = re.compile(r"(?:does not accept option '|unrecognized arguments: -*)([\w.]+)")
UNKNOWN_ARGUMENT = re.compile(r"Option '([\w.]+)' is not accepted")
UNKNOWN_CLASS = re.compile(
    r"(?:Expected a dot import path string|Expected a path but|Import error:?)\s*:?\s*'?([\w.]+)"
)
CLASS_PATH = re.compile(r"class_path[=:\s]*'?([\w.]+)")
KEY = re.compile(r'Parser key "([\w.]+)"')
FIT = (
    "budget",
    "ckpt_path",
    "data",
    "induction",
    "matching",
    "model",
    "run",
    "seed_everything",
    "stop",
    "trainer",
    "weights_only",
)
"""Options of `fit`, which configurations may hold."""


class Parser(LightningArgumentParser):
    """Reports errors in one to three lines: what is wrong, in which file, and the nearest valid names."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Prints the message and exits with status 2."""
        parser = getattr(ex, "subcommand_parser", None) or self
        sys.stderr.write(f"error: {explain(message, parser)}\n")
        self.exit(2)

    def ignore_but(self, used: str) -> None:
        """Takes the other options of `fit`, whatever they hold, so that its configurations can be given.

        Of the type `Any`, jsonargparse would build the classes that they name.
        """
        for name in [option for option in FIT if option != used]:
            anything = dict | str | bool | int | float | None  # type: ignore[type-arg]
            self.add_argument(f"--{name}", type=anything, default=None, help=SUPPRESS)


def explain(message: str, parser: LightningArgumentParser) -> str:
    """Condenses a message of jsonargparse and adds where the fault is and what was probably meant."""
    if fault := unreadable_configuration():
        return fault
    if found := UNKNOWN_OPTION.search(message):
        name, known = found[1], option_names(parser)
        return f"no option named {name}{located(wrong_part(name, known))}.{nearest(name, known)}"
    key = KEY.search(message)
    where = f"{key[1]}: " if key else ""
    if found := UNKNOWN_ARGUMENT.search(message):
        name = found[1]
        owner = (CLASS_PATH.findall(message) or [class_above(name)])[0].rsplit(".", 1)[-1]
        known = arguments(parser, owner) or option_names(parser)  # some classes have a parser of their own
        return f"{where}{owner} has no option {name}{located(name)}.{nearest(name, known)}"
    if key and (found := UNKNOWN_CLASS.search(message)):
        name = found[1]
        return f"{where}no class named {name}{located(name)}.{nearest(name, class_names(parser, key[1]))}"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return "\n".join(lines[:3])


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggests valid names for one that isn't, or lists them if there are few."""
    known = sorted(set(names))
    close = get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return f" Did you mean {' or '.join(close)}?"
    return f" There are: {', '.join(known)}." if 0 < len(known) <= 12 else " See --help."


def wrong_part(name: str, known: list[str]) -> str:
    """The first part of a dotted name that begins no known name."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        prefix = ".".join(parts[:count])
        if not any(option == prefix or option.startswith(prefix + ".") for option in known):
            return parts[count - 1]
    return parts[-1]


def configurations() -> list[Path]:
    """The configuration files on the command line, the last one first."""
    given = sys.argv[1:]
    files = [file for option, file in pairwise(given) if option in ("-c", "--config")]
    files += [option.split("=", 1)[1] for option in given if option.startswith("--config=")]
    return [Path(file) for file in reversed(files) if Path(file).is_file()]


def unreadable_configuration() -> str | None:
    """What is wrong with a configuration file as a whole."""
    for path in configurations():
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.MarkedYAMLError as error:
            line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
            return f"{path}{line}: not YAML: {error.problem}."
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            return f"{path}: not YAML: {error}."
        if not isinstance(content, dict):
            kind = "empty" if content is None else f"a {type(content).__name__}"
            return f"{path}: the file is {kind}. Expected options and their values, as in configs/mgvr.yaml."
    return None


def lines_with(name: str) -> Iterator[tuple[Path, int, list[str]]]:
    """The places of a word in the configuration files: file, line from 1, and all lines of the file."""
    for path in configurations():
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if re.search(rf"\b{re.escape(name)}\b", line):
                yield path, number, lines


def located(name: str) -> str:
    """Says which configuration file, and which line, holds a word."""
    for path, number, _ in lines_with(name.rsplit(".", 1)[-1]):
        return f" ({path}, line {number})"
    return ""


def class_above(name: str) -> str:
    """The class whose options a configuration file names a word among."""
    for _, number, lines in lines_with(name):
        for line in reversed(lines[:number]):
            if found := CLASS_PATH.search(line):
                return found[1]
    return "the class"


def option_names(parser: LightningArgumentParser) -> list[str]:
    """All dotted option names of a parser."""
    return [action.dest for action in actions(parser) if action.dest not in ("help", "config")]


def actions(parser: LightningArgumentParser) -> Iterator[Any]:
    """All options of a parser and of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from actions(command)


def arguments(parser: LightningArgumentParser, name: str) -> list[str]:
    """The constructor's arguments of a class that some option accepts."""
    for action in actions(parser):
        for cls in accepted_classes(action):
            if cls.__name__ == name:
                names = list(inspect.signature(cls).parameters)
                return [argument for argument in names if argument != "shape"]
    return []


def class_names(parser: LightningArgumentParser, key: str) -> list[str]:
    """Names of the classes that an option accepts."""
    return [
        cls.__name__ for action in actions(parser) if action.dest == key for cls in accepted_classes(action)
    ]


def accepted_classes(action: Any) -> list[type]:
    """The concrete classes that an option accepts."""
    return [cls for base in hinted_types(getattr(action, "_typehint", None)) for cls in concrete(base)]


def hinted_types(hint: Any) -> list[type]:
    """The classes inside a type hint; of a callable, those that it returns."""
    if isinstance(hint, type):
        return [hint]
    inner = get_args(hint)
    if get_origin(hint) is Callable:
        inner = inner[-1:]
    return [cls for part in inner for cls in hinted_types(part) if cls is not type(None)]


def concrete(cls: type) -> list[type]:
    """A class and its subclasses, without abstract ones."""
    if cls in (int, float, str, bool, object, type):
        return []
    children: list[type] = cls.__subclasses__()
    below = [leaf for child in children for leaf in concrete(child)]
    return below if inspect.isabstract(cls) else [cls, *below]
