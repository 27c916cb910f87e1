"""The part of a new campaign's form that asks for numbers in place of a model, read as data of the rules.

What is typed is handed on under the rules' own keys: what is refused, and why, is decided there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmarket.web.pages.forms import Form
from dpmarket.web.pages.rules_form import listed, question_in, value_in
from dpmarket.web.pages.statistics import NUMBERS

KINDS = ("mean", "share", "histogram", "quantile", "vector_mean")
LINES, MOST_LINES = 2, 30
_NUMBERS = ("low", "high", "level", "share", "bound")
_MODEL_ONLY = ("l2", "radius", "numerical_epsilon")


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


def beside_lines(form: Form, problems: list[str]) -> dict[str, str]:
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
