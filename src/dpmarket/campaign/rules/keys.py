"""Tables and keys of the rules file: what is expected, what it means, and sentences about what is wrong."""

import difflib
import json
import types
import typing
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_serializer
from pydantic.fields import FieldInfo

from dpmarket.errors import InvalidInput

_TYPES: dict[Any, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
_LIMITS = ("gt", "ge", "lt", "le")
_WITHIN = {
    "": "", "gt": " > {}", "ge": " >= {}", "ge le": " from {} to {}", "ge lt": " from {} and below {}",
    "gt lt": " strictly between {} and {}", "gt le": " above {} and at most {}",
}  # fmt: skip


def key(default: Any, expected: str = "", example: Any = None, **limits: Any) -> Any:
    """Describe one key: its default (``...``: required), an example, and limits of pydantic's ``Field``.

    ``expected`` is only for keys of which their type and limits do not say it.
    """
    shown = default if example is None else example
    return Field(default, json_schema_extra={"expected": expected, "example": shown}, **limits)


class Table(BaseModel):
    """A table of the rules file: frozen, and nothing in it that is not described."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Write what each key means on one line."""
        for field in cls.model_fields.values():
            field.description = " ".join((field.description or "").split())


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


Categories = Annotated[list[str | int], AfterValidator(_as_read)]  # that cells are compared with


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
    field = table.model_fields[name]
    extra = field.json_schema_extra
    if not isinstance(extra, dict):
        return f"the table [{name}]"
    return str(extra["expected"] or _allowed(field))


def example_of(field: FieldInfo) -> Any:
    """Return the example of a key."""
    extra = field.json_schema_extra
    return extra["example"] if isinstance(extra, dict) else None


def _allowed(field: FieldInfo) -> str:
    """Say what a key's type and limits allow."""
    kind = field.annotation
    if type(None) in typing.get_args(kind):  # a key that may be left out
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is typing.Literal:
        *others, last = map(json.dumps, typing.get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    limits = {name: getattr(one, name) for name in _LIMITS for one in field.metadata if hasattr(one, name)}
    return _TYPES[kind] + _WITHIN[" ".join(limits)].format(*(f"{limit:,}" for limit in limits.values()))


def sentence(found: Any, whole: type[Table]) -> tuple[str, str]:
    """Return the path of the key that an error of pydantic is about, and the sentence for it."""
    table: type[Table] | None = whole
    named: type[Table] | None = None
    names: list[str] = []
    expected = "a table"
    for part in found["loc"]:
        if named is not None:
            expected = named.expected if issubclass(named, NamedTable) else "a table"
            table, named = named, None
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
