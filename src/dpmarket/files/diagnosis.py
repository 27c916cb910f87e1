"""Say what is wrong with a text that is no table, by its line and never by a value."""

from __future__ import annotations

import csv
import io


def csv_problem(data: bytes) -> str | None:
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
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(reader, [])
        for row in reader:
            if row and len(row) != len(header):
                return f"line {reader.line_num} has {len(row)} cells, the header row {len(header)}"
    except csv.Error:
        return f"line {reader.line_num} cannot be cut into cells"
    return None
