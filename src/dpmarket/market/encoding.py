"""Turn a record into bytes of one length, whatever is in it, and bytes into rows to train on.

A length would tell a category, a gap, or how many rows somebody has. So every value is written as one number,
every row with its label in one width, and every record as so many rows as the market allows, those that are
not there included. What a value may be is decided by the columns of the market's public encoder, here as in
the file desk. Of markets that ask for statistics the answers are written (:mod:`dpmarket.market.answers`).
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.features import columns_of_market, is_plain
from dpmarket.campaign.market_file import Market, label_of, questions_of
from dpmarket.errors import InvalidInput, MarketRefusal
from dpmarket.learning.columns import Categories, Column, Dates, Numbers, YesNo
from dpmarket.market.answers import encode_answers, zero_answers

Record = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""What somebody delivers: one row by the names of its columns, or several of them."""

_UNKNOWN = -1.0  # the place of a category that is none of the public ones
_NO_CATEGORY = "\0"  # stands for it where texts are expected; no market file can name it
_NO_ROW = 0xFFFF  # in the place of a label, which is below 256


def encode_record(market: Market, values: Record) -> bytes:
    """Write a record as bytes of one length, whatever is in it.

    Parameters
    ----------
    market
        Which features, bounds, categories and labels to expect, and how many rows at most.
    values
        By name, for every feature a number, a text of a category or a date such as 2020-12-31, true or false,
        or None where gaps are declared; and one of the labels. For statistics what they are asked of, and no
        label. Several rows are a list of such.

    Raises
    ------
    MarketRefusal
        Names what is missing or wrong, never a value, nor an unknown name.
    """
    most = market.sellers.rows_per_person
    rows = [values] if isinstance(values, Mapping) else list(values)
    if not 1 <= len(rows) <= most or not all(isinstance(row, Mapping) for row in rows):
        expected = "one row" if most == 1 else f"from 1 to {most} rows"
        raise MarketRefusal("invalid", f"expected a record of {expected}.")
    if questions_of(market):
        return encode_answers(market, rows)
    columns, kind = columns_of_market(market), _row(market)
    written = [kind.pack(*_codes(market, columns, row), _label(market, row)) for row in rows]
    return b"".join(written) + _padding(market, most - len(rows))


def zero_record(market: Market) -> bytes:
    """Return the public record that stands for one that cannot be opened.

    One row, with the middle of all bounds, no public category, what is true or false false, and the first
    label. Of statistics see :func:`~dpmarket.market.answers.zero_answers`.
    """
    if questions_of(market):
        return zero_answers(market)
    middles = [_middle(column) for column in columns_of_market(market).values()]
    return _row(market).pack(*middles, 0) + _padding(market, market.sellers.rows_per_person - 1)


def decode_records(market: Market, contents: Sequence[bytes]) -> tuple[Any, IntArray, IntArray]:
    """Return the rows of records, ready to train on; one that :func:`encode_record` never writes is zero.

    Parameters
    ----------
    market
        As they were encoded for: one that trains a model.
    contents
        One for each person.

    Returns
    -------
    tuple
        Numbers, shape (rows, features), or rows of the public encoder; the number of each row's label, from
        0; and the position of its person.

    Notes
    -----
    Guaranteed: nothing that is in a record raises an error.
    """
    columns, zero = columns_of_market(market), zero_record(market)
    kind = np.dtype([("codes", "<f8", (len(columns),)), ("label", f"<{_label_kind(market)}")])
    shape = (len(contents), market.sellers.rows_per_person)
    whole = b"".join(one if len(one) == len(zero) else zero for one in contents)
    table = np.frombuffer(whole, dtype=kind).reshape(shape).copy()
    there = table["label"] != _NO_ROW
    good = ((table["label"] < len(label_of(market).values)) | ~there).all(axis=1) & there[:, 0]
    for place, column in enumerate(columns.values()):
        good &= (_fits(column, table["codes"][:, :, place]) | ~there).all(axis=1)
    table[~good] = np.frombuffer(zero, dtype=kind)
    people, rows = np.nonzero(table["label"] != _NO_ROW)
    chosen = table[people, rows]
    codes = np.ascontiguousarray(chosen["codes"].astype(np.float64))
    features = codes if is_plain(market) else _encoded(market, columns, codes)
    return features, chosen["label"].astype(np.int64), people.astype(np.int64)


def _encoded(market: Market, columns: Mapping[str, Column], codes: FloatArray) -> Any:
    from dpmarket.learning import PublicEncoder  # takes scikit-learn along, which most acts do not need

    values = {
        name: [_decoded(column, code) for code in codes[:, place].tolist()]
        for place, (name, column) in enumerate(columns.items())
    }
    # What lies outside was refused or clipped when it came; the public row is never refused.
    return PublicEncoder(columns, outside="clip", radius=market.training.radius).fit_transform(values)


def _codes(market: Market, columns: Mapping[str, Column], row: Mapping[str, Any]) -> list[float]:
    """Return a row's values as numbers, checked by what is declared about each."""
    expected = [*columns, label_of(market).column]
    if set(row) != set(expected):
        missing = sum(name not in row for name in expected)
        raise MarketRefusal("invalid", f"expected exactly {', '.join(expected)}; {missing} are missing.")
    found = []
    for name, column in columns.items():
        value, words = row[name], _WORDS[type(column)](column)
        if not _is_of_kind(column, value):
            raise MarketRefusal("invalid", f"{name}: expected {words}.")
        if isinstance(value, str) or (isinstance(column, Categories) and value is not None):
            value = str(value).strip() or None  # as in a file, where an empty cell is a gap
        try:
            coded = column.coded([value])
        except (InvalidInput, OverflowError):
            raise MarketRefusal("invalid", f"{name}: expected {words}.") from None
        if coded.gaps or (coded.outside and market.training.outside_bounds == "refuse"):
            raise MarketRefusal("invalid", f"{name}: expected {words}.")
        found.append(_code(column, value))
    return found


def _label(market: Market, row: Mapping[str, Any]) -> int:
    label, values = row[label_of(market).column], label_of(market).values
    if type(label) is not type(values[0]) or label not in values:
        raise MarketRefusal("invalid", f"{label_of(market).column}: expected one of the labels.")
    return list(values).index(label)


def _is_of_kind(column: Column, value: Any) -> bool:
    """Whether a value is of the kind that a column takes, or a gap."""
    if value is None:
        return True
    if isinstance(column, YesNo):
        return isinstance(value, bool)
    if isinstance(column, Dates):
        return isinstance(value, str)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(column, Categories):
        return isinstance(value, str) or is_number
    try:
        return is_number and math.isfinite(value)
    except OverflowError:
        return False


def _code(column: Column, value: Any) -> float:
    """Return the number that a checked value is written as; NaN for a gap."""
    if value is None:
        return math.nan
    if isinstance(column, YesNo):
        return float(value)
    if isinstance(column, Categories):
        known = column.categories
        return float(known.index(value)) if value in known else _UNKNOWN
    low, high = _ends(column)
    number = datetime.date.fromisoformat(value).toordinal() if isinstance(column, Dates) else value
    return min(max(float(number), low), high)


def _decoded(column: Column, code: float) -> Any:
    """Return a value that the encoder takes for a number that :func:`_code` wrote."""
    if math.isnan(code):
        return None
    if isinstance(column, YesNo):
        return code == 1.0
    if isinstance(column, Categories):
        return _NO_CATEGORY if code == _UNKNOWN else column.categories[int(code)]
    return datetime.date.fromordinal(int(code)) if isinstance(column, Dates) else code


def _fits(column: Column, codes: FloatArray) -> BoolArray:
    """Whether numbers are such as :func:`_code` writes."""
    gaps = np.isnan(codes) & (column.missing is not None or column.missing_category)
    if isinstance(column, Numbers):
        low, high = _ends(column)
        return np.asarray(gaps | ((codes >= low) & (codes <= high)))
    if isinstance(column, YesNo):
        return np.asarray(gaps | (codes == 0.0) | (codes == 1.0))
    low, high = _ends(column) if isinstance(column, Dates) else (_UNKNOWN, len(column.categories) - 1.0)
    return np.asarray(gaps | ((codes >= low) & (codes <= high) & (codes == np.rint(codes))))


def _middle(column: Column) -> float:
    if isinstance(column, YesNo):
        return 0.0
    if isinstance(column, Categories):
        return _UNKNOWN
    low, high = _ends(column)
    return float(int(low + high) // 2) if isinstance(column, Dates) else (low + high) / 2


def _ends(column: Numbers | Dates) -> tuple[float, float]:
    if isinstance(column, Numbers):
        return column.low, column.high
    return float(column.first.toordinal()), float(column.last.toordinal())


def _label_kind(market: Market) -> str:
    """Return how a label is written: a byte holds all of them, two bytes also that there is no row."""
    return "B" if market.sellers.rows_per_person == 1 else "H"


def _row(market: Market) -> struct.Struct:
    return struct.Struct(f"<{len(market.features)}d{_label_kind(market)}")


def _padding(market: Market, rows: int) -> bytes:
    """Return rows that are not there; none where everybody has one row."""
    return rows * _row(market).pack(*([0.0] * len(market.features)), _NO_ROW) if rows else b""


def _or_gap(column: Column, words: str) -> str:
    return f"{words}, or nothing" if column.missing is not None or column.missing_category else words


_WORDS: dict[type[Any], Any] = {
    Numbers: lambda column: _or_gap(column, f"a number from {column.low:g} to {column.high:g}"),
    Dates: lambda column: _or_gap(column, f"a date from {column.first} to {column.last}"),
    Categories: lambda column: _or_gap(column, "one of the public categories"),
    YesNo: lambda column: _or_gap(column, "true or false"),
}
