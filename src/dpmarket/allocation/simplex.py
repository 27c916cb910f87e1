"""Turn any point into the nearest weights: the exact projection onto the capped simplex.

The capped simplex is ``{a : 0 <= a_i <= cap, sum a = 1}``. The projection of ``v`` is
``a_i = clip(v_i - theta, 0, cap)``; one sort and one walk over the sellers find ``theta``.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpmarket import checks
from dpmarket.allocation.kernels import walk
from dpmarket.allocation.objective import round_down
from dpmarket.arrays import FloatArray
from dpmarket.errors import Infeasible

# 1/cap counts as whole when it is so to the rounding of a quotient of two floats.
_WHOLE = Fraction(1, 2**50)

UNCAPPED = (1.0, 0, 1.0)
"""What :func:`split_cap` returns where the cap does not bind."""


def project_to_capped_simplex(point: object, cap: float = 1.0) -> FloatArray:
    """Return the weights nearest to ``point`` in Euclidean distance.

    Parameters
    ----------
    point : array_like of shape (m,)
        Any finite numbers.
    cap : float
        The largest weight allowed, at least ``1/m``; 1 or more means no cap.

    Returns
    -------
    FloatArray of shape (m,)
        The unique minimiser of ``|a - point|`` over ``0 <= a_i <= cap``, ``sum a = 1``. The sum is 1
        to rounding and no element exceeds ``cap`` even by the last bit. Equal elements of ``point``
        get equal weights.

    Raises
    ------
    InvalidInput
        If ``point`` is not a vector of finite numbers, or ``cap`` not a positive number.
    Infeasible
        If ``cap < 1/m`` by more than rounding.

    Notes
    -----
    O(m log m) for the sort, O(m) for the rest. Differences are taken to a member of the support, so
    points far from the origin lose nothing. Used by the paper's projected gradient descent
    (Algorithm 2, step 1; Algorithm 4).

    Examples
    --------
    >>> project_to_capped_simplex([0.9, 0.6, -1.0], cap=0.6).tolist()
    [0.6, 0.4, 0.0]
    """
    values = checks.finite_vector("point", point)
    cap = checks.positive("cap", cap)
    layout = UNCAPPED if cap >= 1.0 else split_cap(Fraction(cap))
    if layout[1] + (layout[2] > 0.0) > values.size:
        raise Infeasible(
            f"expected cap >= 1/{values.size} for {values.size} weights that sum to 1, got {cap!r}."
        )
    return project(values, layout)


def project(values: FloatArray, layout: tuple[float, int, float]) -> FloatArray:
    """Return the projection of checked ``values`` for a cap that :func:`split_cap` has split."""
    negated = np.negative(values)
    negated.sort()
    rules = walk.Rules(*layout, rho=1.0, least_rate=0.0)
    base, gap = walk.path_points(negated, rules, np.ones(1))[0, 2:4]
    weights: FloatArray = values + base
    np.add(weights, gap, out=weights, where=weights >= 0.0)
    return np.clip(weights, 0.0, layout[0], out=weights)


def split_cap(cap: Fraction) -> tuple[float, int, float]:
    """Split a total weight of 1 into full caps and a rest, in exact arithmetic.

    Returns the cap as a float that is not above it; how many sellers a total weight of 1 admits at
    the cap; and the weight left over, exactly 0 where ``1/cap`` is whole to rounding (in floats
    ``49 * (1/49) < 1``, and taking that literally would invent a fiftieth seller). A ``cap`` of 1 or
    more does not bind and gives :data:`UNCAPPED`.
    """
    if cap >= 1:
        return UNCAPPED
    limit = round_down(cap)
    slots = 1 / cap
    nearest = round(slots)
    if abs(slots - nearest) <= nearest * _WHOLE:
        return limit, nearest, 0.0
    capped = math.floor(slots)
    return limit, capped, float(1 - capped * cap)
