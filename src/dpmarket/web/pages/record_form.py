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
from dpmarket.campaign.rules.rules_file import Rules, Wording
from dpmarket.web.pages.forms import Form, number_in

OTHER = "__other__"
"""What a form sends for something else than the public categories."""
FIRST_ROWS, MORE_ROWS = 4, 8
"""How many rows a form shows at first, and how many are added when there is no room left."""
_FIELDS = 1_900  # of a form, in all


@dataclass(frozen=True)
class Field:
    """One question of the form."""

    id: str
    name: str
    wording: str
    help: str
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
    """A form that somebody filled in. Private."""

    rows: list[dict[str, Any]]
    problems: dict[str, str]
    typed: dict[str, str]
    beyond: dict[str, str]

    def __repr__(self) -> str:
        return f"Filled({len(self.problems)} problems)"

    @property
    def beyond_text(self) -> str:
        """What a seller confirms: the values outside their bounds, by field; empty if there are none."""
        return ";".join(f"{place}={self.typed[place]}" for place in self.beyond)


def fields_of_form(rules: Rules, language: str = "en") -> list[Field]:
    """Return the questions about one row: a field for each column, though several statistics may use it."""
    by_column: dict[str, columns.Field] = {}
    for field in columns.fields_of(rules):
        known = by_column.get(field.column)
        by_column[field.column] = field if known is None else _joined(known, field)
    return [
        _field(f"f{place}", field, rules.questions.get(field.column), language)
        for place, field in enumerate(by_column.values())
    ]


def _joined(one: columns.Field, other: columns.Field) -> columns.Field:
    """Return what two statistics of one column expect; what one of them refuses is refused."""
    strict = [field for field in (one, other) if field.outside == "refuse"]
    if strict:
        low, high = max(field.low for field in strict), min(field.high for field in strict)
    else:
        low, high = min(one.low, other.low), max(one.high, other.high)
    return replace(strict[0] if strict else one, low=low, high=high)


def _field(identity: str, field: columns.Field, asked: Wording | None, language: str) -> Field:
    said = None if asked is None else asked.translations.get(language, asked)
    low, high = _end(field.kind, field.low), _end(field.kind, field.high)
    limits = field.outside == "refuse" or field.kind in ("choice", "truth")
    options = tuple(str(level) for level in field.levels)
    return Field(
        identity,
        field.column,
        field.column if said is None else said.wording,
        "" if said is None else said.help,
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


def place_of(row: int, field: str) -> str:
    """Return the name of a field of a row: the first row's fields have their own names."""
    return field if row == 0 else f"r{row}.{field}"


def form_of(rules: Rules, language: str, given: Filled | None = None, used: int = 0) -> dict[str, Any]:
    """Return what the form shows, with at least so many rows as are used."""
    given = given or Filled([], {}, {}, {})
    fields, most = fields_of_form(rules, language), rows_of(rules)
    last = max((row for row in range(most) if place_of(row, fields[-1].id) in given.typed), default=0)
    used = max(used, last + 1 if last else 0)
    return {
        "fields": fields,
        "rows": min(most, FIRST_ROWS if used < FIRST_ROWS else used + MORE_ROWS),
        "most": most,
        "allowed": rules.sellers.rows_per_person,
        "place_of": place_of,
        "other": OTHER,
        "filled": given,
    }


def filled(rules: Rules, form: Form) -> Filled:
    """Read a form: the first row, and all others in which anything stands."""
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    typed: dict[str, str] = {}
    beyond: dict[str, str] = {}
    fields = fields_of_form(rules)
    for row in range(rows_of(rules)):
        texts = {place_of(row, field.id): form.text(place_of(row, field.id)) for field in fields}
        if row == 0 or any(texts.values()):
            values = _row(fields, row, texts, problems)
            rows.append(values)
            typed |= texts
            counted = {place_of(row, field.id): _counts_as(field, values[field.name]) for field in fields}
            beyond |= {place: bound for place, bound in counted.items() if bound and place not in problems}
    return Filled(rows, problems, typed, beyond)


def _counts_as(field: Field, value: Any) -> str:
    """Return the bound that counts in place of a value outside of it; empty if the value itself counts."""
    if value is None or not field.low:
        return ""
    low, high = (float(field.low), float(field.high)) if field.kind == "number" else (field.low, field.high)
    return field.low if value < low else field.high if value > high else ""


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
