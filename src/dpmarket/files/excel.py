"""Excel files as CSV: the one sheet that has cells, with a header in its first row.

Cells are read as what they hold, not as what they look like, but for leading zeros: a number that is shown as
007 is the text 007. Nothing is guessed.
"""

import csv
import datetime
import io
import re
import zipfile
import zlib
from typing import Any

from dpmarket.errors import FileProblem
from dpmarket.files.untrusted import most_unpacked

_MOST_CELLS = 5_000_000
_BLOCK = 1 << 20
_MERGED, _FORMULA = re.compile(rb"<(\w+:)?mergeCell[ >]"), re.compile(rb"<(\w+:)?f[ />]")
_ZEROS = re.compile("0{2,}")


def excel_as_csv(data: bytes, name: str) -> bytes:
    """Return the table of an Excel file as CSV in UTF-8, with commas between columns."""
    has_formulas = _refuse_odd(data, name)
    rows = _rows(data, name)
    formulas = _rows(data, name, data_only=False) if has_formulas else []
    if not rows[0]:
        raise FileProblem(f"cannot read {name}: its first row is empty; the header must stand there.")
    for number, row in enumerate(rows, 1):
        if len(row) > len(rows[0]):
            raise FileProblem(f"cannot read {name}: row {number} has more cells than the header in row 1.")
        own = formulas[number - 1] if has_formulas else []
        bare = [cell for cell in own[len(row) :] if cell.value is not None]
        bare += [cell for cell, value in zip(own, row, strict=False) if value.value is None]
        if any(cell.data_type == "f" for cell in bare) or any(cell.data_type == "e" for cell in row):
            words = f"an error, or a formula without a result, in row {number}."
            raise FileProblem(f"cannot read {name}: {words}")
    table = io.StringIO(newline="")
    blank = [""] * len(rows[0])
    csv.writer(table).writerows([*map(_text, row), *blank[len(row) :]] for row in rows)
    return table.getvalue().encode()


def _rows(data: bytes, name: str, *, data_only: bool = True) -> list[list[Any]]:
    """Return the rows of cells of the one sheet that has some, without what is empty at their ends."""
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]
    except ImportError:
        raise FileProblem(
            f"cannot read {name}: save it as 'CSV UTF-8', or install the extra 'excel': pip install "
            "'dpmarket[excel]'."
        ) from None
    filled: list[list[list[Any]]] = []
    count = 0
    try:
        for sheet in load_workbook(io.BytesIO(data), read_only=True, data_only=data_only).worksheets:
            sheet.reset_dimensions()  # what a file says about them may be wrong
            rows = []
            for row in sheet.rows:
                count += len(row)
                if count > _MOST_CELLS:
                    words = f"it has more than {_MOST_CELLS:,} cells; save it as CSV."
                    raise FileProblem(f"cannot read {name}: {words}")
                last = max((k for k, cell in enumerate(row, 1) if cell.value is not None), default=0)
                rows.append(list(row[:last]))
            while rows and not rows[-1]:
                rows.pop()
            filled += [rows] if rows else []
    except FileProblem:
        raise
    except Exception:  # openpyxl raises whatever a part of it does, and quotes cells
        raise FileProblem(f"cannot understand {name} as an Excel file; save it as 'CSV UTF-8'.") from None
    if not filled:
        raise FileProblem(f"cannot read {name}: the file is empty.")
    if len(filled) > 1:
        raise FileProblem(
            f"cannot read {name}: {len(filled)} of its sheets have cells; save the one that is meant as a "
            "file of its own."
        )
    return filled[0]


def _refuse_odd(data: bytes, name: str) -> bool:
    """Refuse what would unpack to too much, and merged cells; return whether there are formulas."""
    has_formulas = False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            if sum(part.file_size for part in parts.infolist()) > most_unpacked(len(data)):
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


def _text(cell: Any) -> str:
    """Return what a cell holds as the text that CSV would have."""
    value = "" if cell.value is None else cell.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):0{len(cell.number_format) if _ZEROS.fullmatch(cell.number_format) else 1}d}"
    if isinstance(value, datetime.datetime):
        return str(value if value.time() != datetime.time() else value.date())
    return repr(value) if isinstance(value, float) else str(value)
