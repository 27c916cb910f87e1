r"""The Gaussian mechanism's delta, never below its exact value.

Telling apart two normals of variance 1 whose means differ by :math:`\mu` has, at every epsilon,

.. math:: \delta_G(\epsilon; \mu) = \Phi(-x) - e^{\epsilon} \Phi(-x - \mu), \qquad
          x = \frac{\epsilon}{\mu} - \frac{\mu}{2}

(Dong, Roth and Su, 2022). Everything is computed with a hundred digits and more; what they lose is far below
the room that is left for it.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

_DIGITS = 120
_ROOM = Decimal(10) ** -40
_FARTHEST = 60
_LARGEST = 10_000  # an epsilon beyond this is charged as a delta of 1


def keeps_delta(epsilon: Fraction, mu: Fraction, delta: Fraction) -> bool:
    """Whether a distance mu has at most this delta at this epsilon."""
    if epsilon < 0 or epsilon > _LARGEST or mu > _LARGEST:
        return False
    with localcontext() as context:
        context.prec = _DIGITS
        e, m = _decimal(epsilon), _decimal(mu)
        x = e / m - m / 2
        # What is taken off must not be too much: beyond the series' reach it is nothing.
        taken = e.exp() * _tail(x + m) if x + m <= _FARTHEST else Decimal(0)
        found = max(_tail(x) - taken, Decimal(0)) + _ROOM * _tail(x)
        return found * (1 + _ROOM) <= _decimal(delta)


def about_delta(epsilon: float, mu: float) -> float:
    """Return the delta in floats, right to about six digits for deltas of interest."""
    x = epsilon / mu - 0.5 * mu
    far = _float_tail(x + mu)
    return max(_float_tail(x) - (math.exp(min(epsilon, 700.0)) * far if far else 0.0), 0.0)


def _float_tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _tail(x: Decimal) -> Decimal:
    r"""Return the probability that a standard normal exceeds x.

    For x of at least 0 it is :math:`1/2 - \varphi(x) (x + x^3/3 + x^5/(3 \cdot 5) + \dots)`, all terms
    positive; beyond 60 the density itself, which is larger.
    """
    if x < 0:
        return 1 - _tail(-x)
    if x > _FARTHEST:
        return (-x * x / 2).exp()
    with localcontext() as context:
        # The difference is about e^(-x^2 / 2): so many digits more are needed.
        context.prec = _DIGITS + int(x * x / 4) + 20
        term = total = x
        square, least = x * x, Decimal(10) ** -(context.prec + 2)
        k = 1
        while term > total * least:
            k += 2
            term = term * square / k
            total += term
        return Decimal(1) / 2 - (-x * x / 2).exp() / (2 * _pi(context.prec + 10)).sqrt() * total


@lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    """Return pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239)."""
    scale = 10 ** (digits + 10)

    def arctan(inverse: int) -> int:
        power: int = scale // inverse
        total, k, sign = power, 1, 1
        while power:
            power //= inverse * inverse
            k, sign = k + 2, -sign
            total += sign * (power // k)
        return total

    with localcontext() as context:
        context.prec = digits + 10
        return Decimal(16 * arctan(5) - 4 * arctan(239)) / Decimal(scale)
