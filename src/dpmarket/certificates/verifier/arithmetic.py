r"""Logarithms, roots and the Gaussian mechanism's delta, never on the wrong side of the true value.

All that a certificate states are floats, which are fractions; sums, products and quotients of fractions are
exact. Only logarithms and roots are not: they are computed with 120 digits and more and come out just above
the true value. No float is computed with anywhere, so that no rounding can hide a loss.

Telling apart two normals of variance 1 whose means differ by :math:`\mu` has, at every epsilon,

.. math:: \delta_G(\epsilon; \mu) = \Phi(-x) - e^{\epsilon} \Phi(-x - \mu), \qquad
          x = \frac{\epsilon}{\mu} - \frac{\mu}{2}

(Dong, Roth and Su, 2022); what its digits lose is far below the room that is left for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction

_DIGITS = 120
_UP, _NEAR = (Context(prec=_DIGITS, rounding=way) for way in (ROUND_CEILING, ROUND_HALF_EVEN))
_ROOM = Decimal(10) ** -40
_NEAR_END, _DEPTH = 4, 200
_LARGEST = 10_000  # an epsilon beyond this is charged as a delta of 1
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
    "2148086513282306647093844609550582231725359"
)


def log1p_up(x: Fraction) -> Fraction:
    r"""Return at least :math:`\log(1 + x)` for x of at least 0, and hardly more."""
    above = _UP.add(1, _UP.divide(x.numerator, x.denominator))
    return Fraction(_UP.next_plus(_UP.ln(above))) if x > 0 else Fraction(0)


def sqrt_up(x: Fraction) -> Fraction:
    """Return at least the square root of x, and hardly more."""
    return Fraction(_UP.next_plus(_UP.sqrt(_UP.divide(x.numerator, x.denominator))))


def three_digits_up(x: Fraction) -> float:
    """Return the smallest number with three decimal digits that is not below x."""
    return float(Context(prec=3, rounding=ROUND_CEILING).plus(_UP.divide(x.numerator, x.denominator)))


def exact_sum(values: Sequence[float]) -> Fraction:
    """Return the exact sum: fsum's error is a float again, found by adding the negative sum."""
    high = math.fsum(values)
    return Fraction(high) + Fraction(math.fsum([*values, -high]))


def keeps_delta(epsilon: Fraction, mu: Fraction, delta: float) -> bool:
    """Whether a distance mu has at most this delta at this epsilon."""
    if epsilon < 0 or epsilon > _LARGEST or mu > _LARGEST:
        return False
    with localcontext(_NEAR):
        e, m, most = (Decimal(x.numerator) / x.denominator for x in (epsilon, mu, Fraction(delta)))
        x = e / m - m / 2
        near = _tail(x)
        found = max(near - e.exp() * _tail(x + m), Decimal(0)) + _ROOM * near
        return found * (1 + _ROOM) <= most


def _tail(x: Decimal) -> Decimal:
    r"""Return the probability that a standard normal exceeds x, to more than 80 digits.

    From 0 to 4 it is :math:`1/2 - \varphi(x) (x + x^3/3 + x^5/(3 \cdot 5) + \dots)`, beyond it Laplace's
    continued fraction :math:`\varphi(x) / (x + 1/(x + 2/(x + 3/(x + \dots))))`.
    """
    if x < 0:
        return 1 - _tail(-x)
    density = (-x * x / 2).exp() / (2 * _PI).sqrt()
    if x > _NEAR_END:
        below = x
        for k in range(_DEPTH, 0, -1):
            below = x + k / below
        return density / below
    term = total = x
    k = 1
    while term > total * _ROOM**3:
        k += 2
        term = term * x * x / k
        total += term
    return Decimal(1) / 2 - density * total
