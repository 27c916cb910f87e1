"""Turn a cost distribution, an objective and an expected number of sellers into a curve."""

from __future__ import annotations

import math

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective, allocate, max_epsilon
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, virtual_costs
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import check_dist_and_objective

# More sellers than this are planned for in as many groups of equal size.
MOST_POINTS = 1 << 20


def population_curve(dist: CostDistribution, objective: BuyerObjective, expected_sellers: int) -> Curve:
    """Return the curve that is best for the typical market: costs at the distribution's mid-quantiles.

    Solves the offline problem for sellers with costs ``F^-1((i - 1/2)/m)``, i = 1..m, and keeps its cutoff,
    spread, total promise and cap. As m grows, the buyer's objective approaches the offline optimum.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge.
    objective
        The buyer's objective, with its weight cap and its bound on the mean epsilon. The bounds hold for the
        typical market: a seller is never offered more than the cap allows there, nor more than
        ``max_epsilon(objective)``; what really comes decides the sum.
    expected_sellers
        m, at least 1. Beyond about a million the quantiles stand for groups of equal size, which is the same
        problem with ``concentration`` and ``max_mean_epsilon`` rescaled.

    Returns
    -------
    Curve
        A rule from cost to epsilon and payment, fixed before the first seller comes.

    Raises
    ------
    InvalidInput
        An argument is not what it should be; noise or payment weight of 0.
    Infeasible
        The offline problem has no best allocation; the message says what to change.

    Notes
    -----
    Departs from the paper's Algorithm 3 (:func:`paper_curve`), which needs a density of
    virtual costs at 0.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> curve = population_curve(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1), 1000)
    >>> 1.0 < curve.reach < 1.5
    True
    """
    check_dist_and_objective(dist, objective)
    sellers = checks.whole("expected_sellers", expected_sellers, 1)
    points = min(sellers, MOST_POINTS)
    size = sellers / points
    psi = virtual_costs(dist.quantile((np.arange(points) + 0.5) / points), dist)
    allocation = allocate(psi, _grouped(objective, size))
    total = allocation.total_promise / size
    cap = math.inf
    if objective.weight_cap is not None:
        cap = min(allocation.max_weight * total, max_epsilon(objective))
    if math.isinf(allocation.cutoff):
        return Curve(dist, objective, sellers, math.inf, math.inf, min(total / points, cap))
    if allocation.spread > 0.0:
        return Curve(dist, objective, sellers, total / allocation.spread, allocation.cutoff, cap)
    return _cheapest(dist, objective, sellers, allocation.total_promise)


def _grouped(objective: BuyerObjective, size: float) -> BuyerObjective:
    """Return the objective for groups of ``size`` sellers alike, whose |a| is ``sqrt(size)`` times theirs."""
    bound = objective.max_mean_epsilon
    return BuyerObjective(
        objective.concentration / math.sqrt(size),
        objective.noise,
        objective.payment_weight,
        objective.weight_cap,
        None if bound is None else bound * size,
    )


def _cheapest(dist: CostDistribution, objective: BuyerObjective, sellers: int, total: float) -> Curve:
    """Return the step that fills up the cheapest share of people: the limit of no concentration."""
    share = 1.0 / (sellers if objective.weight_cap is None else min(objective.weight_cap, sellers))
    epsilon = min(total / sellers / share, max_epsilon(objective))
    margin = dist.quantile(share)
    cutoff = dist.virtual_cost(margin)
    for interval in dist.ironed_intervals:
        if interval.low <= margin <= interval.high:
            below, above = _probabilities(dist, interval.low, interval.high)
            part = min(max((share - below) / (above - below), 0.0), 1.0)
            return Curve(dist, objective, sellers, math.inf, interval.virtual_cost, epsilon, part * epsilon)
    return Curve(dist, objective, sellers, math.inf, cutoff, epsilon)


def _probabilities(dist: CostDistribution, *costs: float) -> FloatArray:
    return dist.cdf(np.array(costs))
