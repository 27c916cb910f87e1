"""The form of a record, made from the fields that the rules declare, and read back field by field."""

import datetime
import math
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from dpmarket.campaign.rules import columns
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.web.pages.forms import Form, number_in

OTHER = "__other__"  # what a form sends for something else than the public categories
FIRST_ROWS, MORE_ROWS = 4, 8  # rows at first, and so many more when there is no room left
_FIELDS = 1_900  # of a form, in all


@dataclass(frozen=True)
class Field:
    """One question of the form: the field of the record, and how it is asked."""

    id: str
    of: columns.Field
    wording: str
    help: str

    @property
    def low(self) -> str:
        """The lower bound as it is shown, empty without one."""
        return _end(self.of.kind, self.of.low)

    @property
    def high(self) -> str:
        """The upper bound as it is shown, empty without one."""
        return _end(self.of.kind, self.of.high)

    @property
    def limits(self) -> bool:
        """Whether values outside the bounds are refused."""
        return self.of.outside == "refuse"

    @property
    def options(self) -> tuple[str, ...]:
        """The levels of a choice as they are shown."""
        return tuple(map(str, self.of.levels))


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
    made = []
    for place, (column, field) in enumerate(by_column.items()):
        asked = rules.questions.get(column)
        said = asked and asked.translations.get(language, asked)
        made.append(Field(f"f{place}", field, said.wording if said else column, said.help if said else ""))
    return made


def _joined(one: columns.Field, other: columns.Field) -> columns.Field:
    """Return what two statistics of one column expect; what one of them refuses is refused."""
    strict = [field for field in (one, other) if field.outside == "refuse"]
    if strict:
        low, high = max(field.low for field in strict), min(field.high for field in strict)
    else:
        low, high = min(one.low, other.low), max(one.high, other.high)
    return replace(strict[0] if strict else one, low=low, high=high)


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
        if row and not any(texts.values()):
            continue
        typed |= texts
        rows.append({})
        for field, (place, text) in zip(fields, texts.items(), strict=True):
            rows[-1][field.of.column], problem, bound = _read(field, text)
            problems |= {place: problem} if problem else {}
            beyond |= {place: bound} if bound else {}
    return Filled(rows, problems, typed, beyond)


def _read(field: Field, text: str) -> tuple[Any, str, str]:
    """Return what was typed as a value, what is wrong with it, and the bound that counts in its place."""
    of = field.of
    if text == "":
        return None, "" if of.gaps else "missing", ""
    if of.kind == "truth":
        return text == "yes", "" if text in ("yes", "no") else "choice", ""
    if of.kind == "choice":
        if text in field.options:
            return of.levels[field.options.index(text)], "", ""
        return text, "" if of.unknown and text == OTHER else "choice", ""
    is_number = of.kind == "number"
    code = number_in(text) if is_number else float(of.coded(pl.Series([text]))[0][0])
    if code is None or math.isnan(code):
        return None, of.kind, ""
    bound = field.low if code < of.low else field.high if code > of.high else ""
    return (
        code if is_number else text,
        "outside" if bound and field.limits else "",
        "" if field.limits else bound,
    )
