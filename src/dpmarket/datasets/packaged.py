"""Turn data sets that other packages ship, installed with the extra ``real-data``, into public data.

Bounds follow from what a feature means, as the set's own description tells it: a scale from 1 to 5, a yes or
a no, an age between the youngest and the oldest who were asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.datasets.public_data import PublicData
from dpmarket.files import csv_columns, packaged_file, packaged_member

_EXTRA = "real-data"
_ARCHIVE = "resources.tar.gz"

_FAIR = {
    "rate_marriage": (1.0, 5.0),
    "age": (17.0, 42.0),
    "yrs_married": (0.0, 23.0),
    "children": (0.0, 6.0),
    "religious": (1.0, 4.0),
    "educ": (9.0, 20.0),
    "occupation": (1.0, 6.0),
    "occupation_husb": (1.0, 6.0),
}
_INSURANCE_LEVELS = {
    "hhi2": ("yes",),
    "education": ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years"),
    "race": ("white", "black", "other"),
    "hispanic": ("yes",),
    "region": ("other", "northcentral", "south", "west"),
}
_INSURANCE_NUMBERS = {
    "experience": (0.0, 50.0),
    "kidslt6": (0.0, 5.0),
    "kids618": (0.0, 8.0),
    "husby": (0.0, 100.0),
}
_GERMAN = {
    "docvis": (0.0, 121.0),
    "hospvis": (0.0, 51.0),
    "year": (1984.0, 1988.0),
    "edlevel": (1.0, 4.0),
    "age": (25.0, 64.0),
    "female": (0.0, 1.0),
    "married": (0.0, 1.0),
    "kids": (0.0, 1.0),
    "hhninc": (0.0, 30.0),
    "educ": (7.0, 18.0),
    "self": (0.0, 1.0),
    "edlevel1": (0.0, 1.0),
    "edlevel2": (0.0, 1.0),
    "edlevel3": (0.0, 1.0),
    "edlevel4": (0.0, 1.0),
}


def affairs() -> PublicData:
    """Return Fair's survey of married women: 6366 records, 8 features; had an affair, or not.

    Returns
    -------
    PublicData
        With bounds that its codebook states.

    Raises
    ------
    FileProblem
        If statsmodels is not installed; the extra ``real-data`` brings it.
    """
    table = csv_columns(packaged_file("statsmodels", "datasets/fair/fair.csv", _EXTRA))
    return _public(
        {name: _numbers(table, name) for name in _FAIR},
        np.where(_numbers(table, "affairs") > 0.0, "yes", "no"),
        ("no", "yes"),
        list(_FAIR.values()),
        name="affairs",
        source="statsmodels, datasets.fair (Fair 1978)",
    )


def health_insurance() -> PublicData:
    """Return wives of 1993: 22272 records, 19 features; works full time (35 hours a week), or not.

    Education, race and region are turned into one column of 0 and 1 per level.

    Returns
    -------
    PublicData
        With bounds that its codebook states.

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = csv_columns(_pydataset("Ecdat/HI.csv"))
    columns: dict[str, FloatArray] = {}
    for name, levels in _INSURANCE_LEVELS.items():
        texts = np.array(table[name])
        columns |= {f"{name} {level}": (texts == level).astype(np.float64) for level in levels}
    yes_no = [(0.0, 1.0)] * len(columns)
    columns |= {name: _numbers(table, name) for name in _INSURANCE_NUMBERS}
    return _public(
        columns,
        np.where(_numbers(table, "whrswk") >= 35.0, "full time", "less"),
        ("less", "full time"),
        yes_no + list(_INSURANCE_NUMBERS.values()),
        name="health insurance",
        source="pydataset, HI (Ecdat; Olson 1998)",
    )


def german_health() -> PublicData:
    """Return a German health registry, 1984 to 1988: 19609 records, 15 features; out of work, or not.

    The records are those of 6127 people, at most five of each, one a year: ``people`` says whose they are.

    Returns
    -------
    PublicData
        With bounds that its codebook states.

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = csv_columns(_pydataset("COUNT/rwm5yr.csv"))
    return _public(
        {name: _numbers(table, name) for name in _GERMAN},
        np.where(_numbers(table, "outwork") > 0.0, "out of work", "working"),
        ("working", "out of work"),
        list(_GERMAN.values()),
        name="German health",
        source="pydataset, rwm5yr (COUNT; Hilbe and Greene 2007)",
        people=_numbers(table, "id").astype(np.int64),
    )


def _pydataset(name: str) -> bytes:
    return packaged_member("pydataset", _ARCHIVE, f"resources/rdata/csv/{name}", _EXTRA)


def _numbers(table: Mapping[str, list[str]], name: str) -> FloatArray:
    return np.array(table[name], dtype=np.float64)


def _public(
    columns: Mapping[str, FloatArray],
    labels: np.ndarray,
    classes: tuple[str, str],
    bounds: Sequence[tuple[float, float]],
    *,
    name: str,
    source: str,
    people: np.ndarray | None = None,
) -> PublicData:
    low, high = np.array(bounds).T
    return PublicData(
        features=np.column_stack(list(columns.values())),
        labels=labels,
        classes=classes,
        low=low,
        high=high,
        name=name,
        source=source,
        people=people,
        feature_names=tuple(columns),
    )
