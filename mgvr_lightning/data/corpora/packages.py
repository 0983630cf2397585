"""Which files the standard library and a set of installed distributions are made of."""

from __future__ import annotations

import csv
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

_SUFFIXES = {".py", ".md", ".rst", ".txt"}
_SKIPPED_FOLDERS = {
    "test",
    "tests",
    "testing",
    "idle_test",
    "benchmarks",
    "site-packages",
    "dist-packages",
    "__pycache__",
}
_SKIPPED_NAMES = re.compile(
    r"licen[cs]e|notice|copying|authors|credits|change|history|news|requirements|cmakelists"
    r"|top_level|entry_points|sources\.txt|vendor",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Source:
    """One file that may hold prose.

    Attributes:
        path: Where it lies.
        key: Its name within its distribution, with forward slashes; ``python/...`` in the standard library.
        version: What identifies its content: the hash in the distribution's RECORD, or its size in bytes.
    """

    path: Path
    key: str
    version: str


def closure(roots: Iterable[str]) -> dict[str, metadata.Distribution]:
    """Return the installed distributions that ``roots`` need, themselves included, by normalised name.

    Requirements of extras and for other platforms are not followed; what isn't installed is left out.
    """
    found: dict[str, metadata.Distribution] = {}
    waiting = list(roots)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for line in found[name].requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return dict(sorted(found.items()))


def distribution_sources(distribution: metadata.Distribution) -> Iterator[Source]:
    """Yield the files of one distribution, as its RECORD lists them; none where it has no RECORD."""
    for key, digest, _ in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        if _wanted(PurePosixPath(key)):
            yield Source(Path(str(distribution.locate_file(key))), key, digest)


def standard_library_sources() -> Iterator[Source]:
    """Yield the files of the standard library of this Python."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _SKIPPED_FOLDERS]
        for file in files:
            path = Path(folder, file)
            key = PurePosixPath("python", path.relative_to(root).as_posix())
            if _wanted(key):
                yield Source(path, str(key), str(path.stat().st_size))


def python_version() -> str:
    """Return this Python's implementation and version, such as ``cpython 3.12.4``."""
    return f"{sys.implementation.name} {sys.version.split()[0]}"


def _wanted(key: PurePosixPath) -> bool:
    if key.name == "METADATA":
        return True
    if key.suffix not in _SUFFIXES or key.is_absolute() or ".." in key.parts:
        return False
    if key.suffix != ".py" and _SKIPPED_NAMES.search(key.name):
        return False
    return not _SKIPPED_FOLDERS.intersection(key.parts[:-1])
