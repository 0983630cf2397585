"""From paths and globs to files."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from mgvr_lightning.data.corpora.rows import reading
from mgvr_lightning.errors import InputError


def find(paths: Sequence[str], example: str) -> list[Path]:
    """Return the files of paths and globs, in this order, each glob's by name, and none twice.

    Args:
        paths: Files or globs; ``**`` crosses folders and ``~`` is the home folder.
        example: A glob to recommend, such as ``*.txt``.

    Raises:
        InputError: If there are no paths, or one is no file or matches none.
    """
    if not paths:
        raise InputError("no files to read: the option `paths` is empty. Give files or globs.")
    found: dict[Path, Path] = {}
    for path in paths:
        with reading(path):
            for file in _expand(path, example):
                found.setdefault(file.resolve(), file)
    return list(found.values())


def _expand(pattern: str, example: str) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give files or a glob such as {path / '**' / example}.")
    if path.exists():
        files = [path]
    elif glob.has_magic(pattern):
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 (Path.glob refuses absolute ones)
        files = [Path(name) for name in names if not Path(name).is_dir()]
        if not files:
            raise InputError(f"the glob {pattern} matches no file, seen from {Path.cwd()}.")
    else:
        raise InputError(f"there is no file {path}, seen from {Path.cwd()}.")
    for file in files:
        if not file.is_file():
            what = "is a link to a file that isn't there" if not file.exists() else "is no regular file"
            raise InputError(f"{file} {what}. Fetch it again or leave it out.")
    return files
