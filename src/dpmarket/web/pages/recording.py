"""Make the form of a record from what the market file declares, and read it back, field by field.

Every kind of column has its own field: a number, a date, a choice, yes or no; a gap is offered where the
market file says what a gap means. What the browser checks is checked here again, and once more by the desk.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from dpmarket.campaign.features import columns_of_market
from dpmarket.campaign.market_file import Market, label_of, questions_of
from dpmarket.campaign.questions import Question
from dpmarket.learning.columns import Categories, Column, Dates, Numbers, YesNo
from dpmarket.web.pages.forms import Form, number_in

OTHER = "__other__"
"""What a form sends for something else than the public categories."""
FIRST_ROWS, MORE_ROWS = 4, 8
"""How many rows a form shows at first, and how many are added when there is no room left."""
_FIELDS = 1_900  # of a form, in all


@dataclass(frozen=True)
class Field:
    """One question of the form.

    Attributes
    ----------
    id
        The field's name in the form; the column's own name may be anything.
    name
        The column.
    kind
        ``number``, ``date``, ``choice`` or ``truth``: which texts it is asked with.
    low, high
        Public bounds of numbers and dates, as the form writes them; empty for others.
    limits
        Whether what lies outside is refused; otherwise it counts as the bound.
    options
        Of a choice: what may be chosen, by number.
    other
        Whether anything else may be chosen as well.
    gap
        Whether it can be left out.
    """

    id: str
    name: str
    kind: str
    low: str
    high: str
    limits: bool
    options: tuple[str, ...]
    other: bool
    gap: bool


@dataclass(frozen=True)
class Filled:
    """A form that somebody filled in. Private.

    Attributes
    ----------
    rows
        By column, as the desk takes them, if there are no problems.
    problems
        By field: which text says what is wrong.
    typed
        By field: what stands in it, to show it again.
    """

    rows: list[dict[str, Any]]
    problems: dict[str, str]
    typed: dict[str, str]

    def __repr__(self) -> str:
        return f"Filled({len(self.problems)} problems)"


def fields_of(market: Market) -> list[Field]:
    """Return the questions of a market about one row: its features, then the label; or what is asked."""
    limits = market.training.outside_bounds == "refuse"
    if questions_of(market):
        return _asked(market, limits=limits)
    made = [
        _field(f"f{place}", name, column, limits=limits)
        for place, (name, column) in enumerate(columns_of_market(market).items())
    ]
    label = label_of(market)
    options = tuple(str(value) for value in label.values)
    return [*made, Field("label", label.column, "choice", "", "", True, options, False, False)]  # noqa: FBT003


def rows_of(market: Market) -> int:
    """Return how many rows can be sent by the form: all that a person may have, as far as a form can hold."""
    return min(market.sellers.rows_per_person, max(_FIELDS // len(fields_of(market)), 1))


def rows_shown(market: Market, used: int) -> int:
    """Return how many rows the form shows if so many are filled in."""
    return min(rows_of(market), FIRST_ROWS if used < FIRST_ROWS else used + MORE_ROWS)


def place_of(row: int, field: str) -> str:
    """Return the name of a field of a row: the first row's fields have their own names."""
    return field if row == 0 else f"r{row}.{field}"


def filled(market: Market, form: Form) -> Filled:
    """Read a form: the first row, and all others in which anything stands."""
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    typed: dict[str, str] = {}
    fields = fields_of(market)
    for row in range(rows_of(market)):
        texts = {place_of(row, field.id): form.text(place_of(row, field.id)) for field in fields}
        if row == 0 or any(texts.values()):
            rows.append(_row(market, fields, row, texts, problems))
            typed |= texts
    return Filled(rows, problems, typed)


def _row(
    market: Market, fields: list[Field], row: int, texts: dict[str, str], problems: dict[str, str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields:
        place = place_of(row, field.id)
        text = texts[place]
        if text == "":
            if not field.gap:
                problems[place] = "missing"
            values[field.name] = None
            continue
        value, problem = _READERS[field.kind](field, text)
        if problem:
            problems[place] = problem
        values[field.name] = value
    if market.label is not None:
        known = {str(value): value for value in market.label.values}
        values[market.label.column] = known.get(texts[place_of(row, "label")])
    return values


def _asked(market: Market, *, limits: bool) -> list[Field]:
    """Return a field for every column that statistics are asked of; several may be asked of one."""
    by_column: dict[str, list[Question]] = {}
    for question in questions_of(market).values():
        for column in question.names:
            by_column.setdefault(column, []).append(question)
    return [
        _asked_field(f"f{place}", column, questions, limits=limits)
        for place, (column, questions) in enumerate(by_column.items())
    ]


def _asked_field(identity: str, column: str, questions: list[Question], *, limits: bool) -> Field:
    first = questions[0]
    if first.kind == "share":
        return Field(identity, column, "truth", "", "", limits, (), other=False, gap=False)
    if not first.has_numbers:
        options = tuple(str(category) for category in first.categories or ())
        return Field(identity, column, "choice", "", "", limits, options, other=False, gap=False)
    # What a mean refuses is refused; the outer bins and candidates hold what lies beyond.
    means = [question for question in questions if question.kind == "mean"]
    if limits and means:
        low = max(float(question.low or 0.0) for question in means)
        high = min(float(question.high or 0.0) for question in means)
    else:
        ends = [question.ends() for question in questions]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    bounded = limits and bool(means)
    return Field(
        identity, column, "number", f"{low:.15g}", f"{high:.15g}", bounded, (), other=False, gap=False
    )


def _field(identity: str, name: str, column: Column, *, limits: bool) -> Field:
    gap = column.missing is not None or column.missing_category
    low = high = ""
    options: tuple[str, ...] = ()
    other = False
    kind = "truth"
    if isinstance(column, Numbers):
        kind, low, high = "number", f"{column.low:.15g}", f"{column.high:.15g}"
    elif isinstance(column, Dates):
        kind, low, high = "date", column.first.isoformat(), column.last.isoformat()
    elif isinstance(column, Categories):
        kind, options, other = "choice", tuple(str(value) for value in column.categories), column.other
    else:
        assert isinstance(column, YesNo)
    return Field(identity, name, kind, low, high, limits, options, other, gap)


def _number(field: Field, text: str) -> tuple[Any, str]:
    value = number_in(text)
    if value is None:
        return None, "number"
    outside = not float(field.low) <= value <= float(field.high)
    return value, "outside" if outside and field.limits else ""


def _date(field: Field, text: str) -> tuple[Any, str]:
    try:
        value = datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        return None, "date"
    return value, "outside" if field.limits and not field.low <= value <= field.high else ""


def _choice(field: Field, text: str) -> tuple[Any, str]:
    return text, "" if text in field.options or (field.other and text == OTHER) else "choice"


def _truth(_: Field, text: str) -> tuple[Any, str]:
    return text == "yes", "" if text in ("yes", "no") else "choice"


_READERS = {"number": _number, "date": _date, "choice": _choice, "truth": _truth}
