"""Tables and keys of the rules file: what is expected, what it means, and sentences about what is wrong."""

from __future__ import annotations

import difflib
import types
import typing
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_serializer

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


class NamedTable(Table):
    """A table with a name of the buyer's own, such as a feature: written with the keys that are given."""

    expected: ClassVar[str]

    @model_serializer
    def declared(self) -> dict[str, Any]:
        """Return the keys that are given, as plain data."""
        return {name: value for name, value in self if value is not None}


def _as_read(values: list[str | int]) -> list[str | int]:
    if any(isinstance(value, str) and value != value.strip() for value in values):
        raise ValueError("texts without blanks around them")
    return values


Categories = Annotated[list[str | int], AfterValidator(_as_read)]
"""Categories that cells of a table are compared with."""


def table_of(annotation: Any) -> tuple[type[Table] | None, bool]:
    """Return the table that a key holds, or None, and whether it holds several: by name, or in a list."""
    is_named = typing.get_origin(annotation) in (dict, list)
    parts = typing.get_args(annotation)[-1:] if is_named else [annotation]
    if isinstance(annotation, types.UnionType):  # a table that may be left out
        parts = typing.get_args(annotation)
    found = [part for part in parts if isinstance(part, type) and issubclass(part, Table)]
    return (found[0] if found else None), is_named


def expected_of(table: type[BaseModel], name: str) -> str:
    """Return what a key expects, for a sentence to the person who wrote it."""
    extra = table.model_fields[name].json_schema_extra
    return str(extra["expected"]) if isinstance(extra, dict) else f"the table [{name}]"


def sentence(found: Any, whole: type[Table]) -> tuple[str, str]:
    """Return the path of the key that an error of pydantic is about, and the sentence for it."""
    table: type[Table] | None = whole
    named: type[Table] | None = None
    names: list[str] = []
    expected = "a table"
    for part in found["loc"]:
        if named is not None:
            assert issubclass(named, NamedTable)
            expected, table, named = named.expected, named, None
        elif table is None:
            break  # a part of a list
        elif part in table.model_fields:
            expected = expected_of(table, part)
            held, is_named = table_of(table.model_fields[part].annotation)
            table, named = (None, held) if is_named else (held, None)
        names.append(str(part))
    path = ".".join(names)
    if found["type"] == "extra_forbidden":
        keys = list(table.model_fields) if table is not None else []
        near = difflib.get_close_matches(names[-1], keys, 1)
        return path, f"{path}: unknown key; " + (
            f"did you mean {near[0]}?" if near else f"expected one of {', '.join(keys)}."
        )
    if found["type"] == "missing":
        return path, f"{path}: missing; expected {expected}."
    reason = found.get("ctx", {}).get("error")
    if isinstance(reason, InvalidInput):
        return path, f"{path}: {reason}"
    shown = repr(found["input"])
    return path, f"{path}: expected {expected}, got {shown if len(shown) <= 60 else shown[:57] + '...'}."
