"""Rules files with every key and a comment to each, made from the model that checks them."""

from __future__ import annotations

import datetime
import json
import os
import textwrap
import tomllib
from collections.abc import Mapping
from typing import Any

import polars as pl
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpmarket.campaign.rules.keys import is_table, model_in
from dpmarket.campaign.rules.rules_file import Label, Rules, Sellers, Target, check_rules
from dpmarket.errors import FileProblem
from dpmarket.files import read_table

_INTRODUCTION = """\
# A rules file of dpmarket: what a campaign buys, from whom, and what is made of it.
# Everything here is public and is fixed before anybody reports a cost.
# Lines that begin with '# ' and a key are optional keys; remove the '# ' to use them.
# If costs were asked in a pilot, its people must not be sellers here: exclude them (sellers.excluded).
"""
_KINDS = """\
# A number:        age = { low = 18, high = 90 }; with gaps: { low = 18, high = 90, missing = 50 }
# A category:      job = { categories = ["baker", "smith"], other = true }
# A date:          since = { first = 2000-01-01, last = 2025-12-31 }
# Yes or no:       member = { boolean = true }"""
_TAKEN = (
    "TO BE READ OVER: bounds and categories were taken from a public sample. Nobody in it may be a seller "
    "here, and what is not meant to be a feature is to be deleted."
)
_FEATURES = {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 100000.0}}
_SHOWN = {("objective", "budget"), ("sellers", "expected")}  # optional; what most buyers start from
_DAY_FIRST = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y")
_COMMA = r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+\s*$"
_NUMBER = r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?\s*$"


def rules_template(
    values: Mapping[str, Any] | None = None, features: Mapping[str, Mapping[str, Any]] | None = None
) -> str:
    """Return a rules file with every key, each with a comment; it is a valid rules file itself.

    Parameters
    ----------
    values
        What the file shall say, by dotted path, in place of examples and defaults: everything that a rules
        file takes, such as ``objective.budget``, ``features.age.low`` or ``statistics.age.kind``. A payment
        weight takes the budget's place, statistics take the place of features and label, a target takes the
        label's.
    features
        Declarations by feature, in place of the examples, such as those of a public sample. A comment asks
        to read them over.

    Raises
    ------
    FileProblem
        A key that does not exist, or values that a rules file must not have; ``details`` has a line for each.

    Examples
    --------
    >>> import tomllib
    >>> text = rules_template({"objective.budget": 500.0, "sellers.expected": 1000})
    >>> check_rules(tomllib.loads(text)).objective.budget
    500.0
    """
    given: dict[str, Any] = {}
    for path, value in (values or {}).items():
        _put(given, path, value)
    text = _filled(given, features)
    check_rules(tomllib.loads(text), "these values")
    return text


def sample_template(
    sample: str | os.PathLike[str], values: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, str]]:
    """Return a rules file whose features are the columns of a public sample, and what each was taken for.

    Parameters
    ----------
    sample
        .csv or .parquet with public records, none of them a seller's. Ids, costs, labels and targets, by
        their names in ``values`` or by default, are no features. Dates may be written day first, and numbers
        with a decimal comma.
    values
        As for :func:`rules_template`.
    """
    named = dict(values or {})
    used = {
        named.get("sellers.id_column", Sellers.model_fields["id_column"].default),
        named.get("sellers.cost_column", Sellers.model_fields["cost_column"].default),
        named.get("label.column", Label.model_fields["column"].default),
        named.get("target.column", Target.model_fields["column"].default),
    }
    declared, words = declared_by(sample, used)
    return rules_template(named, declared), words


def declared_by(
    sample: str | os.PathLike[str], left_out: set[Any], most_categories: int = 50
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return declarations for the columns of a public sample, and what each column was taken for."""
    from dpmarket.learning.tables import declared_from

    table = read_table(sample)
    table = table.drop([name for name in table.columns if name in left_out])
    table = table.drop([name for name in table.columns if table.get_column(name).is_null().all()])
    if not table.columns:
        raise FileProblem(f"cannot use {sample}: expected a column that is no id and no label.")
    read = {name: _typed(table.get_column(name)) for name in table.columns}
    typed = pl.DataFrame([column for column, _ in read.values()])
    found = {
        name: {
            key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in column.to_dict().items()
        }
        for name, column in declared_from(typed, most_categories).items()
    }
    return found, {name: _words(found[name], note) for name, (_, note) in read.items()}


def _typed(column: pl.Series) -> tuple[pl.Series, str]:
    """Return a column of texts as dates, numbers or truths where all of it is such; and how it was read."""
    if column.dtype != pl.String:
        return column, ""
    known = column.drop_nulls().str.strip_chars()
    for form in ("%Y-%m-%d", *_DAY_FIRST):
        if not known.str.to_date(form, strict=False).has_nulls():
            note = "" if form == "%Y-%m-%d" else "read day first; write 2020-12-31 in the data"
            return column.str.strip_chars().str.to_date(form, strict=False), note
    if known.str.contains(_NUMBER).all() and known.str.contains(_COMMA).any():
        plain = column.str.strip_chars().str.replace_all(".", "", literal=True)
        numbers = plain.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
        return numbers, "read with a decimal comma; write a point in the data"
    if known.str.to_lowercase().is_in(["true", "false"]).all():
        return column.str.to_lowercase() == "true", ""
    return column, ""


def _words(declared: Mapping[str, Any], note: str) -> str:
    if "categories" in declared:
        words = f"one of {len(declared['categories'])} categories"
    elif "first" in declared:
        words = f"a date from {declared['first']} to {declared['last']}"
    elif "boolean" in declared:
        words = "yes or no"
    else:
        words = f"a number from {declared['low']:g} to {declared['high']:g}"
    return f"{words} ({note})" if note else words


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a dotted path of nested tables; names of features may have dots themselves."""
    table, _, rest = path.partition(".")
    if table not in Rules.model_fields or not rest:
        raise FileProblem("expected keys of the rules file, as TABLE.KEY=VALUE.", [f"{path}: no such key."])
    model = _model(Rules.model_fields[table])
    own = data.setdefault(table, {})
    if model is None:  # features and statistics: tables with names of the buyer's own
        name, _, key = rest.rpartition(".")
        own.setdefault(name or rest, {}).update({key: value} if name else value)
    elif rest not in model.model_fields:
        raise FileProblem("expected keys of the rules file, as TABLE.KEY=VALUE.", [f"{path}: no such key."])
    else:
        own[rest] = value


def _filled(given: Mapping[str, Any], features: Mapping[str, Mapping[str, Any]] | None) -> str:
    parts = [_INTRODUCTION]
    asks = bool(given.get("statistics"))
    left_out = {"features", "label", "target"} if asks else {"statistics"}
    if not asks:
        left_out.add("label" if "target" in given else "target")
    for name, field in Rules.model_fields.items():
        if name in left_out:
            continue
        model = _model(field)
        if model is None:
            shown = given.get(name, {})
            if name == "features":
                shown = _features(given) if features is None else {**features, **shown}
            lines = [*_comment(str(field.description)), *([_KINDS] if name == "features" else [])]
            lines += [*_comment(_TAKEN if features is not None else ""), f"[{name}]"]
            lines += [f"{_key(own)} = {_inline(declared)}" for own, declared in shown.items()]
        else:
            lines = [*_comment(str(model.__doc__)), f"[{name}]"]
            for key, entry in model.model_fields.items():
                if not asks or name != "training" or key == "outside_bounds":
                    lines += _entry(name, key, entry, given)
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _features(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the features that are given, or examples whose columns are not used otherwise."""
    if given.get("features"):
        return dict(given["features"])
    used = {
        given.get(table, {}).get(key)
        for table, key in (
            ("label", "column"),
            ("target", "column"),
            ("sellers", "id_column"),
            ("sellers", "cost_column"),
        )
    }
    return {name: ends for name, ends in _FEATURES.items() if name not in used}


def _entry(table: str, key: str, field: FieldInfo, given: Mapping[str, Any]) -> list[str]:
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    own = given.get(table, {})
    line = f"{key} = {_toml(own.get(key, extra['example']))}"
    bought = given.get("objective", {})
    shown = (table, key) in _SHOWN and not {"budget", "payment_weight"} & set(bought)
    if field.default is None and not shown and key not in own:
        line = "# " + line
    return [*_comment(f"{field.description} Expected: {extra['expected']}."), line]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ")


def _model(field: FieldInfo) -> type[BaseModel] | None:
    kind = model_in(field.annotation)
    return kind if is_table(kind) else None


def _key(name: str) -> str:
    """Write a name as a key of TOML: bare if it can be."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _toml(name)


def _inline(declared: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{_key(name)} = {_toml(value)}" for name, value in declared.items()) + " }"


def _toml(value: Any) -> str:
    """Write a text, a number, a date, a truth value or a list of them as TOML."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return _inline(value)
    return json.dumps(value, ensure_ascii=False)
