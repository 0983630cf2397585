"""Rows of JSON Lines files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mgvr_lightning.data.rows import BOM, Row, encodable_fault, not_utf8, open_stream, reading

_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
}


def jsonl_rows(path: Path, column: str) -> Iterator[Row]:
    r"""Yield one row per line that isn't blank; only ``\n`` ends a line.

    Args:
        path: A file of one JSON object per line in UTF-8, plain or compressed; a byte-order mark is dropped.
        column: The field that holds the text.

    Raises:
        InputError: If the file as a whole cannot be read or unpacked.
    """
    offset = 0
    with reading(path), open_stream(path) as stream:
        for number, line in enumerate(stream, 1):
            content = line.removeprefix(BOM) if number == 1 else line
            if content.strip():
                yield _row(number, content, offset + len(line) - len(content), column)
            offset += len(line)


def _row(number: int, content: bytes, offset: int, column: str) -> Row:
    try:
        record = json.loads(content.decode())
    except UnicodeDecodeError as error:
        return Row(number, None, not_utf8(error, offset))
    except json.JSONDecodeError as error:
        return Row(number, None, f"is not JSON: {error.msg} at column {error.colno:,}")
    except (ValueError, RecursionError) as error:
        return Row(number, None, f"is not usable JSON: {error}")
    fault = _fault(record, column)
    return Row(number, None, fault) if fault else Row(number, record[column])


def _fault(record: object, column: str) -> str:
    if not isinstance(record, dict):
        return f"is {_name(record)}, not an object such as {{{json.dumps(column)}: ...}}"
    if column not in record:
        there = ", ".join(map(repr, record)) or "none"
        return f"has no field {column!r} (there are: {there}); see the option `column`"
    text = record[column]
    if not isinstance(text, str):
        return f"has {_name(text)} in {column!r}, not a string"
    return encodable_fault(text, repr(column))


def _name(value: object) -> str:
    return _NAMES.get(type(value), "null")
