"""Turn a cost distribution into what a buyer can expect: payments and excess risk, before anybody reports.

A truthful mechanism's expected payments are the expected virtual costs of what it buys (the paper's Lemma
``mech design``), so that no payment need be computed to know their mean. Two views of the same market:

* the *population*: sellers at evenly spaced quantiles of the cost distribution, one solve, no chance; exact
  as the number of sellers grows, biased for few;
* *draws*: whole markets drawn at random, evenly spread (a Latin hypercube: in ``n`` draws every seller has
  exactly one cost in each n-th of the distribution), unbiased for any number of sellers.

Both keep their costs while the objective changes, so that payments fall and excess risk rises with the
payment weight, draw by draw and hence on average: virtual payments are the slope of a concave function.

In a large market only the cheap matter. Sellers above a quantile are then left out, which changes nothing as
long as nobody so dear would be bought from: whether that held is part of the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy import stats

from dpmarket.allocation import BuyerObjective, SmallMarkets
from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs import CostDistribution, virtual_costs

_POPULATION = 1 << 12  # most sellers that the population is represented by
_BLOCKS = 4  # independent parts of the draws, from which the standard error is estimated
_MOST_DRAWS = 1 << 12
_ELEMENTS = 1 << 18  # sellers times draws, where the number of draws is free


@dataclass(frozen=True)
class Expectation:
    """What a buyer can expect of a market.

    Attributes
    ----------
    payment, payment_error
        Expected total payment and its standard error, money.
    excess_risk, excess_risk_error
        Expected excess risk and its standard error.
    share
        Expected share of sellers bought from.
    squared_norm, inverse_square
        Expected square of the weights' norm, and inverse square of the total promise: what the expected error
        is made of.
    in_reach
        Whether nobody left out would have been bought from: if not, all of this is wrong.
    """

    payment: float
    payment_error: float
    excess_risk: float
    excess_risk_error: float
    share: float
    squared_norm: float
    inverse_square: float
    in_reach: bool


@dataclass(frozen=True, eq=False)
class Markets:
    """Virtual costs of the cheap part of several markets.

    Attributes
    ----------
    virtual_costs
        One array per market.
    sellers
        How many sellers a market has, those left out included.
    each
        How many sellers one element stands for.
    reach
        Those left out have at least this virtual cost.
    blocks
        The markets come in this many independent groups of equal size.
    """

    virtual_costs: tuple[FloatArray, ...]
    sellers: int
    each: float
    reach: float
    blocks: int

    def expect(self, objective: BuyerObjective) -> Expectation:
        """Return means over the markets; standard errors from the blocks' means (0 with one block)."""
        each, sellers = self.each, self.sellers
        found = self._solver.allocate(partial(self._scaled, objective))
        values = np.column_stack(
            [
                found.payment_parts / objective.payment_weight,
                found.concentration_parts + found.noise_parts,
                found.bought * each / sellers,
                found.squared_norms / each,
                (found.noise_parts / objective.noise) ** 2,
                found.cutoffs,
            ]
        )
        means = values.reshape(self.blocks, -1, values.shape[1]).mean(axis=1)
        mean = means.mean(axis=0)
        error = np.zeros(mean.size)
        if self.blocks > 1:
            error = means.std(axis=0, ddof=1) / math.sqrt(self.blocks)
        payment, risk, share, squared_norm, inverse_square, _ = mean.tolist()
        in_reach = bool(values[:, -1].max() < self.reach) or math.isinf(self.reach)
        return Expectation(
            payment, float(error[0]), risk, float(error[1]), share, squared_norm, inverse_square, in_reach
        )

    @cached_property
    def _solver(self) -> SmallMarkets:
        return SmallMarkets(self.virtual_costs)

    def _scaled(self, objective: BuyerObjective, elements: int) -> BuyerObjective:
        """Return the objective of a market as if those left out were there.

        If an element stands for ``each`` sellers, the norm of the weights is ``sqrt(each)`` times too large.
        The bounds per seller are rewritten for as many sellers as there are elements.
        """
        kept = elements / self.sellers
        cap, bound = objective.weight_cap, objective.max_mean_epsilon
        return replace(
            objective,
            concentration=objective.concentration / math.sqrt(self.each),
            weight_cap=None if cap is None else max(cap * kept * self.each, 1.0),
            max_mean_epsilon=None if bound is None else bound / kept,
        )


def population(dist: CostDistribution, sellers: int, cheapest: float = 1.0) -> Markets:
    """Return the population of ``sellers`` people: at most 4096 mid-quantiles standing for all of them.

    Parameters
    ----------
    dist
        The distribution of costs.
    sellers
        How many.
    cheapest
        The share of people to look at, the cheapest ones; 1 for everybody.
    """
    count = min(math.ceil(sellers * cheapest), _POPULATION)
    levels: FloatArray = np.arange(0.5, count) * (cheapest / count)
    costs = dist.quantile(levels)
    psi = read_only(virtual_costs(costs, dist))
    return Markets((psi,), sellers, sellers * cheapest / count, _reach(dist, cheapest), 1)


def draw_markets(
    dist: CostDistribution, sellers: int, rng: np.random.Generator, cheapest: float = 1.0
) -> Markets:
    """Draw whole markets of ``sellers`` people: thousands of small ones, two of a million sellers.

    Every market is an exact sample of independent costs (of those below the quantile ``cheapest``, whose
    number is drawn, too); only different markets depend on each other, so as to be spread evenly.
    Parameters as in :func:`population`.
    """
    draws = min(max(round(_ELEMENTS / (sellers * cheapest)), 2), _MOST_DRAWS)
    blocks = _BLOCKS if draws >= 4 * _BLOCKS else draws
    size = draws // blocks
    markets = []
    for _ in range(blocks):
        counts = np.full(size, sellers)
        if cheapest < 1.0:
            levels = _spread(size, 1, rng)[:, 0]
            counts = np.maximum(stats.binom.ppf(levels, sellers, cheapest), 1.0).astype(np.int64)
        spread = _spread(size, int(counts.max()), rng)
        levels = np.concatenate([row[:count] for row, count in zip(spread, counts, strict=True)])
        psi = read_only(virtual_costs(dist.quantile(levels * cheapest), dist))
        markets += np.split(psi, np.cumsum(counts)[:-1])
    return Markets(tuple(markets), sellers, 1.0, _reach(dist, cheapest), blocks)


def _spread(draws: int, sellers: int, rng: np.random.Generator) -> FloatArray:
    """Return numbers in [0, 1], shape (draws, sellers): each row uniform, each column evenly spread."""
    u = rng.random((draws, sellers))
    if draws > 1:
        u += rng.permuted(np.broadcast_to(np.arange(draws)[:, None], u.shape), axis=0)
        u /= draws
    return np.minimum(u, 1.0)


def _reach(dist: CostDistribution, cheapest: float) -> float:
    return math.inf if cheapest >= 1.0 else float(dist.virtual_cost(dist.quantile(cheapest)))
