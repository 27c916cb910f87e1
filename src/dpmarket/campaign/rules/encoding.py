"""Records as bytes of one length, whatever is in them, and bytes as records.

A length would tell a category, a gap, or how many rows somebody has. So every field is one number, every row
has one width with a byte that says whether it is there, and every record as many rows as are allowed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.campaign.rules.columns import Field, Records, fields_of, read_codes, records_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.errors import MarketRefusal

Record = Mapping[str, Any] | Sequence[Mapping[str, Any]]  # one row by its columns, or several


def record_bytes(rules: Rules) -> int:
    """Return the one length of all records."""
    return _row(rules).itemsize * rules.sellers.rows_per_person


def encode_record(rules: Rules, values: Record) -> bytes:
    """Write a record as bytes of one length, whatever is in it.

    ``values`` has, by column, numbers, texts of categories and dates, truths, or None for gaps. What is
    missing or wrong is refused by its column, never by a value or an unknown name.
    """
    most = rules.sellers.rows_per_person
    rows = [values] if isinstance(values, Mapping) else list(values)
    if not 1 <= len(rows) <= most or not all(isinstance(row, Mapping) for row in rows):
        expected = "one row" if most == 1 else f"from 1 to {most} rows"
        raise MarketRefusal("invalid", f"expected a record of {expected}.")
    return _written(rules, _codes(fields_of(rules), rows))


def zero_record(rules: Rules) -> bytes:
    """Return the public record for one that cannot be opened: one row of middles and first levels."""
    return _written(rules, np.array([[field.middle for field in fields_of(rules)]]))


def decode_records(rules: Rules, contents: Sequence[bytes | None]) -> Records:
    """Return people's records, one content each; nothing in one raises: what is no record is the zero one."""
    fields, zero, kind = fields_of(rules), zero_record(rules), _row(rules)
    whole = b"".join(one if one is not None and len(one) == len(zero) else zero for one in contents)
    table = np.frombuffer(whole, kind).reshape(len(contents), rules.sellers.rows_per_person).copy()
    there = table["row"] == 1
    good = (there | (table["row"] == 0)).all(axis=1) & there[:, 0]
    for place, field in enumerate(fields):
        good &= (field.fits(table["codes"][:, :, place]) | ~there).all(axis=1)
    table[~good] = np.frombuffer(zero, kind)
    people, rows = np.nonzero(table["row"] == 1)
    codes = np.ascontiguousarray(table[people, rows]["codes"].astype(np.float64))
    return records_of(fields, codes, people.astype(np.int64))


def _row(rules: Rules) -> np.dtype[np.void]:
    return np.dtype([("codes", "<f8", (len(fields_of(rules)),)), ("row", "B")])


def _written(rules: Rules, codes: FloatArray) -> bytes:
    table = np.zeros(rules.sellers.rows_per_person, _row(rules))
    table["codes"][: len(codes)], table["row"][: len(codes)] = codes, 1
    return table.tobytes()


def _codes(fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> FloatArray:
    """Return the codes of rows, shape (rows, fields)."""
    columns = list(dict.fromkeys(field.column for field in fields))
    for row in rows:
        if row.keys() != set(columns):
            missing = sum(name not in row for name in columns)
            raise MarketRefusal("invalid", f"expected exactly {', '.join(columns)}; {missing} are missing.")
    words = {field.column: field.words for field in fields}
    cells = {}
    for name in columns:
        try:
            cells[name] = [_cell(row[name]) for row in rows]
        except ValueError:
            raise MarketRefusal("invalid", f"{name}: expected {words[name]}.") from None
    table = pl.DataFrame(cells, schema=dict.fromkeys(columns, pl.String))
    codes, problems = read_codes(fields, table, np.arange(len(rows)))
    if problems:
        wrong = problems[0].column
        raise MarketRefusal("invalid", f"{wrong}: expected {words[wrong]}.")
    return np.column_stack([field.clipped(codes[:, place]) for place, field in enumerate(fields)])


def _cell(value: Any) -> str | None:
    """Return a value as the cell of a file; ``ValueError`` for what no cell can hold."""
    if value is None:
        return None
    if not isinstance(value, str | int | float):
        raise ValueError
    text = str(value)
    text.encode()  # half a character cannot be
    return text
