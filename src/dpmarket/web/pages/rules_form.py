"""The form of a campaign's rules: fields are named by the rules' own keys, and read back as a file's data.

What each key means and what is refused come from the model: the form has no rules of its own. A feature or a
statistic is a line of the form, whose fields are such as ``feature0.low``.
"""

import contextlib
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any

from pydantic import BaseModel

from dpmarket.campaign.rules.questions import Question
from dpmarket.campaign.rules.rules_file import Bounds, Costs, Label, Money, Objective, Sellers, Training
from dpmarket.campaign.rules.template import toml_lines
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import parse_json, parse_toml
from dpmarket.web.pages.forms import Form, number_in
from dpmarket.web.pages.purchase import MODEL, NUMBERS
from dpmarket.web.pages.texts import FALLBACK, languages

KINDS = typing.get_args(Question.model_fields["kind"].annotation)
FEATURE_KINDS = ("number", "date", "choice", "truth")  # a kind decides which keys are asked for
GAPS = ("refused", "value", "category")  # what an empty answer counts as
_LINES: dict[str, tuple[str, type[BaseModel], str, int, int]] = {
    "feature": ("features", Bounds, "name", 4, 100), "statistic": ("statistics", Question, "column", 2, 30),
}  # fmt: skip
"""Lines of the form: their table of the rules, its model, the field that says that a line is in use, how many
free ones are shown, the most lines."""
_MODEL_ONLY = ("l2", "radius", "numerical_epsilon")
_TABLES: dict[str, type[BaseModel]] = {
    "sellers": Sellers, "costs": Costs, "objective": Objective, "money": Money, "label": Label,
    "training": Training,
}  # fmt: skip
FIRST = (
    "costs.distribution", "sellers.expected", "objective.budget", "objective.max_epsilon", "money.currency",
)  # fmt: skip
# Columns of files, and other files: a live campaign has none of them. Labels have fields of their own, and
# networks, whose code the operator lists, are named in rules that come by the API.
_LEFT_OUT = (
    "sellers.id_column", "sellers.cost_column", "sellers.group_column", "sellers.excluded",
    "label.column", "label.values",
    "training.model", "training.code", "training.parameters",
)  # fmt: skip
TYPED_TABLES = ("groups", "screening", "panel")  # tables that a form takes as a rules file has them
_STARTS = {
    "costs.distribution": "uniform(1, 5)",
    "objective.max_epsilon": "1",
    "objective.weight_cap": "3",
    "money.currency": "EUR",
    "sellers.expected": "100",
}
_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True)
class Key:
    """One key of the rules."""

    path: str
    kind: str
    options: tuple[str, ...]
    start: str
    meaning: str


def keys() -> list[Key]:
    """Return all keys, first the :data:`FIRST` that everybody decides about."""
    made = {}
    for table, model in _TABLES.items():
        for name, field in model.model_fields.items():
            path = f"{table}.{name}"
            if path in _LEFT_OUT:
                continue
            kind, options = _kind(field.annotation)
            default = field.default if isinstance(field.default, int | float | str) else ""
            start = _STARTS.get(path, f"{default}")
            made[path] = Key(path, kind, options, start, field.description or path)
    return [*(made.pop(path) for path in FIRST), *made.values()]


def starts() -> dict[str, str]:
    """Return what stands in an untouched form."""
    typed = {key.path: key.start for key in keys()}
    return typed | {"label.column": "label", "campaign.mechanism": "online"}


def rules_data(form: Form) -> dict[str, Any]:
    """Return what a form says as a rules file would; what is wrong is left for the rules to refuse."""
    data: dict[str, Any] = {"costs": {}, "objective": {}}
    data["campaign"] = {key: form.text(f"campaign.{key}") for key in ("name", "mechanism")}
    wants_numbers = form.text("purpose") == NUMBERS
    for key in keys():
        table, name = key.path.split(".")
        text = "" if wants_numbers and (table == "label" or name in _MODEL_ONLY) else form.text(key.path)
        if text:
            data.setdefault(table, {})[name] = _value(key.kind, text)
    if form.text("costs.distribution").startswith("{"):  # a fitted one, copied from another draft
        with contextlib.suppress(ValueError):
            data["costs"]["distribution"] = parse_json(form.text("costs.distribution"))
    kind = "statistic" if wants_numbers else "feature"
    lines = _named(form, kind)
    data[_LINES[kind][0]] = {name: _declared(form, place, kind) for name, place in lines.items()}
    # Columns, by the place of their question's wording.
    asked = {form.text(f"{place}.column") or name: place for name, place in lines.items()}
    if not wants_numbers:
        data["label"] = {"column": form.text("label.column"), "values": _listed(form.text("label.values"))}
        asked[form.text("label.column")] = "label"
    worded = {column: _question(form, place) for column, place in asked.items()}
    data["questions"] = {column: said for column, said in worded.items() if said}
    return {**data, **_tables_in(form.text("tables"))}


def _named(form: Form, kind: str) -> dict[str, str]:
    """Return the places of lines in use by their names; a statistic without one is called by its column."""
    names: dict[str, str] = {}
    for place in _used(form, kind):
        usual = f"{form.text(f'{place}.kind')} of {form.text(f'{place}.column')}"
        name = form.text(f"{place}.name") or usual
        if name in names:
            path = f"{_LINES[kind][0]}.{name}"
            raise FileProblem("cannot use the form.", [f"{path}: expected a name of its own for each."])
        names[name] = place
    return names


def _declared(form: Form, place: str, kind: str) -> dict[str, Any]:
    """Return what a line declares; what contradicts itself is the model's to refuse."""
    own = {}
    for key, field in _LINES[kind][1].model_fields.items():
        text = form.text(f"{place}.{key}")
        if text:
            own[key] = _value(_kind(field.annotation)[0], text)
    chosen, gap = form.text(f"{place}.kind"), form.text(f"{place}.gap")
    if chosen == "vector_mean":  # of several columns, which are typed into the same field
        own["columns"] = _listed(own.pop("column"))
    if chosen == "truth":
        own["boolean"] = True
    if gap == "category":
        own.pop("missing", None)
        own["missing_category"] = True
    elif gap == "value" or "missing" in own:
        text = form.text(f"{place}.missing")
        number = text if "categories" in own else _value("mixed", text)
        own["missing"] = _TRUTHS.get(text.lower(), text) if chosen == "truth" else number
    return own


def _question(form: Form, place: str) -> dict[str, Any] | None:
    """Return how a form words the question of one of its lines; None for the column's name."""

    def said(prefix: str) -> dict[str, str]:
        texts = {part: form.text(f"{place}.{prefix}{part}") for part in ("wording", "help")}
        return {part: text for part, text in texts.items() if text}

    spoken = {one: found for one in languages() if one != FALLBACK and (found := said(f"{one}."))}
    return {**said(""), "translations": spoken} if spoken else said("") or None


def _tables_in(text: str) -> dict[str, Any]:
    """Return tables that are typed as a rules file has them: groups, screening, panel."""
    try:
        found = parse_toml(text.encode())
    except InvalidInput as problem:
        raise FileProblem("cannot read the tables.", [f"tables: {problem}"]) from None
    if set(found) - set(TYPED_TABLES):
        raise FileProblem("cannot use the tables.", [f"tables: expected {', '.join(TYPED_TABLES)} only."])
    return found


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _kind(annotation: Any) -> tuple[str, tuple[str, ...]]:
    """Return how a key's type is typed into a field, and what can be chosen."""
    is_union = typing.get_origin(annotation) in (UnionType, typing.Union)
    given = typing.get_args(annotation) if is_union else [annotation]
    parts = [one for one in given if one is not type(None)]
    if len(parts) > 1:
        return "mixed", ()  # a number or a word
    part = typing.get_args(parts[0])[0] if typing.get_origin(parts[0]) is Annotated else parts[0]
    if typing.get_origin(part) is typing.Literal:
        return "choice", tuple(str(option) for option in typing.get_args(part))
    if typing.get_origin(part) is list:
        return ("numbers" if typing.get_args(part) == (float,) else "list"), ()
    return {int: "whole", float: "number", bool: "flag"}.get(part, "text"), ()


def _value(kind: str, text: str) -> Any:
    """Return what was typed as a value of a key's kind; what is none is left for the rules to refuse."""
    if kind in ("list", "numbers"):
        return [_value("number", part) if kind == "numbers" else part for part in _listed(text)]
    if kind == "flag":
        return True
    if kind in ("whole", "choice") and text.isdecimal() and len(text) < 16:
        return int(text)
    number = number_in(text) if kind in ("number", "whole", "mixed") else None
    return text if number is None else number


def typed_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return what stands in the form of rules that were drafted with it, or by a program."""
    typed = {f"campaign.{key}": str(data["campaign"][key]) for key in ("name", "mechanism")}
    typed["tables"] = "\n".join(toml_lines({k: data[k] for k in TYPED_TABLES if data.get(k)}))
    typed["purpose"] = NUMBERS if data.get("statistics") else MODEL
    for table in _TABLES:
        typed |= {f"{table}.{name}": _text(value) for name, value in data.get(table, {}).items()}
    places = {"label": data.get("label", {}).get("column")}
    for kind, (table, *_) in _LINES.items():
        for line, (name, declared) in enumerate(data.get(table, {}).items()):
            place, own = f"{kind}{line}", {**declared, "name": name}
            if kind == "feature":
                kinds = {"first": "date", "categories": "choice", "boolean": "truth"}
                own["kind"] = next((kinds[key] for key in kinds if key in declared), "number")
                own["gap"] = "value" if "missing" in declared else "refused"
                own["gap"] = "category" if declared.get("missing_category") else own["gap"]
            else:
                own["column"] = declared.get("columns") or declared.get("column", "value")
            said = {key: value for key, value in own.items() if value is not False or key == "missing"}
            typed |= {f"{place}.{key}": _text(value) for key, value in said.items()}
            columns = own.get("column", name)
            places[place] = columns[0] if isinstance(columns, list) else columns
    for place, column in places.items():
        asked = data.get("questions", {}).get(column)
        if asked is not None:
            spoken = {"": asked, **{f"{one}.": said for one, said in asked.get("translations", {}).items()}}
            for prefix, said in spoken.items():
                typed |= {f"{place}.{prefix}{part}": said.get(part, "") for part in ("wording", "help")}
    return typed


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    if isinstance(value, dict):
        return json.dumps(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _used(form: Form, kind: str) -> list[str]:
    """Return the places of a form's features or statistics that are in use, such as ``feature0``."""
    _, _, key, _, most = _LINES[kind]
    return [f"{kind}{line}" for line in range(most) if form.text(f"{kind}{line}.{key}")]


def lines_shown(form: Form, kind: str) -> int:
    """Return how many lines the form shows: those in use, and some more."""
    *_, free, most = _LINES[kind]
    used = _used(form, kind)
    last = int(used[-1].removeprefix(kind)) + 1 if used else 0
    return min(last + free, most)
