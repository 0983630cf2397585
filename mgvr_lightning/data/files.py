"""Documents in local files."""

from __future__ import annotations

import glob
import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tqdm import tqdm

from mgvr_lightning.data.corpus import Corpus, Document
from mgvr_lightning.data.jsonl import jsonl_rows
from mgvr_lightning.data.parquet import check_parquet, parquet_rows
from mgvr_lightning.data.rows import BOM, COMPRESSIONS, Row, not_utf8, open_stream, reading
from mgvr_lightning.errors import InputError

ROW_READERS = {".jsonl": jsonl_rows, ".json": jsonl_rows, ".ndjson": jsonl_rows, ".parquet": parquet_rows}
KINDS = ".parquet, .jsonl, .json (one object per line) and .txt; all but Parquet also with .gz or .zst behind"
MOST_SKIPPED = 0.5
_SHOWN = 3


class Files(Corpus):
    r"""Text in local files: Parquet, JSON Lines, and plain text with one document per file.

    Text is UTF-8 whatever the locale and arrives unchanged, line ends included; only a byte-order mark at the
    start of a file is dropped. In JSON Lines only ``\n`` ends a row, and blank lines don't count.

    Args:
        paths: Files or globs (``**`` crosses folders), read in this order, each glob's files by name. A file
            that is found twice is read once. Names end in .parquet, .jsonl, .json, .ndjson or .txt, the last
            four also with .gz or .zst behind.
        column: The column or field that holds the text.
        bad_rows: ``raise`` stops at the first row that is malformed or holds no string; ``skip`` leaves such
            rows out, counts them, and stops only if they are more than half of all.
    """

    def __init__(
        self, paths: list[str], column: str = "text", bad_rows: Literal["raise", "skip"] = "raise"
    ) -> None:
        self.paths = list(paths)
        self.column = column
        self.bad_rows = bad_rows
        self._skipped = 0

    def documents(self) -> Iterator[Document]:
        """Yield one document per row or text file, in the order of the files and of the rows in them.

        Raises:
            InputError: If a file is missing, damaged, of an unknown kind or not UTF-8, lacks the column, or
                (unless skipped) has a bad row; if there is no text in any of them.
        """
        files = self._files()
        for path in files:
            if path.suffix == ".parquet":
                check_parquet(path, self.column)
        rows = skipped = 0
        faults: list[str] = []
        empty = True
        for path in tqdm(files, desc="Reading files", unit="file", disable=not self.progress, leave=False):
            for row in self._rows(path):
                rows += 1
                if row.text is None:
                    skipped += 1
                    faults = [*faults, self._bad_row(path, row)][:_SHOWN]
                    continue
                empty = empty and not row.text
                yield Document(row.text, f"{path}:{row.number}" if row.number else str(path))
        self._skipped = skipped
        self._report(rows, faults)
        if empty:
            raise InputError(
                f"there is no text in {', '.join(map(str, files[:_SHOWN]))} ({len(files)} files)."
            )

    def fingerprint(self) -> str:
        """Return a digest of the files' bytes, their kinds and order, and the options; not of their names."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(json.dumps([1, self.column, self.bad_rows]).encode())
        files = self._files()
        for path in files:  # what takes no time to find wrong, first
            if path.suffix == ".parquet":
                check_parquet(path, self.column)
        for path in files:
            with reading(path), path.open("rb") as file:
                digest.update(f"{_kind(path)}{path.suffix}".encode())
                digest.update(hashlib.file_digest(file, "blake2b").digest())
        return digest.hexdigest()

    def describe(self) -> dict[str, str | int]:
        """Return the paths, options, number and bytes of files; rows skipped once the documents were read."""
        files = self._files()
        return {
            "paths": ", ".join(self.paths),
            "column": self.column,
            "bad_rows": self.bad_rows,
            "files": len(files),
            "file_bytes": sum(path.stat().st_size for path in files),
            "skipped_rows": self._skipped,
        }

    def _files(self) -> list[Path]:
        found: dict[Path, Path] = {}
        if not self.paths:
            raise InputError("no files to read: the option `paths` is empty. Give files or globs.")
        for path in self.paths:
            for file in _expand(path):
                found.setdefault(file.resolve(), file)
        return list(found.values())

    def _rows(self, path: Path) -> Iterator[Row]:
        reader = ROW_READERS.get(_kind(path))
        if reader is not None:
            return reader(path, self.column)
        return iter([Row(0, _read_text(path))])

    def _bad_row(self, path: Path, row: Row) -> str:
        unit = "row" if path.suffix == ".parquet" else "line"
        message = f"{path}, {unit} {row.number:,} {row.fault}."
        if self.bad_rows == "raise":
            raise InputError(f"{message}\nRepair the row, or leave such rows out with `bad_rows: skip`.")
        return message

    def _report(self, rows: int, faults: list[str]) -> None:
        message = f"{self._skipped:,} of {rows:,} rows were skipped, such as\n" + "\n".join(faults)
        if self._skipped > MOST_SKIPPED * rows:
            raise InputError(f"{message}\nMore than half: is the option `column` or the format wrong?")
        if self._skipped:
            warnings.warn(message, stacklevel=3)


def _kind(path: Path) -> str:
    """Return the suffix that says how to read a file, compression aside."""
    return (path.with_suffix("") if path.suffix in COMPRESSIONS else path).suffix


def _expand(pattern: str) -> list[Path]:
    path = Path(pattern).expanduser()
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give files or a glob such as {path / '**' / '*.parquet'}.")
    if path.exists():
        files = [path]
    elif glob.has_magic(pattern):
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 (Path.glob refuses absolute ones)
        files = [Path(name) for name in names if Path(name).is_file()]
        if not files:
            raise InputError(f"the glob {pattern} matches no file, seen from {Path.cwd()}.")
    else:
        raise InputError(f"there is no file {path}, seen from {Path.cwd()}.")
    for file in files:
        kind = _kind(file)
        if (kind != ".txt" and kind not in ROW_READERS) or (
            kind == ".parquet" and file.suffix in COMPRESSIONS
        ):
            raise InputError(f"{file} is of a kind that isn't read. Known are {KINDS}.")
    return files


def _read_text(path: Path) -> str:
    with reading(path), open_stream(path) as stream:
        content = stream.read()
    text = content.removeprefix(BOM)
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        fault = not_utf8(error, len(content) - len(text))
        raise InputError(f"{path} {fault}.\nConvert the file to UTF-8 (such as with iconv).") from error
