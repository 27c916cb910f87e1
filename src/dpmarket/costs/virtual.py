"""Turn reported costs into virtual costs: what buying a unit of epsilon really costs the buyer."""

from __future__ import annotations

import math

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.ironing import crossing
from dpmarket.costs.pointwise import Costs, pointwise


def virtual_costs(costs: Costs, dist: CostDistribution) -> Costs:
    """Return psi(c) = c + F(c)/f(c), ironed where the distribution is irregular.

    Paper: Lemma `mech design`. A mechanism that pays truthfully pays psi(c)*epsilon in expectation.

    Parameters
    ----------
    costs
        Reported costs, money per unit of epsilon; a scalar or an array; finite, at least 0. Reports below the
        support count as its lower end. Reports above it get an infinite virtual cost: such a seller is never
        bought from.
    dist
        The distribution of costs, common knowledge.

    Returns
    -------
    Costs
        Virtual costs in the same unit and shape, non-decreasing in the cost.

    Raises
    ------
    InvalidInput
        A cost is negative, NaN or infinite. The message has no cost in it.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> virtual_costs(2.0, Uniform(1, 5))
    3.0
    """
    low, high = dist.support
    array, smallest, largest = checks.non_negative_extent("costs", costs)
    if smallest < low:
        array = np.maximum(array, low)
    values = dist.virtual_cost(array if largest <= high else np.minimum(array, high))
    if largest > high:
        values = np.where(array > high, math.inf, values)
    return float(values) if np.ndim(costs) == 0 else values  # type: ignore[return-value]


def largest_cost_at(virtual_cost: Costs, dist: CostDistribution) -> Costs:
    """Return the largest cost whose virtual cost is at most this: the inverse of psi.

    Below the lowest virtual cost it is the lower end of the support, above the highest the upper end.

    Parameters
    ----------
    virtual_cost
        Money per unit of epsilon, a scalar or an array, finite.
    dist
        The distribution of costs.

    Returns
    -------
    Costs
        Costs within the support, in the shape of ``virtual_cost``, to the last bit.

    Raises
    ------
    InvalidInput
        A virtual cost is NaN or infinite.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> round(largest_cost_at(5.0, Uniform(1, 5)), 12)
    3.0
    """
    low, high = dist.support

    def inverse(x: FloatArray) -> FloatArray:
        # psi(c) >= c, so that x itself bounds the answer even on an unbounded support.
        top = np.clip(x, low, high)
        return crossing(dist.virtual_cost, x, np.full(x.shape, low), top)

    return pointwise(inverse, checks.finite_numbers, "virtual_cost", virtual_cost)


def virtual_cost_density(virtual_cost: Costs, dist: CostDistribution) -> Costs:
    """Return the density of psi(c), the paper's f_Psi, at a virtual cost.

    It is f(c)/psi'(c) at the cost c that has this virtual cost; 0 where no cost has it; infinite on an
    ironed interval's level, which a positive share of people have. At psi's lowest value it is the limit
    from above.

    Parameters
    ----------
    virtual_cost
        Money per unit of epsilon, a scalar or an array, finite.
    dist
        The distribution of costs.

    Returns
    -------
    Costs
        Densities, one over the unit of ``virtual_cost``, in its shape.

    Raises
    ------
    InvalidInput
        A virtual cost is NaN or infinite.

    Examples
    --------
    Uniform costs on [1, 5] have virtual costs that are uniform on [1, 9].

    >>> from dpmarket.costs import Uniform
    >>> [virtual_cost_density(x, Uniform(1, 5)) for x in (3.0, 8.0, 20.0)]
    [0.125, 0.125, 0.0]
    """
    low, high = dist.support

    def density(x: FloatArray) -> FloatArray:
        c = largest_cost_at(x, dist)
        level = dist.virtual_cost(c)
        reached = np.isclose(level, x, rtol=1e-9, atol=1e-12 * max(low, 1e-300))
        inner = np.clip(c, low + 1e-9 * (dist.quantile(0.5) - low), high)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = dist.pdf(inner) / dist.virtual_cost_slope(inner)
        for interval in dist.ironed_intervals:
            values = np.where(np.isclose(x, interval.virtual_cost, rtol=1e-12), math.inf, values)
        return np.where(reached, values, 0.0)

    return pointwise(density, checks.finite_numbers, "virtual_cost", virtual_cost)
