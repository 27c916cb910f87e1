"""The online curve as the paper's Algorithm 3 prints it."""

from __future__ import annotations

import math

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution, virtual_cost_density
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import check_dist_and_objective

_NEARBY = 1e-3


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
    dist
        The distribution of costs; psi must have a density at 0 that is finite and above 0.
    objective
        The buyer's objective, without weight cap and bound on the mean epsilon, which the algorithm does not
        know.
    expected_sellers
        m, at least 1.
    density_at_zero
        Use this for ``f`` instead of the distribution's own. The algorithm's assumption need not hold then,
        and the curve may buy from nobody.

    Returns
    -------
    Curve
        A rule from cost to epsilon and payment. The payments are those of the payment identity.

    Raises
    ------
    InvalidInput
        The density of virtual costs at 0 is 0 or infinite, or the objective has bounds; use
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
