"""Turn answers to a market's questions into bytes of one length, and bytes into what statistics are asked of.

For every statistic only what it needs is written: a number within its public bounds, the place of a category,
yes or no. A person's rows have one width, and those that are not there are written, too. What a value may be
is decided by the market file's questions, here as in the file desk.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.market_file import Market, questions_of
from dpmarket.campaign.questions import Question
from dpmarket.errors import MarketRefusal

_ROW, _NO_ROW = 1, 0


class _Cell(NamedTuple):
    """One number of a row: what one statistic needs of one column."""

    name: str
    question: Question
    column: str


def encode_answers(market: Market, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Write rows of answers as bytes of one length, whatever is in them.

    Parameters
    ----------
    market
        Which statistics are asked, with their public bounds and categories, and how many rows at most.
    rows
        By column: a number, a category, or true or false. As many as the market allows, or fewer.

    Raises
    ------
    MarketRefusal
        Names what is missing or wrong, never a value, nor an unknown name.
    """
    cells, kind = _cells(market), _row(market)
    written = [kind.pack(*_codes(market, cells, row), _ROW) for row in rows]
    return b"".join(written) + _padding(market, market.sellers.rows_per_person - len(rows))


def zero_answers(market: Market) -> bytes:
    """Return the public answers that stand for what cannot be opened: one row.

    The middle of all bounds, the first category, no, and the vector 0.
    """
    middles = [_middle(cell.question) for cell in _cells(market)]
    return _row(market).pack(*middles, _ROW) + _padding(market, market.sellers.rows_per_person - 1)


def decode_answers(market: Market, contents: Sequence[bytes]) -> tuple[dict[str, Any], IntArray]:
    """Return what every statistic is asked of; bytes that :func:`encode_answers` never writes are zero.

    Parameters
    ----------
    market
        As they were encoded for.
    contents
        One for each person.

    Returns
    -------
    tuple
        By the statistic's name what its ``fit`` takes, and the position of each row's person.

    Notes
    -----
    Guaranteed: nothing that is in a record raises an error.
    """
    cells, zero = _cells(market), zero_answers(market)
    kind = np.dtype([("codes", "<f8", (len(cells),)), ("row", "B")])
    shape = (len(contents), market.sellers.rows_per_person)
    whole = b"".join(one if len(one) == len(zero) else zero for one in contents)
    table = np.frombuffer(whole, dtype=kind).reshape(shape).copy()
    there = table["row"] == _ROW
    good = (there | (table["row"] == _NO_ROW)).all(axis=1) & there[:, 0]
    for place, cell in enumerate(cells):
        good &= (_fits(cell.question, table["codes"][:, :, place]) | ~there).all(axis=1)
    table[~good] = np.frombuffer(zero, dtype=kind)
    people, rows = np.nonzero(table["row"] == _ROW)
    codes = np.ascontiguousarray(table[people, rows]["codes"].astype(np.float64))
    columns = {}
    for name, question in questions_of(market).items():
        places = [place for place, cell in enumerate(cells) if cell.name == name]
        columns[name] = _decoded(question, codes[:, places])
    return columns, people.astype(np.int64)


def columns_asked(market: Market) -> list[str]:
    """Return the columns that a market's statistics are asked of, each once."""
    return list(dict.fromkeys(cell.column for cell in _cells(market)))


def _codes(market: Market, cells: Sequence[_Cell], row: Mapping[str, Any]) -> list[float]:
    expected = columns_asked(market)
    if set(row) != set(expected):
        missing = sum(name not in row for name in expected)
        raise MarketRefusal("invalid", f"expected exactly {', '.join(expected)}; {missing} are missing.")
    refuses = market.training.outside_bounds == "refuse"
    found = []
    for cell in cells:
        code = _code(cell.question, row[cell.column])
        # As in a file: the outer bins and candidates hold what lies beyond.
        limits = refuses and cell.question.kind == "mean"
        if code is None or (limits and code != _within(cell.question, code)):
            raise MarketRefusal("invalid", f"{cell.column}: expected {_words(cell.question)}.")
        found.append(_within(cell.question, code))
    if refuses:
        _refuse_long(market, cells, found)
    return found


def _refuse_long(market: Market, cells: Sequence[_Cell], codes: Sequence[float]) -> None:
    """Refuse vectors that are longer than their public bound, where records outside are refused."""
    for name, question in questions_of(market).items():
        if question.kind == "vector_mean":
            vector = [code for cell, code in zip(cells, codes, strict=True) if cell.name == name]
            if math.hypot(*vector) > (question.bound or 0.0) * (1.0 + 2.0**-40):
                raise MarketRefusal(
                    "invalid",
                    f"{', '.join(question.names)}: expected numbers no longer together than "
                    f"{question.bound:g}.",
                )


def _code(question: Question, value: Any) -> float | None:
    """Return the number that a value is written as, before bounds; None if it is not of its kind."""
    if question.kind == "share":
        return float(value) if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not question.has_numbers:
        known = _categories(question)
        text = str(value).strip()
        return float(known.index(text)) if text in known else None
    if isinstance(value, str):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _within(question: Question, code: float) -> float:
    """Return a number moved to the nearer of its public bounds."""
    low, high = _ends(question)
    return min(max(code, low), high)


def _ends(question: Question) -> tuple[float, float]:
    """Return the ends of what is written for a question."""
    if question.kind == "share":
        return 0.0, 1.0
    if question.kind == "vector_mean":  # it is shortened as a whole, when it is asked
        return -math.inf, math.inf
    if not question.has_numbers:
        return 0.0, len(_categories(question)) - 1.0
    return question.ends()


def _fits(question: Question, codes: FloatArray) -> BoolArray:
    """Whether numbers are such as :func:`encode_answers` writes."""
    low, high = _ends(question)
    within = np.isfinite(codes) & (codes >= low) & (codes <= high)
    return np.asarray(within if question.has_numbers else within & (codes == np.rint(codes)))


def _decoded(question: Question, codes: FloatArray) -> Any:
    if question.kind == "vector_mean":
        return codes
    only = codes[:, 0]
    if question.kind == "share":
        return only == 1.0
    if question.has_numbers:
        return only
    known = _categories(question)
    return [known[int(code)] for code in only.tolist()]


def _middle(question: Question) -> float:
    if question.kind == "vector_mean" or not question.has_numbers:
        return 0.0
    low, high = _ends(question)
    return 0.5 * low + 0.5 * high


def _categories(question: Question) -> list[str]:
    return [str(category) for category in question.categories or ()]


def _cells(market: Market) -> list[_Cell]:
    return [
        _Cell(name, question, column)
        for name, question in questions_of(market).items()
        for column in question.names
    ]


def _row(market: Market) -> struct.Struct:
    return struct.Struct(f"<{len(_cells(market))}dB")


def _padding(market: Market, rows: int) -> bytes:
    """Return rows that are not there."""
    return rows * _row(market).pack(*([0.0] * len(_cells(market))), _NO_ROW)


def _words(question: Question) -> str:
    if question.kind == "share":
        return "true or false"
    if not question.has_numbers:
        return "one of the public categories"
    if question.kind == "mean":
        return f"a number from {question.low:g} to {question.high:g}"
    return "a number"
