"""What arriving one by one costs the buyer: online over offline objective, and when half the sellers come.

Mean ratio over random markets (the paper's Fig. 3b) of the fixed curve, of a market that plans again with the
distribution known, and of one that knows the support only. Seeded. Writes ``docs/tables/online-losses.md``.
Usage: python online_losses.py [draws]
"""

import math
import sys
from functools import partial

import numpy as np
from scipy import stats

import dpmarket as dpm
from _markdown import write_tables
from _results import Table, measure, tell
from dpmarket.mechanisms import keep_prior

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


def markets(dist, objective, expected):
    """Return what to compare: each turns costs into epsilons."""
    fixed = dpm.population_curve(dist, objective, expected)
    known = dpm.mechanisms.AdaptiveMechanism(dist, objective, expected, fit=keep_prior, pilot_share=1.0)
    learning = dpm.mechanisms.AdaptiveMechanism(dpm.Uniform(*dist.support), objective, expected)
    return {
        "fixed": fixed.epsilons,
        "known": lambda costs: known.run(costs).epsilons,
        "learning": lambda costs: learning.run(costs).epsilons,
    }


def told(dist, objective, expected, costs):
    """Return the epsilons of a learning market that is told, after a fifth, how many will really come."""
    market = dpm.mechanisms.AdaptiveMechanism(dpm.Uniform(*dist.support), objective, expected)
    first = market.quote_many(costs[: expected // 5])
    market.expect(costs.size - expected // 5)
    return np.concatenate((first.epsilons, market.quote_many(costs[expected // 5 :]).epsilons))


def draws():
    return int(sys.argv[1]) if len(sys.argv) > 1 else 10


def mean_ratios(dist, objective, kinds, sellers, rng):
    """Return the mean ratio to the offline objective for each of several ways to turn costs into epsilons."""
    found = {label: [] for label in kinds}
    for costs in [dist.sample(sellers, rng) for _ in range(draws())]:
        psi = dpm.virtual_costs(costs, dist)
        best = dpm.allocate(psi, objective).objective_value
        for label, promises in kinds.items():
            found[label].append(loss(promises(costs), psi, objective) / best)
    return {label: f"{np.mean(ratios):.4f}" for label, ratios in found.items()}


def populations():
    """Yield the name of each population, its costs and the buyer's objective."""
    for name, dist in POPULATIONS.items():
        for payment_weight in PAYMENT_WEIGHTS:
            tell(f"{name}, payment weight {payment_weight:g}")
            yield f"{name}, {payment_weight:g}", dist, dpm.BuyerObjective(1.0, 1.0, payment_weight)


def all_come():
    rows, columns = [], ["costs, payment weight"]
    for name, dist, objective in populations():
        cells = {}
        for sellers in SIZES:
            kinds = markets(dist, objective, sellers)
            ratios = mean_ratios(dist, objective, kinds, sellers, np.random.default_rng(0))
            cells |= {f"{label}, {sellers:,}": ratio for label, ratio in ratios.items()}
        rows.append([name, *cells.values()])
        columns[1:] = cells
    yield Table(f"Online over offline objective, means of {draws()} markets of each size", columns, rows)


def half_come():
    rows, columns, expected = [], ["costs, payment weight"], 1000
    for name, dist, objective in populations():
        kinds = markets(dist, objective, expected)
        kinds["learning, told"] = partial(told, dist, objective, expected)
        ratios = mean_ratios(dist, objective, kinds, expected // 2, np.random.default_rng(1))
        rows.append([name, *ratios.values()])
        columns[1:] = ratios
    yield Table(
        f"{expected // 2} sellers come where {expected:,} were expected, means of {draws()} markets",
        columns,
        rows,
    )


if __name__ == "__main__":
    write_tables(__file__, measure(__file__, all_come, half_come))
