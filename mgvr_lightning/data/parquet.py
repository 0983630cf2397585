"""Rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mgvr_lightning.data.rows import Row, reading
from mgvr_lightning.errors import InputError

_BATCH = 256


def check_parquet(path: Path, column: str) -> None:
    """Read the footer only.

    Raises:
        InputError: If the file is no Parquet file, or ``column`` is missing or holds no strings.
    """
    with reading(path):
        schema = pq.read_schema(path)
    if column not in schema.names:
        raise InputError(
            f"{path} has no column {column!r}; its columns are {', '.join(map(repr, schema.names))}.\n"
            "Choose the one with the text by the option `column`."
        )
    kind = schema.field(column).type
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (
        pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)
    ):
        raise InputError(
            f"{path}: column {column!r} holds {kind}, not strings; its columns are "
            f"{', '.join(map(repr, schema.names))}.\nChoose the one with the text by the option `column`."
        )


def parquet_rows(path: Path, column: str) -> Iterator[Row]:
    """Yield every row, one batch in memory at a time.

    Raises:
        InputError: If the file cannot be read.
    """
    import datasets  # noqa: PLC0415  (a second, which only Parquet needs)

    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # faults are told once, by `reading`
    number = 0
    with reading(path):
        rows = datasets.load_dataset(
            "parquet", data_files=str(path), split="train", streaming=True, columns=[column]
        )
        for table in rows.with_format("arrow").iter(_BATCH):
            for value in table.column(column):
                number += 1
                yield _row(number, value, column)


def _row(number: int, value: Any, column: str) -> Row:
    try:
        text = value.as_py()
    except UnicodeDecodeError as error:
        return Row(number, None, f"is not UTF-8 at byte {error.start:,} of {column!r}")
    return Row(number, text, "" if text is not None else f"has null in {column!r}, not a string")
