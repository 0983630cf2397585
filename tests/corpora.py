"""Reading a corpus as those who prepare it do."""

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mgvr_lightning.data.corpora import corpus as corpora
from mgvr_lightning.data.corpora.corpus import Corpus, Tally
from mgvr_lightning.errors import InputError


def read(corpus: Corpus) -> tuple[list[tuple[str, Any]], Tally]:
    """Place and text, or ids, of every usable row, read from pieces that have been to another process."""
    tally = Tally()
    rows: list[tuple[str, Any]] = []
    for piece in pickle.loads(pickle.dumps(list(corpus.pieces()))):
        rows += [
            (piece.place(row.number), row.text if row.ids is None else row.ids.tolist())
            for row in tally.usable(piece, corpus.bad_rows)
        ]
    tally.summary()
    return rows, tally


def texts(corpus: Corpus) -> list[str]:
    """The texts of every usable row."""
    return [text for _, text in read(corpus)[0]]


def cut_finely(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Have pieces of about so many bytes."""
    monkeypatch.setattr(corpora, "LEAST_PIECE", size)
    monkeypatch.setattr(corpora, "MOST_PIECES", 10**9)


def fail(corpus: Corpus) -> str:
    """The message that reading ends with."""
    with pytest.raises(InputError) as caught:
        read(corpus)
    assert len(str(caught.value).splitlines()) <= 6
    return str(caught.value)


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Files in a folder and folders in it."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def table(**columns: Any) -> bytes:
    """A Parquet file with row groups of three rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, row_group_size=3)
    return bytes(sink.getvalue())


def lines(*records: Any) -> bytes:
    """A file of JSON Lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


TEXT = "one\r\ntwo\u2028three\x85 séven 東京 <|endoftext|>"


def data_sets() -> dict[str, tuple[dict[str, bytes], list[str]]]:
    """Files of training data of each format, and what they hold."""
    packed = bytes(pa.compress(lines({"text": "z"}), codec="zstd", asbytes=True))
    return {
        "parquet": (
            {
                "train-0.parquet": table(id=[1, 2, 3, 4], text=[TEXT, "b", "", "d"]),
                "train-1.parquet": table(text=pa.array([], pa.string())),
                "train-2.parquet": table(text=["e"], id=[{"unequal": "shape"}], more=[1.5]),
            },
            [TEXT, "b", "", "d", "e"],
        ),
        "json": (
            {
                "train-0.jsonl": b"\xef\xbb\xbf" + lines({"text": TEXT, "meta": 1}, {"text": "b"}),
                "train-1.jsonl.gz": gzip.compress(lines({"meta": {"x": [1]}, "text": "c", "new": None})),
                "train-2.jsonl.zst": packed,
            },
            [TEXT, "b", "c", "z"],
        ),
        "text": ({"train.txt": b"a\r\nb\x0b\n\nc\xc2\x85d\re"}, ["a", "b\x0b", "", "c\x85d\re"]),
        "csv": ({"train.csv": b'text,id\na,1\n"b\nc",2\n'}, ["a", "b\nc"]),
    }
