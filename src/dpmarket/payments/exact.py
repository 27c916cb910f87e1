"""Pay every seller exactly: as if the whole problem were re-solved at every report up to the top."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import Allocation, BuyerObjective
from dpmarket.allocation.settings import PathSettings, path_settings
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, largest_cost_at
from dpmarket.errors import Infeasible
from dpmarket.payments import kernels
from dpmarket.payments.psi_table import tabulate
from dpmarket.payments.uniqueness import candidate_basins

TOLERANCE = 2e-10
"""Relative error at which the integrals stop; the contract is 1e-9."""


@dataclass(frozen=True)
class Payments:
    """Payments in money and estimates of their absolute errors, seller by seller."""

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
    costs, virtual_costs : reports and their virtual costs under ``dist``, checked.
    allocation : what :func:`dpmarket.allocation.allocate` gives for them.
    objective, dist : the buyer's objective and the distribution of costs.

    Returns
    -------
    Payments of 0 for sellers with epsilon 0. A payment is rounded up, so that it is at least
    ``cost*epsilon`` in exact arithmetic; its relative error is below 1e-9.

    Raises
    ------
    Infeasible : costs are unbounded and some seller is needed at every price.
    """
    low, top = dist.support
    finite = virtual_costs[np.isfinite(virtual_costs)]
    settings = path_settings(objective, virtual_costs.size)
    needed = settings.first_capped + (settings.first_rest > 0.0)
    if math.isinf(top) and finite.size - 1 < needed:
        raise Infeasible(
            "expected the others to suffice when one seller leaves, because costs have no upper end; found "
            "that a seller is needed at every price: raise weight_cap, or cut the cost distribution."
        )
    bought = np.flatnonzero(allocation.epsilons > 0.0)
    own = np.maximum(costs[bought], low)
    psi = np.sort(finite)
    problem = _problem(psi, settings)
    basins = candidate_basins(problem, allocation.local_minima, objective.concentration, settings.unit)
    payments, errors = np.empty(bought.size), np.empty(bought.size)
    reach = allocation.cutoff + (allocation.cutoff - float(psi[0]))
    while True:
        reach *= 1.5
        end = min(largest_cost_at(reach, dist), top)
        table = tabulate(dist, end)
        kernels.pay_each(
            problem,
            basins,
            table,
            own,
            virtual_costs[bought],
            allocation.epsilons[bought],
            top,
            TOLERANCE,
            payments,
            errors,
        )
        if np.isfinite(payments).all():
            break
    full, full_errors = np.zeros(costs.size), np.zeros(costs.size)
    # Participation must hold in exact arithmetic: c*eps was rounded, so go two floats up.
    full[bought] = np.nextafter(np.nextafter(payments, np.inf), np.inf)
    full_errors[bought] = errors + 4e-16 * payments
    return Payments(full, full_errors)


def _problem(psi: FloatArray, settings: PathSettings) -> kernels.Problem:
    return kernels.Problem(
        psi=psi,
        total=float(psi.sum()),
        cap=settings.max_weight,
        first_capped=settings.first_capped,
        first_rest=settings.first_rest,
        rho=settings.rho,
        least_rate=settings.least_rate,
        epsilon_rate=settings.epsilon_rate,
    )
