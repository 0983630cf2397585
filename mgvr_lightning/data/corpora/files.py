"""Documents in local files."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

from mgvr_lightning.data.corpora.corpus import BadRows, Corpus, Piece, piece_size
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.globs import find
from mgvr_lightning.data.corpora.jsonl import jsonl_pieces
from mgvr_lightning.data.corpora.parquet import parquet_groups, parquet_pieces
from mgvr_lightning.data.corpora.plain_text import text_pieces
from mgvr_lightning.data.corpora.rows import compression, kind, size, text_bytes
from mgvr_lightning.errors import InputError

JSON_LINES = (".jsonl", ".json", ".ndjson")
KINDS = ".parquet, .jsonl, .json (one object per line) and .txt; all but Parquet also with .gz or .zst behind"
_FORMAT = 2
_SHOWN = 3


class Files(Corpus):
    r"""Text in local files: Parquet, JSON Lines, and plain text with one document per file.

    Text is UTF-8 whatever the locale and arrives unchanged, line ends included; only a byte-order mark at the
    start of a file is dropped. In JSON Lines only ``\n`` ends a row, and blank lines don't count. A document
    of more than 128 MiB is a bad row.

    Args:
        paths: Files or globs (``**`` crosses folders), read in this order, each glob's files by name. A file
            that is found twice is read once. Names end in .parquet, .jsonl, .json, .ndjson or .txt, in either
            case, the last four also with .gz or .zst behind.
        column: The column or field that holds the text.
        bad_rows: What to do with a row that is malformed or holds no string: ``raise`` stops at the first,
            ``skip`` leaves them out, ``replace`` keeps a text that is not UTF-8, with U+FFFD for the damage,
            and leaves out the others. Both count, and stop only if more than half of all are left out.
    """

    def __init__(self, paths: list[str], column: str = "text", bad_rows: BadRows = "raise") -> None:
        self.paths = list(paths)
        self.column = column
        self.bad_rows = bad_rows

    def pieces(self) -> Sequence[Piece]:
        """Return the pieces; of Parquet files the footers are read.

        Raises:
            InputError: If a file is missing, of an unknown kind or a damaged Parquet file, or lacks the
                column; if all files are empty.
        """
        files = self._files()
        groups = self._groups(files)
        total = sum(
            sum(own for _, own in groups[path]) if path in groups else text_bytes(path) for path in files
        )
        most = piece_size(total)
        pieces: list[Piece] = []
        for plain, run in itertools.groupby(files, lambda path: kind(path) == ".txt"):
            if plain:
                pieces += text_pieces(list(run), most)
                continue
            for path in run:
                if path in groups:
                    pieces += parquet_pieces(path, self.column, groups[path], most)
                else:
                    pieces += jsonl_pieces(path, self.column, most)
        if not pieces or total == 0:
            names = ", ".join(map(str, files[:_SHOWN]))
            raise InputError(
                f"there is no text in {names} ({len(files)} files).\nGive files that are not empty."
            )
        return pieces

    def fingerprint(self, digests: Digests) -> str:
        """Return a digest of the files' bytes, their kinds and order, and the options; not of their names.

        Args:
            digests: Digests of files, kept from one call to the next.

        Raises:
            InputError: If a file is missing, of an unknown kind or damaged Parquet, or lacks the column.
        """
        files = self._files()
        self._groups(files)  # what takes no time to find wrong, first
        kinds = [f"{kind(path)} {compression(path)}" for path in files]
        content = [_FORMAT, self.column, self.bad_rows, kinds, digests.of(files)]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, str | int]:
        """Return the paths, the options, and the number and bytes of files.

        Raises:
            InputError: If a file is missing or of an unknown kind.
        """
        files = self._files()
        return {
            "paths": ", ".join(self.paths),
            "column": self.column,
            "bad_rows": self.bad_rows,
            "files": len(files),
            "file_bytes": sum(map(size, files)),
        }

    def _files(self) -> list[Path]:
        files = find(self.paths, "*.parquet")
        for path in files:
            own = kind(path)
            if own not in (".txt", ".parquet", *JSON_LINES) or (own == ".parquet" and compression(path)):
                raise InputError(f"{path} is of a kind that isn't read. Known are {KINDS}.")
        return files

    def _groups(self, files: Sequence[Path]) -> dict[Path, list[tuple[int, int]]]:
        return {path: parquet_groups(path, self.column) for path in files if kind(path) == ".parquet"}
