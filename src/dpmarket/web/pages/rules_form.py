"""A form of the rules' own model, read back as the data that a rules file would give.

What is asked, what each key means and what is refused come from the model: the form has no rules of its own.
"""

from __future__ import annotations

import contextlib
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any

from pydantic import BaseModel

from dpmarket.campaign.rules.rules_file import Costs, Label, Money, Objective, Sellers, Training
from dpmarket.campaign.rules.template import toml_lines
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import parse_json, parse_toml
from dpmarket.web.pages.forms import Form, number_in
from dpmarket.web.pages.purchase import NUMBERS
from dpmarket.web.pages.texts import FALLBACK, languages

KINDS = ("mean", "share", "histogram", "quantile", "vector_mean")
_LINES = {"feature": ("name", 4, 100), "statistic": ("column", 2, 30)}
"""Lines of the form: the field that says that one is in use, how many free ones are shown, the most lines."""
_MODEL_ONLY = ("l2", "radius", "numerical_epsilon")
FEATURE_KINDS = ("number", "date", "choice", "truth")
"""Of features, as the form names them."""
GAPS = ("refused", "value", "category")
"""What an empty answer counts as."""
_TABLES: dict[str, type[BaseModel]] = {
    "sellers": Sellers, "costs": Costs, "objective": Objective, "money": Money, "label": Label,
    "training": Training,
}  # fmt: skip
_FIRST = (
    "costs.distribution", "sellers.expected", "objective.budget", "objective.max_epsilon", "money.currency",
)  # fmt: skip
# Columns of files, and other files: a live campaign has none of them. Labels have fields of their own, and
# networks, whose code the operator lists, are named in rules that come by the API.
_LEFT_OUT = (
    "sellers.id_column", "sellers.cost_column", "sellers.group_column", "sellers.excluded",
    "label.column", "label.values",
    "training.model", "training.code", "training.parameters",
)  # fmt: skip
TYPED_TABLES = ("groups", "screening", "panel")
"""Tables that a form takes as a rules file has them."""
_STARTS = {
    "costs.distribution": "uniform(1, 5)",
    "objective.max_epsilon": "1",
    "objective.weight_cap": "3",
    "money.currency": "EUR",
    "sellers.expected": "100",
}


@dataclass(frozen=True)
class Key:
    """One key of the rules."""

    path: str
    kind: str
    options: tuple[str, ...]
    start: str
    meaning: str


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
            made[path] = Key(path, kind, options, start, field.description or path)
    return [made[path] for path in _FIRST], [key for path, key in made.items() if path not in _FIRST]


def starts() -> dict[str, str]:
    """Return what stands in an untouched form."""
    first, others = keys()
    return {key.path: key.start for key in [*first, *others]} | {
        "label.column": "label",
        "campaign.mechanism": "online",
    }


def rules_data(form: Form) -> dict[str, Any]:
    """Return what a form says as a rules file would: fields that are left empty are left out.

    What is not of its key's kind is handed on as it is, so that the rules' own check refuses it.
    """
    data: dict[str, Any] = {table: {} for table in ("campaign", "costs", "objective")}
    data["campaign"] = {key: form.text(f"campaign.{key}") for key in ("name", "mechanism")}
    wants_numbers = form.text("purpose") == NUMBERS
    first, others = keys()
    for key in [*first, *others]:
        table, name = key.path.split(".")
        text = "" if wants_numbers and (table == "label" or name in _MODEL_ONLY) else form.text(key.path)
        if text:
            data.setdefault(table, {})[name] = value_in(key.kind, text)
    if form.text("costs.distribution").startswith("{"):  # a fitted one, copied from another draft
        with contextlib.suppress(ValueError):
            data["costs"]["distribution"] = parse_json(form.text("costs.distribution"))
    asked: dict[str, str] = {}  # columns, by the place of their question's wording
    if wants_numbers:
        data["statistics"] = {name: _question(form, place) for place, name in _names(form).items()}
        asked = {form.text(f"{place}.column"): place for place in lines_used(form, "statistic")}
    else:
        asked = {form.text(f"{place}.name"): place for place in lines_used(form, "feature")}
        data["features"] = {name: _feature(form, place) for name, place in asked.items()}
        data["label"] = {"column": form.text("label.column"), "values": listed(form.text("label.values"))}
        asked[form.text("label.column")] = "label"
    worded = {column: question_in(form, place) for column, place in asked.items()}
    data["questions"] = {column: said for column, said in worded.items() if said}
    return {**data, **_tables_in(form.text("tables"))}


def _tables_in(text: str) -> dict[str, Any]:
    """Return tables that are typed as a rules file has them: groups, screening, panel."""
    try:
        found = parse_toml(text.encode())
    except InvalidInput as problem:
        raise FileProblem("cannot read the tables.", [f"tables: {problem}"]) from None
    wrong = sorted(set(found) - set(TYPED_TABLES))
    if wrong:
        raise FileProblem("cannot use the tables.", [f"tables: expected {', '.join(TYPED_TABLES)} only."])
    return found


def typed_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return what stands in the form of rules that were drafted with it, or by a program."""
    typed = {f"campaign.{key}": str(data["campaign"][key]) for key in ("name", "mechanism")}
    typed["tables"] = "\n".join(toml_lines({k: data[k] for k in TYPED_TABLES if data.get(k)}))
    for table in _TABLES:
        typed |= {f"{table}.{name}": _text(value) for name, value in data.get(table, {}).items()}
    for row, (name, declared) in enumerate(data.get("features", {}).items()):
        place = f"feature{row}"
        kinds = {"first": "date", "categories": "choice", "boolean": "truth"}
        kind = next((kind for key, kind in kinds.items() if key in declared), "number")
        gap = "value" if "missing" in declared else "refused"
        gap = "category" if declared.get("missing_category") else gap
        ends = {"low": declared.get("first"), "high": declared.get("last")}
        own = {**ends, **declared, "name": name, "kind": kind, "gap": gap}
        given = {key: value for key, value in own.items() if value is not None and value is not False}
        typed |= {f"{place}.{key}": _text(value) for key, value in given.items()}
        typed |= _typed_question(place, data.get("questions", {}).get(name))
    label = data.get("label", {}).get("column")
    typed |= _typed_question("label", data.get("questions", {}).get(label))
    for line, (name, asked) in enumerate(data.get("statistics", {}).items()):
        place, columns = f"statistic{line}", asked.get("columns") or [asked.get("column", "value")]
        own = {**asked, "name": name, "column": columns}
        typed |= {f"{place}.{key}": _text(value) for key, value in own.items()} | {"purpose": "numbers"}
        typed |= _typed_question(place, data.get("questions", {}).get(columns[0]))
    return typed


def _typed_question(place: str, asked: Mapping[str, Any] | None) -> dict[str, str]:
    if asked is None:
        return {}
    spoken = {"": asked, **{f"{one}.": said for one, said in asked.get("translations", {}).items()}}
    parts = ("wording", "help")
    return {f"{place}.{one}{part}": said.get(part, "") for one, said in spoken.items() for part in parts}


def question_in(form: Form, place: str) -> dict[str, Any] | None:
    """Return how a form words the question of one of its lines; None for the column's name."""

    def said(prefix: str) -> dict[str, str]:
        texts = {part: form.text(f"{place}.{prefix}{part}") for part in ("wording", "help")}
        return {part: text for part, text in texts.items() if text}

    spoken = {one: found for one in languages() if one != FALLBACK and (found := said(f"{one}."))}
    if not spoken:
        return said("") or None
    return {**said(""), "translations": spoken}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    if isinstance(value, dict):
        return json.dumps(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def lines_used(form: Form, kind: str) -> list[str]:
    """Return the places of a form's features or statistics that are in use, such as ``feature0``."""
    key, _, most = _LINES[kind]
    return [f"{kind}{line}" for line in range(most) if form.text(f"{kind}{line}.{key}")]


def lines_shown(form: Form, kind: str) -> int:
    """Return how many lines the form shows: those in use, and some more."""
    _, free, most = _LINES[kind]
    used = lines_used(form, kind)
    last = int(used[-1].removeprefix(kind)) + 1 if used else 0
    return min(last + free, most)


def beside_fields(form: Form, problems: Sequence[str]) -> dict[str, str]:
    """Return problems with the rules by the field of the form that each is about, as far as there is one."""
    places = {f"features.{form.text(f'{place}.name')}": place for place in lines_used(form, "feature")}
    places |= {f"statistics.{name}": place for place, name in _names(form).items()}
    found: dict[str, str] = {}
    for problem in problems:
        path = next((path for path in places if problem.startswith((f"{path}.", f"{path}:"))), None)
        if path is None:
            field = problem.split(":")[0]
        else:
            key = problem.removeprefix(path).split(":")[0].strip(".").split(".")[0]
            usual = "name" if path.startswith("features.") else "column"
            field = f"{places[path]}.{_FIELD_OF.get(key, key) or usual}"
        found.setdefault(field, problem)
    return found


_FIELD_OF = {
    "first": "low", "last": "high", "boolean": "kind", "missing_category": "gap", "columns": "column",
}  # fmt: skip
"""Fields of the form that are named otherwise than the rules' keys."""


def _feature(form: Form, place: str) -> dict[str, Any]:
    """Return what a form declares about one feature; what contradicts itself is the model's to refuse."""
    kind, gap = form.text(f"{place}.kind"), form.text(f"{place}.gap")
    end = str if kind == "date" else _number
    declared = _read(form, place, {"low": end, "high": end, "categories": listed, "other": bool})
    if kind == "date":
        declared = {{"low": "first", "high": "last"}.get(key, key): value for key, value in declared.items()}
    if kind == "truth":
        declared["boolean"] = True
    missing = form.text(f"{place}.missing")
    if gap == "category":
        declared["missing_category"] = True
    elif gap == "value" or missing:
        declared["missing"] = _gap_value(kind, missing, declared)
    return declared


def _gap_value(kind: str, text: str, declared: Mapping[str, Any]) -> Any:
    if kind == "truth":
        return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
    return _number(text) if kind in ("", "number") and "categories" not in declared else text


def listed(text: str) -> list[str]:
    """Return the parts of a text with commas between them."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _kind(annotation: Any) -> tuple[str, tuple[str, ...]]:
    is_union = typing.get_origin(annotation) in (UnionType, typing.Union)
    parts = (
        [one for one in typing.get_args(annotation) if one is not type(None)] if is_union else [annotation]
    )
    if len(parts) > 1:
        return "mixed", ()  # a number or a word
    if typing.get_origin(parts[0]) is typing.Literal:
        return "choice", tuple(str(option) for option in typing.get_args(parts[0]))
    return {int: "whole", float: "number"}.get(parts[0], "text"), ()


def value_in(kind: str, text: str) -> Any:
    """Return what was typed as a value of a key's kind; what is none is left for the rules to refuse."""
    if kind == "whole" and text.isdecimal() and len(text) < 16:
        return int(text)
    if kind in ("number", "whole", "mixed"):
        number = number_in(text)
        return text if number is None else number
    return text


def _names(form: Form) -> dict[str, str]:
    """Return the name of every statistic in use; names that were not given, or given before, are made."""
    names: dict[str, str] = {}
    for place in lines_used(form, "statistic"):
        kind, column = form.text(f"{place}.kind"), form.text(f"{place}.column")
        name = wanted = form.text(f"{place}.name") or f"{kind} of {column}"
        number = 1
        while name in names.values():
            number += 1
            name = f"{wanted} ({number})"
        names[place] = name
    return names


def _question(form: Form, place: str) -> dict[str, Any]:
    kind, column = form.text(f"{place}.kind"), form.text(f"{place}.column")
    # Of several columns, which are typed into the same field.
    columns = {"columns": listed(column)} if kind == "vector_mean" else {"column": column}
    read: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(("low", "high", "level", "share", "bound"), _number),
        "steps": lambda text: value_in("whole", text),
        "edges": lambda text: [_number(part) for part in listed(text)],
        "categories": listed,
    }
    return {"kind": kind, **columns, **_read(form, place, read)}


def _read(form: Form, place: str, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Return what stands in the fields of a line that are not empty."""
    typed = {key: form.text(f"{place}.{key}") for key in readers}
    return {key: readers[key](text) for key, text in typed.items() if text}


def _number(text: str) -> Any:
    return value_in("number", text)
