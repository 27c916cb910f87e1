"""Refusals of untrusted tables before they are read: what they would become, and what they are not."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files.parquet_size import parquet_size

Source = Path | bytes
"""A file, or its content where it came as a stream."""

_HEAD = 1 << 20
_COLUMNS = 20_000
_SMALL = 16 << 20
_RATIO = 256
_PACKED = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"x\x01": "zlib", b"x\x9c": "zlib", b"x\xda": "zlib",
}  # fmt: skip


def most_unpacked(size: int) -> int:
    """Return how many bytes a table from a file of that size may take: much more is no honest table."""
    return _SMALL + _RATIO * size


def refuse_unreadable_csv(source: Source, name: str) -> None:
    """Say in a clear word what the beginning of a file tells about one that is no CSV."""
    head = head_of(source, name, _HEAD)
    for mark, kind in _PACKED.items():
        # Two letters may begin an honest header; what follows them in a compressed file is no text.
        if head.startswith(mark) and not head[:64].isascii():
            raise FileProblem(f"cannot read {name}: it is compressed ({kind}); unpack it first.")
    header, end, _ = head.partition(b"\n")
    if not end and len(head) == _HEAD:
        raise FileProblem(f"cannot read {name}: its first row is longer than {_HEAD >> 20} MB.")
    if max(header.count(mark) for mark in b",;\t|") >= _COLUMNS:
        raise FileProblem(f"cannot read {name}: it has more than {_COLUMNS:,} columns.")


def refuse_unreadable_parquet(source: Source, name: str) -> None:
    """Refuse what is no Parquet, or would unpack to far more than its size, or to too many columns."""
    try:
        found = parquet_size(source)
    except InvalidInput as problem:
        raise FileProblem(f"cannot understand {name} as Parquet: {problem}") from None
    except OSError as problem:
        raise FileProblem(f"cannot read {name}: {problem.strerror or problem}.") from None
    if found.columns > _COLUMNS:
        raise FileProblem(f"cannot read {name}: it has more than {_COLUMNS:,} columns.")
    size = size_of(source)
    if found.unpacked > most_unpacked(size):
        raise FileProblem(
            f"cannot read {name}: its {size:,} bytes would unpack to {found.unpacked:,}, more than "
            "those of any honest table; if it is one, save it as CSV."
        )


def size_of(source: Source) -> int:
    """Return the number of bytes of a file or its content."""
    return len(source) if isinstance(source, bytes) else os.path.getsize(source)


def head_of(source: Source, name: str, most: int) -> bytes:
    """Return the first bytes of a file or its content."""
    if isinstance(source, bytes):
        return source[:most]
    try:
        with source.open("rb") as file:
            return file.read(most)
    except OSError as problem:
        raise FileProblem(f"cannot read {name}: {problem.strerror or problem}.") from None


def csv_problem(data: bytes, separator: str = ",") -> str | None:
    r"""Return where bytes stop being CSV with the same number of cells in every row; None if nowhere.

    Examples
    --------
    >>> csv_problem(b"seller,cost\na,1\nb,2,3\n")
    'line 3 has 3 cells, the header row 2'
    >>> csv_problem(b"seller,cost\nZo\xeb,1\n")
    'line 2 is no text in UTF-8'
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        return f"line {data.count(10, 0, problem.start) + 1} is no text in UTF-8"
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        header = next(reader, [])
        for row in reader:
            if row and len(row) != len(header):
                return f"line {reader.line_num} has {len(row)} cells, the header row {len(header)}"
    except csv.Error:
        return f"line {reader.line_num} cannot be cut into cells"
    return None
