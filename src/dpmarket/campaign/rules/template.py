"""Rules files with every key and a comment to each, made from the model that checks them."""

import datetime
import json
import os
import textwrap
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from dpmarket.campaign.rules.keys import Table, example_of, expected_of, table_of
from dpmarket.campaign.rules.rules_file import MOST_LABELS, Rules, Sellers, check_rules
from dpmarket.errors import FileProblem
from dpmarket.files import dates_of, is_of_numbers, numbers_of, read_table, refuse
from dpmarket.learning.columns import TRUTHS, YES_AND_NO

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
_PREDICTED = {"label": {"values"}, "target": {"low", "high"}}  # what is public about it
_MOST_CATEGORIES = 50
_LEFT_OUT = "left out: most texts differ (ids, names, dates with the month first)"
_FEW = 10


def rules_template(values: Mapping[str, Any] | None = None) -> str:
    """Return a rules file with every key, each with a comment; ``values`` by dotted path replace defaults."""
    return _checked(_nested(values or {}))


def sample_template(
    sample: str | os.PathLike[str], values: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, str]]:
    """Return a rules file whose features are the columns of a public sample, and what each was taken for.

    Labels, and the bounds of a target, are taken from the sample as well if ``values`` do not say them.
    """
    given, table = _nested(values or {}), read_table(sample)
    sellers = Sellers().model_dump() | given.get("sellers", {})
    used = {sellers["id_column"], sellers["cost_column"], *(_column_of(name, given) for name in _PREDICTED)}
    if given.get("statistics"):  # in place of features
        return _checked(given, taken=_TAKEN), {}
    declared, words = declared_by(table, sample, used)
    words |= _predicted(table, sample, given)
    given["features"] = declared | given.get("features", {})
    return _checked(given, taken=_TAKEN), words


def declared_by(
    table: pl.DataFrame, sample: str | os.PathLike[str], left_out: set[Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return declarations for the columns of a public sample, without ids, and what each was taken for."""
    from dpmarket.learning.tables import declared_from

    read = {name: _as_meant(table, name, sample) for name in table.columns if name not in left_out}
    read = {name: (column, note) for name, (column, note) in read.items() if not column.is_null().all()}
    ids = [name for name, (column, _) in read.items() if _is_of_ids(column)]
    typed = pl.DataFrame([column for name, (column, _) in read.items() if name not in ids])
    if not typed.width:
        raise FileProblem(f"cannot use {sample}: expected a column that is no id and no label.")
    declared = {name: column.to_dict() for name, column in declared_from(typed, _MOST_CATEGORIES).items()}
    found = {name: {key: _short(value) for key, value in own.items()} for name, own in declared.items()}
    words = {name: _words(found[name], note) for name, (_, note) in read.items() if name in found}
    return found, words | dict.fromkeys(ids, _LEFT_OUT)


def _predicted(table: pl.DataFrame, sample: str | os.PathLike[str], given: dict[str, Any]) -> dict[str, str]:
    """Take labels, or the bounds of a target, from a public sample, unless they are given; say which."""
    name = "target" if "target" in given else "label"
    own, column, found = given.get(name, {}), _column_of(name, given), {}
    if _PREDICTED[name] <= own.keys():
        return {}
    if column in table.columns and name == "target":
        numbers, _ = _as_meant(table, column, sample)
        if numbers.dtype.is_numeric():
            low, high = map(_short, np.nanquantile(numbers.to_numpy(), (0.0, 1.0)).tolist())
            found = {"low": low, "high": high} if low < high else {}
    elif column in table.columns:
        known = table.get_column(column).cast(pl.String).drop_nulls().str.strip_chars()
        values = sorted(known.unique().to_list(), key=lambda text: (TRUTHS.get(text.lower(), False), text))
        found = {"values": values} if 2 <= len(values) <= MOST_LABELS else {}
    if found:
        given[name] = found | own
    words = " or ".join(found["values"]) if "values" in found else " to ".join(map(str, found.values()))
    words = words or "the sample does not show its labels or bounds; set them"
    return {column: f"what is predicted: {words}"}


def _column_of(name: str, given: Mapping[str, Any]) -> str:
    """Return the column of the label or target."""
    return str(given.get(name, {}).get("column", name))


def _as_meant(table: pl.DataFrame, name: str, sample: str | os.PathLike[str]) -> tuple[pl.Series, str]:
    """Return a column of texts as dates, numbers or truths where all of it is such; and how it was read."""
    column = table.get_column(name)
    if column.dtype != pl.String:
        return column, ""
    texts = column.str.strip_chars().replace("", None)
    dates, is_day_first = dates_of(texts)
    if dates.null_count() == texts.null_count():
        return dates, "read day first" if is_day_first else ""
    if is_of_numbers(texts):
        known = np.flatnonzero(texts.is_not_null().to_numpy())
        refuse(table, sample, numbers_of(table, name, known)[1])
        return texts.cast(pl.Float64), ""
    words = texts.str.to_lowercase()
    if {*words.drop_nulls()} in map(set, YES_AND_NO):
        return words.replace_strict(TRUTHS, return_dtype=pl.Boolean), ""
    return texts, ""


def _is_of_ids(column: pl.Series) -> bool:
    """Whether texts are ids, names or dates in a form that is not read, rather than categories."""
    known, different = column.drop_nulls(), column.drop_nulls().n_unique()
    many = _MOST_CATEGORIES < different > len(known) // 2
    return column.dtype == pl.String and len(known) >= _FEW and (different == len(known) or many)


def _short(value: Any) -> Any:
    """Return a value, of a float four digits."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


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


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables from values by dotted path; names of features may have dots themselves."""
    data: dict[str, Any] = {}
    for path, value in values.items():
        table, _, rest = path.partition(".")
        field = Rules.model_fields.get(table)
        model, is_named = (None, False) if field is None else table_of(field.annotation)
        if model is None or not rest or not (is_named or rest in model.model_fields):
            problem = f"{path}: no such key."
            raise FileProblem("expected keys of the rules file, as TABLE.KEY=VALUE.", [problem])
        name, _, key = rest.rpartition(".")
        own = data.setdefault(table, {})
        if is_named:
            own.setdefault(name or rest, {}).update({key: value} if name else value)
        else:
            own[rest] = value
    return data


def _checked(given: Mapping[str, Any], taken: str = "") -> str:
    """Return the file with what is given, and a comment about features that were taken from a sample."""
    asks = bool(given.get("statistics"))
    left_out = {"features", "label", "target"} if asks else {"statistics"}
    left_out |= {"screening", *({"panel"} - given.keys())}  # for the service; see the documentation
    if not asks:
        left_out.add("label" if "target" in given else "target")
    parts = [_INTRODUCTION]
    for name, field in Rules.model_fields.items():
        model, is_named = table_of(field.annotation)
        if name in left_out or model is None:
            continue
        if is_named:
            shown, about = given.get(name, {}), _comment(str(field.description))
            if name == "features":
                shown = shown or _features(given)
                about += [_KINDS, *_comment(taken)]
            keys = [f"{_key(own)} = {_toml(declared)}" for own, declared in shown.items()]
        else:
            about = _comment(str(model.__doc__))
            names = ["outside_bounds"] if asks and name == "training" else model.model_fields
            keys = [line for key in names for line in _entry(name, model, key, given)]
        parts.append("\n".join([*about, f"[{name}]", *keys]) + "\n")
    text = "\n".join(parts)
    check_rules(tomllib.loads(text), "these values")
    return text


def _features(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return examples of features whose columns are not used otherwise."""
    used = [value for table in ("label", "target", "sellers") for value in given.get(table, {}).values()]
    return {name: ends for name, ends in _FEATURES.items() if name not in used}


def _entry(table: str, model: type[Table], key: str, given: Mapping[str, Any]) -> list[str]:
    field, own = model.model_fields[key], given.get(table, {})
    line = f"{key} = {_toml(own.get(key, example_of(field)))}"
    has_price = bool({"budget", "payment_weight"} & set(given.get("objective", {})))
    is_shown = (table, key) in _SHOWN and not has_price
    if field.default is None and not is_shown and key not in own:
        line = "# " + line
    return [*_comment(f"{field.description} Expected: {expected_of(model, key)}."), line]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ")


def toml_lines(tables: Mapping[str, Any]) -> list[str]:
    """Return tables as lines of TOML: each key on a line of its own, and lists of tables one by one."""
    lines = []
    for name, table in tables.items():
        listed = isinstance(table, list)
        for one in table if listed else [table]:
            lines += [f"[[{name}]]" if listed else f"[{name}]"]
            lines += [f"{_key(key)} = {_toml(value)}" for key, value in one.items()] + [""]
    return lines


def _key(name: str) -> str:
    """Write a name as a key of TOML: bare if it can be."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _toml(name)


def _toml(value: Any) -> str:
    """Write a text, a number, a date, a truth value, a table or a list of texts and numbers as TOML."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_toml(one)}" for name, one in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
