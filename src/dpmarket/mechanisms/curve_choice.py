"""Turn a cost distribution, an objective and an expected number of sellers into a curve."""

from __future__ import annotations

import math

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective, allocate, max_epsilon
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, virtual_cost_density, virtual_costs
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import check_dist_and_objective

# More sellers than this are planned for in as many groups of equal size.
MOST_POINTS = 1 << 20
_NEARBY = 1e-3


def population_curve(dist: CostDistribution, objective: BuyerObjective, expected_sellers: int) -> Curve:
    """Return the curve that is best for the typical market: costs at the distribution's mid-quantiles.

    Solves the offline problem for sellers with costs ``F^-1((i - 1/2)/m)``, i = 1..m, and keeps its cutoff,
    spread, total epsilon and cap. As m grows, the buyer's objective approaches the offline optimum.

    Parameters
    ----------
    dist : the distribution of costs, common knowledge.
    objective : the buyer's objective, with its weight cap and its bound on the mean epsilon. The bounds
        hold for the typical market: a seller is never offered more than the cap allows there, nor more
        than ``max_epsilon(objective)``; what really comes decides the sum.
    expected_sellers : m, at least 1. Beyond about a million the quantiles stand for groups of equal size,
        which is the same problem with ``concentration`` and ``max_mean_epsilon`` rescaled.

    Returns
    -------
    A rule from cost to epsilon and payment, fixed before the first seller comes.

    Raises
    ------
    InvalidInput : an argument is not what it should be; noise or payment weight of 0.
    Infeasible : the offline problem has no best allocation; the message says what to change.

    Notes
    -----
    Departs from the paper's Algorithm 3 (:func:`paper_curve`), which needs a density of virtual costs at 0.

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
    total = allocation.total_epsilon / size
    cap = math.inf
    if objective.weight_cap is not None:
        cap = min(allocation.max_weight * total, max_epsilon(objective))
    if math.isinf(allocation.cutoff):
        return Curve(dist, objective, sellers, math.inf, math.inf, min(total / points, cap))
    if allocation.spread > 0.0:
        return Curve(dist, objective, sellers, total / allocation.spread, allocation.cutoff, cap)
    return _cheapest(dist, objective, sellers, allocation.total_epsilon)


def paper_curve(
    dist: CostDistribution,
    objective: BuyerObjective,
    expected_sellers: int,
    density_at_zero: float | None = None,
) -> Curve:
    """Return the curve of the paper's Algorithm 3, literally.

    ``lam = sqrt(mu^2 gamma / (sigma m f))`` and
    ``epsilon(c) = 2 sqrt(3) gamma^1.5 mu (lam - gamma psi(c))^+ / (f^1.5 m^1.5 lam^3.5)``, where ``f`` is the
    density of virtual costs at 0.

    Parameters
    ----------
    dist : the distribution of costs; psi must have a density at 0 that is finite and above 0.
    objective : the buyer's objective, without weight cap and bound on the mean epsilon, which the algorithm
        does not know.
    expected_sellers : m, at least 1.
    density_at_zero : use this for ``f`` instead of the distribution's own. The algorithm's assumption need
        not hold then, and the curve may buy from nobody.

    Returns
    -------
    A rule from cost to epsilon and payment. The payments are those of the payment identity.

    Raises
    ------
    InvalidInput : the density of virtual costs at 0 is 0 or infinite, or the objective has bounds; use
        :func:`population_curve` then.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> paper_curve(Uniform(0, 1), BuyerObjective(1.0, 1.0, 1e-3), 10_000).reach  # doctest: +ELLIPSIS
    0.223...
    """
    check_dist_and_objective(dist, objective)
    sellers = checks.whole("expected_sellers", expected_sellers, 1)
    mu, sigma, gamma = objective.concentration, objective.noise, objective.payment_weight
    if not min(mu, sigma, gamma) > 0.0:
        raise InvalidInput("expected concentration, noise and payment_weight > 0 for the paper's curve.")
    if objective.weight_cap is not None or objective.max_mean_epsilon is not None:
        raise InvalidInput(
            "expected an objective without weight_cap and max_mean_epsilon: the paper's Algorithm 3 knows "
            "neither; use population_curve."
        )
    if density_at_zero is None:
        density = virtual_cost_density(0.0, dist)
        # A density that tends to 0 or to infinity shows itself by not being the same nearby.
        nearby = virtual_cost_density(dist.virtual_cost(dist.quantile(_NEARBY)), dist)
        if not (0.0 < density < math.inf and abs(nearby / density - 1.0) < 0.05):
            raise InvalidInput(
                "expected virtual costs with a density at 0 that is finite and > 0, found none: the "
                "assumption of the paper's Algorithm 3 does not hold; use population_curve, or state "
                "density_at_zero."
            )
    else:
        density = checks.positive("density_at_zero", density_at_zero)
    price = math.sqrt(mu * mu * gamma / (sigma * sellers * density))
    rate = 2.0 * math.sqrt(3.0) * gamma**1.5 * mu / ((density * sellers) ** 1.5 * price**3.5)
    return Curve(dist, objective, sellers, rate * gamma, price / gamma)


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
