"""The form of a record, made from the fields that the rules declare, and read back field by field.

Every kind of field has its own control: a number, a date, a choice, yes or no; a gap is offered where the
rules say what a gap means. What the browser checks is checked here again, and once more by the encoding.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from typing import Any

from dpmarket.campaign.rules import columns
from dpmarket.campaign.rules.rules_file import Rules
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
    options, levels
        Of a choice: what may be chosen, as texts and as the rules write them.
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
    levels: tuple[Any, ...]
    other: bool
    gap: bool


@dataclass(frozen=True)
class Filled:
    """A form that somebody filled in. Private.

    Attributes
    ----------
    rows
        By column, as the encoding takes them, if there are no problems.
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


def fields_of_form(rules: Rules) -> list[Field]:
    """Return the questions about one row: a field for each column, though several statistics may use it."""
    by_column: dict[str, columns.Field] = {}
    for field in columns.fields_of(rules):
        known = by_column.get(field.column)
        by_column[field.column] = field if known is None else _joined(known, field)
    return [_field(f"f{place}", field) for place, field in enumerate(by_column.values())]


def _joined(one: columns.Field, other: columns.Field) -> columns.Field:
    """Return what two statistics of one column expect; what one of them refuses is refused."""
    strict = [field for field in (one, other) if field.outside == "refuse"]
    if strict:
        low, high = max(field.low for field in strict), min(field.high for field in strict)
    else:
        low, high = min(one.low, other.low), max(one.high, other.high)
    return replace(strict[0] if strict else one, low=low, high=high)


def _field(identity: str, field: columns.Field) -> Field:
    low, high = _end(field.kind, field.low), _end(field.kind, field.high)
    limits = field.outside == "refuse" or field.kind in ("choice", "truth")
    options = tuple(str(level) for level in field.levels)
    return Field(
        identity,
        field.column,
        field.kind,
        low,
        high,
        limits,
        options,
        field.levels,
        field.unknown,
        field.gaps,
    )


def _end(kind: str, value: float) -> str:
    if kind not in ("number", "date") or math.isinf(value):
        return ""
    return f"{value:.15g}" if kind == "number" else datetime.date.fromordinal(int(value)).isoformat()


def rows_of(rules: Rules) -> int:
    """Return how many rows can be sent by the form: all that a person may have, as far as a form can hold."""
    return min(rules.sellers.rows_per_person, max(_FIELDS // len(fields_of_form(rules)), 1))


def rows_shown(rules: Rules, used: int) -> int:
    """Return how many rows the form shows if so many are filled in."""
    return min(rows_of(rules), FIRST_ROWS if used < FIRST_ROWS else used + MORE_ROWS)


def place_of(row: int, field: str) -> str:
    """Return the name of a field of a row: the first row's fields have their own names."""
    return field if row == 0 else f"r{row}.{field}"


def filled(rules: Rules, form: Form) -> Filled:
    """Read a form: the first row, and all others in which anything stands."""
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    typed: dict[str, str] = {}
    fields = fields_of_form(rules)
    for row in range(rows_of(rules)):
        texts = {place_of(row, field.id): form.text(place_of(row, field.id)) for field in fields}
        if row == 0 or any(texts.values()):
            rows.append(_row(fields, row, texts, problems))
            typed |= texts
    return Filled(rows, problems, typed)


def _row(fields: list[Field], row: int, texts: dict[str, str], problems: dict[str, str]) -> dict[str, Any]:
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
    return values


def _number(field: Field, text: str) -> tuple[Any, str]:
    value = number_in(text)
    if value is None:
        return None, "number"
    outside = bool(field.low) and not float(field.low) <= value <= float(field.high)
    return value, "outside" if outside and field.limits else ""


def _date(field: Field, text: str) -> tuple[Any, str]:
    try:
        value = datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        return None, "date"
    return value, "outside" if field.limits and not field.low <= value <= field.high else ""


def _choice(field: Field, text: str) -> tuple[Any, str]:
    if text in field.options:
        return field.levels[field.options.index(text)], ""
    return text, "" if field.other and text == OTHER else "choice"


def _truth(_: Field, text: str) -> tuple[Any, str]:
    return text == "yes", "" if text in ("yes", "no") else "choice"


_READERS = {"number": _number, "date": _date, "choice": _choice, "truth": _truth}
