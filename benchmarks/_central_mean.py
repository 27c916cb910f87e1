"""The central mechanism for a mean of Fallah, Makhdoumi, Malekian and Ozdaglar (2022), from its model.

The buyer minimises ``variance |a|^2 + 2 range^2 / eta^2`` plus payments, where person i has weight ``a_i``
and the privacy loss ``a_i eta``; in expectation a payment is the virtual cost times the loss. So weights and
noise solve, at the reported costs themselves,

    minimise  A |a|^2 + B / eta^2 + gamma eta <a, psi>,   a >= 0, sum a = 1, eta > 0.

Only the k cheapest can have weight. For each k the best weights are linear in psi, and eta is the first root
of a polynomial of degree four; all k are tried. Nothing of dpmarket takes part.
"""

from __future__ import annotations

import numpy as np


def central_purchase(
    virtual_costs: np.ndarray, sampling: float, noise: float, payment_weight: float
) -> tuple[np.ndarray, float]:
    """Return everybody's epsilon and the least value of the objective."""
    order = np.argsort(virtual_costs, kind="stable")
    psi = virtual_costs[order]
    counts = np.arange(1, psi.size + 1)
    means = np.cumsum(psi) / counts
    spreads = np.maximum(np.cumsum(psi**2) - counts * means**2, 0.0)  # k times the variance
    # Slope of A/k - gamma^2 eta^2 spread/(4A) + gamma eta mean + B/eta^2, times eta^3: its first root.
    cubic, quartic = payment_weight * means, payment_weight**2 * spreads / (2.0 * sampling)
    etas, exists = _first_roots(cubic, quartic, 2.0 * noise)
    lasts = 1.0 / counts - payment_weight * etas * (psi - means) / (2.0 * sampling)
    norms = 1.0 / counts + (payment_weight * etas / (2.0 * sampling)) ** 2 * spreads
    money = etas * means - payment_weight * etas**2 * spreads / (2.0 * sampling)
    values = sampling * norms + noise / etas**2 + payment_weight * money
    k = int(np.argmin(np.where(exists & (lasts >= -1e-12), values, np.inf))) + 1
    weights = 1.0 / k - payment_weight * etas[k - 1] * (psi[:k] - means[k - 1]) / (2.0 * sampling)
    epsilons = np.zeros(psi.size)
    epsilons[order[:k]] = np.maximum(weights, 0.0) * etas[k - 1]
    return epsilons, float(values[k - 1])


def _first_roots(cubic: np.ndarray, quartic: np.ndarray, constant: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the first root of ``cubic x^3 - quartic x^4 - constant``, and where there is one."""
    low = np.cbrt(constant / cubic)
    peak = np.where(quartic > 0.0, 0.75 * cubic / np.maximum(quartic, 1e-300), np.inf)
    high = np.minimum(peak, 4.0 * low)  # at the root the quartic term is at most three quarters of the cubic
    exists = (cubic - quartic * high) * high**3 >= constant
    for _ in range(80):
        middle = 0.5 * (low + high)
        below = (cubic - quartic * middle) * middle**3 < constant
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high, exists


def central_payment(
    costs: np.ndarray, i: int, virtual_cost, top: float, objective: tuple[float, float, float], points: int
) -> tuple[float, float]:
    """Return person i's epsilon and payment: the cost of the loss, and what lower reports would have won."""

    def rule(report: float) -> float:
        reports = costs.copy()
        reports[i] = report
        return central_purchase(virtual_cost(reports), *objective)[0][i]

    low, high = costs[i], top
    for _ in range(60):  # where the rule ends
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rule(middle) > 0.0 else (low, middle)
    nodes, shares = np.polynomial.legendre.leggauss(points)
    half = 0.5 * (high - costs[i])
    area = half * sum(
        share * rule(costs[i] + half * (1.0 + node)) for node, share in zip(nodes, shares, strict=True)
    )
    epsilon = rule(costs[i])
    return epsilon, costs[i] * epsilon + area
