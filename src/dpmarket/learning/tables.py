"""Tables of pandas, polars, mappings and arrays: their columns, and declarations from public records."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmarket.datasets import PublicData, standard_bounds
from dpmarket.datasets.public_data import SPREAD
from dpmarket.errors import InvalidInput
from dpmarket.learning.columns import Categories, Column, Dates, Numbers, YesNo


def names_of(table: Any, wanted: Sequence[str]) -> list[str] | None:
    """Return the names of a table's columns, or None for an array: its columns are those wanted, in order."""
    columns = table if isinstance(table, Mapping) else getattr(table, "columns", None)
    if columns is None:
        shape = np.shape(table)
        if len(shape) != 2 or shape[1] != len(wanted):
            raise InvalidInput(
                f"expected a table with named columns, or an array of {len(wanted)} columns, got shape "
                f"{shape}."
            )
        return None
    names = [str(name) for name in columns]
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InvalidInput(f"expected the columns {', '.join(map(repr, absent))} in the table; found none.")
    return names


def columns_of(table: Any, wanted: Sequence[str]) -> list[Any]:
    """Return the values of the wanted columns, each an array of numbers or a list."""
    if names_of(table, wanted) is None:
        array = np.asarray(table)
        found = [array[:, place] for place in range(len(wanted))]
        return [column if column.dtype.kind in "fiub" else column.tolist() for column in found]
    columns = [_values(table[name]) for name in wanted]
    if len({len(column) for column in columns}) > 1:
        raise InvalidInput("expected columns of the same length.")
    return columns


def _values(column: Any) -> Any:
    """Return a column as numbers, if it has nothing else, or as a list with None for gaps."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        return column
    kind = type(column).__module__.split(".")[0]
    if kind == "pandas":
        if getattr(column.dtype, "kind", "O") in "fiub" and isinstance(column.dtype, np.dtype):
            return np.asarray(column)
        gaps = column.isna().to_numpy()
        return [None if gap else value for value, gap in zip(column.tolist(), gaps, strict=True)]
    if kind == "polars" and column.dtype.is_numeric() and column.null_count() == 0:
        return np.asarray(column.to_numpy())
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def declared_from(public: Any, most_categories: int) -> dict[str, Column]:
    """Return what public records tell about their columns; see ``PublicEncoder.from_public``."""
    if isinstance(public, PublicData):
        return _of_public_data(public)
    if not isinstance(public, Mapping) and not hasattr(public, "columns"):
        raise InvalidInput("expected PublicData or a data frame of public records.")
    names = [str(name) for name in (public if isinstance(public, Mapping) else public.columns)]
    values = columns_of(public, names)
    if not names or not len(values[0]):
        raise InvalidInput("expected public records, got none.")
    return {
        name: _of_values(name, column, most_categories) for name, column in zip(names, values, strict=True)
    }


def _of_public_data(public: PublicData) -> dict[str, Column]:
    low, high = standard_bounds(public)
    names = public.feature_names or tuple(f"x{k}" for k in range(public.n_features))
    found: dict[str, Column] = {}
    for k, name in enumerate(names):
        binary = bool(np.isin(public.features[:, k], (0.0, 1.0)).all())
        if binary and public.low[k] == 0.0 and public.high[k] == 1.0:
            found[name] = YesNo()
        else:
            found[name] = Numbers(float(low[k]), float(high[k]))
    return found


def _of_values(name: str, values: Any, most_categories: int) -> Column:
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    known = [value for value in plain if not (value is None or value != value)]
    gaps = len(known) < len(values)
    if not known:
        raise InvalidInput(f"expected a value in the public column {name!r}, found gaps only.")
    if all(isinstance(value, bool) for value in known):
        return YesNo(missing_category=gaps)
    if all(isinstance(value, int | float) for value in known):
        return _numbers(known)
    if all(isinstance(value, datetime.date) for value in known):
        first, last = min(known), max(known)
        return Dates(first, last if last > first else first + datetime.timedelta(days=1))
    if all(isinstance(value, str) for value in known):
        common = [value for value, _ in Counter(known).most_common(most_categories)]
        return Categories(tuple(sorted(common)), other=True, missing_category=gaps)
    raise InvalidInput(f"expected numbers, dates or texts in the public column {name!r}.")


def _numbers(known: list[Any]) -> Numbers:
    numbers = np.array(known, dtype=np.float64)
    centre, spread = float(numbers.mean()), SPREAD * float(numbers.std())
    if not spread > 0.0 or not math.isfinite(spread):
        spread = max(1.0, abs(centre))
    return Numbers(centre - spread, centre + spread, missing=centre)
