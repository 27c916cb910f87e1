"""Make a form of the market file's own model, and read it back as the data that a file would give.

What is asked, what each key means and what is refused come from the model: the form has no rules of its own.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from dpmarket.campaign.market_file import Costs, Label, Money, Objective, Sellers, Training
from dpmarket.web.pages.forms import Form, number_in

ROWS, MOST_ROWS = 4, 100
_TABLES: dict[str, type[BaseModel]] = {
    "sellers": Sellers,
    "costs": Costs,
    "objective": Objective,
    "money": Money,
    "label": Label,
    "training": Training,
}
_FIRST = (
    "costs.distribution",
    "sellers.expected",
    "objective.budget",
    "objective.max_epsilon",
    "money.currency",
)
# Columns of files, other files and rounds: the desk has none of them. Labels have fields of their own.
_LEFT_OUT = (
    "sellers.id_column", "sellers.cost_column", "sellers.excluded",
    "objective.shares", "label.column", "label.values",
)  # fmt: skip
_STARTS = {
    "costs.distribution": "uniform(1, 5)",
    "objective.max_epsilon": "1",
    "objective.weight_cap": "3",
    "money.currency": "EUR",
    "sellers.expected": "100",
}


@dataclass(frozen=True)
class Key:
    """One key of the market file.

    Attributes
    ----------
    path
        Table and name, with a point between them; the field's name.
    kind
        ``number``, ``whole``, ``text`` or ``choice``.
    options
        Of a choice.
    meaning
        What the model says about it.
    start
        What stands in the field at first.
    """

    path: str
    kind: str
    options: tuple[str, ...]
    meaning: str
    start: str


def keys() -> tuple[list[Key], list[Key]]:
    """Return the keys that everybody decides about, and all others."""
    made = {}
    for table, model in _TABLES.items():
        for name, field in model.model_fields.items():
            path = f"{table}.{name}"
            if path in _LEFT_OUT:
                continue
            kind, options = _kind(field.annotation)
            default = field.default if isinstance(field.default, int | float | str) else ""
            start = _STARTS.get(path, f"{default}")
            made[path] = Key(path, kind, options, str(field.description), start)
    return [made[path] for path in _FIRST], [key for path, key in made.items() if path not in _FIRST]


def starts() -> dict[str, str]:
    """Return what stands in an untouched form."""
    first, others = keys()
    return {key.path: key.start for key in [*first, *others]} | {"label.column": "label"}


def market_data(form: Form) -> dict[str, Any]:
    """Return what a form says as a market file would: fields that are left empty are left out.

    What is not of its key's kind is handed on as it is, so that the market file's own check refuses it.
    """
    data: dict[str, Any] = {"features": {}}
    first, others = keys()
    for key in [*first, *others]:
        text = form.text(key.path)
        if text:
            table, name = key.path.split(".")
            data.setdefault(table, {})[name] = _value(key.kind, text)
    for row in range(MOST_ROWS):
        name = form.text(f"feature{row}.name")
        if name:
            bounds = {end: form.text(f"feature{row}.{end}") for end in ("low", "high")}
            declared: dict[str, Any] = {end: _value("number", text) for end, text in bounds.items() if text}
            categories = _listed(form.text(f"feature{row}.categories"))
            data["features"][name] = declared | ({"categories": categories} if categories else {})
    data["label"] = {"column": form.text("label.column"), "values": _listed(form.text("label.values"))}
    data.setdefault("costs", {})
    data.setdefault("objective", {})
    return data


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _kind(annotation: Any) -> tuple[str, tuple[str, ...]]:
    parts = [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
    if typing.get_origin(parts[0]) is typing.Literal:
        return "choice", tuple(str(option) for option in typing.get_args(parts[0]))
    return {int: "whole", float: "number"}.get(parts[0], "text"), ()


def _value(kind: str, text: str) -> Any:
    if kind == "whole" and text.isdecimal() and len(text) < 16:
        return int(text)
    if kind in ("number", "whole"):
        number = number_in(text)
        return text if number is None else number
    return text
