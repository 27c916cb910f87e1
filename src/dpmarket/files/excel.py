"""Excel files as tables of texts and numbers: one sheet with a header in its first row.

Cells are read as what they hold, not as what they look like, but for leading zeros: a number that is shown as
007 is the text 007. Nothing is guessed: merged cells, errors, formulas without a result and several sheets
are refused.
"""

from __future__ import annotations

import datetime
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray
from dpmarket.errors import FileProblem
from dpmarket.files.columns import find, refuse
from dpmarket.files.untrusted import Source, most_unpacked, size_of

_MOST_CELLS = 5_000_000
_BLOCK = 1 << 20
_MERGED, _FORMULA = re.compile(rb"<(\w+:)?mergeCell[ >]"), re.compile(rb"<(\w+:)?f[ />]")
_ZEROS = re.compile("0{2,}")


def excel_columns(place: Source, name: str) -> list[str]:
    """Return the names of an Excel file's columns, in order."""
    _refuse_odd(place, name)
    return _names(next(_rows(_sheet(place, name), name)))


def read_excel(place: Source, name: str, columns: Sequence[str], texts: Sequence[str]) -> pl.DataFrame:
    """Return columns of an Excel file: numbers as floats, everything else and ``texts`` as texts."""
    has_formulas = _refuse_odd(place, name)
    header, *rows = _rows(_sheet(place, name), name)
    while rows and not rows[-1]:
        rows.pop()
    beyond = next((k for k, row in enumerate(rows, 2) if len(row) > len(header)), None)
    if beyond is not None:
        raise FileProblem(f"cannot read {name}: row {beyond} has more cells than the header in row 1.")
    places = {column: _names(header).index(column) for column in columns}
    cells = {column: [_at(row, k) for row in rows] for column, k in places.items()}
    wrong = {column: _where(_kind(cell) == "e" for cell in own) for column, own in cells.items()}
    if has_formulas:
        _, *written = _rows(_sheet(place, name, data_only=False), name)
        for column, k in places.items():
            is_formula = _where(_kind(_at(row, k)) == "f" for row in written[: len(rows)])
            wrong[column] |= is_formula & _where(cell is None for cell in cells[column])
    table = pl.DataFrame([_series(column, own, is_text=column in texts) for column, own in cells.items()])
    words = "an error, or a formula without a result"
    refuse(table, name, [one for column, where in wrong.items() for one in find(column, words, where)])
    return table


def _at(row: Sequence[Any], place: int) -> Any:
    """Return the cell at a place of a row; None if nothing is in it."""
    cell = row[place] if place < len(row) else None
    return None if cell is None or cell.value is None else cell


def _where(answers: Iterable[bool]) -> BoolArray:
    return np.array(list(answers), dtype=bool)


def _kind(cell: Any) -> Any:
    return None if cell is None else cell.data_type


def _sheet(place: Source, name: str, *, data_only: bool = True) -> Any:
    """Return the one sheet that has cells."""
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]
    except ImportError:
        raise FileProblem(
            f"cannot read {name}: save it as 'CSV UTF-8', or install the extra 'excel': pip install "
            "'dpmarket[excel]'."
        ) from None
    try:
        source = io.BytesIO(place if isinstance(place, bytes) else place.read_bytes())
        sheets = load_workbook(source, read_only=True, data_only=data_only).worksheets
        for sheet in sheets:
            sheet.reset_dimensions()  # what a file says about them may be wrong
        filled = [one for one in sheets if any(cell.value is not None for row in one.rows for cell in row)]
    except Exception:  # openpyxl raises whatever a part of it does, and quotes cells
        raise _not_excel(name) from None
    if not filled:
        raise FileProblem(f"cannot read {name}: the file is empty.")
    if len(filled) > 1:
        raise FileProblem(
            f"cannot read {name}: {len(filled)} of its sheets have cells; save the one that is meant as a "
            "file of its own."
        )
    return filled[0]


def _not_excel(name: str) -> FileProblem:
    return FileProblem(f"cannot understand {name} as an Excel file; save it as 'CSV UTF-8'.")


def _rows(sheet: Any, name: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows of cells, the header first, without empty cells at their ends."""
    count, rows = 0, iter(sheet.rows)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except Exception:  # as in _sheet
            raise _not_excel(name) from None
        if not count and all(cell.value is None for cell in row):
            raise FileProblem(f"cannot read {name}: its first row is empty; the header must stand there.")
        count += len(row)
        if count > _MOST_CELLS:
            raise FileProblem(f"cannot read {name}: it has more than {_MOST_CELLS:,} cells; save it as CSV.")
        last = max((k for k, cell in enumerate(row, 1) if cell.value is not None), default=0)
        yield row[:last]


def _names(header: Sequence[Any]) -> list[str]:
    return ["" if cell.value is None else _text(cell).strip() for cell in header]


def _refuse_odd(place: Source, name: str) -> bool:
    """Refuse what would unpack to too much, and merged cells; return whether there are formulas."""
    has_formulas = False
    try:
        with zipfile.ZipFile(io.BytesIO(place) if isinstance(place, bytes) else place) as parts:
            if sum(part.file_size for part in parts.infolist()) > most_unpacked(size_of(place)):
                raise FileProblem(f"cannot read {name}: it would unpack to more than any honest table.")
            for part in parts.namelist():
                if part.startswith("xl/worksheets/"):
                    with parts.open(part) as file:
                        end = b""
                        while block := file.read(_BLOCK):
                            if _MERGED.search(end + block):
                                raise FileProblem(f"cannot read {name}: it has merged cells; unmerge them.")
                            has_formulas = has_formulas or bool(_FORMULA.search(end + block))
                            end = block[-64:]
    except FileProblem:
        raise
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, zlib.error):
        raise FileProblem(
            f"cannot understand {name} as .xlsx: if it has a password, or is an older .xls, save it as .xlsx "
            "without one, or as 'CSV UTF-8'."
        ) from None
    return has_formulas


def _is_number(cell: Any) -> bool:
    is_number = isinstance(cell.value, int | float) and not isinstance(cell.value, bool)
    return is_number and not _ZEROS.fullmatch(cell.number_format)


def _series(column: str, cells: Sequence[Any], *, is_text: bool) -> pl.Series:
    if not is_text and all(cell is None or _is_number(cell) for cell in cells):
        numbers = [None if cell is None else float(cell.value) for cell in cells]
        return pl.Series(column, numbers, dtype=pl.Float64)
    return pl.Series(column, [None if cell is None else _text(cell) for cell in cells], dtype=pl.String)


def _text(cell: Any) -> str:
    """Return what a cell holds as the text that CSV would have."""
    value = cell.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):0{len(cell.number_format) if _ZEROS.fullmatch(cell.number_format) else 1}d}"
    if isinstance(value, datetime.datetime):
        return str(value if value.time() != datetime.time() else value.date())
    return repr(value) if isinstance(value, float) else str(value)
