"""A form of the rules' own model, read back as the data that a rules file would give.

What is asked, what each key means and what is refused come from the model: the form has no rules of its own.
"""

from __future__ import annotations

import contextlib
import json
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from dpmarket.campaign.rules.rules_file import Costs, Label, Money, Objective, Sellers, Training
from dpmarket.campaign.rules.template import toml_lines
from dpmarket.errors import FileProblem
from dpmarket.web.pages.forms import Form, number_in
from dpmarket.web.pages.statistics import NUMBERS
from dpmarket.web.pages.texts import FALLBACK, languages

ROWS, MOST_ROWS = 4, 100
KINDS = ("mean", "share", "histogram", "quantile", "vector_mean")
LINES, MOST_LINES = 2, 30
_NUMBERS = ("low", "high", "level", "share", "bound")
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
    named = {key: form.text(f"campaign.{key}") for key in ("name", "mechanism")}
    data: dict[str, Any] = {"campaign": named, "features": {}}
    asked: dict[str, Any] = {}
    first, others = keys()
    for key in [*first, *others]:
        text = form.text(key.path)
        if text:
            table, name = key.path.split(".")
            data.setdefault(table, {})[name] = value_in(key.kind, text)
    for row in range(MOST_ROWS):
        name = form.text(f"feature{row}.name")
        if name:
            data["features"][name] = _feature(form, f"feature{row}")
            asked[name] = question_in(form, f"feature{row}")
    data["label"] = {"column": form.text("label.column"), "values": listed(form.text("label.values"))}
    asked[form.text("label.column")] = question_in(form, "label")
    data["questions"] = {name: said for name, said in asked.items() if said}
    if form.text("costs.distribution").startswith("{"):  # a fitted one, copied from another draft
        with contextlib.suppress(ValueError):
            data["costs"]["distribution"] = json.loads(form.text("costs.distribution"))
    data.setdefault("costs", {})
    data.setdefault("objective", {})
    return {**data, **_tables_in(form.text("tables"))}


def _tables_in(text: str) -> dict[str, Any]:
    """Return tables that are typed as a rules file has them: groups, screening, panel."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
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


def places_of(typed: Mapping[str, str]) -> dict[str, str]:
    """Return, for every path of the rules about a feature, the field of the form that it came from."""
    found = {}
    for row in range(MOST_ROWS):
        name, place = typed.get(f"feature{row}.name"), f"feature{row}"
        if name:
            fields = {"first": "low", "last": "high", "boolean": "kind", "missing_category": "gap"}
            found[f"features.{name}"] = f"{place}.name"
            for key in ("low", "high", "categories", "other", "first", "last", "missing", *fields):
                found[f"features.{name}.{key}"] = f"{place}.{fields.get(key, key)}"
    return found


def _feature(form: Form, place: str) -> dict[str, Any]:
    """Return what a form declares about one feature; what contradicts itself is the model's to refuse."""
    kind, gap = form.text(f"{place}.kind"), form.text(f"{place}.gap")
    ends = ("first", "last") if kind == "date" else ("low", "high")
    declared: dict[str, Any] = {}
    for end, text in zip(ends, (form.text(f"{place}.low"), form.text(f"{place}.high")), strict=True):
        if text:
            declared[end] = text if kind == "date" else value_in("number", text)
    categories = listed(form.text(f"{place}.categories"))
    if categories:
        declared["categories"] = categories
    if form.text(f"{place}.other"):
        declared["other"] = True
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
    return value_in("number", text) if kind in ("", "number") and "categories" not in declared else text


def listed(text: str) -> list[str]:
    """Return the parts of a text with commas between them."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _kind(annotation: Any) -> tuple[str, tuple[str, ...]]:
    parts = [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
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


# --- numbers in place of the model ------------------------------------------------------------------


def lines_shown(typed: Mapping[str, str]) -> int:
    """Return how many lines the form shows: those in use, and some more."""
    used = [line for line in range(MOST_LINES) if typed.get(f"statistic{line}.column")]
    return min(max(used, default=-1) + 1 + LINES, MOST_LINES)


def with_numbers(form: Form, data: dict[str, Any]) -> dict[str, Any]:
    """Return the rules' data as the form says it: numbers in place of the model, if they are wanted."""
    if form.text("purpose") != NUMBERS:
        return data
    made = {table: content for table, content in data.items() if table not in ("features", "label")}
    training = {name: value for name, value in data.get("training", {}).items() if name not in _MODEL_ONLY}
    if "training" in made:
        made["training"] = training
    names = _names(form)
    asked = {form.text(f"statistic{line}.column"): question_in(form, f"statistic{line}") for line in names}
    made["questions"] = {column: said for column, said in asked.items() if said}
    return {**made, "statistics": {name: _question(form, line) for line, name in names.items()}}


def beside_lines(form: Form, problems: Sequence[str]) -> dict[str, str]:
    """Return problems by the field of the form that they are about, as far as they are about one."""
    found: dict[str, str] = {}
    for line, name in _names(form).items():
        for problem in problems:
            rest = problem.removeprefix(f"statistics.{name}")
            if rest == problem:
                continue
            key = rest.split(":")[0].removeprefix(".") if rest.startswith(".") else "column"
            key = "column" if key.partition(".")[0] == "columns" else key
            found.setdefault(f"statistic{line}.{key}", problem)
    return found


def _names(form: Form) -> dict[int, str]:
    """Return the name of every line in use; names that were not given, or given before, are made."""
    names: dict[int, str] = {}
    for line in range(MOST_LINES):
        column = form.text(f"statistic{line}.column")
        if not column:
            continue
        wanted = form.text(f"statistic{line}.name") or f"{form.text(f'statistic{line}.kind')} of {column}"
        name, number = wanted, 1
        while name in names.values():
            number += 1
            name = f"{wanted} ({number})"
        names[line] = name
    return names


def _question(form: Form, line: int) -> dict[str, Any]:
    def typed(key: str) -> str:
        return form.text(f"statistic{line}.{key}")

    question: dict[str, Any] = {"kind": typed("kind"), "column": typed("column")}
    if typed("kind") == "vector_mean":  # of several columns, which are typed into the same field
        question = {"kind": typed("kind"), "columns": listed(typed("column"))}
    for key in _NUMBERS:
        if typed(key):
            question[key] = value_in("number", typed(key))
    if typed("steps"):
        question["steps"] = value_in("whole", typed("steps"))
    if typed("edges"):
        question["edges"] = [value_in("number", part) for part in listed(typed("edges"))]
    if typed("categories"):
        question["categories"] = listed(typed("categories"))
    return question
