"""Ways to buy that a researcher expects to be compared with, and ways to use epsilons that were bought.

Costs come from U[1, 5]; a way to buy answers reported costs with epsilons and payments.
"""

import math

import numpy as np

from dpmarket.costs import Uniform
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import EpsilonCost, Objective, PaperObjective
from dpmarket.mechanisms.plan import plan
from learners import LargeEpsilonsOnly, OutputPerturbation, PersonalisedSampling

COSTS = Uniform(1.0, 5.0)
CLASSES = (-1.0, 1.0)


class PersonalPrices:
    """The package's schedule for the expected squared error of the model, or for another objective."""

    def __init__(self, objective, sellers, budget, table):
        self.schedule = plan(
            COSTS, objective, sellers, budget, minor_unit=1e-6, epsilon_cost=table
        ).schedules[0]

    def buy(self, costs):
        return self.schedule.quote(costs)


class PostedPrice:
    """One epsilon at one price: that with the least expected error, or the highest cost ("same for all")."""

    def __init__(self, objective, sellers, budget, power, prices):
        self.power = power
        self.price = min(prices, key=lambda price: self._error(objective, sellers, budget, price))
        self.epsilon = self._epsilon(sellers, budget, self.price)

    def _epsilon(self, sellers, budget, price):
        return (budget / (sellers * COSTS.cdf(price) * price)) ** (1.0 / self.power)

    def _error(self, objective, sellers, budget, price):
        accepting = sellers * COSTS.cdf(price)
        return sum(objective.errors(1.0 / accepting, accepting * self._epsilon(sellers, budget, price)))

    def buy(self, costs):
        epsilons = np.where(costs <= self.price, self.epsilon, 0.0)
        return epsilons, self.price * epsilons**self.power


class FairQuery:
    """Ghosh and Roth (2011): the most sellers k with c_k/(n - k) <= B/k sell 1/(n - k) each, at one price."""

    def __init__(self, budget):
        self.budget = budget

    def buy(self, costs):
        n, rising = costs.size, np.sort(costs)
        k = np.arange(1, n)
        k = int(k[rising[:-1] / (n - k) <= self.budget / k].max(initial=0))
        price = min(self.budget / max(k, 1), rising[k] / (n - k))
        wins = costs < rising[k]
        return np.where(wins, 1.0 / (n - k), 0.0), np.where(wins, price, 0.0)


class AllIn:
    """FL-Market's All-in (Zheng et al. 2022): one epsilon each from the cheapest, while the budget lasts."""

    def __init__(self, budget, epsilon=1.0):
        self.budget, self.epsilon = budget, epsilon

    def buy(self, costs):
        rising = np.append(np.sort(costs), math.inf)
        counts = np.arange(1, costs.size + 1)
        k = int(counts[rising[:-1] * counts * self.epsilon <= self.budget].max(initial=0))
        wins = costs < rising[k] if k < costs.size else np.full(costs.size, fill_value=True)
        price = min(self.budget / max(k * self.epsilon, 1e-300), rising[k])
        return np.where(wins, self.epsilon, 0.0), np.where(wins, price * self.epsilon, 0.0)


def rules(objective, sellers, budget, shape, most):
    """Return the ways to buy that apply to a shape of costs."""
    table = None if shape == "linear" else EpsilonCost.identity(most, shape)
    power = 1.0 if shape == "linear" else 2.0
    terms = (objective, sellers, budget, power)
    found = {
        "personal prices": PersonalPrices(objective, sellers, budget, table),
        "posted price": PostedPrice(*terms, np.linspace(1.01, 5.0, 400)),
        "same for all": PostedPrice(*terms, [5.0]),
    }
    if shape == "linear":  # the others are stated for linear costs
        scalar = Objective(0.25, 2.0, 1.0)  # a mean of values in [0, 1]: Fallah et al. (2022), central
        found["paper, μ = σ = 1"] = PersonalPrices(PaperObjective(1.0, 1.0, 1e-3), sellers, budget, None)
        found["Fallah et al., central"] = PersonalPrices(scalar, sellers, budget, None)
        found |= {"FairQuery": FairQuery(budget), "All-in, ε = 1": AllIn(budget)}
    return found


def learners(objective, epsilons, noise, trial):
    """Return the other ways to use epsilons that were bought; thresholds by expected error."""
    model = PrivateLogisticRegression(classes=CLASSES, noise_source=noise)
    levels = np.unique(epsilons[epsilons > 0.0])
    counts = np.array([(epsilons >= level).sum() for level in levels])
    best = levels[
        np.argmin([sum(objective.errors(1 / k, k * t)) for k, t in zip(counts, levels, strict=True)])
    ]
    drawn, mean = np.random.default_rng(trial), float(epsilons[epsilons > 0.0].mean())
    sampling = PersonalisedSampling(mean, CLASSES, noise, drawn.bytes)
    return {
        "single best threshold": LargeEpsilonsOnly(model, float(best)),
        "Jorgensen's sampling": sampling,
        "PDP-OP": OutputPerturbation(CLASSES, noise),
        "smallest epsilon": LargeEpsilonsOnly(model),
    }
