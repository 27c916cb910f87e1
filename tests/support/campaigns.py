"""A small campaign in a folder: rules file, reports and data, with ids that are not easy."""

import csv
import json

import numpy as np

import dpmarket as dpm

MARKET = """\
[sellers]
minimum = 2

[costs]
distribution = "uniform(1, 5)"

[objective]
payment_weight = 0.001
concentration = 1
noise = 1

[features]
age = { low = 18, high = 90 }
"yearly income" = { low = 0, high = 100000 }

[label]
column = "has bought"
values = ["no", "yes"]
"""
LABELS = ["bus", "car", "train"]
THREE = MARKET.replace('["no", "yes"]', '["bus", "car", "train"]')
FEATURES = ("age", "yearly income")
HEADER = ["yearly income", "seller", "age", "has bought"]


def seller_ids(sellers):
    """Return ids with unicode, spaces, commas, quotes, leading zeros, and the looks of other things."""
    odd = ["007", "7", 'Zoë "Z" Ó Néill, jr.', "名前 1", "true", "1e5", "a;b", "NaN", "-", "ё", "é"]
    odd.append('=HYPERLINK("http://x.invalid","x")')
    return (odd + [f"seller {k}" for k in range(sellers)])[:sellers]


def write_rows(path, header, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def make_campaign(folder, sellers=60, market=MARKET, seed=0):
    """Write rules.toml, reports.csv and data.csv; return the reported costs."""
    rng = np.random.default_rng(seed)
    ids = seller_ids(sellers)
    costs = rng.uniform(1, 5, sellers)
    ages, incomes = rng.uniform(18, 90, sellers), rng.uniform(0, 1e5, sellers)
    labels = np.where(ages / 90 + incomes / 1e5 > 1.0, "yes", "no")
    (folder / "rules.toml").write_text(market, encoding="utf-8")
    write_rows(folder / "reports.csv", ["seller", "cost"], zip(ids, costs.tolist(), strict=True))
    rows = list(zip(incomes.tolist(), ids, ages.tolist(), labels.tolist(), strict=True))
    write_rows(folder / "data.csv", HEADER, [rows[k] for k in rng.permutation(sellers)])
    return costs


def make_three(folder, market=THREE, sellers=60, labels=tuple(LABELS)):
    """Write a campaign whose label is bus for the young, car for the rich and train for the others."""
    costs = make_campaign(folder, sellers=sellers, market=market)
    rows = [list(row.values()) for row in read_rows(folder / "data.csv")]
    for row in rows:
        young, rich = float(row[2]) < 45.0, float(row[0]) > 5e4
        row[3] = labels[0 if young else 1 if rich else 2]
    write_rows(folder / "data.csv", HEADER, rows)
    return costs


def read_rows(path):
    """Read a CSV file that was written for people: texts that a spreadsheet would run have an apostrophe."""
    with open(path, encoding="utf-8", newline="") as file:
        return [{name: meant(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def meant(cell):
    """Return a cell without the apostrophe that makes it harmless."""
    bare = cell.lstrip("'")
    return cell[1:] if cell.startswith("'") and bare.lstrip()[:1] in tuple("=+-@") else cell


def write_pilot(folder, costs, ids=None):
    """Write a pilot and the distribution that was fitted to it, as 'costs fit' does."""
    rows = [[cost] if ids is None else [ids[k], cost] for k, cost in enumerate(costs.tolist())]
    write_rows(folder / "pilot.csv", ["cost"] if ids is None else ["seller", "cost"], rows)
    dist = dpm.fit_costs(costs).distribution
    content = {"distribution": dist.to_dict(), "pilot": {"file": "pilot.csv", "column": "cost"}}
    (folder / "costs.json").write_text(json.dumps(content))
