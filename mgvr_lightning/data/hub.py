"""Data sets of the Hugging Face hub, and folders laid out like them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mgvr_lightning.data.corpus import BadRows, Corpus, Piece, piece_size
from mgvr_lightning.data.digests import Digests
from mgvr_lightning.data.hub_pieces import BATCH, LinesPiece, ShardPiece, TablePiece, buffered, streamed
from mgvr_lightning.data.hub_source import Source, commit, download, folder, library, resolve, telling
from mgvr_lightning.data.parquet import check_column, check_strings
from mgvr_lightning.data.rows import EXPANSION, size, text_bytes
from mgvr_lightning.errors import InputError

_FORMAT = 1
_NO_ROWS = "corresponds to no data"
_LINES = ("json", "text")


class Hub(Corpus):
    r"""A data set of the Hugging Face hub, or a local folder of data files that `datasets` can load.

    Only the column with the text is read from Parquet. JSON must be JSON Lines; the rows may differ in their
    other fields. Each line of a text file is a document, without the ``\n`` or ``\r\n`` that ends it. The
    documents are the same whether streamed or not.

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
        streaming: bool = True,
        bad_rows: BadRows = "raise",
    ) -> None:
        self.name, self.config, self.split, self.column = name, config, split, column
        self.revision, self.streaming, self.bad_rows = revision, streaming, bad_rows
        self._commit: str | None = None
        self._source: Source | None = None

    def pieces(self) -> Sequence[Piece]:
        """Return the shards if streamed, else ranges of rows of the downloaded table.

        Raises:
            InputError: If the data set cannot be reached or loaded, or lacks the configuration, split or
                column.
        """
        source = self._resolve()
        self._check(source)
        with telling(source.where):
            if source.module in _LINES:
                pieces = list(self._lines(source))
            else:
                pieces = list(self._shards(source) if self.streaming else self._ranges(source))
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
        content: list[Any] = [_FORMAT, self.split, self.column, self.bad_rows]
        if folder(self.name) is None:
            content += [self.name, self.config, self._pin()]
        else:
            source = self._resolve()
            paths = [Path(path) for path in source.files]
            kinds = [path.suffixes for path in paths]
            content += [source.module, kinds, digests.of(paths)]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, str | bool | None]:
        """Return the options, with the commit once it is known."""
        return {
            "name": self.name,
            "config": self.config,
            "split": self.split,
            "column": self.column,
            "revision": self._commit or self.revision,
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
            self._source = resolve(name, self.config, self.split, self._pin())
        return self._source

    def _check(self, source: Source) -> None:
        """Check the column, but not of JSON, where each row is checked."""
        if source.module == "json":
            return
        if source.module == "text":
            check_column(self.column, ["text"], source.where)
            return
        with telling(source.where):
            schema = streamed(json.dumps({**source.load, "split": source.split})).features
        if schema is not None:
            kinds = schema.arrow_schema
            check_column(self.column, kinds.names, source.where)
            check_strings(self.column, kinds.field(self.column).type, kinds.names, source.where)

    def _shards(self, source: Source) -> Iterator[Piece]:
        by_file = source.module == "parquet"
        whole = json.dumps(self._load(source, source.files))
        shards = len(source.files) if by_file else streamed(whole).num_shards
        for index in range(shards):
            file = source.files[index] if shards == len(source.files) else None
            name = f"{source.where}, {file or f'shard {index}'}"
            weight = self._weight(source, file, shards)
            if by_file:
                load = json.dumps(self._load(source, source.files[index : index + 1]))
                yield ShardPiece(load, 0, 1, self.column, name, weight)
            else:
                yield ShardPiece(whole, index, shards, self.column, name, weight)

    def _ranges(self, source: Source) -> Iterator[Piece]:
        datasets = library()
        load = self._load(source, source.files)
        if folder(self.name) is not None:
            # The cache knows files by name and time: the description makes it know them by content.
            load["description"] = " ".join(Digests().of([Path(path) for path in source.files]))
        try:
            loaded = datasets.load_dataset(
                **buffered(load), keep_in_memory=False, verification_mode="no_checks"
            )
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

    def _lines(self, source: Source) -> Iterator[Piece]:
        """Give each file of lines as it is; downloaded first where a hub's isn't streamed."""
        column = self.column if source.module == "json" else None
        for file in source.files:
            found = file if self.streaming or folder(self.name) is not None else download(file)
            weight = self._weight(source, file, len(source.files))
            yield LinesPiece(found, column, f"{source.where}, {file}", weight)

    def _load(self, source: Source, files: Sequence[str]) -> dict[str, Any]:
        """Return what `datasets.load_dataset` gets for some files of Parquet, or all of a rarer format."""
        if source.module != "parquet":
            return {**source.load, "split": source.split}
        return {
            "path": "parquet",
            "columns": [self.column],
            "batch_size": BATCH,  # by default a row group, of which some are huge, and empty ones fail
            "data_files": {source.split: list(files)},
            "split": source.split,
        }

    def _weight(self, source: Source, file: str | None, shards: int) -> int:
        """Estimate the text in a shard."""
        if file is None or folder(self.name) is None:
            return source.bytes // shards
        path = Path(file)
        return EXPANSION * size(path) if source.module == "parquet" else text_bytes(path)
