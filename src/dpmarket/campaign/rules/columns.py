"""What one record is: a list of fields, each of which is written as one number.

A cell of a file, a value of a form and eight bytes of a sealed record become the same number, and the number
becomes what an estimator takes. What a field may hold is declared by the rules alone.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.rules.questions import Question
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.files import ColumnProblem, dates_of, find, numbers_of
from dpmarket.learning.columns import TRUTHS, Categories, Column, Dates, Numbers, column_from, row_scale
from dpmarket.progress import tell_reading

if TYPE_CHECKING:
    from dpmarket.learning import PublicEncoder
    from dpmarket.privacy import Loss, NoiseNorm

OUTCOME = "\0outcome"  # the name of the field with the label or target; no column can be called so
UNKNOWN = -1.0  # the code of a category that is none of the public ones
NO_CATEGORY = "\0"  # stands for it where an encoder takes texts; no rules can name it
_TRUTHS = {word: float(truth) for word, truth in TRUTHS.items()}
_NO_LEVEL = "none of the public categories"
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Field:
    """One number of a record.

    ``name`` is what it belongs to: a feature, :data:`OUTCOME` or a statistic. ``kind`` is ``number``,
    ``date``, ``choice`` or ``truth``. Codes lie between ``low`` and ``high``: bounds, ordinals of dates,
    places of ``levels``. ``gaps`` and ``unknown`` say whether it may be empty, and whether other values than
    the levels are a category of their own. ``outside`` moves (``clip``) or refuses (``refuse``) what lies
    outside; ``take`` (of outer bins, and of vectors, which are shortened as a whole) is no problem at all.
    """

    name: str
    column: str
    kind: str
    low: float
    high: float
    levels: tuple[Any, ...] = ()
    gaps: bool = False
    unknown: bool = False
    outside: str = "clip"

    @property
    def words(self) -> str:
        """What is expected, for a sentence to somebody who fills it in."""
        if self.kind == "truth":
            words = "true or false"
        elif self.kind == "choice":
            words = "one of the labels" if self.name == OUTCOME else "one of the public categories"
        elif self.kind == "date":
            words = f"a date from {_date(self.low)} to {_date(self.high)}"
        else:
            words = "a number" if math.isinf(self.low) else f"a number from {self.low:g} to {self.high:g}"
        return f"{words}, or nothing" if self.gaps else words

    @property
    def middle(self) -> float:
        """The code of the public value that stands for a record that cannot be opened."""
        if self.kind == "truth" or math.isinf(self.low):
            return 0.0
        if self.kind == "choice":
            return UNKNOWN if self._has_unknown else 0.0
        middle = 0.5 * self.low + 0.5 * self.high
        return float(math.floor(middle)) if self.kind == "date" else middle

    @property
    def _has_unknown(self) -> bool:
        """Whether it is a feature's choice, whose other values have a code: none of the public levels."""
        return self.kind == "choice" and self.name != OUTCOME and self.outside != "take"

    def read(self, table: pl.DataFrame, rows: IntArray) -> tuple[FloatArray, list[ColumnProblem]]:
        """Return the codes of a column's cells, NaN for gaps, and everything that is wrong with them."""
        cells = table.get_column(self.column).gather(rows)
        blank = cells.is_null()
        if cells.dtype == pl.String:
            blank |= cells.str.strip_chars() == ""
        empty = blank.to_numpy()
        codes = np.full(rows.size, np.nan)
        if self.kind == "number":
            codes[~empty], problems = numbers_of(table, self.column, rows[~empty])
        else:
            codes[~empty], words = self.coded(cells.filter(~empty).str.strip_chars())
            problems = find(self.column, words, np.isnan(codes[~empty]), rows[~empty])
        if not self.gaps:
            problems += find(self.column, "an empty cell", empty, rows)
        if self.outside == "refuse":
            words = f"a {'date' if self.kind == 'date' else 'value'} outside the public bounds"
            words = _NO_LEVEL if self.kind == "choice" else words
            problems += find(self.column, words, self.is_outside(codes), rows)
        return codes, problems

    def coded(self, texts: pl.Series) -> tuple[FloatArray, str]:
        """Return codes of texts, NaN for texts without one, and what to say about these."""
        words = _NO_LEVEL
        if self.kind == "date":
            dates, is_day_first = dates_of(texts)
            if is_day_first:
                tell_reading(f"Dates in {self.column!r} were read with the day first.")
            found = dates.cast(pl.Int32).cast(pl.Float64) + _FIRST_DAY
            words = "no date such as 2020-12-31 or 31.12.2020"
        elif self.kind == "truth":
            found = texts.str.to_lowercase().replace_strict(_TRUTHS, default=None, return_dtype=pl.Float64)
            words = "neither true nor false (yes or no, ja or nein, 1 or 0)"
        else:
            whole = self.name == OUTCOME and isinstance(self.levels[0], int)
            cells = texts.cast(pl.Float64, strict=False) if whole else texts
            levels = map(float, self.levels) if whole else self.levels
            places = {level: float(place) for place, level in enumerate(levels)}
            found = cells.replace_strict(places, default=None, return_dtype=pl.Float64)
            if self._has_unknown:
                found = found.fill_null(UNKNOWN)
            if self.name == OUTCOME:
                words = "neither of the two labels" if len(self.levels) == 2 else "none of the labels"
        return np.array(found.fill_null(np.nan)), words

    def is_outside(self, codes: FloatArray) -> BoolArray:
        """Whether codes lie outside of what is declared: bounds, or the public levels."""
        if self.outside == "take":
            return np.zeros(codes.shape, dtype=bool)
        with np.errstate(invalid="ignore"):
            beyond = (codes < self.low) | (codes > self.high)
        return beyond & (codes != UNKNOWN) if self.unknown else beyond

    def clipped(self, codes: FloatArray) -> FloatArray:
        """Return codes moved to the nearer bound; gaps and unknown categories stay."""
        if self.kind == "choice":
            return codes
        return np.clip(codes, self.low, self.high)

    def fits(self, codes: FloatArray) -> BoolArray:
        """Whether codes are such as :func:`~dpmarket.campaign.rules.encoding.encode_record` writes."""
        low = UNKNOWN if self._has_unknown else self.low
        with np.errstate(invalid="ignore"):
            within = np.isfinite(codes) & (codes >= low) & (codes <= self.high)
            if self.kind != "number":
                within &= codes == np.rint(codes)
        return np.asarray(within | (np.isnan(codes) & self.gaps))

    def values(self, codes: FloatArray) -> Any:
        """Return what an encoder or a statistic takes for codes."""
        if self.name == OUTCOME and self.kind == "choice":
            return codes.astype(np.int64)
        if self.kind in ("number", "truth") and not self.gaps:
            return codes if self.kind == "number" else codes == 1.0
        levels = (*self.levels, NO_CATEGORY)  # the last for UNKNOWN, which is -1
        decode: Any = {"number": float, "truth": bool, "date": _date}.get(self.kind)
        decode = decode or (lambda code: levels[int(code)])
        return [None if math.isnan(code) else decode(code) for code in codes.tolist()]


def _date(code: float) -> datetime.date:
    return datetime.date.fromordinal(int(code))


def fields_of(rules: Rules) -> list[Field]:
    """Return the fields of a record, in the order in which they are written."""
    outside, asked = rules.training.outside_bounds, rules.statistics.items()
    found = feature_fields(declared_columns(rules), outside)
    found += [field for name, question in asked for field in _question_fields(name, question, outside)]
    if rules.target is not None:
        target = rules.target
        found.append(Field(OUTCOME, target.column, "number", target.low, target.high, outside=outside))
    if rules.label is not None:
        levels = tuple(rules.label.values)
        found.append(Field(OUTCOME, rules.label.column, "choice", 0.0, len(levels) - 1.0, levels))
    return found


def feature_fields(columns: Mapping[str, Any], outside: str) -> list[Field]:
    """Return the fields of features, as rules or a released model's encoder declare them."""
    found = []
    for name, declared in columns.items():
        column = column_from(name, declared)
        kind, ends, levels = "truth", (0.0, 1.0), ()
        if isinstance(column, Numbers):
            kind, ends = "number", (column.low, column.high)
        elif isinstance(column, Dates):
            kind, ends = "date", (float(column.first.toordinal()), float(column.last.toordinal()))
        elif isinstance(column, Categories):
            kind, ends, levels = "choice", (0.0, len(column.categories) - 1.0), column.categories
        gaps = column.missing is not None or column.missing_category
        found.append(Field(name, name, kind, *ends, levels, gaps, getattr(column, "other", False), outside))
    return found


def _question_fields(name: str, question: Question, outside: str) -> list[Field]:
    if question.kind == "share":
        return [Field(name, question.column, "truth", 0.0, 1.0, outside="take")]
    if not question.has_numbers:
        levels = tuple(str(category) for category in question.categories or ())
        return [Field(name, question.column, "choice", 0.0, len(levels) - 1.0, levels, outside="take")]
    if question.kind == "vector_mean":  # it is shortened as a whole
        ends = (-math.inf, math.inf)
        return [Field(name, column, "number", *ends, outside="take") for column in question.names]
    field = Field(name, question.column, "number", *question.ends(), outside=outside)
    return [field if question.kind == "mean" else replace(field, outside="take")]


@dataclass(frozen=True, eq=False)
class Records:
    """Rows of the people who sell, ready for a release. Private.

    ``owners`` are the places of the rows' owners among the sellers; ``columns`` has by name what is fitted;
    ``clipped`` counts by column the values that lay outside, for the data holder's eyes.
    """

    owners: IntArray
    columns: dict[str, Any]
    clipped: dict[str, int]


def records_of(fields: Sequence[Field], codes: FloatArray, owners: IntArray) -> Records:
    """Return records from codes of shape (rows, fields), and count and clip what lies outside."""
    parts: dict[str, list[Any]] = {}
    clipped: dict[str, int] = {}
    for place, field in enumerate(fields):
        own = codes[:, place]
        beyond = int(field.is_outside(own).sum())
        if beyond:
            clipped[field.column] = clipped.get(field.column, 0) + beyond
        parts.setdefault(field.name, []).append(field.values(field.clipped(own)))
    columns = {name: part[0] if len(part) == 1 else np.column_stack(part) for name, part in parts.items()}
    return Records(owners, columns, clipped)


def declared_columns(rules: Rules) -> dict[str, Column]:
    """Return what is declared about each feature."""
    return {name: bounds.column(name) for name, bounds in rules.features.items()}


def encoder_of(rules: Rules) -> PublicEncoder:
    """Return the public encoder of the features; values outside were counted and clipped before."""
    from dpmarket.learning import PublicEncoder  # takes scikit-learn along, which most commands do not need

    return PublicEncoder(declared_columns(rules), radius=rules.training.radius)


def norm_of(rules: Rules) -> NoiseNorm:
    """Return the noise norm, the bounds on rows and the constant column of the model."""
    from dpmarket.privacy.noise_norm import NoiseNorm, suggested_constant

    norm, _ = row_scale(declared_columns(rules), rules.training.radius)
    constant = suggested_constant(norm.separate, norm.euclidean_bound)
    return NoiseNorm(norm.separate, norm.euclidean_bound, constant)


def loss_of(rules: Rules) -> Loss:
    """Return the loss of the model: logistic, softmax for more than two labels, log-cosh or pinball."""
    from dpmarket.privacy import Softmax, log_cosh_loss, logistic_loss, quantile_loss

    if rules.target is not None:
        share = rules.target.quantile
        return log_cosh_loss(0.3) if share is None else quantile_loss(share)
    assert rules.label is not None
    classes = len(rules.label.values)
    return logistic_loss() if classes == 2 else Softmax(classes)


def stated_loss(rules: Rules) -> dict[str, Any]:
    """Return what is public about the loss, as a release states it."""
    if rules.training.model is None:
        return loss_of(rules).to_dict()
    return {
        "kind": "torch",
        "classes": None if rules.label is None else len(rules.label.values),
        "model": rules.training.model,
        "code": rules.training.code,
    }


def columns_by_type(fields: Sequence[Field]) -> tuple[list[str], list[str]]:
    """Return the columns that are read from files as texts, and those that are read as numbers."""
    texts = dict.fromkeys(field.column for field in fields if field.kind != "number")
    return list(texts), list(dict.fromkeys(field.column for field in fields if field.column not in texts))


def read_codes(
    fields: Sequence[Field], table: pl.DataFrame, rows: IntArray
) -> tuple[FloatArray, list[ColumnProblem]]:
    """Return the codes of a table's rows, shape (rows, fields), and everything that is wrong with them."""
    codes = np.empty((rows.size, len(fields)))
    problems: list[ColumnProblem] = []
    for place, field in enumerate(fields):
        codes[:, place], found = field.read(table, rows)
        problems += [one for one in found if one not in problems]  # two statistics may ask one column
    return codes, problems
