"""What arriving one by one costs the buyer: online over offline objective, and when half the sellers come.

Mean ratio over random markets (the paper's Fig. 3b) of the fixed curve, of a market that plans again with the
distribution known, and of one that knows the support only. Usage: python online_losses.py [draws]
"""

import math
import sys

import numpy as np
from scipy import stats

import dpmarket as dpm
from _timing import print_table
from dpmarket.mechanisms import keep_prior

POPULATIONS = {
    "U[0,1]": dpm.Uniform(0, 1),
    "U[1,5]": dpm.Uniform(1, 5),
    "log-normal": dpm.FromScipy(stats.lognorm(s=1.0, scale=1.0), 0, 10),
    "U-shaped beta": dpm.FromScipy(stats.beta(0.5, 0.5)),
    "two groups": dpm.Mixture([dpm.Uniform(0, 1), dpm.Uniform(2, 3)], [0.5, 0.5]),
}


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
    known = dpm.AdaptiveMechanism(dist, objective, expected, fit=keep_prior, pilot_share=1.0)
    learning = dpm.AdaptiveMechanism(dpm.Uniform(*dist.support), objective, expected)
    return {
        "fixed curve": fixed.epsilons,
        "planning again": lambda costs: known.run(costs).epsilons,
        "learning": lambda costs: learning.run(costs).epsilons,
    }


def told(dist, objective, expected, costs):
    """Return the epsilons of a learning market that is told, after a fifth, how many will really come."""
    market = dpm.AdaptiveMechanism(dpm.Uniform(*dist.support), objective, expected)
    first = market.quote_many(costs[: expected // 5])
    market.expect(costs.size - expected // 5)
    return np.concatenate((first.epsilons, market.quote_many(costs[expected // 5 :]).epsilons))


def main():
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rows, halves = [], []
    for name, dist in POPULATIONS.items():
        for payment_weight in (1e-3, 1e-1):
            objective = dpm.BuyerObjective(1.0, 1.0, payment_weight)
            cells = []
            for sellers in (100, 1000, 10_000):
                found, tried = {}, markets(dist, objective, sellers)
                rng = np.random.default_rng(0)
                for costs in [dist.sample(sellers, rng) for _ in range(draws)]:
                    psi = dpm.virtual_costs(costs, dist)
                    best = dpm.allocate(psi, objective).objective_value
                    for label, promises in tried.items():
                        found.setdefault(label, []).append(loss(promises(costs), psi, objective) / best)
                cells += [f"{np.mean(values):.4f}" for values in found.values()]
            rows.append([f"{name}, {payment_weight:g}", *cells])
            found, rng, expected = {}, np.random.default_rng(1), 1000
            kinds = markets(dist, objective, expected)
            for costs in [dist.sample(expected // 2, rng) for _ in range(draws)]:
                psi = dpm.virtual_costs(costs, dist)
                best = dpm.allocate(psi, objective).objective_value
                tried = {label: promises(costs) for label, promises in kinds.items()}
                tried["learning, told"] = told(dist, objective, expected, costs)
                for label, epsilons in tried.items():
                    found.setdefault(label, []).append(loss(epsilons, psi, objective) / best)
            halves.append([f"{name}, {payment_weight:g}", *(f"{np.mean(v):.4f}" for v in found.values())])
    names = ["fixed", "planning", "learning"]
    print_table(
        f"Online over offline objective, means of {draws} markets with m = 100, 1,000 and 10,000",
        ["costs, payment weight", *names, *names, *names],
        rows,
    )
    print_table(
        f"500 sellers come where 1,000 were expected, means of {draws} markets",
        ["costs, payment weight", *names, "told"],
        halves,
    )


if __name__ == "__main__":
    main()
