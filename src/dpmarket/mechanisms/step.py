"""Turn a posted price into a curve with one step, for everything that works with curves."""

from __future__ import annotations

import math

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import check_distribution


def posted_price_curve(
    dist: CostDistribution, objective: BuyerObjective, expected_sellers: int, epsilon: float, price: float
) -> Curve:
    """Return the curve that offers everybody the same epsilon at the same price, take it or leave it.

    Whoever's cost is at most ``price`` is promised ``epsilon`` and paid ``price * epsilon``, whatever exactly
    they report; the others sell nothing. Quotes, menus and certificates treat it like any curve.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge.
    objective
        What the buyer wanted when the price was chosen.
    expected_sellers
        How many sellers the price was chosen for.
    epsilon
        The promise to whoever accepts, above 0.
    price
        Money per unit of epsilon, above the lowest cost; from the highest cost on, everybody accepts.

    Returns
    -------
    Curve
        One step down, from ``epsilon`` to 0, just above ``price``.

    Raises
    ------
    InvalidInput
        For values out of their range, or a price inside an ironed interval, whose people a curve must treat
        alike: take its upper end, or a price below it.

    See Also
    --------
    PostedPrice : the same rule for sellers who all report at once.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> objective = BuyerObjective(1.0, 1.0, 0.1)
    >>> curve = posted_price_curve(Uniform(1, 5), objective, 100, epsilon=0.5, price=3.0)
    >>> epsilons, payments, _ = curve.offers([1.5, 3.0, 3.1])
    >>> epsilons.tolist(), payments.round(12).tolist()
    ([0.5, 0.5, 0.0], [1.5, 1.5, 0.0])
    """
    check_distribution(dist)
    epsilon, price = checks.positive("epsilon", epsilon), checks.positive("price", price)
    low, high = dist.support
    if price < low:
        raise InvalidInput(f"expected a price of at least the lowest cost, {low!r}, got {price!r}.")
    if price >= high:
        return Curve(dist, objective, expected_sellers, math.inf, math.inf, epsilon)
    cutoff = float(dist.virtual_cost(price))
    if any(price < interval.high and cutoff >= interval.virtual_cost for interval in dist.ironed_intervals):
        raise InvalidInput(
            f"expected a price outside the intervals in which costs count alike, got {price!r} inside one: "
            "take its upper end, or a price below it."
        )
    return Curve(dist, objective, expected_sellers, math.inf, cutoff, epsilon, margin_epsilon=epsilon)
