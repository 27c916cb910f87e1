"""Files that a stranger might send: small to send, large or slow to read."""

import gzip
import io
import struct
import zlib

import numpy as np
import polars as pl

DEEP_JSON = b"[" * 100_000
JSON = {
    "nested lists": DEEP_JSON,
    "nested objects": b'{"a":' * 100_000,
    "nested within reason for a parser": b"[" * 500 + b"]" * 500,
    "a number of 100,000 digits": b'{"schema": ' + b"1" * 100_000 + b"}",
    "as many lists as fit": b"[" + b"[]," * 1_100_000 + b"1]",
    "not a number": b'{"schema": NaN}',
    "no text": b"\xff\xfe" * 1000,
}
TOML = {
    "nested arrays": b"a = " + b"[" * 60_000,
    "nested tables": b"a = " + b"{a = " * 40_000,
    "a key of 50,000 parts": b".".join([b"a"] * 50_000) + b" = 1",
    "a quoted key of 30,000 parts": b".".join([b'"a"'] * 30_000) + b" = 1",
    "a key of 50,000 parts with quotes in them": b".".join([b'"\\""'] * 50_000) + b" = 1",
    "a header of 50,000 parts": b"[" + b".".join([b"a"] * 50_000) + b"]\nb = 1",
    "a number of 100,000 digits": b"a = " + b"1" * 100_000,
    "a number of 200,000 hexadecimal digits": b"a = 0x" + b"f" * 200_000,
    "a date that is none": b"a = 0000-00-00",
    "more than any market has": b"# words\n" * 50_000,
}


def parquet(columns, **options):
    """Return columns as a Parquet file."""
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, compression_level=22, **options)
    return buffer.getvalue()


def many_rows(rows=6_000_000):
    """Return a small file of very many equal rows."""
    columns = {"seller": pl.repeat("s", rows, eager=True), "cost": pl.repeat(1.0, rows, eager=True)}
    return parquet(columns, compression="zstd", row_group_size=rows)


def shared_text(rows=2_000):
    """Return a small file whose every row refers to one long text."""
    columns = {"seller": pl.repeat("s" * 50_000, rows, eager=True), "cost": np.ones(rows)}
    return parquet(columns, compression="zstd")


GOOD = b"seller,cost\n" + b"".join(b"s%d,1.5\n" % k for k in range(100))
TABLES = {
    "many rows.parquet": many_rows,
    "shared text.parquet": shared_text,
    "cut.parquet": lambda: parquet({"seller": ["a"], "cost": [1.0]})[:-20],
    "no parquet.parquet": lambda: b"PAR1" + b"\x00" * 1000 + struct.pack("<I", 900) + b"PAR1",
    "gzip.csv": lambda: gzip.compress(b"seller,cost\n" + b"a,1.0\n" * 5_000_000, 1),
    "zlib.csv": lambda: zlib.compress(b"seller,cost\n" + b"a,1.0\n" * 1_000_000),
    "a million columns.csv": lambda: b"," * 1_000_000 + b"\n" + b"," * 1_000_000 + b"\n",
    "one row without end.csv": lambda: b"a" * 3_000_000,
    "a row of many.csv": lambda: GOOD + b"," * 500_000 + b"\n",
    "long number.csv": lambda: GOOD + b"x," + b"1" * 100_000 + b"x\n",
    "open quote.csv": lambda: GOOD + b'"' + b"x," * 300_000,
}
"""What makes each file: what is asked for are the columns seller and cost."""
