"""Public data sets that other packages ship: scikit-learn, statsmodels and pydataset (extra ``real-data``).

Sets of scikit-learn have the bounds of :func:`~dpmarket.datasets.standard_bounds` over the whole set, which
is public: extreme values would otherwise leave most of a feature's range empty. The others have the bounds
that their codebooks state. A set whose package is missing is refused with the extra to install.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.datasets.public_data import PublicData, PublicTable, standard_bounds
from dpmarket.files import csv_columns, packaged_file, packaged_member

_YES_NO = (0.0, 1.0)
_Columns = Mapping[str, list[str]]
_WIVES_LEVELS = {
    "hhi2": ("yes",),
    "education": ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years"),
    "race": ("white", "black", "other"),
    "hispanic": ("yes",),
    "region": ("other", "northcentral", "south", "west"),
}


def _pydataset(path: str) -> _Columns:
    """Return the columns of a table of pydataset, whose own code does not run."""
    member = f"resources/rdata/csv/{path}"
    return csv_columns(packaged_member("pydataset", "resources.tar.gz", member, "real-data"))


def _numbers(columns: _Columns, name: str) -> FloatArray:
    return np.array(columns[name], dtype=np.float64)


def _data(
    name: str,
    source: str,
    columns: _Columns,
    labels: Any,
    classes: tuple[str, str],
    numbers: Mapping[str, tuple[float, float]],
    *,
    levels: Mapping[str, Sequence[str]] | None = None,
    people: Any = None,
) -> PublicData:
    """Return numbers with their bounds, after a column of 0 and 1 for each of the ``levels`` of texts."""
    found: dict[str, FloatArray] = {}
    for text, names in (levels or {}).items():
        found |= {f"{text} {each}": (np.array(columns[text]) == each).astype(float) for each in names}
    low, high = zip(*[_YES_NO] * len(found), *numbers.values(), strict=True)
    found |= {number: _numbers(columns, number) for number in numbers}
    labels = np.where(labels, classes[1], classes[0])
    features = np.column_stack(list(found.values()))
    return PublicData(
        features, labels, classes, np.array(low), np.array(high), name, source, people, tuple(found)
    )


def affairs() -> PublicData:
    """Return Fair's survey of married women: 6366 records, 8 features; had an affair, or not."""
    columns = csv_columns(packaged_file("statsmodels", "datasets/fair/fair.csv", "real-data"))
    numbers = {
        "rate_marriage": (1.0, 5.0), "age": (17.0, 42.0), "yrs_married": (0.0, 23.0), "children": (0.0, 6.0),
        "religious": (1.0, 4.0), "educ": (9.0, 20.0), "occupation": (1.0, 6.0), "occupation_husb": (1.0, 6.0),
    }  # fmt: skip
    source = "statsmodels, datasets.fair (Fair 1978)"
    return _data("affairs", source, columns, _numbers(columns, "affairs") > 0.0, ("no", "yes"), numbers)


def health_insurance() -> PublicData:
    """Return wives of 1993: 22272 records, 19 features; works full time (35 hours a week), or not."""
    columns = _pydataset("Ecdat/HI.csv")
    numbers = {"experience": (0.0, 50.0), "kidslt6": (0.0, 5.0), "kids618": (0.0, 8.0), "husby": (0.0, 100.0)}
    source, labels = "pydataset, HI (Ecdat; Olson 1998)", _numbers(columns, "whrswk") >= 35.0
    classes = ("less", "full time")
    return _data("health insurance", source, columns, labels, classes, numbers, levels=_WIVES_LEVELS)


def german_health() -> PublicData:
    """Return a German health registry: 19609 records of 6127 people, 15 features; out of work, or not."""
    columns = _pydataset("COUNT/rwm5yr.csv")
    numbers = {
        "docvis": (0.0, 121.0), "hospvis": (0.0, 51.0), "year": (1984.0, 1988.0), "edlevel": (1.0, 4.0),
        "age": (25.0, 64.0), "female": _YES_NO, "married": _YES_NO, "kids": _YES_NO, "hhninc": (0.0, 30.0),
        "educ": (7.0, 18.0), "self": _YES_NO, "edlevel1": _YES_NO, "edlevel2": _YES_NO, "edlevel3": _YES_NO,
        "edlevel4": _YES_NO,
    }  # fmt: skip
    source, people = "pydataset, rwm5yr (COUNT; Hilbe and Greene 2007)", np.array(columns["id"], dtype=int)
    labels, classes = _numbers(columns, "outwork") > 0.0, ("working", "out of work")
    return _data("German health", source, columns, labels, classes, numbers, people=people)


def unemployment_benefits() -> PublicTable:
    """Return workers who lost their job: 4877 records, 16 columns; apply for benefits, or not."""
    columns = _pydataset("Ecdat/Benefits.csv")
    texts = ("state", "joblost", "nwhite", "school12", "sex", "smsa", "married", "dkids", "dykids", "yrdispl")
    frame: dict[str, Any] = {name: columns[name] for name in (*texts, "head")}
    frame |= {name: _numbers(columns, name) for name in ("stateur", "statemb", "age", "tenure", "rr")}
    return PublicTable(
        pl.DataFrame(frame),
        labels=np.array(columns["ui"]),
        classes=("no", "yes"),
        name="unemployment benefits",
        source="pydataset, Benefits (Ecdat; McCall 1995)",
    )


def breast_cancer() -> PublicData:
    """Return the Wisconsin diagnostic breast cancer set: 569 records, 30 features; benign, or malignant.

    Examples
    --------
    >>> data = breast_cancer()
    >>> len(data), data.n_features, data.classes
    (569, 30, ('malignant', 'benign'))
    """
    loader = "load_breast_cancer (UCI machine learning repository)"
    return _bundled("breast cancer", loader, ("malignant", "benign"), lambda target: target == 1)


def diabetes() -> PublicData:
    """Return 442 patients with diabetes, 10 features; the disease went on faster than the median, or not.

    Examples
    --------
    >>> diabetes().classes
    ('slower', 'faster')
    """
    loader, classes = "load_diabetes (Efron 2004)", ("slower", "faster")
    return _bundled("diabetes", loader, classes, lambda target: target > np.median(target), scaled=False)


def odd_digits() -> PublicData:
    """Return 1797 written digits, 61 features (the pixels that are not always empty); odd, or even.

    Examples
    --------
    >>> odd_digits().n_features
    61
    """
    loader = "load_digits (Alpaydin, Kaynak 1998)"
    return _bundled("odd digits", loader, ("even", "odd"), lambda target: target % 2 == 1)


def wine() -> PublicData:
    """Return 178 Italian wines, 13 features; of the second cultivar, or of another one.

    Examples
    --------
    >>> len(wine())
    178
    """
    return _bundled("wine", "load_wine (Forina 1991)", ("other", "second"), lambda target: target == 1)


def _bundled(
    name: str,
    loader: str,
    classes: tuple[str, str],
    positive: Callable[[FloatArray], Any],
    **settings: bool,
) -> PublicData:
    from sklearn import datasets  # type: ignore[import-untyped]

    bunch = getattr(datasets, loader.split()[0])(**settings)
    used = bunch.data.std(axis=0) > 0.0
    features = bunch.data[:, used]
    data = PublicData(
        features=features,
        labels=np.where(positive(bunch.target), classes[1], classes[0]),
        classes=classes,
        low=features.min(axis=0),
        high=features.max(axis=0),
        name=name,
        source=f"scikit-learn, {loader}",
        feature_names=tuple(map(str, np.asarray(bunch.feature_names)[used])),
    )
    low, high = standard_bounds(data)
    return replace(data, low=low, high=high)
