"""What arriving one by one costs the buyer: online over offline objective, and when half the sellers come.

Mean ratio over random markets (the paper's Fig. 3b) of ``population_curve``. Seeded. Writes
``docs/tables/online-losses.md``.
Usage: python online_losses.py [draws]
"""

import math
import sys

import numpy as np
from scipy import stats

import dpmarket as dpm
from _markdown import write_tables
from _results import Table, measure, tell

POPULATIONS = {
    "U[0,1]": dpm.Uniform(0, 1),
    "U[1,5]": dpm.Uniform(1, 5),
    "log-normal": dpm.FromScipy(stats.lognorm(s=1.0, scale=1.0), 0, 10),
    "U-shaped beta": dpm.FromScipy(stats.beta(0.5, 0.5)),
    "two groups": dpm.Mixture([dpm.Uniform(0, 1), dpm.Uniform(2, 3)], [0.5, 0.5]),
}
PAYMENT_WEIGHTS = (1e-3, 1e-1)
SIZES = (100, 1000, 10_000)


def loss(epsilons, psi, objective):
    total = float(epsilons.sum())
    if total == 0.0:
        return math.inf
    return (
        objective.concentration * float(np.linalg.norm(epsilons)) / total
        + objective.noise / total
        + objective.payment_weight * float(epsilons @ psi)
    )


def draws():
    return int(sys.argv[1]) if len(sys.argv) > 1 else 10


def mean_ratio(dist, objective, expected, sellers, rng):
    """Return the mean ratio to the offline objective of a curve planned for ``expected`` sellers."""
    curve = dpm.population_curve(dist, objective, expected)
    found = []
    for costs in [dist.sample(sellers, rng) for _ in range(draws())]:
        psi = dpm.virtual_costs(costs, dist)
        best = dpm.allocate(psi, objective).objective_value
        found.append(loss(curve.epsilons(costs), psi, objective) / best)
    return f"{np.mean(found):.4f}"


def populations():
    """Yield the name of each population, its costs and the buyer's objective."""
    for name, dist in POPULATIONS.items():
        for payment_weight in PAYMENT_WEIGHTS:
            tell(f"{name}, payment weight {payment_weight:g}")
            yield f"{name}, {payment_weight:g}", dist, dpm.BuyerObjective(1.0, 1.0, payment_weight)


def all_come():
    rows = [
        [name, *(mean_ratio(dist, objective, m, m, np.random.default_rng(0)) for m in SIZES)]
        for name, dist, objective in populations()
    ]
    columns = ["costs, payment weight", *(f"{sellers:,} sellers" for sellers in SIZES)]
    yield Table(f"Online over offline objective, means of {draws()} markets of each size", columns, rows)


def half_come():
    expected = 1000
    rows = [
        [name, mean_ratio(dist, objective, expected, expected // 2, np.random.default_rng(1))]
        for name, dist, objective in populations()
    ]
    title = f"{expected // 2} sellers come where {expected:,} were expected, means of {draws()} markets"
    yield Table(title, ["costs, payment weight", "online over offline"], rows)


if __name__ == "__main__":
    write_tables(__file__, measure(__file__, all_come, half_come))
