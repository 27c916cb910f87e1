"""Describe tables and keys of the market file: what is expected, what it means, an example."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def key(default: Any, expected: str, meaning: str, example: Any = None, **limits: Any) -> Any:
    """Describe one key: its default (``...``: required), what is expected, what it means, an example."""
    extra = {"expected": expected, "example": default if example is None else example}
    if extra["example"] is ...:
        del extra["example"]  # a required key whose example stands in the template itself
    return Field(default, description=meaning, json_schema_extra=extra, **limits)


class Table(BaseModel):
    """A table of the market file: frozen, and nothing in it that is not described."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def given_keys(table: BaseModel) -> dict[str, Any]:
    """Return the keys of a table that are given, as plain data."""
    return {name: value for name in type(table).model_fields if (value := getattr(table, name)) is not None}
