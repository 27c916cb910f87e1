"""Records as bytes of one length, whatever is in them, and bytes as records.

A length would tell a category, a gap, or how many rows somebody has. So every field is written as one number,
every row in one width with a byte that says whether it is there, and every record as so many rows as the
rules allow. What a value may be is decided by the fields of the rules, for forms as for files.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmarket.campaign.rules.columns import (
    Field,
    Records,
    columns_asked,
    fields_of,
    long_vectors,
    records_of,
)
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.errors import MarketRefusal

Record = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""What somebody delivers: one row by the names of its columns, or several of them."""


def record_bytes(rules: Rules) -> int:
    """Return the one length of all records."""
    return _row(rules).size * rules.sellers.rows_per_person


def encode_record(rules: Rules, values: Record) -> bytes:
    """Write a record as bytes of one length, whatever is in it.

    ``values`` has, by column, a number, a text of a category or a date such as 2020-12-31, true or false, or
    None where gaps are declared; and one of the labels, or the target. What is missing or wrong is refused by
    its column, never by a value or an unknown name.
    """
    most = rules.sellers.rows_per_person
    rows = [values] if isinstance(values, Mapping) else list(values)
    if not 1 <= len(rows) <= most or not all(isinstance(row, Mapping) for row in rows):
        expected = "one row" if most == 1 else f"from 1 to {most} rows"
        raise MarketRefusal("invalid", f"expected a record of {expected}.")
    fields, kind = fields_of(rules), _row(rules)
    written = [kind.pack(*_codes(rules, fields, row), 1) for row in rows]
    return b"".join(written) + (most - len(rows)) * kind.pack(*([0.0] * len(fields)), 0)


def zero_record(rules: Rules) -> bytes:
    """Return the public record for one that cannot be opened: one row of middles and first levels."""
    fields, kind = fields_of(rules), _row(rules)
    empty = kind.pack(*([0.0] * len(fields)), 0)
    row = kind.pack(*(field.middle for field in fields), 1)
    return row + empty * (rules.sellers.rows_per_person - 1)


def decode_records(rules: Rules, contents: Sequence[bytes | None]) -> Records:
    """Return the records of some people, one content each; what :func:`encode_record` never writes is zero.

    Guaranteed: nothing that is in a record raises an error.
    """
    fields, zero = fields_of(rules), zero_record(rules)
    kind = np.dtype([("codes", "<f8", (len(fields),)), ("row", "B")])
    shape = (len(contents), rules.sellers.rows_per_person)
    whole = b"".join(one if one is not None and len(one) == len(zero) else zero for one in contents)
    table = np.frombuffer(whole, dtype=kind).reshape(shape).copy()
    there = table["row"] == 1
    good = (there | (table["row"] == 0)).all(axis=1) & there[:, 0]
    for place, field in enumerate(fields):
        good &= (field.fits(table["codes"][:, :, place]) | ~there).all(axis=1)
    table[~good] = np.frombuffer(zero, dtype=kind)
    people, rows = np.nonzero(table["row"] == 1)
    codes = np.ascontiguousarray(table[people, rows]["codes"].astype(np.float64))
    return records_of(fields, codes, people.astype(np.int64))


def _codes(rules: Rules, fields: Sequence[Field], row: Mapping[str, Any]) -> list[float]:
    expected = columns_asked(rules)
    if set(row) != set(expected):
        missing = sum(name not in row for name in expected)
        raise MarketRefusal("invalid", f"expected exactly {', '.join(expected)}; {missing} are missing.")
    found = []
    for field in fields:
        code = field.code(row[field.column])
        refused = field.outside == "refuse" and code is not None and field.is_outside(np.array([code]))[0]
        if code is None or refused:
            raise MarketRefusal("invalid", f"{field.column}: expected {field.words}.")
        found.append(float(field.clipped(np.array([code]))[0]))
    for question, beyond in long_vectors(rules, fields, np.array([found])):
        if beyond[0]:
            words = f"expected numbers no longer together than {question.bound:g}."
            raise MarketRefusal("invalid", f"{', '.join(question.names)}: {words}")
    return found


def _row(rules: Rules) -> struct.Struct:
    return struct.Struct(f"<{len(fields_of(rules))}dB")
