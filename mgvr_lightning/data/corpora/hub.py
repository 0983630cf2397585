"""Data sets of the Hugging Face hub, and folders laid out like them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mgvr_lightning.data.corpora.corpus import BadRows, Corpus, Piece, piece_size
from mgvr_lightning.data.corpora.digests import Digests
from mgvr_lightning.data.corpora.hub_pieces import (
    LinesPiece,
    NamedPiece,
    ShardPiece,
    TablePiece,
    TablesPiece,
    streamed,
)
from mgvr_lightning.data.corpora.hub_source import Source, commit, download, folder, library, resolve, telling
from mgvr_lightning.data.corpora.jsonl import jsonl_pieces
from mgvr_lightning.data.corpora.parquet import check_column, parquet_groups, parquet_pieces
from mgvr_lightning.data.corpora.rows import size, text_bytes
from mgvr_lightning.errors import InputError

_FORMAT = 1
_DOWNLOADS = 8
_NO_ROWS = "corresponds to no data"
_FORMATS = ("parquet", "json", "text")


class Hub(Corpus):
    r"""A data set of the Hugging Face hub, or a local folder of data files that `datasets` can load.

    `datasets` finds the files of the configuration and the split. Of Parquet only the column with the text is
    read. JSON must be JSON Lines. Each line of a text file is a document, without the ``\n`` or ``\r\n`` that
    ends it. In these the other columns may differ from row to row and from file to file; other formats, such
    as CSV, are read by `datasets`, too. The documents are the same whether streamed or not.

    Example:
        The sample of 10 billion tokens of FineWeb-Edu, as it was at one commit::

            Hub("HuggingFaceFW/fineweb-edu", config="sample-10BT", revision="<40 hex digits>")

    Args:
        name: The data set's name, or the folder's path.
        config: Its configuration; null for the only or default one.
        split: Its split; slices such as ``train[:10%]`` are not known.
        column: The column that holds the text.
        revision: Commit, branch or tag; null for the newest commit. A commit of 40 hex digits is never looked
            up, so what was prepared before is found without network.
        shards: How many of the split's files to read, the first ones; null for all. For Parquet, JSON Lines
            and text alone.
        streaming: Whether to read it as it comes, with nothing kept on disk; else it is downloaded to the
            cache of Hugging Face first.
        bad_rows: What to do with a row that is malformed or holds no string: ``raise`` stops at the first,
            ``skip`` leaves them out, ``replace`` keeps a text that is not UTF-8, with U+FFFD for the damage,
            and leaves out the others. Both count, and stop only if more than half of all are left out.
    """

    def __init__(
        self,
        name: str,
        config: str | None = None,
        split: str = "train",
        column: str = "text",
        revision: str | None = None,
        shards: int | None = None,
        streaming: bool = True,
        bad_rows: BadRows = "raise",
    ) -> None:
        self.name, self.config, self.split, self.column = name, config, split, column
        self.revision, self.shards = revision, shards
        self.streaming, self.bad_rows = streaming, bad_rows
        if shards is not None and shards < 1:
            raise InputError(f"`shards` is {shards}; expected 1 or more files, or null for all.")
        self._commit: str | None = None
        self._source: Source | None = None

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per file if streamed, else parts of the files that were downloaded.

        What is neither Parquet nor JSON Lines nor text is read by `datasets`: in its shards if streamed, else
        in ranges of rows of the table that it keeps.

        Raises:
            InputError: If the data set cannot be reached or loaded, or lacks the configuration, split or
                column.
        """
        source = self._resolve()
        local = folder(self.name) is not None
        if source.module == "text":
            check_column(self.column, ["text"], source.where)
        if self.shards is not None and source.module not in _FORMATS:
            raise InputError(
                f"{source.where} is {source.module}; `shards` limits Parquet, JSON Lines and text alone.\n"
                "Leave the option out."
            )
        with telling(source.where):
            if source.module not in _FORMATS:
                pieces = list(self._shards(source) if self.streaming else self._ranges(source))
            elif local or not self.streaming:
                with ThreadPoolExecutor(_DOWNLOADS) as pool:
                    paths = list(source.files if local else pool.map(download, source.files))
                pieces = list(self._local(source, [Path(path) for path in paths]))
            else:
                pieces = list(self._remote(source))
        if not pieces:
            raise InputError(f"there is no text in {source.where}.\nChoose another split or data set.")
        return pieces

    def fingerprint(self, digests: Digests) -> str:
        """Return a digest of the commit, or of a folder's files, and the options.

        Args:
            digests: Digests of files, kept from one call to the next.

        Raises:
            InputError: If the data set or its commit cannot be found out.
        """
        content: list[Any] = [_FORMAT, self.split, self.column, self.shards, self.streaming, self.bad_rows]
        if folder(self.name) is None:
            content += [self.name, self.config, self._pin()]
        else:
            source = self._resolve()
            paths = [Path(path) for path in source.files]
            kinds = [path.suffixes for path in paths]
            content += [source.module, kinds, digests.of(paths)]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, str | int | None]:
        """Return the options, with the commit once it is known."""
        return {
            "name": self.name,
            "config": self.config,
            "split": self.split,
            "column": self.column,
            "revision": self._commit or self.revision,
            "shards": self.shards,
            "streaming": self.streaming,
            "bad_rows": self.bad_rows,
        }

    def _pin(self) -> str | None:
        if folder(self.name) is not None:
            if self.revision is not None:
                raise InputError(f"{self.name} is a folder, which has no `revision`. Leave the option out.")
            return None
        if self._commit is None:
            self._commit = commit(self.name, self.revision)
        return self._commit

    def _resolve(self) -> Source:
        if self._source is None:
            local = folder(self.name)
            name = self.name if local is None else str(local)
            self._source = resolve(name, self.config, self.split, self._pin(), self.shards)
        return self._source

    def _local(self, source: Source, paths: Sequence[Path]) -> Iterator[Piece]:
        """Cut files on this machine, as `Files` does."""
        if source.module == "parquet":
            groups = {path: parquet_groups(path, self.column) for path in paths}
            most = piece_size(sum(own for path in paths for _, own in groups[path]))
        else:
            most = piece_size(sum(map(text_bytes, paths)))
        for path in paths:
            pieces: Sequence[Piece]
            if source.module == "parquet":
                pieces = parquet_pieces(path, self.column, groups[path], most)
            elif source.module == "json":
                pieces = jsonl_pieces(path, self.column, most)
            else:
                pieces = [LinesPiece(str(path), None, str(path), text_bytes(path))]
            yield from (NamedPiece(piece, source.where, piece.bytes) for piece in pieces)

    def _remote(self, source: Source) -> Iterator[Piece]:
        """Take each file as a piece, unseen."""
        weight = source.bytes // len(source.files)
        for index, url in enumerate(source.files):
            name = f"{source.where}, {url}"
            if source.module != "parquet":
                yield LinesPiece(url, self.column if source.module == "json" else None, name, weight)
                continue
            piece = TablesPiece(url, self.column, name, weight)
            if index == 0:
                piece.check()
            yield piece

    def _shards(self, source: Source) -> Iterator[Piece]:
        load = json.dumps({**source.load, "split": source.split})
        shards = streamed(load).num_shards
        if folder(self.name) is not None:
            weight = sum(text_bytes(Path(path)) for path in source.files) // shards
        else:
            weight = source.bytes // shards
        for index in range(shards):
            name = source.files[index] if shards == len(source.files) else f"shard {index}"
            yield ShardPiece(load, index, shards, self.column, f"{source.where}, {name}", weight)

    def _ranges(self, source: Source) -> Iterator[Piece]:
        datasets = library()
        load = {**source.load, "split": source.split}
        if folder(self.name) is not None:
            # The cache knows files by name and time: the description makes it know them by content.
            load["description"] = " ".join(Digests().of([Path(path) for path in source.files]))
        try:
            loaded = datasets.load_dataset(**load, keep_in_memory=False, verification_mode="no_checks")
        except ValueError as error:
            if _NO_ROWS in str(error):
                return
            raise
        paths = [file["filename"] for file in loaded.cache_files]
        most = piece_size(sum(size(Path(path)) for path in paths))
        first = 0
        for path in paths:
            rows, total = len(datasets.Dataset.from_file(path)), size(Path(path))
            step = max(1, rows * most // max(1, total))
            for start in range(0, rows, step):
                stop = min(start + step, rows)
                weight = total * (stop - start) // rows
                yield TablePiece(path, start, stop, first + start, self.column, source.where, weight)
            first += rows
