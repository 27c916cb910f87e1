"""Columns of a table and what is public about them, by declaration: bounds, categories, dates, gaps."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise_norm import NoiseNorm

_CLEARLY = 0.9
_ROOM = 1.0 - 2.0**-30

YES_AND_NO = (
    ("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("j", "n"), ("wahr", "falsch"),
    ("oui", "non"), ("o", "n"), ("vrai", "faux"), ("si", "no"), ("sí", "no"), ("sì", "no"), ("s", "n"),
    ("verdadero", "falso"), ("vero", "falso"), ("sim", "não"), ("verdadeiro", "falso"), ("ja", "nee"),
    ("waar", "onwaar"), ("ja", "nej"), ("ja", "nei"), ("sand", "falsk"), ("tak", "nie"), ("ano", "ne"),
    ("da", "nu"), ("da", "ne"), ("igen", "nem"), ("kyllä", "ei"), ("evet", "hay\u0131r"), ("1", "0"),
)  # fmt: skip
"""Words for yes and no in the languages of tables, in small letters; no word means both."""
_UNKNOWN = -2
TRUTHS = {word: place == 0 for pair in YES_AND_NO for place, word in enumerate(pair)}


class Coded(NamedTuple):
    """One column, coded: a number per record, or a level per record, or both."""

    numbers: FloatArray | None  # in [-1, 1]
    levels: IntArray | None  # the active level, -1 for none
    outside: int  # how many values lay outside of what was declared
    gaps: int  # how many values are missing where nothing is declared for gaps


class _Column:
    """What all kinds share: one public meaning of gaps, and plain data."""

    missing: Any
    missing_category: bool
    has_number: ClassVar[bool] = True

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the columns of 0 and 1."""
        return ("missing",) if self.missing_category else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        given = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}  # type: ignore[arg-type]
        return {name: _jsonable(value) for name, (value, default) in given.items() if value != default}

    def _check_gaps(self) -> None:
        if not isinstance(self.missing_category, bool | np.bool_):
            raise InvalidInput("expected missing_category to be True or False.")
        if self.missing is not None and self.missing_category:
            raise InvalidInput("expected one meaning of a gap: missing or missing_category, not both.")

    def _limited(self, values: FloatArray, low: float, high: float, missing: float | None) -> Coded:
        """Return numbers in [-1, 1]; a gap is in the middle where it is a category of its own."""
        outside, gaps = int(((values < low) | (values > high)).sum()), np.isnan(values)
        middle = low + (high - low) / 2.0
        filled = np.where(gaps, middle if missing is None else missing, values)
        mapped = (np.clip(filled, low, high) - low) * (2.0 / (high - low)) - 1.0
        levels = np.where(gaps, 0, -1).astype(np.int64) if self.missing_category else None
        refused = 0 if self.missing_category or missing is not None else int(gaps.sum())
        return Coded(np.clip(mapped, -1.0, 1.0), levels, outside, refused)

    def _leveled(self, values: Any, places: Mapping[Any, int], own: int, other: int | None) -> Coded:
        """Return levels by their places; ``own`` is that of gaps as a category, ``other`` of other values."""
        gap = None
        if self.missing is not None:
            gap = places[_plain(self.missing)]
        elif self.missing_category:
            gap = own
        try:
            found = np.array([places.get(value, _UNKNOWN) for value in values], dtype=np.int64)
        except TypeError:
            raise InvalidInput("expected texts, numbers or gaps, found something else.") from None
        unknown = np.flatnonzero(found == _UNKNOWN)
        gaps = np.zeros(found.size, dtype=np.bool_)
        gaps[unknown] = [_is_gap(values[place]) for place in unknown]
        outside = (found == _UNKNOWN) & ~gaps
        found[outside] = -1 if other is None else other
        found[gaps] = -1 if gap is None else gap
        return Coded(None, found, int((outside & (other is None)).sum()), int((gaps & (gap is None)).sum()))


@dataclass(frozen=True)
class Numbers(_Column):
    """A column of numbers with public bounds.

    Parameters
    ----------
    low, high
        Public bounds in the column's own unit, low < high; values beyond are outside.
    missing
        The public value that stands for a gap; None if gaps are refused.
    missing_category
        Whether a gap is a category of its own: a column of 0 and 1 beside the number, which is then in the
        middle of its bounds.

    Examples
    --------
    >>> Numbers(0.0, 100.0, missing=50.0).coded([75.0, None, 300.0]).numbers.tolist()
    [0.5, 0.0, 1.0]
    """

    low: float
    high: float
    missing: float | None = None
    missing_category: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high") if self.missing is None else ("low", "high", "missing"):
            object.__setattr__(self, name, checks.finite(name, getattr(self, name)))
        if not self.low < self.high or not np.isfinite(self.high - self.low):
            raise InvalidInput(f"expected low < high, got low={self.low!r}, high={self.high!r}.")
        self._check_gaps()

    def coded(self, values: Any) -> Coded:
        """Return numbers in [-1, 1]; see :class:`Coded`."""
        return self._limited(_numbers_of(values), self.low, self.high, self.missing)


@dataclass(frozen=True)
class Dates(_Column):
    """A column of dates with public bounds.

    Parameters
    ----------
    first, last
        Public bounds, dates or texts such as "2020-12-31", first < last.
    missing, missing_category
        As for :class:`Numbers`, a date.

    Examples
    --------
    >>> Dates("2000-01-01", "2000-01-11").coded(["2000-01-06", "2000-01-01"]).numbers.tolist()
    [0.0, -1.0]
    """

    first: Any
    last: Any
    missing: Any = None
    missing_category: bool = False

    def __post_init__(self) -> None:
        for name in ("first", "last") if self.missing is None else ("first", "last", "missing"):
            object.__setattr__(self, name, _date(name, getattr(self, name)))
        if not self.first < self.last:
            raise InvalidInput(f"expected first < last, got first={self.first}, last={self.last}.")
        self._check_gaps()

    def coded(self, values: Any) -> Coded:
        """Return numbers in [-1, 1], proportional to days; see :class:`Coded`."""
        days = [math.nan if _is_gap(value) else _date("values", value).toordinal() for value in values]
        low, high = float(self.first.toordinal()), float(self.last.toordinal())
        missing = None if self.missing is None else float(self.missing.toordinal())
        return self._limited(np.array(days, dtype=np.float64), low, high, missing)


@dataclass(frozen=True)
class Categories(_Column):
    """A column with public categories: one column of 0 and 1 for each.

    Parameters
    ----------
    categories
        The values that may occur, texts or numbers, each once.
    other
        Whether all other values together are one more category. If not, they are outside, and a record that
        has one has no active category.
    missing, missing_category
        As for :class:`Numbers`, one of the categories.

    Examples
    --------
    >>> Categories(["low", "high"], other=True).coded(["high", "low", "odd"]).levels.tolist()
    [1, 0, 2]
    """

    categories: tuple[Any, ...]
    other: bool = False
    missing: Any = None
    missing_category: bool = False
    has_number: ClassVar[bool] = False

    def __post_init__(self) -> None:
        given: Any = self.categories
        if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
            raise InvalidInput("expected categories to be a list of values.")
        levels = tuple(_plain(value) for value in given)
        if not levels or len(set(levels)) != len(levels) or any(_is_gap(value) for value in levels):
            raise InvalidInput(f"expected categories that differ, none of them missing, got {len(levels)}.")
        if self.missing is not None and _plain(self.missing) not in levels:
            raise InvalidInput("expected missing to be one of the categories; or use missing_category.")
        self._check_gaps()
        object.__setattr__(self, "categories", levels)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the columns of 0 and 1."""
        extra = (("other",) if self.other else ()) + (("missing",) if self.missing_category else ())
        return tuple(str(value) for value in self.categories) + extra

    def coded(self, values: Any) -> Coded:
        """Return the active level of every record; see :class:`Coded`."""
        places = {value: place for place, value in enumerate(self.categories)}
        count = len(places)
        return self._leveled(values, places, count + int(self.other), count if self.other else None)


@dataclass(frozen=True)
class YesNo(_Column):
    """A column that is true or false: one column of 0 and 1.

    Read are truths, 1 and 0, and words for yes and no in several languages, in capitals or not
    (:data:`YES_AND_NO`). Other texts are refused: none of them means "no".

    Parameters
    ----------
    missing, missing_category
        As for :class:`Numbers`, one of the two.

    Examples
    --------
    >>> YesNo().coded([True, 0, 1, "Yes", "no"]).levels.tolist()
    [0, -1, 0, 0, -1]
    """

    missing: bool | None = None
    missing_category: bool = False
    has_number: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.missing is not None and not isinstance(self.missing, bool | np.bool_):
            raise InvalidInput("expected missing to be True, False or None.")
        self._check_gaps()

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the columns of 0 and 1."""
        return ("yes", "missing") if self.missing_category else ("yes",)

    def coded(self, values: Any) -> Coded:
        """Return 0 (the level "yes") where true and -1 (no level) where false; see :class:`Coded`."""
        values = [value.strip().lower() if isinstance(value, str) else value for value in values]
        if any(isinstance(value, str) and value not in TRUTHS for value in values):
            raise InvalidInput("expected true or false, yes or no, ja or nein, 1 or 0; found other texts.")
        truths = [TRUTHS[value] if isinstance(value, str) else value for value in values]
        return self._leveled(truths, {True: 0, False: -1}, 1, None)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        return {"boolean": True} | super().to_dict()


Column = Numbers | Dates | Categories | YesNo
_KINDS: tuple[tuple[type[Any], set[str]], ...] = (
    (Numbers, {"low", "high"}), (Dates, {"first", "last"}), (Categories, {"categories"}),
    (YesNo, {"boolean"}),
)  # fmt: skip


def column_from(name: str, declared: Any) -> Column:
    """Return a column from a declaration: a column already, or the plain data of ``to_dict``."""
    if isinstance(declared, Numbers | Dates | Categories | YesNo):
        return declared
    if isinstance(declared, Mapping):
        for kind, needed in _KINDS:
            if needed <= set(declared):
                settings = {key: value for key, value in declared.items() if key != "boolean"}
                try:
                    return kind(**settings)  # type: ignore[no-any-return]
                except TypeError:
                    raise InvalidInput(f"expected known settings for the column {name!r}.") from None
                except InvalidInput as error:
                    raise InvalidInput(f"column {name!r}: {error}") from None
    raise InvalidInput(
        f"expected the column {name!r} to have low and high, first and last, categories, or boolean = true."
    )


def _numbers_of(values: Any) -> FloatArray:
    """Return floats, NaN for gaps."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
    else:
        try:
            numbers = np.array([math.nan if _is_gap(value) else float(value) for value in values])
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput("expected numbers, found something else.") from None
    if bool(np.isinf(numbers).any()):
        raise InvalidInput("expected finite numbers, found infinite ones.")
    return numbers


def _date(name: str, value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    try:
        if isinstance(value, np.datetime64):
            found = value.astype("datetime64[D]").item()
            if isinstance(found, datetime.date):
                return found
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"expected {name} to be dates such as 2020-12-31.") from None


def _is_gap(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True  # pandas' NA, which compares with nothing


def _plain(value: Any) -> Any:
    """Return a value of numpy as Python's own, so that declarations survive JSON."""
    return value.item() if isinstance(value, np.generic) else value


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else _plain(value)


def row_scale(columns: Mapping[str, Column], radius: float) -> tuple[NoiseNorm, float]:
    r"""Return the norm with the least noise for these columns, and what every row is multiplied by.

    The noise has the mean square :math:`B R^2 / (\sum \epsilon)^2`, R the longest row's length: for m numbers
    of length r and K groups of categories :math:`\sqrt{r^2 + K}` in the Euclidean norm, else :math:`r + K`,
    or :math:`\sqrt{m}\, r + K` in the sum of absolute values. Another norm must be clearly better.
    """
    numbers = [number for _, number in features_of(columns)]
    groups = sum(bool(column.levels) for column in columns.values())
    m, n = sum(numbers), len(numbers)
    length = min(radius, math.sqrt(m))  # what numbers in [-1, 1] can reach at most
    euclidean = math.sqrt(length * length + groups)
    levels = [not number for number in numbers]
    norm, largest = NoiseNorm.euclidean(n, constant=1.0), euclidean
    least = _CLEARLY * math.sqrt(norm.power) * euclidean
    for separate, longest in ((levels, length + groups), ([True] * n, math.sqrt(m) * length + groups)):
        other = NoiseNorm(separate, min(1.0, euclidean / longest), constant=1.0)
        if any(separate) and math.sqrt(other.power) * longest < least:
            norm, largest, least = other, longest, math.sqrt(other.power) * longest
    return NoiseNorm(norm.separate, norm.euclidean_bound), _ROOM / largest


def features_of(columns: Mapping[str, Column]) -> list[tuple[str, bool]]:
    """Return the names of the encoded columns, and whether each is a number."""
    found = []
    for name, column in columns.items():
        if column.has_number:
            found.append((name, True))
        found.extend((f"{name}={level}", False) for level in column.levels)
    return found
