"""Find the payment weight at which something expected has a wanted value: money spent, or excess risk.

What is expected is monotone in the payment weight. It is first found in the population, where a value costs
one small solve; then corrected by draws, where a value costs many, with steps whose slope the population
knows. So few values of the draws are needed, and large markets can be planned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.errors import NotConverged
from dpmarket.planning.markets import Expectation, Markets, draw_markets, population

Measure = Callable[[Expectation], float]

_CLOSE = 5e-4  # relative distance from the wanted value at which the search ends
_ALL_BELOW = 5_000  # sellers up to which nobody is left out
_EXTREME = 280.0  # decimal exponents of payment weights that are tried
_STEP = 0.02  # of the logarithm of the payment weight, for slopes


@dataclass(frozen=True)
class Estimate:
    """What the population says: a payment weight, and how the measure depends on it.

    Attributes
    ----------
    objective : with the payment weight found.
    expectation : what the population expects there.
    slope : of the logarithm of the measure by the logarithm of the payment weight.
    cheapest : the share of sellers that had to be looked at.
    """

    objective: BuyerObjective
    expectation: Expectation
    slope: float
    cheapest: float


@dataclass(frozen=True)
class Found:
    """A payment weight, what the draws say about it, and the slope of the logarithms there."""

    objective: BuyerObjective
    expectation: Expectation
    slope: float
    draws: int


def estimate_payment_weight(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, measure: Measure, wanted: float
) -> Estimate:
    """Return the payment weight at which ``measure`` of the population equals ``wanted``.

    Arguments and refusals as in :func:`find_payment_weight`.
    """
    cheapest = 1.0
    start = math.log(objective.payment_weight) if objective.payment_weight > 0.0 else 0.0
    while True:
        crowd = population(dist, sellers, cheapest)
        value = _logarithm(crowd, objective, measure, wanted)
        log_weight = _crossing(value, start)
        chosen = _at(objective, log_weight)
        expectation = crowd.expect(chosen)
        narrower = _enough(expectation.share, sellers)
        if sellers <= _ALL_BELOW or narrower > 0.5 * cheapest:
            break
        start, cheapest = log_weight, narrower
    slope = (value(log_weight + _STEP) - value(log_weight - _STEP)) / (2.0 * _STEP)
    return Estimate(chosen, expectation, slope, cheapest)


def find_payment_weight(
    dist: CostDistribution,
    objective: BuyerObjective,
    sellers: int,
    measure: Measure,
    wanted: float,
    rng: np.random.Generator,
) -> Found:
    """Return the payment weight at which ``measure`` of what is expected equals ``wanted``.

    Parameters
    ----------
    dist, objective, sellers : the market; the objective's own payment weight is only where the search starts.
    measure : picks a positive number that is monotone in the payment weight.
    wanted : a value that ``measure`` takes between the extremes.
    rng : where the draws come from.

    Raises
    ------
    NotConverged
        If no payment weight that floats can hold gives the wanted value.
    """
    estimate = estimate_payment_weight(dist, objective, sellers, measure, wanted)
    cheapest = estimate.cheapest
    while True:
        draws = draw_markets(dist, sellers, rng, cheapest)
        found = _correct(draws, estimate, measure, wanted)
        if found.expectation.in_reach:
            return found
        cheapest = min(4.0 * cheapest, 1.0)


def _enough(share: float, sellers: int) -> float:
    """Return the share of sellers to look at if about ``share`` are bought from."""
    bought = share * sellers
    return min(3.0 * (bought + 10.0 * math.sqrt(bought) + 30.0) / sellers, 1.0)


def _at(objective: BuyerObjective, log_weight: float) -> BuyerObjective:
    return replace(objective, payment_weight=math.exp(log_weight))


def _logarithm(
    markets: Markets, objective: BuyerObjective, measure: Measure, wanted: float
) -> Callable[[float], float]:
    """Return the logarithm of measure/wanted as a function of the logarithm of the payment weight."""

    def value(log_weight: float) -> float:
        expectation = markets.expect(_at(objective, log_weight))
        return math.log(measure(expectation) / wanted)

    return value


def _crossing(value: Callable[[float], float], start: float) -> float:
    """Return where a monotone function crosses 0, going out from ``start`` in growing steps."""
    limit = _EXTREME * math.log(10.0)
    here, at_start = start, value(start)
    if at_start == 0.0:
        return start
    ahead = value(start + 1.0)
    direction = 1.0 if (ahead - at_start) * at_start < 0.0 else -1.0
    step = 1.0
    while True:
        there = here + direction * step
        if not -limit < there < limit:
            raise NotConverged(
                "expected a payment weight between 1e-280 and 1e280 to give what is wanted, found none; "
                "measure money in another unit."
            )
        if value(there) * at_start <= 0.0:
            return float(brentq(value, min(here, there), max(here, there), xtol=1e-9))
        here, step = there, 2.0 * step


def _correct(draws: Markets, estimate: Estimate, measure: Measure, wanted: float) -> Found:
    """Go from the population's answer to that of the draws, by secant steps kept within a bracket."""
    slope = estimate.slope
    log_weight = math.log(estimate.objective.payment_weight)
    low, high = -math.inf, math.inf
    nearest, best = math.inf, None
    for _ in range(40):
        chosen = _at(estimate.objective, log_weight)
        expectation = draws.expect(chosen)
        off = math.log(measure(expectation) / wanted)
        if best is None or abs(off) < nearest or not expectation.in_reach:
            nearest = abs(off)
            best = Found(chosen, expectation, slope, len(draws.virtual_costs))
        if nearest <= _CLOSE or not expectation.in_reach:
            break
        if (off > 0.0) == (slope > 0.0):
            high = min(high, log_weight)
        else:
            low = max(low, log_weight)
        if high - low < 1e-12:
            break
        log_weight -= off / slope
        if not low < log_weight < high:
            log_weight = 0.5 * (low + high)
    assert best is not None
    return best
