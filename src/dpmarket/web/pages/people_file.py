"""Read whom to invite: the first column of a CSV file, or a list of lines."""

from __future__ import annotations

import csv
import io

from dpmarket.errors import MarketRefusal

_HEADS = ("person", "people", "seller", "id", "name", "email")


def names_in(content: bytes, text: str) -> list[str]:
    r"""Return the people of a file and of a list, each once, in their order.

    Examples
    --------
    >>> names_in(b"person;note\nann;x\nbob;y\n", "cem\nann")
    ['ann', 'bob', 'cem']
    """
    try:
        written = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MarketRefusal("invalid", "expected a CSV file in UTF-8.") from None
    first = written.splitlines()[0] if written.strip() else ""
    separator = ";" if first.count(";") > first.count(",") else ","
    try:
        cells = [row[0].strip() for row in csv.reader(io.StringIO(written), delimiter=separator) if row]
    except csv.Error:
        raise MarketRefusal("invalid", "expected a CSV file.") from None
    if cells and cells[0].lower() in _HEADS:
        cells = cells[1:]
    names = list(dict.fromkeys(name for name in [*cells, *map(str.strip, text.splitlines())] if name))
    if any(len(name) > 200 or not name.isprintable() for name in names):
        raise MarketRefusal("invalid", "expected names of up to 200 characters that can be printed.")
    return names
