"""A small campaign that buys a statistic: market file, reports and data in a folder."""

import numpy as np

from support.campaigns import seller_ids, write_rows

BASE = """\
[costs]
distribution = "uniform(1, 5)"

[objective]
payment_weight = 0.001
"""
MEAN = BASE + '\n[statistic]\nkind = "mean"\ncolumn = "age"\nlow = 18\nhigh = 90\n'
SEVERAL = (
    BASE
    + """
[statistics.age]
kind = "mean"
column = "age"
low = 18
high = 90
share = 3

[statistics.way]
kind = "histogram"
column = "way"
categories = ["bus", "car", "train"]

[statistics."member of the club"]
kind = "share"
column = "member"

[statistics.median]
kind = "quantile"
column = "age"
low = 10
high = 110
steps = 20
share = 2

[statistics.place]
kind = "vector_mean"
columns = ["east", "north"]
bound = 2.0
"""
)
COLUMNS = ["seller", "age", "way", "member", "east", "north"]


def make_statistic_campaign(folder, market=MEAN, sellers=60, rows=1, seed=0):
    """Write market.toml, reports.csv and data.csv; return costs and columns by name, in the order of ids."""
    rng = np.random.default_rng(seed)
    ids = seller_ids(sellers)
    costs = rng.uniform(1, 5, sellers)
    count = sellers * rows
    columns = {
        "seller": ids * rows,
        "age": rng.uniform(18, 90, count).tolist(),
        "way": rng.choice(["bus", "car", "train"], count).tolist(),
        "member": rng.choice(["yes", "no"], count).tolist(),
        "east": rng.uniform(-1, 1, count).tolist(),
        "north": rng.uniform(-1, 1, count).tolist(),
    }
    (folder / "market.toml").write_text(market, encoding="utf-8")
    write_rows(folder / "reports.csv", ["seller", "cost"], zip(ids, costs.tolist(), strict=True))
    write_rows(folder / "data.csv", COLUMNS, zip(*columns.values(), strict=True))
    return costs, columns
