"""The allocation step of the paper's Algorithm 2 as printed: a grid of total promises, projected descent.

The exact solver (:mod:`dpmarket.allocation.solver`) is compared with it. It finds the best point of its grid,
not the minimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket import checks
from dpmarket.allocation.objective import BuyerObjective, max_epsilon
from dpmarket.allocation.simplex import UNCAPPED, project, split_cap
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput, NotConverged


@dataclass(frozen=True, slots=True, eq=False)
class PaperAllocation:
    """What the paper's method found.

    Attributes
    ----------
    epsilons, loss_weights : FloatArray of shape (m,)
        In the caller's order; read-only.
    total_promise : float
        The grid's best value of eta.
    objective_value : float
        The buyer's objective there.
    values : FloatArray of shape (grid,)
        The objective at every value of the grid; read-only.
    iterations : int
        Descent steps over the whole grid.
    """

    epsilons: FloatArray
    loss_weights: FloatArray
    total_promise: float
    objective_value: float
    values: FloatArray
    iterations: int


def paper_allocation(
    virtual_costs: object,
    objective: BuyerObjective,
    total_promises: object,
    *,
    step_size: float | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 100_000,
) -> PaperAllocation:
    """Return the best allocation on a grid of total promises, found by projected gradient descent.

    For each ``eta`` of the grid, start at equal weights and repeat ``a <- Proj(a - step_size * (mu *
    a/|a| + gamma * eta * psi))`` until the step is shorter than ``tolerance * |a|``. The projection is
    onto the full constraint set ``0 <= a_i <= weight_cap/m``, ``sum a = 1``.

    Parameters
    ----------
    virtual_costs : array_like of shape (m,)
        Finite and at least 0, money per unit of epsilon.
    objective : BuyerObjective
    total_promises : array_like
        The grid for eta: above 0 and at most ``m * max_mean_epsilon``.
    step_size : float, optional
        In (0, 1]. None takes ``1/(mu*sqrt(m))``, the longest step that is safe everywhere, or 1 if that
        is longer.
    tolerance : float
        When to stop, see above.
    max_iterations : int
        Allowed for each value of the grid.

    Returns
    -------
    PaperAllocation
        The best of the grid, and how many steps it took.

    Raises
    ------
    InvalidInput
        If an argument is out of its range.
    NotConverged
        If ``max_iterations`` were not enough.

    Notes
    -----
    Paper, Algorithm 2, step 1, and the text above it; the step size and the initial weights are those of
    its Algorithm 4. The gradient of ``mu*|a|`` has the Lipschitz constant ``mu/|a| <= mu*sqrt(m)``.

    Examples
    --------
    >>> objective = BuyerObjective(concentration=1.0, noise=1.0, payment_weight=0.01)
    >>> found = paper_allocation([1.0, 1.0, 50.0], objective, [5.0, 10.0, 20.0])
    >>> found.total_promise, found.loss_weights.round(6).tolist()
    (10.0, [0.5, 0.5, 0.0])
    """
    psi = checks.non_negative_vector("virtual_costs", virtual_costs)
    grid = checks.finite_vector("total_promises", total_promises)
    m = psi.size
    mu, sigma, gamma = objective.concentration, objective.noise, objective.payment_weight
    bound = math.inf if objective.max_mean_epsilon is None else m * objective.max_mean_epsilon
    if not (float(grid.min()) > 0.0 and float(grid.max()) <= bound):
        raise InvalidInput(f"expected every element of total_promises to be > 0 and <= {bound!r}.")
    if step_size is None:
        step_size = 1.0 if mu == 0.0 else min(1.0 / (mu * math.sqrt(m)), 1.0)
    step = checks.positive("step_size", step_size)
    if step > 1.0:
        raise InvalidInput(f"expected step_size in (0, 1], got {step!r}.")
    tolerance = checks.positive("tolerance", tolerance)
    max_iterations = checks.whole("max_iterations", max_iterations, 1)
    layout = UNCAPPED
    if objective.weight_cap is not None:
        layout = split_cap(Fraction(objective.weight_cap) / m)

    values = np.empty_like(grid)
    best, best_value, iterations = np.empty(0), math.inf, 0
    for i, eta in enumerate(grid.tolist()):
        weights, steps = _descend(
            psi, mu, gamma * eta, layout, step=step, tolerance=tolerance, max_iterations=max_iterations
        )
        iterations += steps
        norm = math.sqrt(float(weights @ weights))
        values[i] = mu * norm + sigma / eta + gamma * eta * float(weights @ psi)
        if values[i] < best_value:
            best, best_value = weights, float(values[i])
    total_promise = float(grid[values.argmin()])
    return PaperAllocation(
        epsilons=read_only(np.minimum(best * total_promise, max_epsilon(objective))),
        loss_weights=read_only(best),
        total_promise=total_promise,
        objective_value=best_value,
        values=read_only(values),
        iterations=iterations,
    )


def _descend(
    psi: FloatArray,
    mu: float,
    price: float,
    layout: tuple[float, int, float],
    *,
    step: float,
    tolerance: float,
    max_iterations: int,
) -> tuple[FloatArray, int]:
    """Return the weights at one total promise, and the steps they took."""
    weights = np.full(psi.size, 1.0 / psi.size)
    pull = (step * price) * psi
    for iteration in range(1, max_iterations + 1):
        norm = math.sqrt(float(weights @ weights))
        moved = project(weights * (1.0 - step * mu / norm) - pull, layout)
        change = moved - weights
        weights = moved
        if float(change @ change) <= (tolerance * norm) ** 2:
            return weights, iteration
    raise NotConverged(
        f"expected projected gradient descent to converge within {max_iterations} steps at each total "
        "epsilon, it did not: raise max_iterations or tolerance."
    )
