"""Public data sets that other packages ship: scikit-learn, statsmodels and pydataset (extra ``real-data``).

Each set is a :class:`_Set`: where its table is, which columns are texts and which are numbers with the bounds
that its codebook states, and which records are of the second class. Sets of scikit-learn have the bounds of
:func:`~dpmarket.datasets.standard_bounds` over the whole set, which is public: a few extreme values would
otherwise leave most of a feature's range empty. A set whose package is missing is refused with the extra to
install.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.datasets.public_data import PublicData, PublicTable, standard_bounds
from dpmarket.files import csv_columns, packaged_file, packaged_member

_EXTRA = "real-data"
_YES_NO = (0.0, 1.0)
_Columns = Mapping[str, list[str]]


@dataclass(frozen=True)
class _Set:
    name: str
    source: str
    path: str
    classes: tuple[str, str]
    positive: Callable[[_Columns], Any]  # which records are of the second class
    texts: tuple[str, ...] = ()
    numbers: Sequence[str] | Mapping[str, tuple[float, float]] = ()
    people: str | None = None

    def columns(self) -> _Columns:
        if self.path.startswith("datasets/"):
            return csv_columns(packaged_file("statsmodels", self.path, _EXTRA))
        member = f"resources/rdata/csv/{self.path}"
        return csv_columns(packaged_member("pydataset", "resources.tar.gz", member, _EXTRA))

    def common(self, columns: _Columns) -> dict[str, Any]:
        positive = np.asarray(self.positive(columns), dtype=bool)
        labels = np.where(positive, self.classes[1], self.classes[0])
        people = None if self.people is None else np.array(columns[self.people], dtype=np.int64)
        return {
            "labels": labels,
            "classes": self.classes,
            "name": self.name,
            "source": self.source,
            "people": people,
        }

    def data(self, levels: Mapping[str, Sequence[str]] | None = None) -> PublicData:
        """Return the set as numbers, with a column of 0 and 1 for each of the ``levels`` of texts."""
        columns = self.columns()
        numbers = dict(self.numbers)  # type: ignore[arg-type]
        found: dict[str, FloatArray] = {}
        for text, names in (levels or {}).items():
            found |= {f"{text} {each}": (np.array(columns[text]) == each).astype(float) for each in names}
        bounds = [_YES_NO] * len(found) + list(numbers.values())
        found |= {number: _numbers(columns, number) for number in numbers}
        low, high = np.array(bounds).T
        features = np.column_stack(list(found.values()))
        return PublicData(
            features=features, low=low, high=high, feature_names=tuple(found), **self.common(columns)
        )

    def table(self, bands: Sequence[str] = ()) -> PublicTable:
        """Return the set as a table, with tenths in place of the numbers in ``bands``."""
        columns = self.columns()
        frame: dict[str, Any] = {name: [_gap(value) for value in columns[name]] for name in self.texts}
        for name in self.numbers:
            given = (_gap(value) for value in columns[name])
            frame[name] = [None if value is None else float(value) for value in given]
        frame |= {name: _tenths(_numbers(columns, name)) for name in bands}
        return PublicTable(pl.DataFrame(frame), **self.common(columns))


def _gap(value: str) -> str | None:
    return None if value in {"NA", ""} else value


def _numbers(columns: _Columns, name: str) -> FloatArray:
    return np.array(columns[name], dtype=np.float64)


def _tenths(values: FloatArray) -> list[str]:
    """Return the tenth of all values that each lies in, as a text; the set is public."""
    edges = np.unique(np.quantile(values, np.arange(1, 10) / 10))
    return [f"up to {edges[k]:g}" if k < edges.size else "above" for k in np.searchsorted(edges, values)]


def _above(name: str, least: float) -> Callable[[_Columns], Any]:
    return lambda columns: _numbers(columns, name) >= least


def _is(name: str, value: str) -> Callable[[_Columns], Any]:
    return lambda columns: np.array(columns[name]) == value


_AFFAIRS = _Set(
    "affairs", "statsmodels, datasets.fair (Fair 1978)", "datasets/fair/fair.csv", ("no", "yes"),
    lambda columns: _numbers(columns, "affairs") > 0.0,
    numbers={
        "rate_marriage": (1.0, 5.0), "age": (17.0, 42.0), "yrs_married": (0.0, 23.0), "children": (0.0, 6.0),
        "religious": (1.0, 4.0), "educ": (9.0, 20.0), "occupation": (1.0, 6.0), "occupation_husb": (1.0, 6.0),
    },
)  # fmt: skip
_WIVES = _Set(
    "wives at work", "pydataset, HI (Ecdat; Olson 1998)", "Ecdat/HI.csv", ("less", "full time"),
    _above("whrswk", 35.0), texts=("hhi2", "education", "race", "hispanic", "region"),
    numbers={
        "experience": (0.0, 50.0), "kidslt6": (0.0, 5.0), "kids618": (0.0, 8.0), "husby": (0.0, 100.0)
    },
)  # fmt: skip
_WIVES_LEVELS = {
    "hhi2": ("yes",),
    "education": ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years"),
    "race": ("white", "black", "other"),
    "hispanic": ("yes",),
    "region": ("other", "northcentral", "south", "west"),
}
_GERMAN = _Set(
    "German health", "pydataset, rwm5yr (COUNT; Hilbe and Greene 2007)", "COUNT/rwm5yr.csv",
    ("working", "out of work"), lambda columns: _numbers(columns, "outwork") > 0.0, people="id",
    numbers={
        "docvis": (0.0, 121.0), "hospvis": (0.0, 51.0), "year": (1984.0, 1988.0), "edlevel": (1.0, 4.0),
        "age": (25.0, 64.0), "female": _YES_NO, "married": _YES_NO, "kids": _YES_NO, "hhninc": (0.0, 30.0),
        "educ": (7.0, 18.0), "self": _YES_NO, "edlevel1": _YES_NO, "edlevel2": _YES_NO, "edlevel3": _YES_NO,
        "edlevel4": _YES_NO,
    },
)  # fmt: skip
_DIAMONDS = _Set(
    "diamonds", "pydataset, diamonds (ggplot2)", "ggplot2/diamonds.csv", ("not dear", "dear"),
    lambda columns: _numbers(columns, "price") > 2401.0, texts=("cut", "color", "clarity"),
)  # fmt: skip
_CHAIN = _Set(
    "free light chain", "pydataset, flchain (survival; Dispenzieri and others 2012)", "survival/flchain.csv",
    ("alive", "died"), _is("death", "1"), texts=("sex", "sample.yr", "flc.grp", "mgus"),
    numbers=("age", "kappa", "lambda", "creatinine"),
)  # fmt: skip
_WORKERS = _Set(
    "young workers", "pydataset, Males (Ecdat; Vella and Verbeek 1998)", "Ecdat/Males.csv", ("no", "yes"),
    _is("union", "yes"), people="nr", numbers=("school", "exper", "wage"),
    texts=("year", "ethn", "married", "health", "industry", "occupation", "residence"),
)  # fmt: skip
_BENEFITS = _Set(
    "unemployment benefits", "pydataset, Benefits (Ecdat; McCall 1995)", "Ecdat/Benefits.csv", ("no", "yes"),
    _is("ui", "yes"), numbers=("stateur", "statemb", "age", "tenure", "rr"),
    texts=("state", "joblost", "nwhite", "school12", "sex", "smsa", "married", "dkids", "dykids", "yrdispl",
           "head"),
)  # fmt: skip
_FOOTBALL = _Set(
    "football", "pydataset, Bundesliga (vcd; Leisch)", "vcd/Bundesliga.csv", ("not won", "won"),
    lambda columns: _numbers(columns, "HomeGoals") > _numbers(columns, "AwayGoals"),
    texts=("HomeTeam", "AwayTeam"), numbers=("Year",),
)  # fmt: skip
_BATTERS = _Set(
    "batters", "pydataset, baseball (plyr)", "plyr/baseball.csv", ("fewer", "five or more"),
    _above("hr", 5.0), texts=("team", "lg"), numbers=("year", "g", "ab"),
)  # fmt: skip


def affairs() -> PublicData:
    """Return Fair's survey of married women: 6366 records, 8 features; had an affair, or not."""
    return _AFFAIRS.data()


def health_insurance() -> PublicData:
    """Return wives of 1993: 22272 records, 19 features; works full time (35 hours a week), or not."""
    return replace(_WIVES.data(_WIVES_LEVELS), name="health insurance")


def german_health() -> PublicData:
    """Return a German health registry: 19609 records of 6127 people, 15 features; out of work, or not."""
    return _GERMAN.data()


def diamonds() -> PublicTable:
    """Return diamonds: 53940 records, 9 categories with 80 levels; dear (above 2401 dollars), or not."""
    return _DIAMONDS.table(("carat", "depth", "table", "x", "y", "z"))


def free_light_chain() -> PublicTable:
    """Return a study of blood, 1995 to 2003: 7874 records, 8 columns, one with gaps; died since, or not."""
    return _CHAIN.table()


def young_workers() -> PublicTable:
    """Return young men, 1980 to 1987: 4360 records of 545 people, 10 columns; in a union, or not."""
    return _WORKERS.table()


def wives_at_work() -> PublicTable:
    """Return the records of :func:`health_insurance` as 9 columns, categories as they are."""
    return _WIVES.table()


def unemployment_benefits() -> PublicTable:
    """Return workers who lost their job: 4877 records, 16 columns; apply for benefits, or not."""
    return _BENEFITS.table()


def football() -> PublicTable:
    """Return matches of the Bundesliga since 1963: 14018 records, 3 columns; the home team won, or not."""
    return _FOOTBALL.table()


def batters() -> PublicTable:
    """Return seasons of batters, 1871 to 2007: 21699 records, 5 columns; five home runs or more, or fewer."""
    return _BATTERS.table()


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
    >>> data = diabetes()
    >>> len(data), data.n_features, data.classes
    (442, 10, ('slower', 'faster'))
    """
    return _bundled(
        "diabetes",
        "load_diabetes (Efron 2004)",
        ("slower", "faster"),
        lambda target: target > np.median(target),
    )


def odd_digits() -> PublicData:
    """Return 1797 written digits, 61 features (the pixels that are not always empty); odd, or even.

    Examples
    --------
    >>> data = odd_digits()
    >>> len(data), data.n_features, data.classes
    (1797, 61, ('even', 'odd'))
    """
    loader = "load_digits (Alpaydin, Kaynak 1998)"
    return _bundled("odd digits", loader, ("even", "odd"), lambda target: target % 2 == 1)


def wine() -> PublicData:
    """Return 178 Italian wines, 13 features; of the second cultivar, or of another one.

    Examples
    --------
    >>> data = wine()
    >>> len(data), data.n_features, data.classes
    (178, 13, ('other', 'second'))
    """
    return _bundled("wine", "load_wine (Forina 1991)", ("other", "second"), lambda target: target == 1)


def _bundled(
    name: str, loader: str, classes: tuple[str, str], positive: Callable[[FloatArray], Any]
) -> PublicData:
    from sklearn import datasets  # type: ignore[import-untyped]

    function = loader.split(" ", 1)[0]
    bunch = getattr(datasets, function)(**({"scaled": False} if function == "load_diabetes" else {}))
    used = bunch.data.std(axis=0) > 0.0
    data = PublicData(
        features=bunch.data[:, used],
        labels=np.where(positive(bunch.target), classes[1], classes[0]),
        classes=classes,
        low=bunch.data.min(axis=0)[used],
        high=bunch.data.max(axis=0)[used],
        name=name,
        source=f"scikit-learn, {loader}",
        feature_names=tuple(str(column) for column in np.asarray(bunch.feature_names)[used]),
    )
    return data.with_bounds(*standard_bounds(data))
