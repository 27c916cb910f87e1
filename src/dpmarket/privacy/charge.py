r"""The privacy loss (epsilon) of a weight, and the weights that spend given epsilons.

In units of the penalty, :math:`c = a R_2^2 / \Lambda`, and with :math:`\lambda = \eta \Lambda S R_1 / (2
R_2^2)` the noise against the penalty, a person of weight a is charged

.. math:: P(c) = \lambda c + \max_{0 \le t \le 1} \Big[ \lambda c\, t + \sum_k m_k \log(1 + c\, g_k(t)) \Big],

with the log-determinant terms of :mod:`dpmarket.privacy.loss`. Logarithms lie below their tangents, so that
for **any** :math:`z_k > -1`

.. math:: P(c) \le o + c\, s, \qquad o = \sum_k m_k \Big( \log(1 + z_k) - \frac{z_k}{1 + z_k} \Big), \qquad
          s = \lambda + \max_t \Big[ \lambda t + \sum_k \frac{m_k\, g_k(t)}{1 + z_k} \Big],

a line in c with a quadratic in t to maximise; it touches P where :math:`z_k = c\, g_k(t)` at the maximiser.
Everything here is such a line: a charge is its value, the c of an epsilon is :math:`(\epsilon - o) / s`, and
Newton's method takes the next z from there. An inexact z raises charges and lowers weights, by its error
squared. So P is increasing and concave: a relative error in :math:`\lambda` or c is at most as large in P.

Weights that add up to 1 satisfy :math:`\sum_i c_i(\lambda) = R_2^2 / \Lambda` with **one** :math:`\lambda`
for everybody: a decreasing function of one number, whatever the loss and the noise. Several bounds on the
determinant may hold; the smallest charge is valid, and the largest weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.privacy.loss import Term

Terms = tuple[Term, ...]
"""One bound on the change of the log determinant."""

_ROUND_UP = 2.0**-45
"""Relative outward rounding of a charge: 256 units of 2**-53.

With u = 2**-53: 4u in lambda c, 5u in c and 4u in the constants are at most as large in P. The line's slope
has 12u (its terms are all at least 0, but for one difference whose result is at least a quarter of them), its
offset 12u of the logarithms, which are at most P.
"""
_KEPT = 1.0 - 2.0**-42
"""The share of an epsilon that weights spend; the rest covers rounding, of charges as well."""
_SMALLEST = 1e-150  # smaller c are charged as if they were this large: products of them could underflow
_LARGEST = 1e100
_BLOCK = 1 << 13
_KNOTS = 2048  # also the fewest people for whom tables pay
_ENOUGH = 2.0**-38
_CLOSE = 2.0**-22
_MAX_STEPS = 200


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
        out = np.empty_like(weights)
        for first in range(0, weights.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            c = weights[block] * target
            if float(c.min()) < _SMALLEST:
                c = np.where(weights[block] > 0.0, np.maximum(c, _SMALLEST), 0.0)  # products may underflow
            found = [_charges(c, lam, terms) for terms in self.bounds]
            out[block] = found[0] if len(found) == 1 else np.min(found, axis=0)
        return out

    def weights(self, epsilons: FloatArray) -> tuple[FloatArray, float] | None:
        """Return weights that spend epsilons of 0 or from 1e-100 on, and the noise rate; None: none do."""
        total, target = float(epsilons.sum()), self.target
        lam = total / (2.0 * target)  # what the noise alone costs: the root or above
        present: slice | BoolArray = slice(None) if float(epsilons.min()) > 0.0 else epsilons > 0.0
        some = epsilons[present]
        if any(_without_terms(lam, terms) for terms in self.bounds):
            c = some * (_KEPT * target / total)
        else:
            solved = (_of_few if some.size < _KNOTS else _of_many)(some, target, self.bounds, lam)
            if solved is None:
                return None
            c, lam = solved
        c /= target
        if float(c.min()) < _SMALLEST / target:
            c[c < _SMALLEST / target] = 0.0
        if c.size == epsilons.size:
            return c, lam / self.lam(1.0)
        found = np.zeros_like(epsilons)
        found[present] = c
        return found, lam / self.lam(1.0)


def bounds_of(terms: Terms, rank: int, rows: int, n_coefficients: int) -> tuple[Terms, ...]:
    """Return every valid bound on the determinant worth a look, for at most so many rows of one person.

    Equal shares of the weight are the worst case: ``rows`` times each term, with c / rows. For more rows than
    coefficients also the trace, spread evenly over the directions that a person can change.
    """
    by_rows = tuple(Term(m * rows, p / rows, q / rows, v / rows) for m, p, q, v in terms)
    if rows <= n_coefficients:
        return (by_rows,)
    size = float(n_coefficients * rank)
    trace = [math.fsum(term.times * term[k] for term in terms) / size for k in (1, 2, 3)]
    return by_rows, (Term(size, *trace),)


def _without_terms(lam: float, terms: Terms) -> bool:
    """Tell whether t = 1 is the maximiser for every c and no log-determinant term is left there."""
    return _at_one(lam, terms) and not any(term.end for term in terms)


def _at_one(lam: float, terms: Terms) -> bool:
    """Tell whether t = 1 is the maximiser for every c: the noise outweighs every term that falls there.

    If it does not by rounding only, the maximum is larger by less than a charge is rounded up.
    """
    return lam * (1.0 + 2.0**-50) >= sum(
        term.times * max(term.start + term.bend - term.end, 0.0) for term in terms
    )


def _charges(c: FloatArray, lam: float, terms: Terms) -> FloatArray:
    """Return P, rounded up, for one bound; exactly 0 where c is 0."""
    if _without_terms(lam, terms):
        return c * (2.0 * lam * (1.0 + _ROUND_UP))
    line = _line(_touching(c, lam, terms), lam, terms)
    return np.asarray((line.offset + c * line.slope) * (1.0 + _ROUND_UP))


class _Line(NamedTuple):
    """A line ``offset + slope * c`` at or above P, and the derivative of its slope in lambda, ``1 + t``."""

    offset: FloatArray
    slope: FloatArray
    by_lam: FloatArray


def _line(z: Sequence[FloatArray], lam: float, terms: Terms) -> _Line:
    """Return the line that belongs to z, one array for each term."""
    y = [1.0 + at for at in z]
    t = _highest(y, lam, terms)
    noise = t + 1.0
    offset: FloatArray | float = 0.0
    slope = noise * lam
    for term, at, inner in zip(terms, z, y, strict=True):
        share = np.divide(term.times, inner, out=inner)
        logs = np.log1p(at)
        if term.times != 1.0:
            logs *= term.times
        logs -= at * share
        offset = logs if len(terms) == 1 else logs + offset
        share *= _g(t, term)
        slope += share
    return _Line(np.asarray(offset), slope, noise)


def _highest(y: Sequence[FloatArray], lam: float, terms: Terms) -> FloatArray:
    """Return the t in [0, 1] at which ``lam t + sum of m g(t) / y``, a quadratic, is largest."""
    with np.errstate(divide="ignore"):
        if len(terms) == 1:  # without a division by y
            ((times, start, end, bend),) = terms
            t = y[0] * (0.5 * lam / times)
            t += 0.5 * (end - start + bend)
            t /= bend
        else:
            rise, bends = np.full_like(y[0], lam), np.zeros_like(y[0])
            for (times, start, end, bend), inner in zip(terms, y, strict=True):
                rise += times * (end - start + bend) / inner
                bends += times * bend / inner
            t = 0.5 * rise / bends
    return np.clip(t, 0.0, 1.0, out=t)


def _touching(c: FloatArray, lam: float, terms: Terms) -> list[FloatArray]:
    """Return the z of the line that touches P at c."""
    t = np.ones_like(c) if _at_one(lam, terms) else _maximiser(c, lam, terms)
    return [c * _g(t, term) for term in terms]


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


def _maximiser(c: FloatArray, lam: float, terms: Terms) -> FloatArray:
    """Return t where the bracket of P is largest: a quadratic equation if there is one term."""
    t = _one_term(c, lam, terms[0])
    return t if len(terms) == 1 else _newton(c, t, lam, terms)


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
        t = 2.0 * d / (root - b)
        if not low.all():
            t = np.where(low, t, (root + b) / (2.0 * a))
    return np.clip(t, 0.0, 1.0, out=t)


def _newton(c: FloatArray, t: FloatArray, lam: float, terms: Terms) -> FloatArray:
    """Solve for t by Newton's method within a bracket; ``t`` is where the first term alone is largest."""
    high = np.ones_like(c)
    low = np.where(_slope(c, high, lam, terms)[0] >= 0.0, 1.0, 0.0)
    for _ in range(_MAX_STEPS):
        slope, curve = _slope(c, t, lam, terms)
        low, high = np.where(slope >= 0.0, np.maximum(t, low), low), np.where(slope >= 0.0, high, t)
        following = t + slope / curve
        following = np.where((following > low) & (following < high), following, 0.5 * (low + high))
        moved, t = np.abs(following - t), following
        if (moved <= 2.0**-30 * (1.0 - t) + 2.0**-52).all():
            break
    return t


def _slope(c: FloatArray, t: FloatArray, lam: float, terms: Terms) -> tuple[FloatArray, FloatArray]:
    """Return the derivative of the bracket of P, divided by c, and minus its second derivative."""
    slope, curve = np.full_like(c, lam), np.full_like(c, 1e-300)
    for term in terms:
        inner = 1.0 + c * _g(t, term)
        rise = (term.end - term.start + term.bend * (1.0 - 2.0 * t)) / inner
        slope += term.times * rise
        curve += term.times * (c * rise * rise + 2.0 * term.bend / inner)
    return slope, curve


class _Solved(NamedTuple):
    """The c whose charge is epsilon, how fast they fall with lambda, and the z they were found with."""

    c: FloatArray
    falls: FloatArray
    z: Sequence[FloatArray]


def _on_line(epsilons: FloatArray, z: Sequence[FloatArray], lam: float, terms: Terms) -> _Solved:
    """Return the largest c whose charge is at most epsilon for all that the line of z says."""
    line = _line(z, lam, terms)
    c = epsilons - line.offset
    c /= line.slope
    falls = c * line.by_lam
    falls /= line.slope
    return _Solved(c, falls, z)


def _inverse(epsilons: FloatArray, lam: float, terms: Terms, start: FloatArray | None = None) -> _Solved:
    """Return the c whose charge is epsilon > 0, for one bound; ``start`` is a guess."""
    trace = sum(term.times * (term.start + term.end + 0.25 * term.bend) for term in terms)
    floor = epsilons / (2.0 * lam + trace)  # the tangent at 0 lies above P
    c = _left_of_root(epsilons, lam, terms, floor) if start is None else np.maximum(start, floor)
    for _ in range(_MAX_STEPS):
        found = _on_line(epsilons, _touching(c, lam, terms), lam, terms)
        near = np.abs(found.c - c) <= 1e-7 * c  # then the step just taken left 1e-14, relatively
        c = np.maximum(found.c, floor)
        if near.all():
            return found
    raise NotConverged(f"expected the inverse of the charge within {_MAX_STEPS} steps.")


def _left_of_root(epsilons: FloatArray, lam: float, terms: Terms, floor: FloatArray) -> FloatArray:
    """Return a point at or left of the root, close enough for a few Newton steps.

    P(c) is at most 2 lam c plus m log(1 + c g) with the sum of the terms' largest values spread evenly over
    the sum of their counts, so that every split of epsilon over the two parts gives such a point.
    """
    count = sum(term.times for term in terms)
    largest = sum(term.times * (term.start + term.end + 0.25 * term.bend) for term in terms) / count
    best = floor
    for share in (0.2, 0.5, 0.8, 0.95):
        with np.errstate(over="ignore"):
            by_log = np.expm1(share * epsilons / count) / largest
        best = np.maximum(best, np.minimum(by_log, (1.0 - share) * epsilons / (2.0 * lam)))
    return best


def _largest(found: Sequence[_Solved]) -> tuple[FloatArray, FloatArray]:
    """Return the largest c that any bound allows, and how fast it falls with lambda."""
    c, falls = found[0].c, found[0].falls
    for other in found[1:]:
        falls = np.where(other.c > c, other.falls, falls)
        c = np.maximum(other.c, c)
    return c, falls


def _root(
    epsilons: FloatArray, counts: FloatArray, target: float, bounds: Sequence[Terms], lam: float
) -> tuple[list[_Solved], float] | None:
    """Return what every bound allows, and the lambda at which the largest c add up to the target.

    Newton's method in 1 / lambda, where each bound's sum is concave, within a bracket. ``lam`` is at least
    the root. None if the sum stays below the target however small lambda is.
    """
    starts: list[FloatArray | None] = [None] * len(bounds)
    x, low, high = 1.0 / lam, 0.0, math.inf
    for _ in range(_MAX_STEPS):
        pairs = zip(bounds, starts, strict=True)
        found = [_inverse(epsilons, 1.0 / x, terms, start) for terms, start in pairs]
        c, falls = _largest(found)
        missing = target - float(c @ counts)
        step = missing * x * x / float(falls @ counts)  # d lambda = -dx / x^2
        low, high = (x, high) if missing >= 0.0 else (low, x)
        # The c are good to 1e-14, and so are their sum and its root.
        if abs(missing) <= 3e-14 * target or abs(step) <= 1e-14 * x:
            return found, 1.0 / x
        following = x + step
        if not low < following < high:
            following = 2.0 * x if high == math.inf else 0.5 * (low + high)
        if not following < 1e120:
            return None
        starts = [one.c - one.falls * (1.0 / following - 1.0 / x) for one in found]
        x = following
    raise NotConverged("expected a noise rate at which the weights add up to 1, found none.")


def _of_few(
    epsilons: FloatArray, target: float, bounds: Sequence[Terms], lam: float
) -> tuple[FloatArray, float] | None:
    """Return c and lambda, everybody's c found by itself."""
    root = _root(epsilons * _KEPT, np.ones_like(epsilons), target, bounds, lam)
    return None if root is None else (_largest(root[0])[0], root[1])


def _of_many(
    epsilons: FloatArray, target: float, bounds: Sequence[Terms], lam: float
) -> tuple[FloatArray, float] | None:
    """Return c and lambda: z is found at floats that differ in leading bits, and is linear between them."""
    ends, bits = np.array([epsilons.min(), epsilons.max()]), epsilons.view(np.int64)
    octaves = math.log2(ends[1] / ends[0]) + 1.0
    dropped = 52 - max(0, math.floor(math.log2(_KNOTS / octaves)))
    first, last = (ends.view(np.int64) >> dropped).tolist()
    place = bits >> dropped
    place -= first
    knots = (np.arange(first, last + 2) << dropped).view(np.float64)
    counts = np.bincount(place, minlength=knots.size).astype(np.float64)
    sums = np.bincount(place, weights=epsilons, minlength=knots.size)
    del place
    # What is linear between knots adds up, over everybody, as over the knots with these counts.
    above = ((sums - counts * knots)[:-1]) / np.diff(knots)
    counts[:-1] -= above
    counts[1:] += above
    knots *= _KEPT
    root = _root(knots, counts, target, bounds, lam)
    if root is None:
        return None
    at_knots, lam = root
    c, falls = np.empty_like(epsilons), np.empty_like(epsilons)
    blocks = [slice(k, k + _BLOCK) for k in range(0, epsilons.size, _BLOCK)]
    for _ in range(_MAX_STEPS):
        close = all(map(_is_close, at_knots, bounds, [knots] * len(bounds)))
        tables = [[_table(knots, z) for z in one.z] for one in at_knots]
        missing, fall = target, 0.0
        for block in blocks:
            some, at = epsilons[block] * _KEPT, (bits[block] >> dropped) - first
            found = []
            for terms, table in zip(bounds, tables, strict=True):
                z = [start.take(at) + rise.take(at) * some for start, rise in table]
                one = _on_line(some, z, lam, terms)
                found.append(one if close else _inverse(some, lam, terms, one.c))
            largest = _largest(found)
            missing, fall = missing - float(largest[0].sum()), fall + float(largest[1].sum())
            c[block], falls[block] = largest
        moved = -missing / fall
        if abs(moved) <= _CLOSE * lam:
            for block in blocks:
                c[block] -= falls[block] * moved
            return c, lam + moved
        lam /= max(1.0 - moved / lam, 0.5)
        if not lam > 1e-120:
            return None
        at_knots = [_inverse(knots, lam, terms, one.c) for one, terms in zip(at_knots, bounds, strict=True)]
    raise NotConverged("expected a noise rate at which the weights add up to 1, found none.")


def _table(knots: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return start and rise of the lines between knots: z is start + rise * epsilon."""
    rise = np.diff(z) / np.diff(knots)
    return z[:-1] - rise * knots[:-1], rise


def _is_close(found: _Solved, terms: Terms, knots: FloatArray) -> bool:
    """Tell whether z is close between knots: between every second knot it would be off four times as far."""
    x, middle = knots[: (knots.size - 1) // 2 * 2 + 1], slice(1, knots.size - 1, 2)
    gap: FloatArray | float = 0.0
    for term, z in zip(terms, found.z, strict=True):
        off = 0.25 * (np.interp(x[1::2], x[::2], z[: x.size : 2]) - z[middle]) / (1.0 + z[middle])
        gap = gap + 0.5 * term.times * off * off
    return bool((gap <= _ENOUGH * x[1::2]).all())
