"""What can be bought: the rules of each purchase, records of invented people who sell, and their files."""

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from support import networks

AGE, INCOME = {"low": 18, "high": 90}, {"low": 0, "high": 100_000}
JOBS = [f"job {k}" for k in range(12)]
TOWNS = [f"town {k}" for k in range(9)]
NUMBERS = {"age": AGE, "income": INCOME}
CATEGORIES = {"age": AGE, "job": {"categories": JOBS}, "town": {"categories": TOWNS}}
GAPS = {
    "age": {**AGE, "missing": 50},
    "job": {"categories": JOBS[:3], "other": True, "missing_category": True},
    "since": {"first": "2000-01-01", "last": "2025-12-31"},
    "member": {"boolean": True},
}
TWO, THREE = ["no", "yes"], ["bus", "car", "train"]
MEAN = {"kind": "mean", "column": "age", **AGE}
SHARE = {"kind": "share", "column": "member"}
HISTOGRAM = {"kind": "histogram", "column": "way", "categories": THREE}
QUANTILE = {"kind": "quantile", "column": "age", "level": 0.5, "low": 0, "high": 120, "steps": 24}
VECTOR = {"kind": "vector_mean", "columns": ["east", "north"], "bound": 2.0}


@dataclass(frozen=True)
class Good:
    """One purchase: the tables of its rules that say what is bought, and how many rows a person has."""

    tables: dict
    delta: float | None = None
    rows: int = 1
    aims: dict = field(default_factory=dict)

    @property
    def is_model(self):
        return "features" in self.tables

    def columns(self):
        """Return the names of the columns of a record."""
        if self.is_model:
            predicted = self.tables.get("label") or self.tables["target"]
            return [*self.tables["features"], predicted["column"]]
        asked = self.tables["statistics"].values()
        return [name for one in asked for name in one.get("columns", [one.get("column")])]

    def rules(self, sellers=60, mechanism="offline", **objective):
        """Return the rules of a campaign; ``objective`` adds to its table, such as ``budget=30``."""
        aims = {"max_epsilon": 1.0, **self.aims, **objective}
        if not {"budget", "payment_weight"} & set(aims):
            aims["payment_weight"] = 7.5e-5
        if self.delta is not None:
            aims["delta"] = self.delta
        return {
            "campaign": {"name": "a campaign", "mechanism": mechanism},
            "sellers": {"expected": sellers, "minimum": 5, "rows_per_person": self.rows},
            "costs": {"distribution": "uniform(1, 5)"},
            "objective": aims,
            "money": {"currency": "EUR"},
            **self.tables,
        }

    def person(self, rng):
        """Return the rows of one invented person, each a value by column."""
        return [self._row(rng) for _ in range(int(rng.integers(1, self.rows + 1)))]

    def _row(self, rng):
        age, income = int(rng.integers(18, 91)), float(np.round(rng.uniform(0, 1e5), 2))
        label = self.tables.get("label", {"values": TWO})["values"]
        row = {
            "age": age,
            "income": income,
            "job": str(rng.choice(JOBS)),
            "town": str(rng.choice(TOWNS)),
            "since": f"20{rng.integers(10, 25)}-0{rng.integers(1, 10)}-15",
            "member": bool(rng.random() < 0.4),
            "way": str(rng.choice(THREE)),
            "east": float(np.round(rng.uniform(-1, 1), 3)),
            "north": float(np.round(rng.uniform(-1, 1), 3)),
            "bought": label[int(len(label) * (age - 18) / 73)],
            "spent": float(np.round(0.6 * age + rng.uniform(0, 20), 1)),
        }
        if self.tables.get("features") is GAPS and rng.random() < 0.3:
            row |= {"age": None, "job": None}
        return {name: row[name] for name in self.columns()}


def _model(features, labels=TWO, **more):
    return Good({"features": features, "label": {"column": "bought", "values": labels}}, **more)


def _regression(features=NUMBERS, delta=None, **target):
    return Good(
        {"features": features, "target": {"column": "spent", "low": 0, "high": 80, **target}}, delta=delta
    )


def _statistic(question):
    return Good({"statistics": {"one": question}})


GOODS = {
    "two classes": _model(NUMBERS),
    "categories": _model(CATEGORIES),
    "gaps, dates, yes/no": _model(GAPS),
    "rows": _model(NUMBERS, rows=3),
    "softmax": _model(NUMBERS, THREE),
    "softmax, categories": _model(CATEGORIES, THREE),
    "delta": _model(NUMBERS, delta=1e-5),
    "delta, categories": _model(CATEGORIES, delta=1e-5),
    "delta, rows": _model(NUMBERS, delta=1e-5, rows=3),
    "delta, softmax": _model(NUMBERS, THREE, delta=1e-5),
    "regression": _regression(),
    "regression, categories": _regression(CATEGORIES),
    "quantile regression": _regression(quantile=0.9),
    "delta, regression": _regression(delta=1e-5),
    "intervals": Good(
        {
            "features": {"age": AGE},
            "label": {"column": "bought", "values": TWO},
            "training": {"intervals": 0.5},
        },
        aims={"max_epsilon": 10.0},
    ),
    "delta, torch": Good({**_model(NUMBERS).tables, "training": networks.table()}, delta=1e-5),
    "mean": _statistic(MEAN),
    "share": _statistic(SHARE),
    "histogram": _statistic(HISTOGRAM),
    "quantile": _statistic(QUANTILE),
    "vector mean": _statistic(VECTOR),
    "several statistics": Good({"statistics": {"age": {**MEAN, "share": 2}, "way": HISTOGRAM}}),
}


def sellers(good, number=60, seed=0):
    """Return ids, costs and rows of invented people: ids as people have them, costs in cents with ties."""
    rng = np.random.default_rng(seed)
    odd = ["007", "7", 'Zoë "Z" Ó Néill, jr.', "名前 1", "true", "1e5", "a;b", '=HYPERLINK("x")']
    ids = (odd + [f"seller {k}" for k in range(number)])[:number]
    costs = np.round(rng.uniform(1, 5, number), 2).tolist()
    return ids, costs, [good.person(rng) for _ in ids]


def tables(ids, costs, people):
    """Return the reports and the data of people as columns by name."""
    rows = [{"seller": who, **row} for who, person in zip(ids, people, strict=True) for row in person]
    data = {name: [_cell(row[name]) for row in rows] for name in rows[0]}
    return {"seller": ids, "cost": costs}, data


def _cell(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value


def write_rules(path, rules):
    """Write nested tables as TOML: tables of the first level have headings, deeper ones are inline."""

    def value(data):
        if isinstance(data, dict):
            return "{ " + ", ".join(f"{json.dumps(k)} = {value(v)}" for k, v in data.items()) + " }"
        return json.dumps(data, ensure_ascii=False)

    lines = []
    for name, table in rules.items():
        lines += [f"[{name}]", *(f"{json.dumps(k)} = {value(v)}" for k, v in table.items()), ""]
    Path(path).write_text("\n".join(lines), encoding="utf-8")


def write_table(path, columns):
    """Write columns by name as CSV."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])


def read_table(path):
    """Read a CSV file without the apostrophes that keep spreadsheets from running a cell."""
    with open(path, encoding="utf-8", newline="") as file:
        return [
            {name: re.sub(r"^'(?='*\s*[=+\-@])", "", cell) for name, cell in row.items()}
            for row in csv.DictReader(file)
        ]
