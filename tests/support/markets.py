"""The mechanisms that must pass the contract, each with the distribution that its sellers' costs follow."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from dpmarket import (
    BuyerObjective,
    FromScipy,
    Mixture,
    OfflineMechanism,
    OnlineMechanism,
    Uniform,
    population_curve,
)
from dpmarket.mechanisms import CheapestK, PostedPrice, SameForAll, paper_curve


@dataclass(frozen=True)
class Case:
    """A mechanism with ``run``, ``respond`` and ``response_curve``, and the costs to try it on."""

    mechanism: Any
    costs: Any


LOG_NORMAL = FromScipy(stats.lognorm(s=0.8, scale=2.0), 0, 30)
U_SHAPED = FromScipy(stats.beta(0.5, 0.5))
GROUPS = Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5])


def _offline(dist, objective):
    return Case(OfflineMechanism(dist, objective), dist)


def _online(dist, objective, sellers=40, **options):
    return Case(OnlineMechanism(dist, population_curve(dist, objective, sellers), **options), dist)


OFFLINE = {
    "uniform": _offline(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1)),
    "capped": _offline(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01, weight_cap=3.0)),
    "corner": _offline(Uniform(0, 1), BuyerObjective(1e-3, 1.0, 1.0, weight_cap=2.0)),
    "cheapest": _offline(Uniform(1, 5), BuyerObjective(0.0, 1.0, 0.1, weight_cap=2.5)),
    "bounded": _offline(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0, max_mean_epsilon=0.05)),
    "log-normal": _offline(LOG_NORMAL, BuyerObjective(0.5, 1.0, 0.05)),
    "ironed beta": _offline(U_SHAPED, BuyerObjective(1.0, 1.0, 0.3)),
    "ironed groups": _offline(GROUPS, BuyerObjective(0.3, 1.0, 0.1, weight_cap=4.0)),
    "several minima": _offline(
        Mixture([Uniform(0, 0.01), Uniform(5, 6)], [0.2, 0.8]), BuyerObjective(2.0, 1.0, 0.2)
    ),
}
ONLINE = {
    "online": _online(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1)),
    "online capped": _online(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01, weight_cap=3.0)),
    "online corner": _online(Uniform(0, 1), BuyerObjective(1e-3, 1.0, 1.0, weight_cap=2.0)),
    "online cheapest": _online(GROUPS, BuyerObjective(0.0, 1.0, 0.1, weight_cap=1.5)),
    "online bounded": _online(
        Uniform(1, 5), BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0, max_mean_epsilon=0.05)
    ),
    "online all equal": _online(Uniform(1, 5), BuyerObjective(1e126, 1.0, 0.1)),
    "online log-normal": _online(LOG_NORMAL, BuyerObjective(0.5, 1.0, 0.05)),
    "online beta": _online(U_SHAPED, BuyerObjective(1.0, 1.0, 0.3)),
    "online groups": _online(GROUPS, BuyerObjective(0.3, 1.0, 0.1, weight_cap=4.0)),
    "online unbounded": _online(FromScipy(stats.expon()), BuyerObjective(1.0, 1.0, 0.01)),
    "online budget": _online(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01), budget=10.0),
    "online cents": _online(GROUPS, BuyerObjective(1.0, 1.0, 0.01), budget=20.0, minor_units=100),
    "paper's curve": Case(
        OnlineMechanism(Uniform(0, 1), paper_curve(Uniform(0, 1), BuyerObjective(1.0, 1.0, 1e-2), 40)),
        Uniform(0, 1),
    ),
}
ALL = OFFLINE | ONLINE
SIMPLE = {
    "posted price": PostedPrice(Uniform(1, 5), epsilon=0.3, price=2.7),
    "posted price, log-normal": PostedPrice(LOG_NORMAL, epsilon=0.1, price=2.0),
    "posted price above the support": PostedPrice(Uniform(1, 5), epsilon=0.3, price=7.0),
    "posted price in a gap": PostedPrice(GROUPS, epsilon=0.7, price=1.5),
    "cheapest one": CheapestK(Uniform(1, 5), k=1, epsilon=0.3),
    "cheapest five": CheapestK(LOG_NORMAL, k=5, epsilon=1.1),
    "cheapest of groups": CheapestK(GROUPS, k=12, epsilon=0.7),
    "same for all": SameForAll(Uniform(1, 5), epsilon=0.1),
    "same for all groups": SameForAll(GROUPS, epsilon=0.7),
}


def lies(market, costs, i):
    """Dense reports over and beyond the support, its ends, and just beside everybody's own report."""
    low, high = market.costs.support
    high = min(high, 20.0 * market.costs.quantile(0.9))
    beside = np.concatenate((costs * (1 - 1e-9), costs * (1 + 1e-9), costs))
    grid = np.linspace(0.5 * low, 1.1 * high, 150)
    near = costs[i] + (high - low) * np.geomspace(1e-8, 1e-2, 20)
    reports = np.concatenate((grid, beside, near, 2 * costs[i] - near, [low, high, 0.0]))
    # A virtual cost of exactly 0 leaves no best allocation where the total promise is unbounded.
    return reports.clip(1e-7 if low == 0.0 else 0.0)
