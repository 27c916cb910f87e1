"""Find the payment weight at which something expected has a wanted value: money spent, or excess risk.

What is expected is monotone in the payment weight. It is first found in the population, where a value costs
one small solve; then corrected by draws, where a value costs many, with steps whose slope the population
knows. So few values of the draws are needed, and large markets can be planned.

Monotone is not continuous. Where the best allocation of a market changes from a few cheap sellers to many
dear ones, what is expected jumps, and a wanted value within the jump is met by no payment weight. The side of
the jump that does not exceed the wanted value is then returned, and how far it stays away.
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

Measure = Callable[[Expectation], tuple[float, float]]

_CLOSE = 5e-4  # relative distance from the wanted value at which the search ends
ALL_BELOW = 5_000  # sellers up to which nobody is left out
_EXTREME = 280.0  # decimal exponents of payment weights that are tried
_STEP = 0.02  # of the logarithm of the payment weight, for slopes
_SLOPES = (0.01, 4.0)  # what is steeper is a jump and no slope
_SAME = 1e-9  # logarithms of payment weights that are not told apart


def payments(expectation: Expectation) -> tuple[float, float]:
    """Return the expected total payment and its standard error: what a budget is about."""
    return expectation.payment, expectation.payment_error


def excess_risks(expectation: Expectation) -> tuple[float, float]:
    """Return the expected excess risk and its standard error: what a target is about."""
    return expectation.excess_risk, expectation.excess_risk_error


@dataclass(frozen=True)
class Estimate:
    """What the population says: a payment weight, and how the measure depends on it.

    Attributes
    ----------
    objective
        With the payment weight found.
    expectation
        What the population expects there.
    slope
        Of the logarithm of the measure by that of the payment weight, between 0.01 and 4 in size.
    cheapest
        The share of sellers that had to be looked at.
    """

    objective: BuyerObjective
    expectation: Expectation
    slope: float
    cheapest: float


@dataclass(frozen=True)
class Found:
    """A payment weight, what the draws say about it, and the slope of the logarithms there.

    ``gap`` is what the measure stays below the wanted value because no payment weight meets that; else 0.
    """

    objective: BuyerObjective
    expectation: Expectation
    slope: float
    draws: int
    gap: float = 0.0


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
        narrower = share_to_look_at(expectation.share, sellers)
        if sellers <= ALL_BELOW or narrower > 0.5 * cheapest:
            break
        start, cheapest = log_weight, narrower
    slope = (value(log_weight + _STEP) - value(log_weight - _STEP)) / (2.0 * _STEP)
    slope = math.copysign(min(max(abs(slope), _SLOPES[0]), _SLOPES[1]), slope)
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

    Equals to one part in 2,000, and is never above it by more than its standard error. Where the measure
    jumps over the wanted value, it is the value on the lower side of the jump.

    Parameters
    ----------
    dist, objective, sellers
        The market; the objective's own payment weight is only where the search starts.
    measure
        Picks a positive number that is monotone in the payment weight, and its standard error.
    wanted
        A value that ``measure`` takes between the extremes.
    rng
        Where the draws come from.

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


def share_to_look_at(share: float, sellers: int) -> float:
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
        return math.log(measure(expectation)[0] / wanted)

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
    """Go from the population's answer to that of the draws, by secant steps, then by halving a bracket."""
    slope, limit = estimate.slope, _EXTREME * math.log(10.0)
    log_weight = math.log(estimate.objective.payment_weight)
    low, high = -limit, limit
    kept, largest = None, -math.inf  # the last payment weight before the jump, if there is one
    for k in range(80):
        chosen = _at(estimate.objective, log_weight)
        expectation = draws.expect(chosen)
        value, error = measure(expectation)
        off = math.log(value / wanted)
        found = Found(chosen, expectation, slope, len(draws.virtual_costs))
        if (abs(off) <= _CLOSE and value <= wanted + error) or not expectation.in_reach:
            return found
        if off <= 0.0 and value > largest:
            kept, largest = replace(found, gap=wanted - value), value
        if (off > 0.0) == (slope > 0.0):
            high = min(high, log_weight)
        else:
            low = max(low, log_weight)
        if high - low < _SAME:
            break
        bracketed = low > -limit and high < limit
        # A little below what is wanted, not to stop just above it; in growing steps until it is bracketed.
        log_weight -= (off + 0.5 * _CLOSE) / slope * (1.0 if bracketed or k < 4 else 2.0 ** (k - 3))
        if not low < log_weight < high or (bracketed and k >= 8):
            log_weight = 0.5 * (low + high)
    if kept is None:
        raise NotConverged(
            "expected a payment weight that stays within what is wanted, found none in the simulated markets."
        )
    return kept
