"""A small campaign in a folder: rules file, reports and data, with ids that are not easy."""

import csv

import numpy as np

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
