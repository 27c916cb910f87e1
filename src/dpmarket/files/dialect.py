"""How a table is written: separators and decimal marks, recognised from what stands in it, never guessed.

A column of numbers has decimal commas if a cell of it shows so, as 12,5 does; 1,234 and 1.234 show nothing.
What is ambiguous is left for :func:`~dpmarket.files.columns.numbers_of` to refuse by its line.
"""

import csv
import io
import itertools
import re
from collections.abc import Sequence

import polars as pl

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_ROWS = 20
_SPACES = "'\u2019 \u00a0\u2009\u202f"
THOUSANDS = rf"^[+-]?\d{{1,3}}([.,{_SPACES}]\d{{3}})+([.,]\d+)?$"
"""Numbers that have, or may have, a separator of thousands."""
DECIMAL_COMMA = r"^[+-]?\d*,\d+([eE][+-]?\d+)?$"
_DECIMAL_POINT = r"^[+-]?\d*\.\d+([eE][+-]?\d+)?$"
_NUMERIC = rf"^[+-]?(\d[\d.,{_SPACES}]*|[.,]\d+)([eE][+-]?\d+)?$"
_AMBIGUOUS = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"


def separator_of(text: str) -> str:
    r"""Return what separates the columns of CSV text: that which gives the first rows as many cells.

    >>> separator_of('id;"name, first";weight\n1;Ann;70,5\n')
    ';'
    """
    bare = re.sub(r'"(?:[^"]|"")*"', '""', text)
    header = bare.partition("\n")[0]
    there = [mark for mark in SEPARATORS if mark in header]
    if not there:  # one column; or a title above the header, which the rows' separator shows
        there = [mark for mark in SEPARATORS if mark != "," and mark in bare]
    if len(there) < 2:
        return there[0] if there else ","

    def fit(mark: str) -> tuple[bool, int]:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
        try:
            lengths = [len(row) for row in itertools.islice(rows, _ROWS) if row]
        except csv.Error:
            return False, 0
        *whole, _ = lengths if len(lengths) > 1 else [*lengths, 0]  # the text may end within a row
        return min(whole) == max(whole), whole[0]

    return max(there, key=fit)


def is_of_numbers(cells: pl.Series) -> bool:
    """Whether all texts of a column are numbers, however written; 007 is none, nor is a column of gaps."""
    known = cells.str.strip_chars().drop_nulls()
    is_number = known.str.contains(_NUMERIC) & ~known.str.contains(r"^[+-]?0\d")
    return len(known) > 0 and bool(is_number.all())


def with_points(
    table: pl.DataFrame, names: Sequence[str], *, is_plain: bool
) -> tuple[pl.DataFrame, list[str]]:
    """Return a table of texts with points in the decimals of these columns; and which had commas.

    ``is_plain`` says that points are decimal points unless something shows otherwise.

    >>> table = pl.DataFrame({"weight": ["70,5", "1.234"], "height": ["1,234", "2,345"]})
    >>> with_points(table, ["weight", "height"], is_plain=False)[0].rows()
    [('70.5', '1.234'), ("1'234", '2.345')]
    """
    texts = {name: table.get_column(name).str.strip_chars() for name in names}
    marks = {name: _mark_of(cells) for name, cells in texts.items()}
    of_file = set(marks.values()) - {"", ".,"}
    usual = of_file.pop() if len(of_file) == 1 else "" if of_file else "." if is_plain else ""
    found, commas = [], []
    for name, cells in texts.items():
        mark = marks[name] or usual
        if mark == ",":
            commas += [name] if cells.str.contains(DECIMAL_COMMA).any() else []
            cells = _replaced(cells, DECIMAL_COMMA, ",", ".", _replaced(cells, THOUSANDS, ".", "'", cells))
        elif not mark:
            cells = _replaced(cells, _AMBIGUOUS, ".", "'", cells)
        found.append(cells.alias(name))
    return table.with_columns(found), commas


def _mark_of(cells: pl.Series) -> str:
    """Return the decimal mark that cells show: a point, a comma, both or nothing."""
    is_clear = ~cells.str.contains(_AMBIGUOUS)
    found = ""
    for mark, form, other in ((".", _DECIMAL_POINT, ","), (",", DECIMAL_COMMA, ".")):
        grouped = rf"^[+-]?\d{{1,3}}([{other}{_SPACES}]\d{{3}})+[{mark}]\d+$"
        shows = cells.str.contains(form) & is_clear | cells.str.contains(grouped)
        found += mark if shows.any() else ""
    return found


def _replaced(cells: pl.Series, form: str, old: str, new: str, others: pl.Series) -> pl.Series:
    """Return cells of a form with another mark in them, and the others as they are."""
    changed = cells.str.replace_all(old, new, literal=True)
    return pl.select(pl.when(cells.str.contains(form)).then(changed).otherwise(others)).to_series()
