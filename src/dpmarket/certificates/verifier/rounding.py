r"""Logarithms and roots that are never too small: whole numbers of Python, rounded up at every step.

All that a certificate states are floats, which are fractions; sums, products and quotients of fractions are
exact. Only logarithms and roots are not, and here they come out as fractions just above the true value, by
less than one part in :math:`2^{160}`. No float is computed with anywhere, so that no rounding can hide a
loss.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

_BITS = 192


def log1p_up(x: Fraction) -> Fraction:
    r"""Return at least :math:`\log(1 + x)` for x of at least 0, and hardly more.

    With :math:`1 + x = 2^k (1 + y)`, :math:`0 \le y < 1`, the logarithm is :math:`k \log 2 + \log(1 + y)`,
    and
    :math:`\log(1 + y) = 2 (u + u^3/3 + u^5/5 + \dots)` with :math:`u = y / (2 + y) \le 1/3`.
    """
    if x <= 0:
        return Fraction(0)
    whole = 1 + x
    k = max(whole.numerator.bit_length() - whole.denominator.bit_length(), 0)
    if whole < (1 << k):
        k -= 1
    y = whole / (1 << k) - 1
    return _twice_artanh_up(y / (2 + y)) + k * _LOG2_UP


def sqrt_up(x: Fraction) -> Fraction:
    """Return at least the square root of x, and hardly more."""
    scaled = _scaled(x)
    root = isqrt(scaled[0])
    return Fraction(root + 1, scaled[1])


def sqrt_down(x: Fraction) -> Fraction:
    """Return at most the square root of x, and hardly less."""
    scaled = _scaled(x)
    return Fraction(isqrt(scaled[0]), scaled[1])


def _scaled(x: Fraction) -> tuple[int, int]:
    """Return the whole part of ``x * 2**(2 s)``, long enough to take its root, and ``2**s``."""
    shift = _BITS + max(x.denominator.bit_length() - x.numerator.bit_length(), 0)
    return (x.numerator << 2 * shift) // x.denominator, 1 << shift


def _twice_artanh_up(u: Fraction) -> Fraction:
    """Return at least ``2 (u + u**3 / 3 + u**5 / 5 + ...)`` for u from 0 to 1/3."""
    if u == 0:
        return Fraction(0)
    # A small u needs more digits after the point for the same number of digits that count.
    shift = _BITS + u.denominator.bit_length() - u.numerator.bit_length()
    first = -(-(u.numerator << shift) // u.denominator)
    square = -(-first * first >> shift)
    power, term, total, j = first, first, first, 1
    while term > 1:
        power = -(-power * square >> shift)
        j += 2
        term = -(-power // j)
        total += term
    # What was left out is less than an eighth of the last term: every term is at most a ninth of the one
    # before.
    return Fraction(2 * (total + 1), 1 << shift)


_LOG2_UP = _twice_artanh_up(Fraction(1, 3))
