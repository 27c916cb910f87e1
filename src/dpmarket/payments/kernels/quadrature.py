"""Integrate over one piece of reports from 15 values, and tell how much that may be missing.

Where somebody else enters or leaves as one seller's report moves, that seller's epsilon has a kink. On a kink
two quadrature rules may agree by accident, both wrong. What cannot vanish all at once are the highest
coefficients of the polynomial through the 15 values, which is what the rule integrates: for one kink anywhere
in the piece, a quarter of their sum exceeds the rule's error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import legendre

from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled

# The 15-point Gauss-Kronrod rule on [-1, 1] (QUADPACK's constants): nodes from -1 up, its weights, and
# those of the 7-point Gauss rule inside it.
_HALF_NODES = np.array(
    [
        0.991455371120812639206854697526329,
        0.949107912342758524526189684047851,
        0.864864423359769072789712788640926,
        0.741531185599394439863864773280788,
        0.586087235467691130294144691693013,
        0.405845151377397166906606412076961,
        0.207784955007898467600689403773245,
    ]
)
_HALF_KRONROD = np.array(
    [
        0.022935322010529224963732008058970,
        0.063092092629978553290700663189204,
        0.104790010322250183839876322541518,
        0.140653259715525918745189590510238,
        0.169004726639267902826583426598550,
        0.190350578064785409913256402421014,
        0.204432940075298892414161999234649,
    ]
)
_HALF_GAUSS = np.array(
    [
        0.0,
        0.129484966168869693270611432679082,
        0.0,
        0.279705391489276667901467771423780,
        0.0,
        0.381830050505118944950369775488975,
        0.0,
    ]
)
NODES = np.concatenate((-_HALF_NODES, [0.0], _HALF_NODES[::-1]))
_KRONROD = np.concatenate((_HALF_KRONROD, [0.209482141084727828012999174891714], _HALF_KRONROD[::-1]))
_GAUSS = np.concatenate((_HALF_GAUSS, [0.417959183673469387755102040816327], _HALF_GAUSS[::-1]))
_FEW = NODES[1::2]  # those of the 7-point rule


def _to_upper_end(nodes: FloatArray) -> FloatArray:
    """Return weights that extrapolate values at the nodes to 1; reversed, to -1."""
    return np.array([np.prod([(1.0 - o) / (n - o) for o in nodes if o != n]) for n in nodes])


def _highest(nodes: FloatArray, count: int) -> FloatArray:
    """Return rows that turn values at the nodes into their highest Legendre coefficients."""
    rows: FloatArray = np.linalg.inv(legendre.legvander(nodes, nodes.size - 1))[-count:].astype(np.float64)
    return rows


_TO_END, _HIGHEST = _to_upper_end(NODES), _highest(NODES, 4)
_TO_END_OF_FEW, _HIGHEST_OF_FEW = _to_upper_end(_FEW), _highest(_FEW, 3)
_SHARE = 0.25


@compiled()
def rule_of_few(values: Any, at_left: float, at_right: float) -> tuple[float, float]:
    """Return what :func:`rule` does, from every second value alone."""
    mean = to_left = to_right = 0.0
    for j in range(7):
        value = values[2 * j + 1]
        mean += _GAUSS[2 * j + 1] * value
        to_right += _TO_END_OF_FEW[j] * value
        to_left += _TO_END_OF_FEW[6 - j] * value
    missing = (abs(to_left - at_left) + abs(to_right - at_right)) * (1.0 - NODES[13])
    for k in range(3):
        coefficient = 0.0
        for j in range(7):
            coefficient += _HIGHEST_OF_FEW[k, j] * values[2 * j + 1]
        missing += _SHARE * abs(coefficient)
    return 0.5 * mean, 0.5 * missing


@compiled()
def rule(values: Any, at_left: float, at_right: float) -> tuple[float, float]:
    """Return the mean of a function over [-1, 1], and what that may be missing.

    Parameters
    ----------
    values
        The function at ``NODES``.
    at_left, at_right
        The function at the ends: a jump or kink beyond the outermost node is seen by nothing else.
    """
    fine = coarse = to_left = to_right = 0.0
    for j in range(15):
        fine += _KRONROD[j] * values[j]
        coarse += _GAUSS[j] * values[j]
        to_right += _TO_END[j] * values[j]
        to_left += _TO_END[14 - j] * values[j]
    missing = abs(fine - coarse) + (abs(to_left - at_left) + abs(to_right - at_right)) * (1.0 - NODES[14])
    for k in range(4):
        coefficient = 0.0
        for j in range(15):
            coefficient += _HIGHEST[k, j] * values[j]
        missing += _SHARE * abs(coefficient)
    return 0.5 * fine, 0.5 * missing
