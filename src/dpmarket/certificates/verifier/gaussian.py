r"""What a weight costs in privacy, and what releasing on a grid costs, where noise is Gaussian.

``gaussian binary model``, the same with encoded rows (``gaussian encoded model``) and ``gaussian softmax
model``: every coefficient has normal noise of the standard
deviation :math:`\nu = 2 / \eta`. With weight a, row bound R and penalty Lambda put
:math:`c = a R^2 / \Lambda`, and :math:`\mu = a \eta R` for two classes,
:math:`\mu = \sqrt 2\, a \eta R` for K > 2. An exact output has, at every epsilon, at most the delta

.. math:: \sum_j n_j\, \delta_G(\epsilon - m_j; \ell_j \mu), \qquad
          \delta_G(\epsilon; \mu) = \Phi(-x) - e^{\epsilon} \Phi(-x - \mu), \quad
          x = \frac{\epsilon}{\mu} - \frac{\mu}{2},

with :math:`(n, \ell, m)` of two classes (1, 1, 0), (1, 1/2, 0), (1, 1/2, c), or
:math:`(1, 1, L), (2, 1/2, L)`, :math:`L = \log(1 + c / 4)`, whichever sum is smaller; of K classes
:math:`(K - 1, 1, L), ((K - 1)(K - 2), \sqrt 3 / 2, L), (2 (K - 1), 1/2, L)`,
:math:`L = (K - 1) \log(1 + c / K)`. No m may exceed epsilon. People with several rows are charged as if their
rows were replaced in ever smaller parts: the first kind of sum with
:math:`\frac{e^\epsilon - 1}{\epsilon} \ell \mu\, [\varphi(x) - x \Phi(-x)]`,
:math:`x = (\epsilon - m) / (\ell \mu)`, in the place of :math:`\delta_G`, and :math:`L = c (K - 1) / K`.

Releasing costs :math:`\kappa`, below, and turns delta into :math:`e^\kappa \delta + 2^{-60}`. Everything is
computed with a hundred digits and more; what they lose is far below the room that is left for it.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from .rounding import log1p_up, sqrt_up

if TYPE_CHECKING:
    from .layout import Release

NUMERICAL_DELTA = Fraction(1, 2**60)
_DIGITS = 120
_ROOM = Decimal(10) ** -40
_FARTHEST = 60
_LARGEST_COST = 10
"""Of a release: no more can be charged."""
_LARGEST_WITH_ROWS = 10_000
"""Nobody with several rows is promised more: no number would hold what it comes to."""
_FLOATS_REACH = 500.0
_FLOATS_AGREE = 1e-6
_Term = tuple[Any, Any, bool]  # how many, which share of mu, and whether the Hessian's share is taken off


def gaussian_covers(weight: float, epsilon: Fraction, kappa: Fraction, release: Release) -> bool:
    """Whether a weight's delta at this epsilon, with the release, is at most the delta promised."""
    if epsilon < 0 or kappa > _LARGEST_COST:
        return False
    with localcontext() as context:
        context.prec = _DIGITS
        a = _decimal(Fraction(weight))
        bound = _decimal(Fraction(release.row_bound))
        mu = a * _decimal(Fraction(release.noise_rate)) * bound
        if release.has_many_classes:
            mu *= Decimal(2).sqrt()
        c = a * bound * bound / _decimal(Fraction(release.l2))
        e = _decimal(epsilon)
        found = min(_delta(e, mu, share, terms, release) for share, terms in _bounds(c, release))
        total = found * (1 + _ROOM) * _decimal(kappa).exp() + _decimal(NUMERICAL_DELTA)
        return total * (1 + _ROOM) <= _decimal(Fraction(release.delta))


def gaussian_short(spent: Any, weights: Any, kappa: float, release: Release) -> Any:
    """Return which spent epsilons are too small, in floats: delta is compared to six digits."""
    allowed = (release.delta - float(NUMERICAL_DELTA)) * math.exp(-kappa) * (1.0 + _FLOATS_AGREE)
    short = np.zeros(len(weights), dtype=bool)
    scale = release.noise_rate * release.row_bound * (math.sqrt(2.0) if release.has_many_classes else 1.0)
    for k, (weight, total) in enumerate(zip(weights.tolist(), spent.tolist(), strict=True)):
        if weight > 0.0:
            epsilon = total - kappa
            if release.rows_per_person > 1 and epsilon > _FLOATS_REACH:  # where floats are 0 too early
                exact = Fraction(kappa)
                short[k] = not gaussian_covers(weight, Fraction(total) - exact, exact, release)
                continue
            c = weight * release.row_bound**2 / release.l2
            found = min(
                _float_delta(epsilon, weight * scale, float(share), terms, release)
                for share, terms in _bounds(c, release)
            )
            short[k] = not found <= allowed
    return short


def gaussian_release_up(release: Release) -> Fraction | None:
    """Return kappa, never below its exact value; None if the grid is too fine."""
    n = release.n_coefficients
    g, l2, bound, total, eta = (
        Fraction(x)
        for x in (release.grid, release.l2, release.row_bound, release.weight_total, release.noise_rate)
    )
    rho = (Fraction(release.gradient_bound) + Fraction(release.noise_accuracy)) / l2
    if not g > 2 * rho:
        return None
    if release.has_many_classes:
        classes = len(release.classes)
        size, steepest = classes * n, l2 + total * bound**2 / 2
        bent = 2 * (classes - 1) * min(n * bound, total * bound**3 / (classes * l2))
    else:
        size, steepest = n, l2 + total * bound**2 / 4
        bent = min(n * bound, total * bound**3 * sqrt_up(Fraction(1, 3)) / (6 * l2))
    deviation, root = 2 / eta, sqrt_up(Fraction(size))
    longest = deviation * (root + sqrt_up(2 * 60 * log1p_up(Fraction(1))))
    longest += 2 * steepest * root * (g / 2 + rho)
    slope = root * steepest * longest / deviation**2 + sqrt_up(Fraction(n)) * bent
    return size * log1p_up(4 * rho / (g - 2 * rho)) + 2 * rho * slope


def _bounds(c: Any, release: Release) -> list[tuple[Any, list[_Term]]]:
    """Return every sum that may be charged: the Hessian's share and the terms."""
    half = type(c)(1) / 2
    if not release.has_many_classes:
        given: list[_Term] = [(1, 1, False), (1, half, False), (1, half, True)]
        if release.rows_per_person > 1:
            return [(c, given)]
        return [(c, given), (_log1p(c / 4), [(1, 1, True), (2, half, True)])]
    classes = len(release.classes)
    wrong = classes - 1
    middle = (type(c)(3) ** half) / 2
    terms: list[_Term] = [(wrong, 1, True), (wrong * (wrong - 1), middle, True), (2 * wrong, half, True)]
    if release.rows_per_person > 1:
        return [(c * wrong / classes, terms)]
    return [(wrong * _log1p(c / classes), terms)]


def _log1p(x: Any) -> Any:
    return math.log1p(x) if isinstance(x, float) else (1 + x).ln()


def _delta(e: Decimal, mu: Decimal, share: Decimal, terms: list[_Term], release: Release) -> Decimal:
    left = e - share * (1 + _ROOM)
    if left < 0 or (release.rows_per_person > 1 and e > _LARGEST_WITH_ROWS):
        return Decimal(1)
    total = Decimal(0)
    for count, length, moved in terms:
        at, distance = (left if moved else e), length * mu
        if release.rows_per_person > 1:
            x = at / distance
            factor = (e.exp() - 1) / e if e > 0 else Decimal(1)
            # Far out the density alone, which is larger.
            inner = _density(x) - x * _tail(x) if x <= _FARTHEST else _density(x)
            total += count * factor * distance * max(inner, Decimal(0))
        else:
            x = at / distance - distance / 2
            # What is taken off must not be too much: beyond the series' reach it is nothing.
            taken = at.exp() * _tail(x + distance) if x + distance <= _FARTHEST else Decimal(0)
            total += count * max(_tail(x) - taken, Decimal(0))
    return min(total, Decimal(1))


def _float_delta(e: float, mu: float, share: float, terms: list[_Term], release: Release) -> float:
    left = e - share
    if not left >= -1e-12 * e:
        return 1.0
    total = 0.0
    for count, length, moved in terms:
        at, distance = (max(left, 0.0) if moved else e), float(length) * mu
        if release.rows_per_person > 1:
            x = at / distance
            inner = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) - x * _float_tail(x)
            total += count * math.expm1(min(e, 600.0)) / e * distance * max(inner, 0.0)
        else:
            x = at / distance - distance / 2.0
            far = _float_tail(x + distance)
            total += count * max(_float_tail(x) - (math.exp(min(at, 700.0)) * far if far else 0.0), 0.0)
    return total


def _float_tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _density(x: Decimal) -> Decimal:
    return (-x * x / 2).exp() / (2 * _PI).sqrt()


def _tail(x: Decimal) -> Decimal:
    r"""Return the probability that a standard normal exceeds x.

    For x of at least 0 it is :math:`1/2 - \varphi(x) (x + x^3/3 + x^5/(3 \cdot 5) + \dots)`, all terms
    positive; beyond 60 the density itself, which is larger.
    """
    if x < 0:
        return 1 - _tail(-x)
    if x > _FARTHEST:
        return _density(x)
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
        pi = _PI if context.prec <= _PI_DIGITS else _pi(context.prec + 10)
        return Decimal(1) / 2 - (-x * x / 2).exp() / (2 * pi).sqrt() * total


def _pi(digits: int) -> Decimal:
    """Return pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239)."""
    scale = 10 ** (digits + 10)

    def arctan(inverse: int) -> int:
        power: int = scale // inverse
        total = power
        k, sign = 1, 1
        while power:
            power //= inverse * inverse
            k, sign = k + 2, -sign
            total += sign * (power // k)
        return total

    with localcontext() as context:
        context.prec = digits + 10
        return Decimal(16 * arctan(5) - 4 * arctan(239)) / Decimal(scale)


_PI_DIGITS = 400
_PI = _pi(_PI_DIGITS)
