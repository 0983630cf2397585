"""Error messages of the command line that say what to do."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin

from lightning.pytorch.cli import LightningArgumentParser

UNKNOWN_OPTION = re.compile(r"(?:does not accept option '|unrecognized arguments: -*)([\w.]+)")
UNKNOWN_ARGUMENT = re.compile(r"Option '([\w.]+)' is not accepted")
UNKNOWN_CLASS = re.compile(
    r"(?:Expected a dot import path string|Expected a path but|Import error:?)\s*:?\s*'?([\w.]+)"
)
CLASS_PATH = re.compile(r"class_path[=\s]*'?([\w.]+)")
KEY = re.compile(r'Parser key "([\w.]+)"')


class Parser(LightningArgumentParser):
    """Reports errors in one to three lines: what is wrong, in which file, and the nearest valid names."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Prints the message and exits with status 2."""
        parser = getattr(ex, "subcommand_parser", None) or self
        sys.stderr.write(f"error: {explain(message, parser)}\n")
        self.exit(2)


def explain(message: str, parser: LightningArgumentParser) -> str:
    """Condenses a message of jsonargparse and adds where the fault is and what was probably meant."""
    if found := UNKNOWN_OPTION.search(message):
        name = found[1]
        return f"no option named {name}{located(name)}.{nearest(name, option_names(parser))}"
    key = KEY.search(message)
    where = f"{key[1]}: " if key else ""
    if found := UNKNOWN_ARGUMENT.search(message):
        name, paths = found[1], CLASS_PATH.findall(message)
        owner = paths[0].rsplit(".", 1)[-1] if paths else "the class"
        return f"{where}{owner} has no option {name}{located(name)}.{nearest(name, arguments(paths))}"
    if key and (found := UNKNOWN_CLASS.search(message)):
        name = found[1]
        return f"{where}no class named {name}{located(name)}.{nearest(name, class_names(parser, key[1]))}"
    if "Unexpected config" in message:
        return f"a configuration file is empty or isn't a mapping of options{located('')}."
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return "\n".join(lines[:3])


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggests valid names for one that isn't, or lists them if there are few."""
    known = sorted(set(names))
    close = get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return f" Did you mean {' or '.join(close)}?"
    return f" There are: {', '.join(known)}." if 0 < len(known) <= 12 else " See --help."


def located(name: str) -> str:
    """Says which of the given configuration files, and which line, holds the last part of a name."""
    last = name.rsplit(".", 1)[-1]
    arguments = sys.argv[1:]
    files = [b for a, b in pairwise(arguments) if a in ("-c", "--config")]
    files += [a.split("=", 1)[1] for a in arguments if a.startswith("--config=")]
    for file in reversed(files):
        path = Path(file)
        if not path.is_file():
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if not last and not lines:
            return f" ({file})"
        for number, line in enumerate(lines, 1):
            if last and re.search(rf"\b{re.escape(last)}\b", line):
                return f" ({file}, line {number})"
    return ""


def option_names(parser: LightningArgumentParser) -> list[str]:
    """All dotted option names of a parser."""
    return [action.dest for action in parser._actions if action.dest not in ("help", "config")]


def arguments(paths: list[str]) -> list[str]:
    """The constructor arguments of the first importable class."""
    for path in paths:
        module, _, name = path.rpartition(".")
        if module:
            names = list(inspect.signature(getattr(import_module(module), name)).parameters)
            return [argument for argument in names if argument not in ("self", "shape")]
    return []


def class_names(parser: LightningArgumentParser, key: str) -> list[str]:
    """Names of the classes that an option accepts."""
    for action in parser._actions:
        if action.dest == key:
            return [
                cls.__name__
                for base in accepted_types(getattr(action, "_typehint", None))
                for cls in concrete(base)
            ]
    return []


def accepted_types(hint: Any) -> list[type]:
    """The classes inside a type hint; of a callable, those that it returns."""
    if isinstance(hint, type):
        return [hint]
    inner = get_args(hint)
    if get_origin(hint) is Callable:
        inner = inner[-1:]
    return [cls for part in inner for cls in accepted_types(part) if cls is not type(None)]


def concrete(cls: type) -> list[type]:
    """A class and its subclasses, without abstract ones."""
    children: list[type] = cls.__subclasses__()
    below = [leaf for child in children for leaf in concrete(child)]
    return below if inspect.isabstract(cls) else [cls, *below]
