"""Public sets that only benchmarks use: of statsmodels and pydataset (extra ``real-data``); a drawn census.

The packages' own code does not run: their files are read. Bounds are those that the sets' codebooks state.
"""

from __future__ import annotations

import importlib.util
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.datasets import PublicData

_YES_NO = (0.0, 1.0)
_CENSUS_LEVELS = (9, 16, 7, 15, 6, 5, 2, 42)
_CENSUS_NUMBERS = 6
_Columns = Mapping[str, list[str]]
_WIVES_LEVELS = {
    "hhi2": ("yes",),
    "education": ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years"),
    "race": ("white", "black", "other"),
    "hispanic": ("yes",),
    "region": ("other", "northcentral", "south", "west"),
}


def _folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"needs the package {package}: pip install 'dpmarket[real-data]'.")
    return Path(found.submodule_search_locations[0])


def _columns(data: bytes) -> dict[str, list[str]]:
    return pl.read_csv(io.BytesIO(data), infer_schema=False).to_dict(as_series=False)


def pydataset(path: str) -> dict[str, list[str]]:
    """Return the columns of a table of pydataset, every cell as text."""
    with tarfile.open(_folder("pydataset") / "resources.tar.gz") as bundle:
        return _columns(bundle.extractfile(f"resources/rdata/csv/{path}").read())


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
) -> PublicData:
    """Return numbers with their bounds, after a column of 0 and 1 for each of the ``levels`` of texts."""
    found: dict[str, FloatArray] = {}
    for text, names in (levels or {}).items():
        found |= {f"{text} {each}": (np.array(columns[text]) == each).astype(float) for each in names}
    low, high = zip(*[_YES_NO] * len(found), *numbers.values(), strict=True)
    found |= {number: _numbers(columns, number) for number in numbers}
    labels = np.where(labels, classes[1], classes[0])
    features = np.column_stack(list(found.values()))
    return PublicData(features, labels, classes, np.array(low), np.array(high), name, source, tuple(found))


def affairs() -> PublicData:
    """Return Fair's survey of married women: 6366 records, 8 features; had an affair, or not."""
    columns = _columns((_folder("statsmodels") / "datasets" / "fair" / "fair.csv").read_bytes())
    numbers = {
        "rate_marriage": (1.0, 5.0), "age": (17.0, 42.0), "yrs_married": (0.0, 23.0), "children": (0.0, 6.0),
        "religious": (1.0, 4.0), "educ": (9.0, 20.0), "occupation": (1.0, 6.0), "occupation_husb": (1.0, 6.0),
    }  # fmt: skip
    source = "statsmodels, datasets.fair (Fair 1978)"
    return _data("affairs", source, columns, _numbers(columns, "affairs") > 0.0, ("no", "yes"), numbers)


def health_insurance() -> PublicData:
    """Return wives of 1993: 22272 records, 19 features; works full time (35 hours a week), or not."""
    columns = pydataset("Ecdat/HI.csv")
    numbers = {"experience": (0.0, 50.0), "kidslt6": (0.0, 5.0), "kids618": (0.0, 8.0), "husby": (0.0, 100.0)}
    source, labels = "pydataset, HI (Ecdat; Olson 1998)", _numbers(columns, "whrswk") >= 35.0
    classes = ("less", "full time")
    return _data("health insurance", source, columns, labels, classes, numbers, levels=_WIVES_LEVELS)


def german_health() -> PublicData:
    """Return a German health registry: a record of each of 6127 people, 15 features; out of work, or not."""
    columns = pydataset("COUNT/rwm5yr.csv")
    numbers = {
        "docvis": (0.0, 121.0), "hospvis": (0.0, 51.0), "year": (1984.0, 1988.0), "edlevel": (1.0, 4.0),
        "age": (25.0, 64.0), "female": _YES_NO, "married": _YES_NO, "kids": _YES_NO, "hhninc": (0.0, 30.0),
        "educ": (7.0, 18.0), "self": _YES_NO, "edlevel1": _YES_NO, "edlevel2": _YES_NO, "edlevel3": _YES_NO,
        "edlevel4": _YES_NO,
    }  # fmt: skip
    source, people = "pydataset, rwm5yr (COUNT; Hilbe and Greene 2007)", np.array(columns["id"], dtype=int)
    labels, classes = _numbers(columns, "outwork") > 0.0, ("working", "out of work")
    data = _data("German health", source, columns, labels, classes, numbers)
    order = np.random.default_rng(0).permutation(len(data))
    first = np.unique(people[order], return_index=True)[1]
    return data.take(np.sort(order[first]))


@dataclass(frozen=True)
class PublicTable:
    """Public records as a table: numbers, texts and gaps, with a label each."""

    frame: pl.DataFrame
    labels: np.ndarray
    classes: tuple[str, str] = ("no", "yes")

    def __len__(self) -> int:
        return int(self.frame.height)

    @property
    def signs(self) -> FloatArray:
        """Labels as -1 and +1."""
        return np.where(self.labels == self.classes[1], 1.0, -1.0)

    def split(self, share: float, rng: np.random.Generator) -> tuple[PublicTable, PublicTable]:
        """Return two parts at random, the first with about ``share`` of the records."""
        chosen = np.zeros(len(self), dtype=np.bool_)
        chosen[rng.permutation(len(self))[: round(share * len(self))]] = True
        parts = (np.flatnonzero(chosen), np.flatnonzero(~chosen))
        first, second = (PublicTable(self.frame[part], self.labels[part], self.classes) for part in parts)
        return first, second


def unemployment_benefits() -> PublicTable:
    """Return workers who lost their job: 4877 records, 16 columns; apply for benefits or not (McCall)."""
    columns = pydataset("Ecdat/Benefits.csv")
    texts = ("state", "joblost", "nwhite", "school12", "sex", "smsa", "married", "dkids", "dykids", "yrdispl")
    frame: dict[str, Any] = {name: columns[name] for name in (*texts, "head")}
    frame |= {name: _numbers(columns, name) for name in ("stateur", "statemb", "age", "tenure", "rr")}
    return PublicTable(pl.DataFrame(frame), np.array(columns["ui"]))


def census(records: int, rng: np.random.Generator, positive: float = 0.25) -> PublicTable:
    """Draw a table like that of a census: eight categories with 102 levels, six numbers, all related.

    About the share ``positive`` of the records has the second class. Some levels are rare.
    """
    hidden = rng.standard_normal((records, 3))
    margin = np.zeros(records)
    columns: dict[str, object] = {}
    for number, levels in enumerate(_CENSUS_LEVELS):
        shares = rng.dirichlet(np.full(levels, 0.6)) + 1e-9
        odds = np.exp(np.log(shares) + 0.7 * hidden @ rng.standard_normal((3, levels)))
        steps = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
        level = np.minimum((steps < rng.random((records, 1))).sum(axis=1), levels - 1)
        margin += 0.9 * rng.standard_normal(levels)[level]
        columns[f"category {number}"] = [f"level {place}" for place in level]
    for number in range(_CENSUS_NUMBERS):
        values = rng.standard_normal(records) + 0.5 * hidden @ rng.standard_normal(3)
        margin += 0.5 * rng.standard_normal() * values
        columns[f"number {number}"] = values
    labels = rng.logistic(size=records) < margin - np.quantile(margin, 1.0 - positive)
    labels[:2] = (False, True)  # both classes, always
    return PublicTable(pl.DataFrame(columns), np.where(labels, "yes", "no"))
