"""Algorithm 2, step 1, as printed: a grid over eta and projected gradient descent, against the optimum.

The package finds the optimum over a public menu of totals; ``optimal_epsilons`` solves the paper's equation
for the cut-off price (Eq. `Eq:lambda`). Costs from U[1, 5], mu = sigma = 1, no cap.
"""

import time

import numpy as np
import polars as pl

from common import figure, in_parallel, label, lines, main
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism, PaperObjective
from printed import algorithm2, optimal_epsilons, proxy_loss

SETTINGS = {"sellers": [30, 100, 300, 1_000], "gammas": [1e-3, 1e-2], "grids": [5, 20, 80], "seed": 0}
QUICK = {"sellers": [30, 100], "grids": [5, 20]}


def compute(s):
    yield from in_parallel(market, [(s, m, gamma) for m in s.sellers for gamma in s.gammas])


def market(s, m, gamma):
    """Return how far the best grid point and the package are above the optimum, and the time they take."""
    dist, terms = Uniform(1.0, 5.0), (1.0, 1.0, gamma)
    costs = np.sort(dist.sample(m, np.random.default_rng([s.seed, m])))
    psi = 2.0 * costs - 1.0
    best = optimal_epsilons(psi, *terms)[0]
    mechanism = OfflineMechanism(dist, PaperObjective(*terms))
    start = time.process_time()
    outcome = mechanism.run(costs)
    package = time.process_time() - start
    shared = {"sellers": m, "gamma": gamma}
    gap = proxy_loss(outcome.epsilons, psi, *terms) / best - 1.0
    found = [shared | {"way": "package", "grid": 0, "gap": gap, "steps": None, "seconds": package}]
    for size in s.grids:
        # eta is between sqrt(sigma/(gamma psi)) of the highest and of the lowest virtual cost.
        totals = np.geomspace(np.sqrt(1.0 / (gamma * 9.0)), np.sqrt(1.0 / gamma), size)
        start = time.process_time()
        search = algorithm2(psi, *terms, totals)
        seconds = time.process_time() - start
        gap = float(search.values.min()) / best - 1.0
        found.append(
            shared | {"way": "printed", "grid": size, "gap": gap, "steps": search.steps, "seconds": seconds}
        )
    return found


def draw(table):
    drawn, (left, right) = figure(columns=2)
    part = table.filter(gamma=1e-3)
    totals = pl.when(pl.col("way") == "printed").then(pl.format(", {} totals", "grid")).otherwise(pl.lit(""))
    named = part.with_columns(name=pl.concat_str("way", totals))
    lines(left, named, "sellers", "gap", "name")
    label(left, "Gap to the optimum, γ = 0.001", "sellers m", "relative gap", log="xy")
    lines(right, named, "sellers", "seconds", "name")
    label(right, "Time (the package's with payments)", "sellers m", "seconds", log="xy")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
