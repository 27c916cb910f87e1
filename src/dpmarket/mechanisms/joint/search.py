r"""Turn a solver for one noise rate into the best noise rate: a grid, then every valley of it refined.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from dpmarket.arrays import FloatArray
from dpmarket.mechanisms.joint.solvers import InnerSolution

Edge = Literal["inside", "lowest", "highest"]
_PER_E_FOLD = 12.0
_FEWEST, _MOST = 16, 400
_MOST_PROOFS = 200


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Evaluated:
    """One noise rate with the inner problem solved: the whole objective, its slope, the solution."""

    noise_rate: float
    value: float
    slope: float
    inner: InnerSolution


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Search:
    """What a search over noise rates found.

    Attributes
    ----------
    best
        The noise rate with the lowest objective.
    grid
        Those on the grid, in increasing order.
    minima
        The refined local minima, in the same order.
    edge
        Whether the best lies at an end of the grid.
    gap
        No noise rate between the ends of the grid is better by more than this, given that each inner problem
        is solved globally; infinite where nothing is proved.
    """

    best: Evaluated
    grid: tuple[Evaluated, ...]
    minima: tuple[Evaluated, ...]
    edge: Edge
    gap: float = math.inf


Evaluate = Callable[[float, FloatArray], Evaluated]


def search(evaluate: Evaluate, grid: FloatArray, start: FloatArray) -> Search:
    """Return the best noise rate between the ends of ``grid``.

    Parameters
    ----------
    evaluate
        Solves the inner problem at a noise rate, starting from given coefficients.
    grid
        Increasing noise rates; one value is a choice already made.
    start
        Coefficients to start with; each further trial starts from its neighbour's.
    """
    trials: list[Evaluated] = []
    for eta in grid.tolist():
        trials.append(evaluate(eta, trials[-1].inner.coefficients if trials else start))
    minima = [
        _refine(evaluate, left, right)
        for left, right in itertools.pairwise(trials)
        if left.slope < 0.0 < right.slope
    ]
    best = min((*minima, *trials), key=lambda trial: trial.value)
    return _result(trials, minima, best, math.inf)


def _result(grid: Sequence[Evaluated], minima: Sequence[Evaluated], best: Evaluated, gap: float) -> Search:
    edge: Edge = "inside"
    if best is grid[0] and best.slope >= 0.0:
        edge = "lowest"
    elif best is grid[-1] and best.slope <= 0.0:
        edge = "highest"
    return Search(best, tuple(grid), tuple(minima), edge, gap)


def prove(found: Search, evaluate: Evaluate, price: float, tolerance: float) -> Search:
    r"""Return the search with a proof that nothing between its ends is much better, or with what is.

    Without noise in the choice the objective is :math:`\sigma/\eta + h(\eta)`, and h is a minimum of
    functions that are affine in :math:`\eta`, so concave: between two trials it lies above its chord. Where
    :math:`\sigma/\eta` plus the chord is below the best value, another trial is made.

    Parameters
    ----------
    found
        What :func:`search` returned.
    evaluate
        The same as there; each inner problem must be solved globally.
    price
        Sigma.
    tolerance
        The gap to prove, relative to the best value. It stays larger if that needs too many trials.
    """
    trials = sorted({id(t): t for t in (*found.grid, *found.minima)}.values(), key=_position)
    best = found.best
    waiting = [(*_chord_bound(a, b, price), a, b) for a, b in itertools.pairwise(trials)]
    for _ in range(_MOST_PROOFS):
        lowest = min(waiting, key=lambda piece: piece[0], default=None)
        if lowest is None or lowest[0] >= best.value - tolerance * abs(best.value):
            break
        waiting.remove(lowest)
        _, where, left, right = lowest
        middle = evaluate(where, left.inner.coefficients)
        if middle.value < best.value:
            # A valley that the grid did not show.
            best = search(
                evaluate, np.array([left.noise_rate, where, right.noise_rate]), best.inner.coefficients
            ).best
        waiting += [(*_chord_bound(a, b, price), a, b) for a, b in ((left, middle), (middle, right))]
    bound = min((piece[0] for piece in waiting), default=best.value)
    minima = found.minima if best is found.best else (*found.minima, best)
    return _result(found.grid, sorted(minima, key=_position), best, max(best.value - bound, 0.0))


def _position(trial: Evaluated) -> float:
    return trial.noise_rate


def _chord_bound(left: Evaluated, right: Evaluated, price: float) -> tuple[float, float]:
    """Return a lower bound on the objective between two trials, and a noise rate close to where it is."""
    low, high = left.noise_rate, right.noise_rate
    first, last = left.value - price / low, right.value - price / high
    rise = max((last - first) / (high - low), 0.0)
    lowest = min(max(math.sqrt(price / rise), low), high) if rise > 0.0 else high
    bound = price / lowest + first + rise * (lowest - low)
    inside = min(max(lowest, low + 0.1 * (high - low)), high - 0.1 * (high - low))
    return bound, inside


def _refine(evaluate: Evaluate, left: Evaluated, right: Evaluated) -> Evaluated:
    """Return the root of the slope between two trials, in the logarithm of the noise rate."""
    known = {math.log(trial.noise_rate): trial for trial in (left, right)}

    def slope(position: float) -> float:
        if position not in known:
            near = min(known, key=lambda other: abs(other - position))
            known[position] = evaluate(math.exp(position), known[near].inner.coefficients)
        return known[position].slope * known[position].noise_rate

    root = brentq(
        slope,
        math.log(left.noise_rate),
        math.log(right.noise_rate),
        xtol=1e-13,
        rtol=1e-14,
        maxiter=200,
    )
    slope(root)
    return min(known.values(), key=lambda trial: abs(trial.slope * trial.noise_rate))


def covering_grid(low: float, high: float) -> FloatArray:
    """Return noise rates from ``low`` to ``high``, evenly spaced in their logarithms."""
    if not low < high:
        return np.array([high])
    count = min(max(_FEWEST, math.ceil(_PER_E_FOLD * math.log(high / low))), _MOST)
    grid = np.geomspace(low, high, count)
    grid[0], grid[-1] = low, high
    return grid
