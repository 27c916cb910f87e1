"""Turn tables that another package ships, installed with the extra ``real-data``, into public tables.

Columns stay as they are: texts are categories, numbers numbers, gaps gaps. Numbers that only name something
(a year of a season, a state's code) are texts; where a set has few categories, numbers are cut into bands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.datasets.public_table import PublicTable
from dpmarket.files import csv_columns, packaged_member

_BANDS = 10


def diamonds() -> PublicTable:
    """Return diamonds: 53940 records, 9 categories with 80 levels; dear (above 2401 dollars), or not.

    Weight, depth, table and the three lengths are in ten bands each.

    Returns
    -------
    PublicTable

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = _table("ggplot2/diamonds.csv")
    lengths = {name: _bands(_numbers(table, name)) for name in ("carat", "depth", "table", "x", "y", "z")}
    frame = pl.DataFrame({name: table[name] for name in ("cut", "color", "clarity")} | lengths)
    dear = _numbers(table, "price") > 2401.0
    return _public(frame, dear, ("not dear", "dear"), "diamonds", "pydataset, diamonds (ggplot2)")


def free_light_chain() -> PublicTable:
    """Return a study of blood, 1995 to 2003: 7874 records, 8 columns, one with gaps; died since, or not.

    Returns
    -------
    PublicTable

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = _table("survival/flchain.csv")
    return _public(
        _frame(table, ("sex", "sample.yr", "flc.grp", "mgus"), ("age", "kappa", "lambda", "creatinine")),
        np.array(table["death"]) == "1",
        ("alive", "died"),
        "free light chain",
        "pydataset, flchain (survival; Dispenzieri and others 2012)",
    )


def young_workers() -> PublicTable:
    """Return young men at work, 1980 to 1987: 4360 records of 545 people, 10 columns; in a union, or not.

    Returns
    -------
    PublicTable
        With eight records of every person; one column has gaps.

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = _table("Ecdat/Males.csv")
    texts = ("year", "ethn", "married", "health", "industry", "occupation", "residence")
    return _public(
        _frame(table, texts, ("school", "exper", "wage")),
        np.array(table["union"]) == "yes",
        ("no", "yes"),
        "young workers",
        "pydataset, Males (Ecdat; Vella and Verbeek 1998)",
        np.array(table["nr"], dtype=np.int64),
    )


def wives_at_work() -> PublicTable:
    """Return wives of 1993: 22272 records, 9 columns; works full time (35 hours a week), or not.

    The records of :func:`~dpmarket.datasets.packaged.health_insurance`, with their categories as they are.

    Returns
    -------
    PublicTable

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = _table("Ecdat/HI.csv")
    texts = ("hhi2", "education", "race", "hispanic", "region")
    return _public(
        _frame(table, texts, ("experience", "kidslt6", "kids618", "husby")),
        _numbers(table, "whrswk") >= 35.0,
        ("less", "full time"),
        "wives at work",
        "pydataset, HI (Ecdat; Olson 1998)",
    )


def unemployment_benefits() -> PublicTable:
    """Return blue-collar workers who lost their job: 4877 records, 16 columns; apply for benefits, or not.

    Returns
    -------
    PublicTable
        One category has 51 levels.

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = _table("Ecdat/Benefits.csv")
    texts = (
        "state", "joblost", "nwhite", "school12", "sex", "smsa", "married", "dkids", "dykids",
        "yrdispl", "head",
    )  # fmt: skip
    return _public(
        _frame(table, texts, ("stateur", "statemb", "age", "tenure", "rr")),
        np.array(table["ui"]) == "yes",
        ("no", "yes"),
        "unemployment benefits",
        "pydataset, Benefits (Ecdat; McCall 1995)",
    )


def football() -> PublicTable:
    """Return matches of the Bundesliga since 1963: 14018 records, 3 columns; the home team won, or not.

    Returns
    -------
    PublicTable
        Two categories have 52 levels each.

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = _table("vcd/Bundesliga.csv")
    won = _numbers(table, "HomeGoals") > _numbers(table, "AwayGoals")
    frame = _frame(table, ("HomeTeam", "AwayTeam"), ("Year",))
    return _public(frame, won, ("not won", "won"), "football", "pydataset, Bundesliga (vcd; Leisch)")


def batters() -> PublicTable:
    """Return seasons of batters, 1871 to 2007: 21699 records, 5 columns; five home runs or more, or fewer.

    Returns
    -------
    PublicTable
        Teams and leagues are categories.

    Raises
    ------
    FileProblem
        If pydataset is not installed; the extra ``real-data`` brings it.
    """
    table = _table("plyr/baseball.csv")
    return _public(
        _frame(table, ("team", "lg"), ("year", "g", "ab")),
        _numbers(table, "hr") >= 5.0,
        ("fewer", "five or more"),
        "batters",
        "pydataset, baseball (plyr)",
    )


def _table(name: str) -> dict[str, list[str]]:
    member = f"resources/rdata/csv/{name}"
    return dict(csv_columns(packaged_member("pydataset", "resources.tar.gz", member, "real-data")))


def _frame(table: dict[str, list[str]], texts: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
    columns: dict[str, list[str | None] | list[float | None]] = {
        name: [None if value in ("NA", "") else value for value in table[name]] for name in texts
    }
    columns |= {
        name: [None if value in ("NA", "") else float(value) for value in table[name]] for name in numbers
    }
    return pl.DataFrame(columns)


def _numbers(table: dict[str, list[str]], name: str) -> FloatArray:
    return np.array(table[name], dtype=np.float64)


def _bands(values: FloatArray) -> list[str]:
    """Return the tenth of all values that each lies in, as a text; the set is public."""
    edges = np.unique(np.quantile(values, np.arange(1, _BANDS) / _BANDS))
    return [f"up to {edges[k]:g}" if k < edges.size else "above" for k in np.searchsorted(edges, values)]


def _public(
    frame: pl.DataFrame,
    positive: np.ndarray,
    classes: tuple[str, str],
    name: str,
    source: str,
    people: np.ndarray | None = None,
) -> PublicTable:
    return PublicTable(frame, np.where(positive, classes[1], classes[0]), classes, name, source, people)
