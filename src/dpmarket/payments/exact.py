"""Pay every seller exactly: as if the whole problem were re-solved at every report up to the top.

A seller's payment is ``c*eps`` plus the integral of their epsilon over higher reports, each of which is a
re-solved problem (:mod:`dpmarket.payments.kernels.resolve`). :mod:`dpmarket.payments.market` computes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import Allocation, BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution
from dpmarket.errors import NotConverged
from dpmarket.payments.kernels.integrals import Asked
from dpmarket.payments.market import TOLERANCE, Market


@dataclass(frozen=True)
class Payments:
    """Payments in money and estimates of their absolute errors, seller by seller.

    Attributes
    ----------
    payments, errors
        Shape (sellers,), in the sellers' order.
    """

    payments: FloatArray
    errors: FloatArray


def exact_payments(
    costs: FloatArray,
    virtual_costs: FloatArray,
    allocation: Allocation,
    objective: BuyerObjective,
    dist: CostDistribution,
) -> Payments:
    """Return ``c_i*eps_i(c_i)`` plus the integral of ``eps_i`` over reports from ``c_i`` to the top.

    Parameters
    ----------
    costs, virtual_costs
        Reports and their virtual costs under ``dist``, checked.
    allocation
        What :func:`dpmarket.allocation.allocate` gives for them.
    objective, dist
        The buyer's objective and the distribution of costs.

    Returns
    -------
    Payments
        Payments of 0 for sellers with epsilon 0. A payment is rounded up, so that it is at least
        ``cost*epsilon`` in exact arithmetic; its relative error is below 1e-9.

    Raises
    ------
    Infeasible
        Costs are unbounded and some seller is needed at every price.
    NotConverged
        A cost so close to 0 that promises or payments leave the range of floats.
    """
    bought = np.flatnonzero(allocation.epsilons > 0.0)
    own = np.maximum(costs[bought], dist.support[0])
    market = Market(virtual_costs, allocation, objective, dist)
    premiums, errors = market.premiums(Asked(own, virtual_costs[bought], allocation.epsilons[bought]))
    payments = allocation.epsilons[bought] * (own + premiums)
    _refuse_nonsense(allocation.epsilons, payments)
    del market  # its sorted costs take as much memory as a result
    full, full_errors = np.zeros(costs.size), np.zeros(costs.size)
    full[bought] = round_up(payments)
    full_errors[bought] = allocation.epsilons[bought] * errors + 1e-15 * payments
    return Payments(full, full_errors)


def response(
    virtual_costs: FloatArray,
    own: int,
    reports: FloatArray,
    allocation: Allocation,
    objective: BuyerObjective,
    dist: CostDistribution,
) -> tuple[FloatArray, FloatArray]:
    """Return the epsilons and payments of seller ``own`` at several reports, the others' unchanged.

    Parameters
    ----------
    virtual_costs, allocation
        Everybody's, with the lowest of ``reports`` as seller ``own``'s.
    own
        The seller's position.
    reports
        Shape (n,), within the support.
    objective, dist
        The buyer's objective and the distribution of costs.

    Returns
    -------
    tuple[FloatArray, FloatArray]
        Epsilons and payments, shape (n,) each, as :func:`exact_payments` would pay at every single report.

    Raises
    ------
    Infeasible, NotConverged
        As :func:`exact_payments`.
    """
    market = Market(virtual_costs, allocation, objective, dist)
    seller = float(virtual_costs[own])
    psi = dist.virtual_cost(reports)
    epsilons = np.zeros(reports.size)
    finite = psi < np.inf
    epsilons[finite] = market.epsilons_at(seller, psi[finite])
    payments = np.zeros(reports.size)
    bought = epsilons > 0.0
    if bought.any():
        order = np.flatnonzero(bought)
        order = order[np.argsort(reports[order], kind="stable")]
        asked = Asked(reports[order], np.full(order.size, seller), epsilons[order])
        premiums, _ = market.integrated_above(asked, TOLERANCE)
        payments[order] = round_up(epsilons[order] * (reports[order] + premiums))
    _refuse_nonsense(epsilons, payments)
    return epsilons, payments


def round_up(payments: FloatArray) -> FloatArray:
    """Participation must hold in exact arithmetic: the product was rounded, so go two floats up."""
    return np.nextafter(np.nextafter(payments, np.inf), np.inf)


def _refuse_nonsense(epsilons: FloatArray, payments: FloatArray) -> None:
    """Refuse promises or payments that are no numbers, which costs of almost 0 lead to."""
    if not (np.isfinite(epsilons).all() and np.isfinite(payments).all()):
        raise NotConverged(
            "expected promises and payments within the range of floats, found that a cost lies too close to "
            "0 for that: set max_mean_epsilon."
        )
