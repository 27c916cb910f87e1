r"""Make texts harmless in spreadsheets, by one rule that can be undone.

Spreadsheet programs run a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula: an id such as
``=HYPERLINK(...)`` would send the table away when a person opens the file. The rule, for every cell of text
in every CSV file that is written here:

    A text gets one apostrophe in front if, after any apostrophes and then any blanks, it begins with one of
    ``= + - @`` or their full-width forms, or if it begins, after any apostrophes, with a tab or a line's end.

Whether the rule applies does not change with the apostrophe that it adds, so that one taken off again by the
same condition gives every text back as it was, also one that began with apostrophes. Texts in Parquet files,
and numbers, are left alone: no program runs them.
"""

from __future__ import annotations

import io
from typing import BinaryIO

import numpy as np
import polars as pl

from dpmarket.files.columns import bytes_of_texts

_BEGINNING = r"(?:[\t\r\n]|\s*[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"
_RUN, _MADE_HARMLESS = "^'*" + _BEGINNING, "^'+" + _BEGINNING
# Where columns are separated otherwise, a text with such a separator would be cut, and its second half run.
_SEPARATORS = [b";", b"\t", b"|"]
_RISKY = np.zeros(256, dtype=bool)  # first bytes of what is run, and of blanks and apostrophes
_RISKY[[*range(33), *b"'=+-@", *range(128, 256)]] = True


def harmless(texts: pl.Series) -> pl.Series:
    """Return texts as they are written to CSV.

    Examples
    --------
    >>> harmless(pl.Series(["ann", "=1+1", "'=1+1", "'tis", "-"])).to_list()
    ['ann', "'=1+1", "''=1+1", "'tis", "'-"]
    """
    found = texts.str.contains(_RUN).fill_null(value=False)
    return (
        texts.to_frame("t").select(_prefixed(found)).to_series().alias(texts.name) if found.any() else texts
    )


def as_meant(texts: pl.Series) -> pl.Series:
    """Return texts that were read from CSV as they were before they were made harmless.

    Examples
    --------
    >>> as_meant(pl.Series(["ann", "'=1+1", "''=1+1", "'tis", "=1+1"])).to_list()
    ['ann', '=1+1', "'=1+1", "'tis", '=1+1']
    """
    if not texts.str.starts_with("'").any():
        return texts
    found = texts.str.contains(_MADE_HARMLESS).fill_null(value=False)
    if not found.any():
        return texts
    shorter = pl.when(found).then(pl.col("t").str.slice(1)).otherwise(pl.col("t"))
    return texts.to_frame("t").select(shorter).to_series().alias(texts.name)


def write_csv(target: BinaryIO, table: pl.DataFrame) -> None:
    """Write a table as CSV in UTF-8 with a header row, its texts made harmless."""
    texts = [column for column in table.columns if table.schema[column] in (pl.String, pl.Enum)]
    looked = {column: _looked_at(table.get_column(column)) for column in texts}
    risky = [column for column, (may_run, _) in looked.items() if may_run]
    table = table.with_columns([harmless(table.get_column(column).cast(pl.String)) for column in risky])
    cut = any(has_separator for _, has_separator in looked.values())
    target.write(table.clear().write_csv().encode())
    table.write_csv(target, include_header=False, quote_style="non_numeric" if cut else "necessary")


def csv_text(table: pl.DataFrame) -> bytes:
    """Return a table as :func:`write_csv` writes it.

    Examples
    --------
    >>> csv_text(pl.DataFrame({"seller": ["=1+1", "bob"], "epsilon": [0.5, -1.0]})).decode().splitlines()
    ['seller,epsilon', "'=1+1,0.5", 'bob,-1.0']
    """
    buffer = io.BytesIO()
    write_csv(buffer, table)
    return buffer.getvalue()


def _looked_at(texts: pl.Series) -> tuple[bool, bool]:
    """Return whether the rule can apply to a text, by its first byte, and whether one has a separator."""
    may_run = has_separator = False
    for data, ends in bytes_of_texts(texts.drop_nulls().to_frame("t"), "t"):
        starts = np.concatenate(([0], ends[:-1]))[np.diff(ends, prepend=0) > 0]
        may_run = may_run or bool(_RISKY[data[starts]].any())
        whole = data.tobytes()
        has_separator = has_separator or any(one in whole for one in _SEPARATORS)
    return may_run, has_separator


def _prefixed(found: pl.Series) -> pl.Expr:
    return pl.when(found).then(pl.lit("'") + pl.col("t")).otherwise(pl.col("t"))
