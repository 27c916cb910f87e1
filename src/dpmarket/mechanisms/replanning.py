"""Turn what has been bought so far, and the sellers still expected, into the curve for the next of them.

With past totals ``E1 = sum eps`` and ``E2 = sum eps^2``, ``R`` sellers to come and a curve eps(c), the buyer
expects the objective

    mu * sqrt(E2 + R E[eps^2]) / (E1 + R E[eps]) + sigma / (E1 + R E[eps]) + gamma * R E[psi eps]

and a constant for what has been paid. For a given total the problem is convex in the curve, so the best
one has the form of every curve here, ``eps = slope * clip(cutoff - psi, 0, width)``: two numbers are
searched for, the epsilon to add and the cutoff. The moments of ``(cutoff - psi)^+`` come from sums over a
table of the distribution's quantiles, so that a whole grid of candidates costs a few array operations.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective, max_epsilon
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, virtual_costs
from dpmarket.mechanisms.curves import Curve

_QUANTILES = 2000
_DECADES = 6.0
# One wide grid finds the valley, many small ones its floor.
_WIDE, _SMALL = 31, 9
_ZOOMS = 16
_SHRINK = 0.33
# Of the bound on the total promise: less than this is nothing left to buy.
_USED_UP = 1e-12


@dataclass(frozen=True)
class Bought:
    """What a market has bought so far: the sum of its epsilons, and of their squares.

    Attributes
    ----------
    epsilon, epsilon_squared
        The two sums; 0 in a market that begins.
    """

    epsilon: float = 0.0
    epsilon_squared: float = 0.0


def plan_curve(
    dist: CostDistribution, objective: BuyerObjective, expected_sellers: int, bought: Bought, remaining: float
) -> Curve:
    """Return the best curve for ``remaining`` sellers of ``expected_sellers``, given what has been bought.

    Parameters
    ----------
    dist
        What is believed about costs.
    objective
        The buyer's, with concentration, noise and payment weight above 0. Its bounds are meant for
        ``expected_sellers`` in all: ``eps <= weight_cap/m * total`` and ``total <= m * max_mean_epsilon``.
    expected_sellers
        How many sellers the whole market expects.
    bought
        The totals so far; those of nobody give the curve for a market that begins.
    remaining
        How many sellers are still expected, > 0.

    Returns
    -------
    Curve
        A rule from cost to epsilon and payment for the sellers still to come.

    Notes
    -----
    Where ``max_mean_epsilon`` is used up, the curve buys from nobody.
    With nothing bought this is the continuous limit of :func:`population_curve`. The search looks at six
    decades of added epsilon and of cutoffs around a natural scale, then narrows down to about 1e-8.

    Examples
    --------
    Who has bought something already offers the next sellers less.

    >>> from dpmarket.costs import Uniform
    >>> dist, objective = Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1)
    >>> first = plan_curve(dist, objective, 100, Bought(), remaining=100)
    >>> later = plan_curve(dist, objective, 100, Bought(epsilon=1.5, epsilon_squared=0.2), remaining=50)
    >>> later.largest_epsilon < first.largest_epsilon, later.reach < first.reach
    (True, True)
    """
    bound = objective.max_mean_epsilon
    if bound is not None and expected_sellers * bound * (1.0 - _USED_UP) <= bought.epsilon:
        # So small a slope times so small a cutoff is 0, even where a virtual cost is 0.
        tiny = sys.float_info.min
        return Curve(dist, objective, expected_sellers, slope=tiny, cutoff=tiny)
    problem = _Problem.of(dist, objective, expected_sellers, bought, remaining)
    added, width = problem.search()
    slope, cap = problem.rule(added, width)
    lowest = problem.lowest
    return Curve(
        dist,
        objective,
        expected_sellers,
        slope=slope,
        cutoff=max(lowest + width, math.nextafter(0.0, 1.0)),
        max_epsilon=min(cap, max_epsilon(objective)),
    )


@dataclass(frozen=True)
class _Moments:
    """E[(x - X)^+] and E[((x - X)^+)^2] of a non-negative discrete X, for any x."""

    points: FloatArray
    mass: FloatArray
    first: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, points: FloatArray, weights: FloatArray) -> _Moments:
        sums = [np.append(0.0, np.cumsum(weights * points**k)) for k in range(3)]
        return cls(points, *sums)

    def at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        below = np.searchsorted(self.points, x)
        mass, first, second = self.mass[below], self.first[below], self.second[below]
        one = mass * x - first
        return np.maximum(one, 0.0), np.maximum(x * (one - first) + second, 0.0)


@dataclass(frozen=True)
class _Problem:
    """The two-dimensional search: epsilon to add, and how far the cutoff lies above the lowest psi."""

    objective: BuyerObjective
    bought: Bought
    remaining: float
    lowest: float
    moments: _Moments
    cap_share: float
    most: float

    @classmethod
    def of(
        cls,
        dist: CostDistribution,
        objective: BuyerObjective,
        sellers: int,
        bought: Bought,
        remaining: float,
    ) -> _Problem:
        # Finer towards the cheap end, where the sellers are that a large market buys from.
        edges = np.linspace(0.0, 1.0, _QUANTILES + 1) ** 3
        psi = virtual_costs(dist.quantile(0.5 * (edges[1:] + edges[:-1])), dist)
        lowest = float(dist.virtual_cost(dist.support[0]))
        bound, cap = objective.max_mean_epsilon, objective.weight_cap
        return cls(
            objective,
            bought,
            remaining,
            lowest,
            _Moments.of(psi - lowest, np.diff(edges)),
            1.0 if cap is None else min(cap / sellers, 1.0),
            math.inf if bound is None else max(sellers * bound - bought.epsilon, 0.0),
        )

    def search(self) -> tuple[float, float]:
        """Return the best epsilon to add and width, by a grid that is narrowed down again and again."""
        spread = float(self.moments.points[-1])
        typical = float(self.moments.points[self.moments.points.size // 4])
        natural = math.sqrt(self.objective.noise / self.objective.payment_weight / (self.lowest + typical))
        centre = np.log10([min(natural, self.most), spread])
        steps = _DECADES * np.linspace(-1.0, 1.0, _WIDE)
        best, found = self._best_of(centre, steps)
        reach = 1.5 * float(steps[1] - steps[0])
        for _ in range(_ZOOMS):
            value, near = self._best_of(found, reach * np.linspace(-1.0, 1.0, _SMALL))
            if value <= best:
                best, found = value, near
            reach *= _SHRINK
        added, width = 10.0**found
        return min(float(added), self.most), float(width)

    def _best_of(self, centre: FloatArray, steps: FloatArray) -> tuple[float, FloatArray]:
        """Return the least value on a square grid of logarithms around ``centre``, and where it is."""
        added = 10.0 ** (centre[0] + steps)[:, None]
        values = self.value(np.minimum(added, self.most), 10.0 ** (centre[1] + steps)[None, :])
        row, column = divmod(int(values.argmin()), steps.size)
        return float(values[row, column]), centre + np.array([steps[row], steps[column]])

    def value(self, added: FloatArray, width: FloatArray) -> FloatArray:
        """Return the expected objective, without what has been paid; infinite where the cap forbids it."""
        mu, sigma, gamma = (self.objective.concentration, self.objective.noise, self.objective.payment_weight)
        one, two = self.moments.at(width)
        total = self.bought.epsilon + added
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = added / (self.remaining * one)
            square, cost = slope * slope * two, slope * ((self.lowest + width) * one - two)
            if self.cap_share < 1.0:
                slope, square, cost = self._capped(added, width)
            values = (
                mu * np.sqrt(self.bought.epsilon_squared + self.remaining * square) / total
                + sigma / total
                + gamma * self.remaining * cost
            )
        return np.where(np.isfinite(values), values, math.inf)

    def rule(self, added: float, width: float) -> tuple[float, float]:
        """Return the slope and the largest epsilon that add this much within this width."""
        x = np.array([[width]])
        if self.cap_share < 1.0:
            slope = self._capped(np.array([[added]]), x)[0]
            return float(slope[0, 0]), self.cap_share * (self.bought.epsilon + added)
        return float(added / (self.remaining * self.moments.at(x)[0][0, 0])), math.inf

    def _capped(self, added: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return slope, E[eps^2] and E[psi eps] where nobody may have more than the cap."""
        cap = self.cap_share * (self.bought.epsilon + added)
        wanted = added / self.remaining
        one, _ = self.moments.at(width + 0.0 * added)
        # The steeper, the more is bought: bisection in log(slope) on all candidates at once.
        low = np.log(wanted / one)
        high = low + 40.0
        for _ in range(44):
            middle = 0.5 * (low + high)
            short = self._mean(np.exp(middle), width, cap)[0] < wanted
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        slope = np.exp(high)
        mean, square, cost = self._mean(slope, width, cap)
        impossible = mean < wanted * (1.0 - 1e-6)
        return slope, square, np.where(impossible, math.inf, cost)

    def _mean(
        self, slope: FloatArray, width: FloatArray, cap: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E[eps], E[eps^2] and E[psi eps] of ``eps = min(slope * (width - x)^+, cap)``."""
        one, two = self.moments.at(width + 0.0 * slope)
        top = cap / slope
        inner_one, inner_two = self.moments.at(np.maximum(width - top, 0.0))
        mean = one - inner_one
        square = two - inner_two - 2.0 * top * inner_one
        cross = two - inner_two - top * inner_one
        return slope * mean, slope * slope * square, slope * ((self.lowest + width) * mean - cross)
