"""Market files with every key, each with a comment, made from the model that checks them."""

from __future__ import annotations

import json
import os
import textwrap
import tomllib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpmarket.campaign.complaints import is_table, model_in
from dpmarket.campaign.features import declared_by
from dpmarket.campaign.market_file import Label, Market, Sellers, check_market
from dpmarket.campaign.questions import keys_of, missing_keys
from dpmarket.errors import FileProblem

_INTRODUCTION = """\
# A market file of dpmarket: what a campaign buys, from whom, and what is made of it.
# Everything here is public and is fixed before anybody reports a cost.
# Lines that begin with '# ' and a key are optional keys; remove the '# ' to use them.
# If costs were asked in a pilot, its people must not be sellers here: exclude them (sellers.excluded).
"""
_TAKEN = (
    "TO BE READ OVER: bounds and categories were taken from a public sample. Nobody in it may be a seller "
    "here, and what is not meant to be a feature is to be deleted."
)
_FEATURES = {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 100000.0}}
_SHOWN = {"objective.budget", "sellers.expected"}  # optional in the model; what most buyers start from


def market_template(
    values: Mapping[str, Any] | None = None, features: Mapping[str, Mapping[str, Any]] | None = None
) -> str:
    """Return a market file with every key, each with a comment; it is a valid market file itself.

    Parameters
    ----------
    values
        What the file shall say, by ``table.key``, in place of examples and defaults. A budget given here
        needs ``sellers.expected``, too; a payment weight takes the budget's place. A feature's bounds are
        ``features.NAME.low`` and ``features.NAME.high``; an example of a feature whose column is used
        otherwise is left out. With ``statistic.kind`` the file asks for a statistic: it has no features and
        no label.
    features
        Declarations per feature, as plain data, in place of the examples, such as those of a public sample
        (:func:`sample_template`). A comment asks to read them over.

    Returns
    -------
    str
        The text of the file.

    Raises
    ------
    FileProblem
        A key that does not exist, or values that a market file must not have; ``details`` has a line for
        each.

    Examples
    --------
    >>> import tomllib
    >>> from dpmarket.campaign import check_market
    >>> text = market_template({"objective.budget": 500.0, "sellers.expected": 1000})
    >>> check_market(tomllib.loads(text)).objective.budget
    500.0
    """
    values = dict(values or {})
    keys = {f"{table}.{key}" for table, model in _tables() for key in model.model_fields}
    bounds = {path: value for path, value in values.items() if _feature_of(path) is not None}
    unknown = [f"{path}: no such key." for path in values if path not in keys and path not in bounds]
    if unknown:
        raise FileProblem("expected keys of the market file, as TABLE.KEY=VALUE.", unknown)
    shown = _features(values, bounds) if features is None else {n: dict(d) for n, d in features.items()}
    text = _filled(values, shown, _TAKEN if features is not None else "")
    check_market(tomllib.loads(text), "these values")
    return text


def sample_template(sample: str | os.PathLike[str], values: Mapping[str, Any] | None = None) -> str:
    """Return a market file whose features are the columns of a public sample, marked to be read over.

    Parameters
    ----------
    sample
        .csv or .parquet with public records, none of them a seller's. Ids, costs and labels, by their names
        in ``values`` or by default, are no features.
    values
        As for :func:`market_template`.

    Returns
    -------
    str
        The text of the file.

    Raises
    ------
    FileProblem
        As :func:`market_template`, and if the sample cannot be read.
    """
    used = {
        "sellers.id_column": Sellers.model_fields["id_column"].default,
        "sellers.cost_column": Sellers.model_fields["cost_column"].default,
        "label.column": Label.model_fields["column"].default,
    }
    return market_template(
        values, declared_by(sample, [str((values or {}).get(path, name)) for path, name in used.items()])
    )


def _tables() -> list[tuple[str, type[BaseModel]]]:
    found = ((name, _model(field)) for name, field in Market.model_fields.items())
    return [(name, model) for name, model in found if model is not None]


def _feature_of(path: str) -> tuple[str, str] | None:
    """Return the feature and the end of its bounds that a path names, None if it names none."""
    table, _, rest = path.partition(".")
    name, _, end = rest.rpartition(".")
    return (name, end) if table == "features" and name and end in ("low", "high") else None


def _features(values: Mapping[str, Any], bounds: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the examples of features, without such whose column is used otherwise, and what was given."""
    used = {values.get(path) for path in ("label.column", "sellers.id_column", "sellers.cost_column")}
    features = {name: dict(ends) for name, ends in _FEATURES.items() if name not in used}
    for path, value in bounds.items():
        name, end = _feature_of(path) or ("", "")
        features.setdefault(name, {})[end] = value
    return features


def _filled(values: Mapping[str, Any], features: Mapping[str, Mapping[str, Any]], note: str) -> str:
    parts = [_INTRODUCTION]
    kind = values.get("statistic.kind")
    left_out = {"statistic", "statistics"} if kind is None else {"features", "label", "statistics"}
    for name, field in Market.model_fields.items():
        model = _model(field)
        if name in left_out:
            continue
        if model is None:
            lines = [*_comment(_meaning(field)), *_comment(note), f"[{name}]"]
            for feature, declared in features.items():
                parts_ = ", ".join(f"{part} = {_toml(value)}" for part, value in declared.items())
                lines.append(f"{_key(feature)} = {{ {parts_} }}")
        else:
            lines = [*_comment(str(model.__doc__)), f"[{name}]"]
            for key, entry in model.model_fields.items():
                if kind is None or _belongs(f"{name}.{key}", str(kind)):
                    lines += _entry(f"{name}.{key}", key, entry, values)
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _belongs(path: str, kind: str) -> bool:
    """Whether a key has a meaning in a market that asks for a statistic of this kind."""
    table, _, key = path.partition(".")
    if table == "training":
        return key == "outside_bounds"
    return table != "statistic" or key in keys_of(kind)


def _entry(path: str, key: str, field: FieldInfo, values: Mapping[str, Any]) -> list[str]:
    extra = _extra(field)
    line = f"{key} = {_toml(values.get(path, extra['example']))}"
    shown = path in _SHOWN and not {"objective.budget", "objective.payment_weight"} & set(values)
    shown = shown or path in _needed(values)
    if field.default is None and not shown and path not in values:
        line = "# " + line
    return [*_comment(f"{_meaning(field)} Expected: {extra['expected']}."), line]


def _needed(values: Mapping[str, Any]) -> list[str]:
    """Return the keys that a statistic of the kind that was chosen needs."""
    given = {path.removeprefix("statistic."): None for path in values if path.startswith("statistic.")}
    return [f"statistic.{key}" for key in missing_keys(str(values.get("statistic.kind")), given)]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ")


def _model(field: FieldInfo) -> type[BaseModel] | None:
    kind = model_in(field.annotation)
    return kind if is_table(kind) else None


def _extra(field: FieldInfo) -> dict[str, Any]:
    assert isinstance(field.json_schema_extra, dict)
    return dict(field.json_schema_extra)


def _meaning(field: FieldInfo) -> str:
    return str(field.description)


def _key(name: str) -> str:
    """Write a name as a key of TOML: bare if it can be."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _toml(name)


def _toml(value: Any) -> str:
    """Write a text, number or list of them as TOML."""
    return json.dumps(value, ensure_ascii=False)
