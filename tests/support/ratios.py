"""How much an online market loses against the offline optimum on the same sellers (the paper's Fig. 3b)."""

import math

import numpy as np
from scipy import stats

import dpmarket as dpm
from dpmarket import FromScipy, Mixture, Uniform

POPULATIONS = {
    "U[0,1]": Uniform(0, 1),
    "U[1,5]": Uniform(1, 5),
    "log-normal": FromScipy(stats.lognorm(s=1.0, scale=1.0), 0, 10),
    "U-shaped beta": FromScipy(stats.beta(0.5, 0.5)),
    "two groups": Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]),
}


def objective_value(epsilons, psi, objective):
    """Return the buyer's objective of these promises, with weights in proportion to them."""
    total = float(epsilons.sum())
    if total == 0.0:
        return math.inf
    uneven = objective.concentration * math.sqrt(float(epsilons @ epsilons)) / total
    return uneven + objective.noise / total + objective.payment_weight * float(epsilons @ psi)


def ratios(promises, dist, objective, sellers, draws, seed=0):
    """Return online over offline objective for ``draws`` random markets; ``promises``: costs -> epsilons."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        costs = dist.sample(sellers, rng)
        psi = dpm.virtual_costs(costs, dist)
        best = dpm.allocate(psi, objective).objective_value
        found.append(objective_value(promises(costs), psi, objective) / best)
    return np.array(found)
