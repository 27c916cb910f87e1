"""Reports divided into partitions, and a market for them."""

from __future__ import annotations

import numpy as np
import polars as pl

from dpmarket import BuyerObjective, OfflineMechanism, Uniform

MECHANISM = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.02, weight_cap=3.0))
COSTS = np.random.default_rng(3).uniform(1, 5, 12_000)


def divided(folder, rng, parts, costs=COSTS, ending="parquet"):
    """Write reports into as many files, in any order."""
    folder.mkdir()
    order = rng.permutation(costs.size)
    for k, rows in enumerate(np.array_split(order, parts)):
        table = pl.DataFrame({"id": [f"seller-{row}" for row in rows], "cost": costs[rows]})
        name = folder / f"part-{k}.{ending}"
        table.write_parquet(name) if ending == "parquet" else table.write_csv(name)
    return f"{folder}/*.{ending}"
