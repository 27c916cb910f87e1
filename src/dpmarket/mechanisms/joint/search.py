r"""Turn a solver for one total epsilon into the best total epsilon: a grid, then every valley of it refined.

With the inner problem solved at each :math:`\eta`, what is left is a function of one variable, whose
derivative the envelope theorem gives:
:math:`F'(\eta) = \gamma \langle a, \psi \rangle - (\sigma + 2 b \cdot w)/\eta^2`.
It need not be convex, and may have several valleys. Every pair of neighbouring grid points with a downward
slope on the left and an upward slope on the right holds a local minimum, found to rounding as a root of the
slope.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from dpmarket.arrays import FloatArray
from dpmarket.mechanisms.joint.solvers import InnerSolution

Edge = Literal["inside", "lowest", "highest"]
_PER_E_FOLD = 8.0
_FEWEST, _MOST = 12, 400


@dataclass(frozen=True, eq=False, slots=True)
class Trial:
    """One total epsilon with the inner problem solved: the whole objective, its slope, the solution."""

    total_epsilon: float
    value: float
    slope: float
    inner: InnerSolution


@dataclass(frozen=True, eq=False, slots=True)
class Search:
    """What a search over total epsilons found.

    Attributes
    ----------
    best : the trial with the lowest objective.
    grid : the trials on the grid, in the order of their total epsilons.
    minima : the refined local minima, in the same order.
    edge : whether the best lies at an end of the grid.
    """

    best: Trial
    grid: tuple[Trial, ...]
    minima: tuple[Trial, ...]
    edge: Edge


Evaluate = Callable[[float, FloatArray], Trial]


def search(evaluate: Evaluate, grid: FloatArray, start: FloatArray) -> Search:
    """Return the best total epsilon between the ends of ``grid``.

    Parameters
    ----------
    evaluate : solves the inner problem at a total epsilon, starting from given coefficients.
    grid : increasing total epsilons; one value is a choice already made.
    start : coefficients to start with; each further trial starts from its neighbour's.
    """
    trials: list[Trial] = []
    for eta in grid.tolist():
        trials.append(evaluate(eta, trials[-1].inner.coefficients if trials else start))
    minima = [
        _refine(evaluate, left, right)
        for left, right in itertools.pairwise(trials)
        if left.slope < 0.0 < right.slope
    ]
    best = min((*minima, *trials), key=lambda trial: trial.value)
    edge: Edge = "inside"
    if best is trials[0] and best.slope >= 0.0:
        edge = "lowest"
    elif best is trials[-1] and best.slope <= 0.0:
        edge = "highest"
    return Search(best, tuple(trials), tuple(minima), edge)


def _refine(evaluate: Evaluate, left: Trial, right: Trial) -> Trial:
    """Return the root of the slope between two trials, in the logarithm of the total epsilon."""
    known = {math.log(trial.total_epsilon): trial for trial in (left, right)}

    def slope(position: float) -> float:
        if position not in known:
            near = min(known, key=lambda other: abs(other - position))
            known[position] = evaluate(math.exp(position), known[near].inner.coefficients)
        return known[position].slope * known[position].total_epsilon

    root = brentq(
        slope,
        math.log(left.total_epsilon),
        math.log(right.total_epsilon),
        xtol=1e-15,
        rtol=1e-14,
        maxiter=200,
    )
    slope(root)
    return min(known.values(), key=lambda trial: abs(trial.slope * trial.total_epsilon))


def covering_grid(low: float, high: float) -> FloatArray:
    """Return total epsilons from ``low`` to ``high``, evenly spaced in their logarithms."""
    if not low < high:
        return np.array([high])
    count = min(max(_FEWEST, math.ceil(_PER_E_FOLD * math.log(high / low))), _MOST)
    grid = np.geomspace(low, high, count)
    grid[0], grid[-1] = low, high
    return grid
