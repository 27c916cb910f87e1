"""Sums of floats that keep what rounding takes away: the compiled pieces that kernels of several rooms share.

A running sum is a pair ``high + low`` of floats; ``high`` is the sum as floats see it, ``low`` collects what
every single addition lost. The pair is good to about twice a float's precision, however many terms there are.
"""

from __future__ import annotations

from dpmarket.compiling import compiled


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
