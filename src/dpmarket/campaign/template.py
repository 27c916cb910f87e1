"""Turn the description of the market file into a commented example and into a reference page."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpmarket.campaign.market_file import Bounds, Market

_INTRODUCTION = """\
# A market file of dpmarket: what a campaign buys, from whom, and what is trained.
# Everything here is public and is fixed before anybody reports a cost.
# Lines that begin with '# ' and a key are optional keys; remove the '# ' to use them.
"""
_FEATURES = {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 100000.0}}
_SHOWN = {"objective.payment_weight"}  # optional in the model, but one of two is needed


def market_template() -> str:
    """Return a market file with every key, each with a comment; it is a valid market file itself.

    Examples
    --------
    >>> import tomllib
    >>> from dpmarket.campaign import check_market
    >>> check_market(tomllib.loads(market_template())).costs.distribution
    'uniform(1, 5)'
    """
    parts = [_INTRODUCTION]
    for name, field in Market.model_fields.items():
        model = _model(field)
        if model is None:
            lines = [*_comment(_meaning(field)), f"[{name}]"]
            lines += [
                f"{feature} = {{ low = {_toml(bounds['low'])}, high = {_toml(bounds['high'])} }}"
                for feature, bounds in _FEATURES.items()
            ]
        else:
            lines = [*_comment(str(model.__doc__)), f"[{name}]"]
            for key, entry in model.model_fields.items():
                lines += _entry(f"{name}.{key}", key, entry)
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def market_reference() -> str:
    """Return the reference page of the market file, as Markdown."""
    parts = [
        "# The market file\n\n"
        "Written by `dpmarket init`, read by every command of a campaign. This page is generated from the\n"
        "model that checks the file (`dpmarket.campaign.market_reference`).\n"
    ]
    for name, field in Market.model_fields.items():
        model = _model(field)
        parts.append(f"## `[{name}]`\n\n{model.__doc__ if model else _meaning(field)}\n")
        rows = ["| key | expected | default | meaning |", "|---|---|---|---|"]
        shown = model or Bounds
        for key, entry in shown.model_fields.items():
            label = key if model else f"NAME.{key}"
            rows.append(
                f"| `{label}` | {_extra(entry)['expected']} | {_default(entry)} | {_meaning(entry)} |"
            )
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _entry(path: str, key: str, field: FieldInfo) -> list[str]:
    extra = _extra(field)
    line = f"{key} = {_toml(extra['example'])}"
    if field.default is None and path not in _SHOWN:
        line = "# " + line
    return [*_comment(f"{_meaning(field)} Expected: {extra['expected']}."), line]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ")


def _model(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _extra(field: FieldInfo) -> dict[str, Any]:
    assert isinstance(field.json_schema_extra, dict)
    return dict(field.json_schema_extra)


def _meaning(field: FieldInfo) -> str:
    return str(field.description)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "left out" if field.default is None else f"`{_toml(field.default)}`"


def _toml(value: Any) -> str:
    """Write a text, number or list of them as TOML."""
    return json.dumps(value, ensure_ascii=False)
