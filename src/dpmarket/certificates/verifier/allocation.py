r"""Recompute the promises that minimise the buyer's objective, and what a seller would get at another report.

Minimised is :math:`\mu |a| + \sigma / \eta + \gamma \eta \langle a, \psi \rangle` over weights a of at most
cap that add up to 1, and :math:`\eta` up to a bound. For fixed :math:`\eta` the best weights are
:math:`a_i(s) = \mathrm{clip}((r - \psi_i) / s, 0, cap)` for some s, with r such that they add up to 1; for
fixed weights the best rate is :math:`\min(\sqrt{\sigma / (\gamma \langle a, \psi \rangle)}, bound)`. So one
number, s, is searched. Along the path the objective falls where the rate that s stands for, :math:`\mu /
(\gamma s |a|)`, is above the best rate for a(s), and rises where it is below: minima are where the difference
changes from plus to minus. They are looked for on a grid of s, because there may be several, and the best one
counts.

One seller's virtual cost can be replaced by another value without sorting anew: sums over sorted costs with
that one term taken out and put in again. Thousands of such questions are answered at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

_GRID = 96
_AT_ONCE = 2_000


class Minima(NamedTuple):
    """Minima: question, value, the moved seller's epsilon, and the path's s, r and rate there."""

    question: Any
    value: Any
    epsilon: Any
    s: Any
    r: Any
    rate: Any


class _Point(NamedTuple):
    r: Any
    rate: Any
    excess: Any
    value: Any


class _Sums(NamedTuple):
    """Below the cap: count, sum of r - psi and of its square; at the cap: count, sum of psi."""

    count: Any
    gaps: Any
    squares: Any
    capped: Any
    capped_sum: Any


class Problem:
    """The buyer's problem for given virtual costs; infinite ones are not bought from."""

    def __init__(self, virtual: Any, objective: Mapping[str, Any]) -> None:
        self.mu, self.sigma, self.gamma = (
            float(objective[name]) for name in ("concentration", "noise", "payment_weight")
        )
        count, cap, mean = virtual.size, objective["weight_cap"], objective["max_mean_epsilon"]
        self.cap = 1.0 if cap is None else min(float(cap) / count, 1.0)
        self.most = math.inf if mean is None else count * float(mean)
        self.virtual = virtual
        finite = np.sort(virtual[np.isfinite(virtual)])
        positive = min(self.mu, self.sigma, self.gamma, self.most) > 0.0
        if not positive or not finite.size or self.cap * finite.size < 1.0 - 1e-12:
            raise ValueError("no such market")
        # Sums of small numbers are more accurate: virtual costs are counted from the lowest.
        self.shift = float(finite[0])
        self.sorted = finite - self.shift
        self.sums = np.concatenate([[0.0], np.cumsum(self.sorted)])
        self.squares = np.concatenate([[0.0], np.cumsum(self.sorted**2)])

    def promises(self) -> list[Any]:
        """Return everybody's optimal promise; several solutions if several minima are equally good."""
        # The cheapest seller moved to where they are: nothing changes, and all minima are told.
        here = np.array([self.shift])
        found = self._minima(here, here)
        good = found.value <= found.value.min() * (1.0 + 1e-9)
        bought = np.isfinite(self.virtual)
        results = []
        for r, s, rate in zip(found.r[good], found.s[good], found.rate[good], strict=True):
            weights = np.clip((r - (self.virtual[bought] - self.shift)) / s, 0.0, self.cap)
            promises = np.zeros(self.virtual.size)
            with np.errstate(invalid="ignore", over="ignore"):
                promises[bought] = weights * rate
            if not np.isfinite(promises).all():
                raise ArithmeticError("a promise beyond all numbers")  # near to which everything would be
            results.append(promises)
        return results

    def moved(self, own: Any, to: Any) -> Minima:
        """Answer for each pair: a seller with virtual cost ``own`` has ``to`` instead, all else the same."""
        parts = [
            self._best(own[start : start + _AT_ONCE], to[start : start + _AT_ONCE])
            for start in range(0, own.size, _AT_ONCE)
        ]
        return Minima(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _best(self, own: Any, to: Any) -> Minima:
        found = self._minima(own, to)
        order = np.lexsort([found.value, found.question])  # by question, then by value
        first = order[np.unique(found.question[order], return_index=True)[1]]
        if first.size != own.size:
            raise ArithmeticError("a minimum was not found")
        return Minima(*(column[first] for column in found))

    def _minima(self, own: Any, to: Any) -> Minima:
        """Return all minima of all questions, found on a grid of s and refined by halving."""
        highest = float(to[np.isfinite(to)].max(initial=0.0))
        dearest = max(float(self.sorted[-1]) + self.shift, highest, 1e-300)
        cheapest = max(min(self.shift, float(to.min())), 1e-300)
        largest = min(math.sqrt(self.sigma / (self.gamma * cheapest)), self.most)
        smallest = min(math.sqrt(self.sigma / (self.gamma * dearest)), largest)
        # |a| lies between 1 / sqrt(sellers) and 1, so that s does, too.
        lowest, highest = (
            self.mu / (self.gamma * largest),
            self.mu * math.sqrt(self.virtual.size) / (self.gamma * smallest),
        )
        grid = np.geomspace(0.9 * lowest, 1.1 * highest, _GRID)
        # An infinite virtual cost is as good as one that is far above all others.
        old, new = own - self.shift, np.minimum(to - self.shift, 1e9 * (dearest + float(grid[-1])))
        excess = self._at(np.broadcast_to(grid, (old.size, _GRID)), old[:, None], new[:, None]).excess
        question, place = np.nonzero((excess[:, :-1] > 0.0) & (excess[:, 1:] <= 0.0))
        left, right = np.log(grid[place]), np.log(grid[place + 1])
        old, new = old[question], new[question]
        s = np.exp(self._zero(left, right, excess[question, place], excess[question, place + 1], old, new))
        point = self._at(s, old, new)
        epsilons = np.clip((point.r - new) / s, 0.0, self.cap) * point.rate
        return Minima(question, point.value, epsilons, s, point.r, point.rate)

    def _zero(self, left: Any, right: Any, above: Any, below: Any, old: Any, new: Any) -> Any:
        """Return log s where the excess is 0, between two points where it is above 0 and not.

        Tried is the chord's zero, with the value at an end that stays halved (Illinois), and every fourth
        time the middle.
        """
        last = np.zeros(left.size)
        x = 0.5 * (left + right)
        for k in range(100):
            chord = left + (right - left) * above / (above - below)
            usable = (chord > left) & (chord < right) & (k % 4 < 3)
            x = np.where(usable, chord, 0.5 * (left + right))
            point = self._at(np.exp(x), old, new)
            if bool(((np.abs(point.excess) <= 1e-13 * point.rate) | (right - left <= 1e-14)).all()):
                break
            side = np.where(point.excess > 0.0, 1.0, -1.0)
            again = side == last
            left, right = np.where(side > 0.0, x, left), np.where(side > 0.0, right, x)
            below = np.where(side > 0.0, np.where(again, 0.5 * below, below), point.excess)
            above = np.where(side > 0.0, point.excess, np.where(again, 0.5 * above, above))
            last = side
        return x

    def _at(self, s: Any, old: Any, new: Any) -> _Point:
        """Return the path's point at s, with the virtual cost ``old`` of one seller replaced by ``new``."""
        r = self._level(s, old, new)
        sums = self._sums(r, s, old, new)
        length = np.sqrt(sums.squares / s**2 + sums.capped * self.cap**2)
        # <a, psi>, counted from the lowest: over the interior (r - psi) psi / s with psi = r - (r - psi).
        price = (r * sums.gaps - sums.squares) / s + self.cap * sums.capped_sum + self.shift
        with np.errstate(divide="ignore"):
            best = np.minimum(np.sqrt(self.sigma / (self.gamma * np.maximum(price, 0.0))), self.most)
        value = self.mu * length + self.sigma / best + self.gamma * best * price
        return _Point(r, best, self.mu / (self.gamma * s * length) - best, value)

    def _level(self, s: Any, old: Any, new: Any) -> Any:
        """Return r at which weights add up to 1: Newton within a bracket, every third time halving."""
        shape = np.broadcast_shapes(np.shape(s), np.shape(new))
        s, old, new = (np.broadcast_to(part, shape).ravel() for part in (s, old, new))
        low, high = np.minimum(new, 0.0), np.maximum(new, float(self.sorted[-1])) + s
        result = low + s / self.virtual.size
        active, r = np.arange(s.size), result
        for k in range(200):
            sums = self._sums(r, s, old, new)
            missing = 1.0 - (sums.gaps / s + self.cap * sums.capped)
            result[active] = r
            going = np.flatnonzero((np.abs(missing) > 1e-14) & (high - low > 4e-16 * (np.abs(r) + s)))
            if not going.size:
                break
            step = r + missing * s / np.maximum(sums.count, 1.0)
            low, high = np.where(missing > 0.0, r, low), np.where(missing > 0.0, high, r)
            newton = (step > low) & (step < high) & (sums.count > 0.0) & (k % 3 < 2)
            r = np.where(newton, step, 0.5 * (low + high))
            active, r, s, old, new, low, high = (part[going] for part in (active, r, s, old, new, low, high))
        return result.reshape(shape)

    def _sums(self, r: Any, s: Any, old: Any, new: Any) -> _Sums:
        edge = r - self.cap * s
        upper, lower = np.searchsorted(self.sorted, r), np.searchsorted(self.sorted, edge, side="right")
        count = (upper - lower).astype(np.float64)
        total = self.sums[upper] - self.sums[lower]
        gaps = count * r - total
        squares = r * (gaps - total) + self.squares[upper] - self.squares[lower]
        capped, capped_sum = lower.astype(np.float64), self.sums[lower]
        for psi, sign in ((old, -1.0), (new, 1.0)):
            is_capped = psi <= edge
            is_inside = (psi < r) & ~is_capped
            gap = np.where(is_inside, r - psi, 0.0)
            count, gaps, squares = count + sign * is_inside, gaps + sign * gap, squares + sign * gap**2
            capped, capped_sum = capped + sign * is_capped, capped_sum + sign * np.where(is_capped, psi, 0.0)
        return _Sums(count, np.maximum(gaps, 0.0), np.maximum(squares, 0.0), capped, capped_sum)
