r"""Turn virtual costs into the best purchase where promises have a delta: convex, on a public grid.

A person whose record moves Gaussian noise by :math:`\mu` standard deviations is promised the epsilon of bound
(G) (:mod:`dpmarket.privacy.gaussian`) at the public delta and ratio :math:`\mu / c`. That is a convex
function of :math:`\mu`; :class:`PromisePrice` replaces it by its chords between public knots,
:math:`e(\mu)`, which lie above it. The buyer minimises, with :math:`\eta = \sum \mu_i`,

.. math:: \frac{A |\mu|^2 + B}{\eta^2} + \gamma \sum_i \psi_i\, e(\mu_i),

A and B the error of one record and of the noise. For a fixed :math:`\eta` this is convex: with
:math:`s = 2 A / \eta^2` everybody's :math:`\mu_i` solves :math:`r \in s \mu_i + \gamma \psi_i\, \partial
e(\mu_i)`, where r is the one number at which they add up to :math:`\eta`. The best point of a public grid of
:math:`\eta` is the minimum over a set that no report changes, so that :math:`e(\mu_i)` never rises with the
own report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.gaussian_crowd import Crowd
from dpmarket.privacy.gaussian import vertex_bounds

_LEAST_SHARE = 1e-3  # of the largest mu: the first knot
_SPAN = 1e4  # of the grid of eta
_CHUNK = 1 << 14  # sellers worked on at a time


@dataclass(frozen=True)
class PromisePrice:
    """What a distance costs in epsilon, as chords between public knots; e(0) = 0.

    Attributes
    ----------
    knots
        Distances mu, rising from 0, shape (knots,). Read-only.
    epsilons
        The promise at each knot; never below that of bound (G). Read-only.
    """

    knots: FloatArray
    epsilons: FloatArray

    @classmethod
    def of(
        cls,
        delta: float,
        ratio: float,
        max_mu: float,
        count: int,
        *,
        n_classes: int = 2,
        rows_per_person: int = 1,
    ) -> PromisePrice:
        """Return the chords of bound (G) at this delta, with ``c = mu / ratio``, up to ``max_mu``.

        With more classes or rows those of their own bound at the knots.
        """
        knots = np.append(0.0, np.geomspace(_LEAST_SHARE * max_mu, max_mu, count))
        bound = vertex_bounds(n_classes, rows_per_person)[0]
        own = bound.epsilon(delta, knots[1:], knots[1:] / ratio)
        slopes = np.diff(np.append(0.0, own)) / np.diff(knots)
        # (G) is convex to rounding; a slope that is lower than the one before is raised: chords stay above,
        # and prices convex, whatever the bound.
        steeper = np.maximum.accumulate(slopes)
        return cls(read_only(knots), read_only(np.append(0.0, np.cumsum(steeper * np.diff(knots)))))

    @cached_property
    def lengths(self) -> FloatArray:
        """How long every chord is in mu."""
        return np.diff(self.knots)

    @cached_property
    def slopes(self) -> FloatArray:
        """Epsilon per unit of mu on every chord, rising."""
        return np.diff(self.epsilons) / self.lengths

    def promise(self, mu: FloatArray) -> FloatArray:
        """Return e(mu), elementwise."""
        return np.asarray(np.interp(mu, self.knots, self.epsilons))


@dataclass(frozen=True)
class GaussianObjective:
    """What a buyer wants whose promises have a delta. All of it is public, and fixed before any report.

    Parameters
    ----------
    sampling : float
        A, the squared error of one single record, > 0; 0.2 R^2 for a logistic regression.
    noise : float
        B, the squared error of the noise at a noise rate of 1, > 0; 4 n R^2 for n coefficients.
    payment_weight : float
        gamma, error per unit of money, > 0.
    delta : float
        The delta of every promise, above 0 and below 1.
    ratio : float
        mu / c, > 0: the penalty with which is trained, times the sum of mu, divided by R^2.
    max_mu : float
        Nobody moves the noise by more, > 0.
    knots, grid : int
        How many knots the promise's price and how many points the grid of noise rates has.
    expected_sellers : int
        How many sellers the grid is made for: it reaches up to all of them at ``max_mu``.
    n_classes, rows_per_person : int
        How many labels there are, and how many rows one person may have: which bound a promise is priced by.
    lowest_rate, highest_rate : float or None
        Where the grid of noise rates ends, > 0; None: everybody at ``max_mu``, and a ten-thousandth of that.

    Examples
    --------
    >>> wanted = GaussianObjective(0.2, 400.0, 1e-3, delta=1e-5, ratio=2.0, expected_sellers=100)
    >>> bought = wanted.best(np.linspace(1.0, 9.0, 100))
    >>> bool(np.all(np.diff(bought.epsilons) <= 0.0)), bool(bought.epsilons[0] > 0.0)
    (True, True)
    """

    sampling: float
    noise: float
    payment_weight: float
    delta: float
    ratio: float
    expected_sellers: int
    max_mu: float = 1.0
    knots: int = 40
    grid: int = 400
    n_classes: int = 2
    rows_per_person: int = 1
    lowest_rate: float | None = None
    highest_rate: float | None = None

    def __post_init__(self) -> None:
        for name in ("sampling", "noise", "payment_weight", "ratio", "max_mu"):
            object.__setattr__(self, name, checks.positive(name, getattr(self, name)))
        checks.strictly_between("delta", self.delta, 0.0, 1.0)
        least = {"knots": 2, "grid": 2, "expected_sellers": 1, "n_classes": 2, "rows_per_person": 1}
        for name, minimum in least.items():
            checks.whole(name, getattr(self, name), minimum=minimum)
        low, high = self._ends
        if not 0.0 < low < high < np.inf:
            raise InvalidInput(f"expected 0 < lowest_rate < highest_rate, got {low!r} and {high!r}.")

    @cached_property
    def price(self) -> PromisePrice:
        """What a distance costs in epsilon."""
        return PromisePrice.of(
            self.delta,
            self.ratio,
            self.max_mu,
            self.knots,
            n_classes=self.n_classes,
            rows_per_person=self.rows_per_person,
        )

    @property
    def ceiling(self) -> float:
        """What nobody can be promised more than, known before any report (epsilon)."""
        return float(self.price.epsilons[-1])

    @cached_property
    def noise_rates(self) -> FloatArray:
        """The public grid of eta."""
        return read_only(np.geomspace(*self._ends, self.grid))

    @property
    def _ends(self) -> tuple[float, float]:
        most = self.expected_sellers * self.max_mu
        high = most if self.highest_rate is None else checks.positive("highest_rate", self.highest_rate)
        low = most / _SPAN if self.lowest_rate is None else checks.positive("lowest_rate", self.lowest_rate)
        return low, high

    def fixed(self, eta: float) -> FixedRate:
        """Return the convex problem at one noise rate."""
        return FixedRate(self, eta, 2.0 * self.sampling / eta**2)

    def best(self, psi: FloatArray) -> GaussianPurchase:
        """Return the best purchase over the grid for these virtual costs; infinite ones buy nothing.

        Raises
        ------
        InvalidInput
            If not even the smallest noise rate can be reached.
        """
        crowd = Crowd.of(psi[np.isfinite(psi)])
        etas = self.noise_rates
        spreads = 2.0 * self.sampling / etas**2
        multipliers = crowd.multipliers(self.price, self.payment_weight, spreads, etas)
        known = np.isfinite(multipliers)
        if not known.any():
            raise InvalidInput("expected enough sellers within the support for the smallest noise rate.")
        least = crowd.supply(self.price, self.payment_weight, spreads[known], multipliers[known])[2]
        values = np.full(self.grid, np.inf)
        values[known] = multipliers[known] * etas[known] + least + self.noise / etas[known] ** 2
        k = int(values.argmin())
        eta, r = float(etas[k]), float(multipliers[k])
        mu = self.fixed(eta).distances(r, psi)
        return GaussianPurchase(mu, self.price.promise(mu), eta, r, float(values[k]), read_only(values))

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GaussianObjective:
        """Make the objective whose ``to_dict()`` gave this data."""
        known = set(cls.__dataclass_fields__)
        later = {"n_classes", "rows_per_person", "lowest_rate", "highest_rate"}  # absent before
        if not isinstance(data, Mapping) or not known - later <= set(data) <= known:
            raise InvalidInput("expected the plain data of a GaussianObjective.")
        return cls(**data)


@dataclass(frozen=True, eq=False)
class GaussianPurchase:
    """What is bought: distances, promises, the noise rate and the multiplier that made them add up.

    Attributes
    ----------
    mu, epsilons
        One per seller.
    noise_rate
        eta, the sum of mu.
    multiplier
        r at this noise rate.
    value
        The objective.
    values
        The objective at every point of the grid.
    """

    mu: FloatArray
    epsilons: FloatArray
    noise_rate: float
    multiplier: float
    value: float
    values: FloatArray


@dataclass(frozen=True)
class FixedRate:
    """The convex problem at one noise rate; ``spread`` is s."""

    objective: GaussianObjective
    eta: float
    spread: float

    def distances(self, r: FloatArray | float, psi: FloatArray) -> FloatArray:
        """Return every mu at the multiplier r: chords are filled one after the other."""
        price = self.objective.price
        gamma = self.objective.payment_weight
        left, own = np.broadcast_arrays(np.asarray(r, dtype=np.float64), psi)
        found = np.empty(own.size)
        for start in range(0, own.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            reached = left.ravel()[part, None] - gamma * own.ravel()[part, None] * price.slopes
            parts = np.clip(reached / self.spread - price.knots[:-1], 0.0, price.lengths)
            found[part] = parts.sum(axis=-1)
        return found.reshape(own.shape)

    def cheapest(self, mu: FloatArray, r: FloatArray | float, psi: FloatArray) -> FloatArray:
        """Return the least of ``s mu^2 / 2 + gamma psi e(mu) - r mu``, which ``mu`` attains."""
        paid = np.where(mu > 0.0, np.where(np.isfinite(psi), psi, 0.0), 0.0) * self.objective.price.promise(
            mu
        )
        return np.asarray(0.5 * self.spread * mu**2 + self.objective.payment_weight * paid - r * mu)

    def dual(self, r: Any, cheapest: Any) -> Any:
        """Return the objective from a multiplier and the sum of everybody's least; below it for any other r.

        The minimum is the largest of these, where slopes vanish: an r that is off by rounding costs nothing.
        """
        return r * self.eta + cheapest + self.objective.noise / self.eta**2


@dataclass(frozen=True, eq=False)
class Supply:
    """What all sellers together supply at a multiplier: a table of every point where it bends.

    Attributes
    ----------
    fixed
        The problem, at one noise rate.
    points
        Multipliers at which somebody begins or ends a chord, rising from 0.
    totals, sums, slopes
        The sum of all mu there, the sum of everybody's least, and how fast mu grows from there on.
    """

    fixed: FixedRate
    points: FloatArray
    totals: FloatArray
    sums: FloatArray
    slopes: FloatArray

    @classmethod
    def of(cls, fixed: FixedRate, psi: FloatArray) -> Supply:
        """Tabulate sellers with these virtual costs, all finite."""
        price, gamma, s = fixed.objective.price, fixed.objective.payment_weight, fixed.spread
        starts = gamma * np.multiply.outer(psi, price.slopes) + s * price.knots[:-1]
        ends = gamma * np.multiply.outer(psi, price.slopes) + s * price.knots[1:]
        points = np.concatenate([[0.0], starts.ravel(), ends.ravel()])
        bends = np.concatenate([[0.0], np.full(starts.size, 1.0 / s), np.full(ends.size, -1.0 / s)])
        order = np.argsort(points, kind="stable")
        points, slopes = points[order], np.cumsum(bends[order])
        slopes = np.maximum(slopes, 0.0)
        steps = np.diff(points, append=points[-1])
        totals = np.append(0.0, np.cumsum((slopes * steps)[:-1]))
        # The sum of everybody's least falls by the total as r grows, and is 0 at r = 0.
        parts = steps * (totals + 0.5 * slopes * steps)
        return cls(fixed, points, totals, -np.append(0.0, np.cumsum(parts[:-1])), slopes)

    def enough(self, psi: FloatArray) -> FloatArray:
        """Return multipliers at which everybody, and one with each virtual cost, is at the last knot."""
        price = self.fixed.objective.price
        own = self.fixed.objective.payment_weight * psi * float(price.slopes[-1])
        last = own + self.fixed.spread * float(price.knots[-1])
        return np.asarray(1.001 * np.maximum(self.points[-1], last))

    def multiplier(self) -> float:
        """Return the r at which all mu add up to eta; NaN if they cannot."""
        k = int(np.searchsorted(self.totals, self.fixed.eta, side="right")) - 1
        if k + 1 < self.totals.size:
            return float(self.points[k] + (self.fixed.eta - self.totals[k]) / self.slopes[k])
        return float(self.points[-1]) if self.totals[-1] >= self.fixed.eta * (1.0 - 1e-12) else math.nan

    def total(self, r: FloatArray) -> FloatArray:
        """Return the sum of all mu at each multiplier."""
        k = np.searchsorted(self.points, r, side="right") - 1
        return np.asarray(self.totals[k] + self.slopes[k] * (r - self.points[k]))

    def cheapest(self, r: FloatArray) -> FloatArray:
        """Return the sum of everybody's least at each multiplier."""
        k = np.searchsorted(self.points, r, side="right") - 1
        step = r - self.points[k]
        return np.asarray(self.sums[k] - step * (self.totals[k] + 0.5 * self.slopes[k] * step))
