"""Tables and keys of the rules file: what is expected, what it means, and sentences about what is wrong."""

from __future__ import annotations

import difflib
import types
import typing
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dpmarket.errors import InvalidInput


def key(default: Any, expected: str, meaning: str, example: Any = None, **limits: Any) -> Any:
    """Describe one key: its default (``...``: required), what is expected, what it means, an example."""
    extra = {"expected": expected, "example": default if example is None else example}
    if extra["example"] is ...:
        del extra["example"]  # a required key whose example stands in the template itself
    return Field(default, description=meaning, json_schema_extra=extra, **limits)


class Table(BaseModel):
    """A table of the rules file: frozen, and nothing in it that is not described."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def given_keys(table: BaseModel) -> dict[str, Any]:
    """Return the keys of a table that are given, as plain data."""
    return {name: value for name in type(table).model_fields if (value := getattr(table, name)) is not None}


def model_in(annotation: Any) -> Any:
    """Return the table that a field holds, where one may be left out; else what it is."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        held = [part for part in typing.get_args(annotation) if part is not type(None)]
        if len(held) == 1:
            return held[0]
    return annotation


def is_table(kind: Any) -> bool:
    """Whether a kind is a table of the rules file."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def table_of_named(kind: Any) -> type[BaseModel] | None:
    """Return the table that tables with names of the buyer's own are, such as features; None for others."""
    parts = typing.get_args(kind)
    return parts[1] if typing.get_origin(kind) is dict and is_table(parts[1]) else None


def sentence(found: Any, whole: type[BaseModel], named: dict[type[BaseModel], str]) -> tuple[str, str]:
    """Return the path of the key that an error is about, and the sentence for it.

    Parameters
    ----------
    found
        An error as pydantic tells it.
    whole
        The model of the whole file.
    named
        What is expected of tables with names of the buyer's own, by kind.
    """
    model: Any = whole
    names: list[str] = []
    expected = "a table"
    for part in found["loc"]:
        names.append(str(part))
        inner = table_of_named(model)
        if is_table(model):
            if part not in model.model_fields:
                break
            field = model.model_fields[part]
            extra = field.json_schema_extra
            expected = str(extra["expected"]) if isinstance(extra, dict) else f"the table [{part}]"
            model = model_in(field.annotation)
        elif inner is not None:
            expected, model = named[inner], inner
        else:
            names.pop()
            break
    path = ".".join(names)
    if found["type"] == "extra_forbidden":
        return path, f"{path}: unknown key; {_alternatives(names[-1], model)}"
    if found["type"] == "missing":
        return path, f"{path}: missing; expected {expected}."
    reason = found.get("ctx", {}).get("error")
    if isinstance(reason, InvalidInput):
        return path, f"{path}: {reason}"
    return path, f"{path}: expected {expected}, got {_shown(found['input'])}."


def _alternatives(name: str, model: Any) -> str:
    fields = list(model.model_fields) if hasattr(model, "model_fields") else []
    near = difflib.get_close_matches(name, fields, 1)
    return f"did you mean {near[0]}?" if near else f"expected one of {', '.join(fields)}."


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
