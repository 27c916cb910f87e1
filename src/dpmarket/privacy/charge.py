r"""The privacy loss (epsilon) of a weight, and the weights that spend given epsilons.

In units of the penalty, :math:`c = a R_2^2 / \Lambda`, and with :math:`\lambda = \eta \Lambda S R_1 / (2
R_2^2)` the noise against the penalty, a person of weight a is charged

.. math:: P(c) = \lambda c + \max_{0 \le t \le 1} f(t), \qquad
          f(t) = \lambda c\, t + \sum_k m_k \log(1 + c\, g_k(t)),

with the log-determinant terms of :mod:`dpmarket.privacy.loss`. What the code relies on:

* f is concave, so that :math:`f(t) + \max(f'(t)(1 - t), -f'(t) t)` bounds its maximum **whatever t is**: an
  inexact maximiser can only raise the charge.
* P is increasing and concave in c: with p = c t the bracket is jointly concave in (p, c). So a relative error
  in :math:`\lambda` or c is at most as large in P, and Newton's method for the inverse never passes the root
  from the left.
* Weights that add up to 1 satisfy :math:`\sum_i c_i(\lambda) = R_2^2 / \Lambda` with **one** :math:`\lambda`
  for everybody: a decreasing function of one number, whatever the loss and the noise.

Several bounds on the determinant may hold; the smallest charge is valid, and the largest weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.privacy.loss import Term

Terms = tuple[Term, ...]
"""One bound on the change of the log determinant."""

ROUND_UP = 2.0**-45
"""Relative outward rounding of a charge: 256 units of 2**-53.

With u = 2**-53: 4u in lambda c, 5u in c and 4u in the constants are at most as large in P; g has 4u (its
terms are all at least 0), the logarithms 12u, sums and the rounding itself 8u. The rounding of the derivative
is not in here: it is added to the tangent, ``_SLOPE`` of the sizes of its terms.
"""
_SLOPE = 2.0**-49
_ROUND_DOWN = 2.0**-44
_SMALLEST = 1e-150
"""Smaller c are charged as if they were this large: products of them could underflow."""
_LARGEST = 1e100
_BLOCK = 8192
_FEW = 4096
_KNOTS = 4096
_CLOSE = 2.0**-38
_MAX_STEPS = 200
_MAX_DOUBLINGS = 30


class _Point(NamedTuple):
    """P at c without rounding, the maximiser t, and the derivatives of P in c and in lambda."""

    charge: FloatArray
    t: FloatArray
    by_c: FloatArray
    by_lam: FloatArray


@dataclass(frozen=True)
class Accounting:
    """Charges and weights for S, R1, R2, the penalty and valid bounds on the determinant."""

    reach: float
    row_bound: float
    row_bound_2: float
    l2: float
    bounds: tuple[Terms, ...]

    @property
    def target(self) -> float:
        """R2^2 / Lambda: c of the weight 1."""
        return self.row_bound_2**2 / self.l2

    def lam(self, noise_rate: float) -> float:
        """Return lambda: alpha of the weight whose c is 1."""
        found = 0.5 * noise_rate * self.reach * self.row_bound / self.target
        if not (1e-150 < found < 1e150 and 1e-150 < self.target < 1e150):
            raise InvalidInput(
                f"expected noise_rate and l2 within the range of floats, got noise_rate = {noise_rate!r}, "
                f"l2 = {self.l2!r}, row_bound = {self.row_bound!r}."
            )
        return found

    def epsilons(self, weights: FloatArray, noise_rate: float) -> FloatArray:
        """Return what weights of at least 0 cost, rounded up; exactly 0 for the weight 0."""
        lam, target = self.lam(noise_rate), self.target
        if not float(weights.max()) * target * max(lam, 1.0) <= _LARGEST:
            raise InvalidInput("expected a charge below 1e100; noise_rate or 1 / l2 is too large.")
        return charges(weights, target, lam, self.bounds)

    def weights(self, epsilons: FloatArray) -> tuple[FloatArray, float] | None:
        """Return the weights that spend these epsilons, some above 0, and the noise rate; None if none do.

        Epsilons are 0 or at least 1e-100.
        """
        lam = float(epsilons.sum()) / (2.0 * self.target)  # what the noise alone costs: the root or above
        linear = any(at_one(lam, terms) and not any(term.end for term in terms) for terms in self.bounds)
        if linear and _SMALLEST * lam < 1e-101:
            # No determinant is left at t = 1. A charge has a dozen roundings: far less than is taken off.
            return epsilons * ((0.5 - 0.5 * _ROUND_DOWN) / lam / self.target), lam / self.lam(1.0)
        present = epsilons > 0.0
        some = epsilons if present.all() else epsilons[present]
        solved = solve(some, self.target, self.bounds, lam)
        if solved is None:
            return None
        rate = solved[1] / self.lam(1.0)
        found = self._lowered(solved[0] / self.target, some, rate, _ROUND_DOWN + solved[2])
        if some is epsilons:
            return found, rate
        result = np.zeros_like(epsilons)
        result[present] = found
        return result, rate

    def _lowered(self, weights: FloatArray, epsilons: FloatArray, rate: float, share: float) -> FloatArray:
        """Return weights lowered by a share of each, doubled until the computed charge is within epsilon."""
        result = weights * (1.0 - share)
        if float(result.min()) < _SMALLEST / self.target:
            result[result < _SMALLEST / self.target] = 0.0
        above = np.flatnonzero(self.epsilons(result, rate) > epsilons)
        for _ in range(_MAX_DOUBLINGS):
            if not above.size:
                return result
            share *= 2.0
            result[above] = weights[above] * (1.0 - share)
            above = above[self.epsilons(result[above], rate) > epsilons[above]]
        raise NotConverged("expected weights that keep every epsilon after rounding, found none.")


def charges(weights: FloatArray, target: float, lam: float, bounds: Sequence[Terms]) -> FloatArray:
    """Return P for every c = target times weight, rounded up; exactly 0 where that is 0, else c >= 1e-150.

    The smallest charge of all bounds is returned. An empty bound has no determinant.
    """
    out = np.empty_like(weights)
    for first in range(0, weights.size, _BLOCK):
        block = weights[first : first + _BLOCK]
        c = block * target
        if float(c.min()) < _SMALLEST:
            c = np.where(block > 0.0, np.maximum(c, _SMALLEST), 0.0)
        found = [_upper(c, lam, terms) for terms in bounds]
        out[first : first + _BLOCK] = found[0] if len(found) == 1 else np.min(found, axis=0)
    return out


def _upper(c: FloatArray, lam: float, terms: Terms) -> FloatArray:
    alpha = lam * c
    if at_one(lam, terms):
        if not any(term.end for term in terms):
            return np.asarray(alpha * (2.0 * (1.0 + 2.0**-48)))  # two products, four roundings, the tangent
        return np.asarray((2.0 * alpha + _logs(c, np.ones_like(c), terms)) * (1.0 + ROUND_UP))
    t = _maximiser(c, lam, terms)
    slope, size = _slope(c, t, lam, terms)
    # The true derivative lies within rounding of the computed one, and its tangent above f.
    above = np.maximum((slope + _SLOPE * size) * (1.0 - t), (_SLOPE * size - slope) * t)
    total = alpha + alpha * t + _logs(c, t, terms) + np.maximum(above, 0.0) * c
    return np.asarray(total * (1.0 + ROUND_UP))


def bounds_of(terms: Terms, rank: int, rows: int, n_coefficients: int | None) -> tuple[Terms, ...]:
    """Return every valid bound on the determinant worth a look, for at most so many rows of one person.

    Equal shares of the weight are the worst case: ``rows`` times each term, with c / rows. For more rows than
    coefficients also the trace, spread evenly over the directions that a person can change.
    """
    by_rows = tuple(Term(m * rows, p / rows, q / rows, v / rows) for m, p, q, v in terms)
    if n_coefficients is None or rows <= n_coefficients:
        return (by_rows,)
    size = float(n_coefficients * rank)
    trace = [math.fsum(term.times * term[k] for term in terms) / size for k in (1, 2, 3)]
    return by_rows, (Term(size, *trace),)


def at_one(lam: float, terms: Terms) -> bool:
    """Tell whether t = 1 is the maximiser for every c: the noise outweighs every term that falls there.

    If it does not by rounding only, the tangent at 1 exceeds f by less than a charge is rounded up.
    """
    return lam * (1.0 + 2.0**-50) >= sum(
        term.times * max(term.start + term.bend - term.end, 0.0) for term in terms
    )


def _logs(c: FloatArray, t: FloatArray, terms: Terms) -> FloatArray:
    total = np.zeros_like(c)
    for term in terms:
        logs = np.log1p(c * _g(t, term))
        total += logs if term.times == 1.0 else term.times * logs
    return total


def _g(t: FloatArray, term: Term) -> FloatArray:
    """Return g(t): a sum of products that are all at least 0."""
    rest = 1.0 - t
    found = term.bend * t
    if term.start:
        found += term.start
    found *= rest
    if term.end:
        found += term.end * t
    return found


def _slope(c: FloatArray, t: FloatArray, lam: float, terms: Terms) -> tuple[FloatArray, FloatArray]:
    """Return f'(t) / c and the sum of the sizes of its terms."""
    slope, size = np.full_like(c, lam), np.full_like(c, lam)
    for term in terms:
        inner = 1.0 + c * _g(t, term)
        slope += term.times * (term.end - term.start + term.bend * (1.0 - 2.0 * t)) / inner
        size += term.times * (term.end + term.start + term.bend) / inner
    return slope, size


def _maximiser(c: FloatArray, lam: float, terms: Terms) -> FloatArray:
    """Return t where f is largest, to rounding: a quadratic equation for one term that bends."""
    if not terms or not any(term.bend for term in terms):
        return np.ones_like(c)
    t = _one_term(c, lam, terms[0])
    if len(terms) > 1:
        t = _newton(c, t, lam, terms)
    return t


def _one_term(c: FloatArray, lam: float, term: Term) -> FloatArray:
    # lam (1 + c g) + m g' = 0 as A t^2 - B t - D = 0 with D >= 0, and the root without cancellation.
    w = term.end - term.start + term.bend
    a = (lam * term.bend) * c
    b = (lam * w) * c
    b -= 2.0 * term.times * term.bend
    d = (lam * term.start) * c
    d += lam + term.times * w
    root = 4.0 * a
    root *= d
    root += b * b
    np.sqrt(root, out=root)
    low = b <= 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (
            (2.0 * d / (root - b))
            if low.all()
            else np.where(low, 2.0 * d / (root - b), (root + b) / (2.0 * a))
        )
    return np.clip(t, 0.0, 1.0, out=t)


def _newton(c: FloatArray, t: FloatArray, lam: float, terms: Terms) -> FloatArray:
    """Solve f' = 0 from the left for terms of which only the first falls; the others only raise f'."""
    rising, _ = _slope(c, np.ones_like(c), lam, terms)
    ended = rising >= 0.0
    t = np.where(ended, 1.0, t)
    low, high = t, np.ones_like(t)
    for _ in range(_MAX_STEPS):
        slope, size = _slope(c, t, lam, terms)
        curve = np.zeros_like(c)
        for term in terms:
            inner = 1.0 + c * _g(t, term)
            rise = (term.end - term.start + term.bend * (1.0 - 2.0 * t)) / inner
            curve += term.times * (c * rise * rise + 2.0 * term.bend / inner)
        low, high = np.where(slope >= 0.0, t, low), np.where(slope >= 0.0, high, t)
        following = t + slope / np.maximum(curve, 1e-300)
        following = np.where((following >= low) & (following <= high), following, 0.5 * (low + high))
        done = ended | (np.abs(slope) <= 2.0**-51 * size) | (np.abs(following - t) <= 2.0**-53)
        t = np.where(done, t, following)
        if done.all():
            break
    return t


def _evaluated(c: FloatArray, lam: float, terms: Terms) -> _Point:
    t = np.ones_like(c) if at_one(lam, terms) else _maximiser(c, lam, terms)
    noise = 1.0 + t
    charge, by_c = lam * c * noise, lam * noise
    for term in terms:
        g = _g(t, term)
        inner = c * g
        charge += term.times * np.log1p(inner)
        by_c += term.times * g / (1.0 + inner)
    return _Point(charge, t, by_c, c * noise)


class _Solved(NamedTuple):
    """The c with P(c) = epsilon, and their derivatives in epsilon and in lambda."""

    c: FloatArray
    by_epsilon: FloatArray
    by_lam: FloatArray


def inverse(epsilons: FloatArray, lam: float, terms: Terms, start: FloatArray | None = None) -> _Solved:
    """Return the c with P(c) = epsilon > 0, to rounding, for one bound; ``start`` is a guess."""
    trace = sum(term.times * (term.start + term.end + 0.25 * term.bend) for term in terms)
    floor = epsilons / (2.0 * lam + trace)  # the tangent at 0 lies above P
    c = _left_of_root(epsilons, lam, terms, floor) if start is None else np.maximum(start, floor)
    found = _Solved(c, np.empty_like(c), np.empty_like(c))
    for first in range(0, c.size, _BLOCK):
        left = np.arange(first, min(first + _BLOCK, c.size))
        for _ in range(_MAX_STEPS):
            part: slice | IntArray = (
                slice(left[0], left[-1] + 1) if left.size == left[-1] - left[0] + 1 else left
            )
            at = _evaluated(c[part], lam, terms)
            step = (epsilons[part] - at.charge) / at.by_c
            c[part] = np.maximum(c[part] + step, floor[part])
            found.by_epsilon[part] = 1.0 / at.by_c
            found.by_lam[part] = -at.by_lam / at.by_c
            left = left[np.abs(step) > 1e-7 * c[part]]  # of others the step just taken left 1e-14, relatively
            if not left.size:
                break
        else:
            raise NotConverged(f"expected the inverse of the charge within {_MAX_STEPS} steps.")
    return found


def _left_of_root(epsilons: FloatArray, lam: float, terms: Terms, floor: FloatArray) -> FloatArray:
    """Return a point at or left of the root, close enough for a few Newton steps.

    P(c) is at most 2 lam c plus m log(1 + c g) with the sum of the terms' largest values spread evenly over
    the sum of their counts, so that every split of epsilon over the two parts gives such a point.
    """
    count = sum(term.times for term in terms)
    if not count:
        return floor
    largest = sum(term.times * (term.start + term.end + 0.25 * term.bend) for term in terms) / count
    best = floor
    for share in (0.2, 0.5, 0.8, 0.95):
        with np.errstate(over="ignore", divide="ignore"):
            by_log = np.expm1(share * epsilons / count) / largest
            by_noise = (1.0 - share) * epsilons / (2.0 * lam) if lam > 0.0 else np.inf
        best = np.maximum(best, np.minimum(by_log, by_noise))
    return best


def solve(
    epsilons: FloatArray, target: float, bounds: Sequence[Terms], lam: float
) -> tuple[FloatArray, float, float] | None:
    """Return the c that spend these epsilons, all > 0, and add up to ``target``, and lambda.

    None if they stay below the target however small lambda is: no amount of noise would do. ``lam`` is at
    least the root. The third number is by what share a c may be too large.
    """
    if epsilons.size < _FEW:
        few = _root(epsilons, (np.ones_like(epsilons), np.zeros_like(epsilons)), target, bounds, lam)
        return None if few is None else (few[0].c, few[1], 0.0)
    # Cubic splines through a few epsilons: their sum over everybody is a weighted sum over the knots.
    splines = _Splines.of(np.ascontiguousarray(epsilons))
    rough = _root(splines.knots, splines.sums, target, bounds, lam)
    if rough is None:
        return None
    at_knots, lam = rough
    c, error = splines(at_knots.c, at_knots.by_epsilon), splines.error(at_knots.c, at_knots.by_epsilon)
    if error <= _CLOSE:
        return c, lam, 2.0 * error
    found = _largest(epsilons, lam, bounds, [c] * len(bounds))
    moved = (target - float(found.c.sum())) / float(found.by_lam.sum())  # what the splines missed
    return found.c + found.by_lam * moved, lam + moved, 0.0


class _Splines(NamedTuple):
    """Cubic Hermite splines between floats that differ in their leading bits, evaluated at given epsilons."""

    knots: FloatArray
    place: IntArray
    u: FloatArray
    sums: tuple[FloatArray, FloatArray]
    """The sum of a spline over all epsilons is this times the values plus this times the derivatives."""

    @classmethod
    def of(cls, epsilons: FloatArray) -> _Splines:
        octaves = math.log2(float(epsilons.max()) / float(epsilons.min())) + 1.0
        dropped = 52 - max(0, math.floor(math.log2(_KNOTS / octaves)))
        bits = epsilons.view(np.int64)
        place = bits >> dropped
        first = int(place.min())
        place -= first
        u = np.ldexp((bits & ((1 << dropped) - 1)).astype(np.float64), -dropped)
        size = int(place.max()) + 1
        knots = (np.arange(first, first + size + 1) << dropped).view(np.float64)
        n, widths = np.bincount(place), np.diff(knots)
        u1, u2, u3 = (np.bincount(place, weights=power) for power in (u, u * u, u * u * u))
        values, slopes = np.zeros(size + 1), np.zeros(size + 1)
        values[:-1] += n - 3.0 * u2 + 2.0 * u3
        values[1:] += 3.0 * u2 - 2.0 * u3
        slopes[:-1] += widths * (u1 - 2.0 * u2 + u3)
        slopes[1:] += widths * (u3 - u2)
        return cls(knots, place, u, (values, slopes))

    def __call__(self, values: FloatArray, slopes: FloatArray) -> FloatArray:
        widths, rise = np.diff(self.knots), np.diff(values)
        first = widths * slopes[:-1]
        second = 3.0 * rise - 2.0 * first - widths * slopes[1:]
        third = first + widths * slopes[1:] - 2.0 * rise
        found, k = third[self.place], self.place
        for part in (second, first, values):
            found *= self.u
            found += part[k]
        return found

    def error(self, values: FloatArray, slopes: FloatArray) -> float:
        """Estimate the largest relative error: half as many knots would miss 16 times it, at least 8."""
        x, end = self.knots, (self.knots.size - 1) // 2 * 2 + 1
        width = x[2:end:2] - x[: end - 2 : 2]
        u = (x[1:end:2] - x[: end - 2 : 2]) / width
        left, right = values[: end - 2 : 2], values[2:end:2]
        bends = (1.0 - u) * slopes[: end - 2 : 2] - u * slopes[2:end:2]
        found = left + u * u * (3.0 - 2.0 * u) * (right - left) + u * (1.0 - u) * width * bends
        return float(np.abs(found / values[1:end:2] - 1.0).max(initial=0.0)) / 8.0


def _largest(
    epsilons: FloatArray, lam: float, bounds: Sequence[Terms], starts: list[FloatArray | None]
) -> _Solved:
    """Return the largest c that any bound allows; ``starts`` is replaced by each bound's."""
    best = inverse(epsilons, lam, bounds[0], starts[0])
    starts[0] = best.c
    for k, terms in enumerate(bounds[1:], start=1):
        other = inverse(epsilons, lam, terms, starts[k])
        starts[k] = other.c
        larger = other.c > best.c
        best = _Solved(*(np.where(larger, new, old) for new, old in zip(other, best, strict=True)))
    return best


def _root(
    epsilons: FloatArray,
    sums: tuple[FloatArray, FloatArray],
    target: float,
    bounds: Sequence[Terms],
    lam: float,
) -> tuple[_Solved, float] | None:
    """Solve for lambda: Newton in 1 / lambda, where each bound's sum is concave, within a bracket."""

    def total(found: _Solved) -> float:
        return float(found.c @ sums[0] + found.by_epsilon @ sums[1])

    starts: list[FloatArray | None] = [None] * len(bounds)
    # Without noise, up to the splines' error; above the limit c is beyond every target.
    limit = 300.0 * max(sum(term.times for term in terms) for terms in bounds)
    most = _largest(np.minimum(epsilons, limit), 0.0, bounds, starts.copy())
    if not 1.1 * float(most.c @ sums[0]) > target:
        return None
    x, low, high = 1.0 / lam, 0.0, math.inf
    for _ in range(_MAX_STEPS):
        found = _largest(epsilons, 1.0 / x, bounds, starts)
        missing = target - total(found)
        step = missing / (-float(found.by_lam @ sums[0]) / (x * x))  # d lambda = -dx / x^2
        low, high = (x, high) if missing >= 0.0 else (low, x)
        # The c are good to 1e-14, and so are their sum and its root.
        if abs(missing) <= 3e-14 * target or abs(step) <= 1e-14 * x:
            return found, 1.0 / x
        following = x + step
        if not low < following < high:
            following = 2.0 * x if high == math.inf else 0.5 * (low + high)
        moved = 1.0 / following - 1.0 / x
        starts = [
            None if one is None else one + np.where(one == found.c, found.by_lam, 0.0) * moved
            for one in starts
        ]
        x = following
        if not x < 1e120:
            return None
    raise NotConverged("expected a noise rate at which the weights add up to 1, found none.")
