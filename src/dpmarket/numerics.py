"""Sums of floats that keep what rounding takes away: the compiled pieces that kernels of several rooms share.

A running sum is a pair ``high + low`` of floats; ``high`` is the sum as floats see it, ``low`` collects what
every single addition lost. The pair is good to about twice a float's precision, however many terms there are.
"""

from __future__ import annotations

import math

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled

_BLOCK = 1 << 16


@compiled(forceinline=True)
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return ``a + b`` as rounded and what the rounding lost, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@compiled(forceinline=True)
def fast_two_sum(a: float, b: float) -> tuple[float, float]:
    """Return what :func:`two_sum` does, for ``|a| >= |b|`` only (Dekker)."""
    total = a + b
    return total, b - (total - a)


@compiled(forceinline=True)
def carried(total: float, carry: float, term: float) -> tuple[float, float]:
    """Add ``term`` to ``total`` and return both sum and what to take from the next term (Kahan).

    Cheaper than :func:`add`, and good to a float's precision where terms have one sign.
    """
    kept = term - carry
    following = total + kept
    return following, (following - total) - kept


@compiled(forceinline=True)
def add(high: float, low: float, term: float) -> tuple[float, float]:
    """Add ``term`` to the running sum ``high + low``."""
    total, lost = two_sum(high, term)
    return total, low + lost


def exact_parts(values: FloatArray) -> list[float]:
    """Return a few floats whose exact sum is that of many.

    Sums of such parts, rounded once by :func:`math.fsum`, do not depend on how the values were ordered or
    divided. Values are finite and below 1e290 in size.

    Examples
    --------
    >>> values = np.array([1e16, 1.0, -1e16, 0.25])
    >>> math.fsum(exact_parts(values)), float(values.sum())
    (1.25, 0.25)
    """
    parts: list[float] = []
    for first in range(0, values.size, _BLOCK):
        rest = values[first : first + _BLOCK]
        largest = float(np.abs(rest).max())
        while largest > 0.0:
            # Multiples of one unit, of which as many as there are add up below 2**53 units: no sum rounds.
            scale = math.ldexp(2.0 * _BLOCK, math.frexp(largest)[1])
            cut = (rest + scale) - scale
            parts.append(float(cut.sum()))
            rest = rest - cut
            largest = float(np.abs(rest).max())
    return parts


def exact_sum(values: FloatArray) -> float:
    """Return the sum of floats, rounded once: the same in every order."""
    return math.fsum(exact_parts(values))
