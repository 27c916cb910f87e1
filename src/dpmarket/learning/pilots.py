"""Turn public records into declarations about columns, for private records of the same kind."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpmarket.datasets import PublicData, standard_bounds
from dpmarket.datasets.public_data import SPREAD
from dpmarket.errors import InvalidInput
from dpmarket.learning.columns import Categories, Column, Dates, Numbers, YesNo
from dpmarket.learning.frames import columns_of


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
    known = [value for value in _plain(values) if not (value is None or value != value)]
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


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
