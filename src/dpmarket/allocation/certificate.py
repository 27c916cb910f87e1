"""Turn a finished allocation into evidence: its objective's parts and its optimality residual.

Nothing here knows how the allocation was found. Everything is computed from the returned weights,
epsilons and total promise, the virtual costs and the objective, as an outsider would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation.kernels import certificate as kernels
from dpmarket.allocation.objective import BuyerObjective
from dpmarket.arrays import FloatArray, read_only_view


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the arrays of an allocation say about it; see :func:`examine`."""

    concentration_part: float
    noise_part: float
    payment_part: float
    kkt_residual: float
    n_bought: int


def examine(
    virtual_costs: FloatArray,
    loss_weights: FloatArray,
    epsilons: FloatArray,
    total_promise: float,
    objective: BuyerObjective,
) -> Evidence:
    """Return the objective's three parts and how far the allocation is from stationary and feasible.

    Parameters
    ----------
    virtual_costs, loss_weights, epsilons : FloatArray of shape (m,)
        Infinite virtual costs are allowed where the weight is 0.
    total_promise : float
        The sum of the epsilons.
    objective : BuyerObjective

    Returns
    -------
    Evidence
        ``kkt_residual`` is the largest of these, each without a unit and 0 at an exact minimum:

        - stationarity and complementarity in the weights: with
          ``g_i = concentration * a_i/|a| + payment_weight * eta * psi_i``, no seller who can still
          give weight may have a larger ``g`` than one who can still take some. Half the excess of
          ``max {g_i : a_i > 0}`` over ``min {g_i : a_i < cap}``, relative to
          ``concentration * max(a)/|a|`` plus the range of ``payment_weight * eta * psi`` among those
          bought. (Not relative to ``g`` itself: adding a constant to all costs changes no minimiser,
          so it must not hide an error either.)
        - stationarity in the total promise: ``noise/eta^2`` against ``payment_weight * <a, psi>``,
          relative to the larger; at the bound only an excess of the latter counts.
        - feasibility: the sum of the weights against 1; weights and total promise above their bounds
          or below 0; epsilons against weights times total promise.

    Notes
    -----
    These are the Karush-Kuhn-Tucker conditions of the problem in Algorithm 2, step 1. They hold at
    every local minimum; that the minimum is global rests on comparing all of them.
    """
    m = virtual_costs.size
    psi, weights, promises = (
        read_only_view(np.ascontiguousarray(part)) for part in (virtual_costs, loss_weights, epsilons)
    )
    total, square, cost, dearest, cheapest, heaviest, lightest, mismatch, bought = kernels.measure(
        psi, weights, promises, total_promise
    )
    norm = math.sqrt(square)
    cap = 1.0 if objective.weight_cap is None else min(objective.weight_cap / m, 1.0)
    tilt = objective.concentration / norm
    price = objective.payment_weight * total_promise
    giving, taking = kernels.gradient_range(psi, weights, dearest, (price, tilt), math.nextafter(cap, 0.0))
    size = tilt * heaviest + price * (dearest - cheapest)
    in_weights = max(giving - taking, 0.0) / (2.0 * size) if size > 0.0 else 0.0

    gain = objective.noise / total_promise
    paid = price * cost
    bound = math.inf if objective.max_mean_epsilon is None else m * objective.max_mean_epsilon
    excess = paid - gain
    if total_promise >= bound * (1.0 - 1e-15):
        excess = max(excess, 0.0)
    in_total = abs(excess) / max(paid, gain) if excess != 0.0 else 0.0

    infeasible = max(
        abs(total - 1.0),
        (heaviest - cap) / cap,
        -lightest,
        0.0 if bound == math.inf else (total_promise - bound) / bound,
        mismatch / (heaviest * total_promise),
    )
    return Evidence(
        concentration_part=objective.concentration * norm,
        noise_part=gain,
        payment_part=paid,
        kkt_residual=max(in_weights, in_total, infeasible),
        n_bought=bought,
    )
