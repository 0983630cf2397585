"""English prose from Python and documentation files; also a program that child interpreters run.

As a program it reads a JSON list of paths from stdin and writes, for each, the JSON list of its texts to
stdout. It imports nothing but the standard library.
"""

from __future__ import annotations

import ast
import gc
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

LEAST_WORDS = 8
LEAST_LETTERS = 0.86
_WORD = re.compile(r"[A-Za-z]{2,}")
_SPACE = re.compile(r"\s+")
_PARAGRAPH = re.compile(r"\n(?:[ \t]*\n)+")
_CODE = re.compile(r"^\s*(>>>|\$ |```)", re.MULTILINE)
_LEGAL = re.compile(
    r"copyright|licen[cs]ed under|redistribut|permission (is|to use)|warrant(y|ies)|all rights reserved",
    re.IGNORECASE,
)


def texts(path: Path) -> list[str]:
    """Return the prose of one file in reading order; empty where the file is missing or cannot be parsed.

    A Python file gives its docstrings and its other strings of several lines (much documentation is kept in
    arguments of functions such as ``add_docstr``). It is parsed, never imported. Any other file is one text.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".py":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                raw = list(_strings(ast.parse(content)))
        elif path.name == "METADATA":
            raw = [content.decode("utf-8").partition("\n\n")[2]]
        else:
            raw = [content.decode("utf-8-sig")]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [text for text in map(prose, raw) if text]


def prose(text: str) -> str:
    r"""Return the paragraphs of ``text`` that are English prose, dedented and joined by blank lines.

    A paragraph stays if it has at least 8 words, letters of words make up at least 86% of what is not white
    space, and it neither holds a doctest, a shell command or a fence nor speaks of copyright and licences.
    """
    paragraphs = _PARAGRAPH.split(inspect.cleandoc(text.replace("\r\n", "\n")))
    return "\n\n".join(paragraph.rstrip() for paragraph in paragraphs if _is_prose(paragraph))


def _is_prose(paragraph: str) -> bool:
    words = _WORD.findall(paragraph)
    if len(words) < LEAST_WORDS or _CODE.search(paragraph) or _LEGAL.search(paragraph):
        return False
    letters = sum(map(len, words))
    return letters >= LEAST_LETTERS * len(_SPACE.sub("", paragraph)) and not _has_surrogate(paragraph)


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _strings(tree: ast.Module) -> Iterator[str]:
    """Yield the strings that are statements or go over several lines, in the order of the source."""
    found: dict[tuple[int, int], str] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            value = node.value if isinstance(node, ast.Expr) else node
            if isinstance(value, ast.Constant):
                several = value is not node or value.lineno != value.end_lineno
                if isinstance(value.value, str) and several:
                    found[value.lineno, value.col_offset] = value.value
            elif _may_hold_text(node):
                waiting.append(node)
    yield from (found[place] for place in sorted(found))


def _may_hold_text(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.arguments):
        return False
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is None or first != last


def main() -> None:
    """Serve one list of paths."""
    gc.disable()  # a syntax tree is many objects and no cycles
    paths: list[str] = json.load(sys.stdin)
    json.dump([texts(Path(path)) for path in paths], sys.stdout)


if __name__ == "__main__":
    main()
