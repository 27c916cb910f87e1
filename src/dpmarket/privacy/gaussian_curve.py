r"""Turn the noise's strength and the penalty's into the delta of a promise with Gaussian noise, and back.

With :math:`\mu` the distance, in standard deviations, by which a person can move Gaussian noise,

.. math:: \delta_G(\epsilon; \mu) = \Phi\left(-\frac{\epsilon}{\mu} + \frac{\mu}{2}\right)
          - e^{\epsilon} \Phi\left(-\frac{\epsilon}{\mu} - \frac{\mu}{2}\right)
          = \frac{e^{-x^2/2}}{2} \left[ \mathrm{erfcx} \frac{x}{\sqrt 2} - \mathrm{erfcx} \frac{x + \mu}
          {\sqrt 2} \right], \qquad x = \frac{\epsilon}{\mu} - \frac{\mu}{2},

of which the second form loses no digits in the tail (:func:`one_step`). Replacing N equal parts of a record
one after the other is N steps, each with the N-th part of everything, and in the limit
(:func:`many_steps`)

.. math:: \lim_{N \to \infty} \frac{e^\epsilon - 1}{e^{\epsilon / N} - 1}\,
          \delta_G\left(\frac{\epsilon}{N}; \frac{\mu}{N}\right)
          = \frac{e^\epsilon - 1}{\epsilon}\, \mu \left[\varphi(x) - x \Phi(-x)\right], \qquad
          x = \frac{\epsilon}{\mu}.

A :class:`VertexBound` is a sum of such terms (:mod:`dpmarket.privacy.gaussian` says why), each with its own
distance and with or without the Hessian's share. All are rounded so that delta comes out too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, ndtr

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.errors import NotConverged

_INPUTS = 1e-14  # relative: covers the rounding of x and of everything it is made of
_FUNCTIONS = 1e-14  # relative: twenty times what erfcx, ndtr and exp are off by
_SMALLEST_DELTA = 1e-300
MOST_IN_STEPS = 600.0
"""Larger promises are counted as this where records are replaced part by part."""
_MAX_STEPS = 200
_MAX_DOUBLINGS = 12
_CLOSE = 4e-15


Term = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Delta of one vertex, from epsilon, what is left of it for the noise, and the distance."""


def gaussian_delta_upper(epsilons: FloatArray, mu: FloatArray) -> FloatArray:
    """Return delta of the Gaussian mechanism, rounded up, elementwise; exactly 0 where ``mu`` is 0.

    ``epsilons`` and ``mu`` are trusted to be finite and at least 0, ``mu`` 0 or above 1e-150.
    """
    moved = mu > 0.0
    distance = np.where(moved, mu, 1.0) * (1.0 + _INPUTS)
    x = epsilons * (1.0 - _INPUTS) / distance - 0.5 * distance
    beyond = x + distance
    with np.errstate(under="ignore"):
        density = 0.5 * np.exp(-0.5 * x * x)
    spread = _FUNCTIONS + 1e-15 * x * x
    second = density * erfcx(beyond / math.sqrt(2.0)) * np.maximum(1.0 - spread, 0.0)
    tail = density * erfcx(np.maximum(x, 0.0) / math.sqrt(2.0))
    first = np.where(x >= 0.0, tail, ndtr(-x)) * (1.0 + spread)
    found = np.minimum(np.maximum(first - second, 0.0) * (1.0 + _FUNCTIONS) + _SMALLEST_DELTA, 1.0)
    return np.asarray(np.where(moved, found, 0.0))


def one_step(epsilons: FloatArray, left: FloatArray, mu: FloatArray) -> FloatArray:
    """Return delta of one vertex where a record is replaced at once; ``left`` of epsilon is for the noise."""
    return gaussian_delta_upper(left, mu)


def many_steps(epsilons: FloatArray, left: FloatArray, mu: FloatArray) -> FloatArray:
    """Return delta of one vertex where records are replaced part by part, in the limit, rounded up.

    Promises above 600 are counted as 600: beyond, the factor leaves the range of floats.
    """
    moved = mu > 0.0
    distance = np.where(moved, mu, 1.0) * (1.0 + _INPUTS)
    x = np.minimum(left, MOST_IN_STEPS) * (1.0 - _INPUTS) / distance
    asked = np.clip(epsilons, 1e-200, MOST_IN_STEPS) * (1.0 + _INPUTS)
    with np.errstate(under="ignore"):
        density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    lost = x * math.sqrt(0.5 * math.pi) * erfcx(x / math.sqrt(2.0))
    spread = _FUNCTIONS + 1e-15 * x * x
    found = density * (1.0 + spread) * (np.maximum(1.0 - lost, 0.0) + _FUNCTIONS)
    found = np.expm1(asked) / asked * distance * found * (1.0 + _FUNCTIONS) + _SMALLEST_DELTA
    return np.asarray(np.where(moved, np.minimum(found, 1.0), 0.0))


@dataclass(frozen=True)
class VertexBound:
    r"""A valid bound on delta: :math:`\sum_j n_j\, \delta_G(\epsilon - m_j L(c);\, \ell_j \mu)`.

    Attributes
    ----------
    counts
        :math:`n_j`, how many vertices have this distance.
    lengths
        :math:`\ell_j`, their distance as a share of mu, at most 1.
    moved
        :math:`m_j`, whether the Hessian's share is taken off epsilon there.
    directions, divisor
        The Hessian's share is ``L(c) = directions * log(1 + c / divisor)``; with ``directions`` infinite its
        limit, ``c / divisor``.
    term
        Delta of one vertex: :func:`one_step` or :func:`many_steps`.

    Notes
    -----
    Valid for epsilon of at least L(c) only: below, :meth:`delta` returns 1.
    """

    counts: tuple[float, ...]
    lengths: tuple[float, ...]
    moved: tuple[bool, ...]
    directions: float = math.inf
    divisor: float = 1.0
    term: Term = one_step

    def share(self, c: FloatArray) -> FloatArray:
        """Return L(c), rounded up."""
        if self.directions == math.inf:
            return np.asarray(c / self.divisor * (1.0 + _CLOSE))
        return np.asarray(self.directions * np.log1p(c / self.divisor) * (1.0 + _CLOSE))

    def largest_c(self, epsilons: FloatArray) -> FloatArray:
        """Return the c at which the Hessian's share alone is epsilon, to rounding."""
        if self.directions == math.inf:
            return epsilons * self.divisor
        return np.asarray(self.divisor * np.expm1(np.minimum(epsilons / self.directions, 230.0)))

    def delta(self, epsilons: FloatArray, mu: FloatArray, c: FloatArray) -> FloatArray:
        """Return delta, rounded up, elementwise; at most 1."""
        share = self.share(c)
        left = (epsilons - share) - _CLOSE * epsilons
        valid = left >= 0.0
        total = np.zeros(np.broadcast_shapes(epsilons.shape, mu.shape))
        for count, length, moved in zip(self.counts, self.lengths, self.moved, strict=True):
            at = np.maximum(left, 0.0) if moved else epsilons
            total += count * self.term(epsilons, at, length * mu)
        return np.where(valid, np.minimum(total * (1.0 + _FUNCTIONS), 1.0), 1.0)

    def epsilon(self, delta: float, mu: FloatArray, c: FloatArray) -> FloatArray:
        """Return an epsilon at which :meth:`delta` is at most ``delta`` as computed, and hardly larger.

        ``delta`` lies strictly between 0 and 1. Where the Hessian's share is all that matters, that is
        returned; infinite where no epsilon will do.
        """
        least = self.share(c) * (1.0 + 2.0 * _CLOSE)
        most = least + mu * (self._reach(delta) + 0.5 * mu) * (1.0 + 1e-12)
        short = self.delta(most, mu, c) > delta
        for _ in range(_MAX_DOUBLINGS):
            if not short.any():
                break
            most = np.where(short, 2.0 * most, most)
            short = self.delta(most, mu, c) > delta
        found = np.full(mu.shape, np.inf)
        inside, within = mu[~short], c[~short]

        def excess(epsilons: FloatArray, at: BoolArray) -> FloatArray:
            return -_beyond(self.delta(epsilons, inside[at], within[at]), np.array(delta))

        found[~short] = _right_of_root(excess, least[~short], most[~short])
        return found

    def largest_mu(self, epsilons: FloatArray, delta: FloatArray, ratio: float) -> FloatArray:
        """Return the largest mu whose delta, with ``c = mu / ratio``, is at most ``delta`` as computed.

        Elementwise, and not larger than that; ``epsilons`` are above 0.
        """
        half = 0.5 * epsilons
        # Many steps have a factor of at most e^epsilon.
        reach = np.sqrt(self._reach(float(delta.min())) ** 2 + 2.0 * np.minimum(epsilons, MOST_IN_STEPS))
        low = np.minimum(ratio * self.largest_c(half), 2.0 * half / (reach + np.sqrt(reach**2 + 2.0 * half)))
        high = np.minimum(ratio * self.largest_c(epsilons), np.sqrt(2.0 * epsilons) + 20.0)
        low, high = 0.999 * low, 1.001 * high

        def excess(logarithms: FloatArray, at: BoolArray) -> FloatArray:
            mu = np.exp(logarithms)
            return _beyond(self.delta(epsilons[at], mu, mu / ratio), delta[at])

        return np.asarray(np.exp(left_of_root(excess, np.log(low), np.log(high))))

    def _reach(self, delta: float) -> float:
        """Return x beyond which no sum of these terms exceeds delta."""
        return math.sqrt(2.0 * math.log(2.0 * sum(self.counts) / delta)) + 0.01


def _beyond(found: FloatArray, delta: FloatArray) -> FloatArray:
    """Return the logarithm of ``found / delta``, above 0 exactly where ``found`` is above ``delta``."""
    ratio = np.log(np.maximum(found, _SMALLEST_DELTA)) - np.log(delta)
    return np.asarray(np.where(found > delta, np.maximum(ratio, 1e-300), np.minimum(ratio, 0.0)))


def left_of_root(
    function: Callable[[FloatArray, BoolArray], FloatArray],
    low: FloatArray,
    high: FloatArray,
    close: float = _CLOSE,
) -> FloatArray:
    """Return, elementwise, the largest point found at which an increasing function is at most 0.

    ``low`` must be such a point. False position (Illinois), halved where that is slow.
    """
    low, high = low.copy(), high.copy()
    everywhere = np.ones(low.shape, dtype=np.bool_)
    at_low, at_high = function(low, everywhere), function(high, everywhere)
    if np.any(at_low > 0.0):
        raise NotConverged("expected a point left of the root of a promise's delta, found none.")
    low = np.where(at_high <= 0.0, high, low)
    last, before = np.zeros(low.shape), high - low
    for step in range(_MAX_STEPS):
        active = (high - low > close * np.maximum(np.abs(low), 1.0)) & (at_high > 0.0)
        if not active.any():
            return low
        a, b, fa, fb = low[active], high[active], at_low[active], at_high[active]
        middle = a + fa / (fa - fb) * (b - a)
        if step % 3 == 2:
            middle = np.where(b - a > 0.1 * before[active], 0.5 * (a + b), middle)
            before[active] = b - a
        # A step beyond an end that is the root to rounding closes the bracket.
        room = 0.5 * close * np.maximum(np.abs(a), 1.0)
        middle = np.clip(middle, a + room, b - room)
        value = function(middle, active)
        below = value <= 0.0
        side = np.where(below, -1.0, 1.0)
        again = last[active] == side
        low[active], high[active] = np.where(below, middle, a), np.where(below, b, middle)
        at_low[active] = np.where(below, value, np.where(again, 0.5 * fa, fa))
        at_high[active] = np.where(below, np.where(again, 0.5 * fb, fb), value)
        last[active] = side
    raise NotConverged("expected the root of a promise's delta, found none.")


def _right_of_root(
    function: Callable[[FloatArray, BoolArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return, elementwise, the smallest point found at which an increasing function is at least 0."""
    width = high - low

    def mirrored(shares: FloatArray, at: BoolArray) -> FloatArray:
        return -function(high[at] - shares * width[at], at)

    # Shares of the way from the upper end: the root lies where the function becomes negative.
    found = left_of_root(mirrored, np.zeros(low.shape), np.ones(low.shape))
    return np.asarray(high - found * width)
