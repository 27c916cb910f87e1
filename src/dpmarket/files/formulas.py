r"""Make texts harmless in spreadsheets, by one rule that can be undone.

Spreadsheet programs run a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula: an id such as
``=HYPERLINK(...)`` would send the table away when a person opens the file. So every text in CSV gets one
apostrophe in front if, after any apostrophes and then any blanks, it begins with one of ``= + - @`` or their
full-width forms, or if it begins, after any apostrophes, with a tab or a line's end. The condition does not
change with the apostrophe, so that taking one off gives every text back.
"""

import io
from typing import BinaryIO

import polars as pl

_BEGINNING = r"('*(?:[\t\r\n]|\s*[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]))"
# Where columns are separated otherwise, a text with such a separator would be cut, and its second half run.
_SEPARATORS = r"[;\t|]"


def harmless(texts: pl.Series) -> pl.Series:
    """Return texts as they are written to CSV.

    >>> harmless(pl.Series(["ann", "=1+1", "'=1+1", "'tis", "-"])).to_list()
    ['ann', "'=1+1", "''=1+1", "'tis", "'-"]
    """
    return _replaced(texts, f"^{_BEGINNING}", "'${1}")


def as_meant(texts: pl.Series) -> pl.Series:
    """Return texts that were read from CSV as they were before they were made harmless."""
    return _replaced(texts, f"^'{_BEGINNING}", "${1}")


def _replaced(texts: pl.Series, form: str, instead: str) -> pl.Series:
    """Return texts with what has a form replaced; that none has it is seen much sooner."""
    return texts.str.replace(form, instead) if texts.str.contains(form).any() else texts


def write_csv(target: BinaryIO, table: pl.DataFrame) -> None:
    """Write a table as CSV in UTF-8 with a header row, its texts made harmless."""
    texts = [name for name in table.columns if table.schema[name] in (pl.String, pl.Enum)]
    table = table.with_columns([harmless(table.get_column(name).cast(pl.String)) for name in texts])
    is_cut = any(table.get_column(name).str.contains(_SEPARATORS).any() for name in texts)
    target.write(table.clear().write_csv().encode())
    table.write_csv(target, include_header=False, quote_style="non_numeric" if is_cut else "necessary")


def csv_text(table: pl.DataFrame) -> bytes:
    """Return a table as :func:`write_csv` writes it."""
    buffer = io.BytesIO()
    write_csv(buffer, table)
    return buffer.getvalue()
