r"""What a share of the total costs its seller: epsilon, and the cost function of epsilon, as public tables.

A seller with weight :math:`a_i` holds the share :math:`q_i = a_i \eta` of the total. Two convex tables with
common knots say what that means:

- :math:`\epsilon = e(q)`, the guarantee that is certified: the identity, or with a delta chords of the
  Gaussian mechanism's epsilon of its parameter mu, which is then the share.
- :math:`H(q) = h(e(q))`, chords of the seller's loss per unit of reported cost. The paper has h(epsilon) =
  epsilon; h(epsilon) = epsilon^2 is the price of zero-concentrated privacy.

What a report means depends on h, so the *shape* belongs to the announced rules. With chords of a curved h
truth is exact for the announced table, and off by at most c times :attr:`EpsilonCost.chord_error` for h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput

Shape = Literal["linear", "quadratic"]
_POWERS: dict[str, float] = {"linear": 1.0, "quadratic": 2.0}
_LEAST_KNOT = 1e-3  # of the largest epsilon
_GROWTH = 1.15  # of knots that are not yet limited by the tolerance
_TOLERANCE = 1e-3  # of the quadratic cost function, in its own units, where the caller names none
_MOST_CHORDS = 400  # of a curved cost function: a tolerance that needs more is not met, and stated


@dataclass(frozen=True, eq=False)
class EpsilonCost:
    """Epsilon and cost of a share of the total: convex, piecewise linear, 0 at 0.

    Parameters
    ----------
    shares
        Knots q, rising strictly from 0; the last is the largest share that may be bought, and may be infinite
        if it is the only one.
    epsilons, costs
        The guarantee and H at each knot, from 0.
    shape
        The cost function h: ``linear`` or ``quadratic``.

    Examples
    --------
    >>> EpsilonCost.identity(max_epsilon=2.0)
    EpsilonCost(linear, 1 chord, largest epsilon 2)
    >>> table = EpsilonCost.identity(max_epsilon=2.0, shape="quadratic")
    >>> float(table.cost(table.shares[5])) == float(table.shares[5]) ** 2
    True
    """

    shares: FloatArray
    epsilons: FloatArray
    costs: FloatArray
    shape: Shape = "linear"

    def __post_init__(self) -> None:
        if self.shape not in _POWERS:
            raise InvalidInput(f"expected the shape linear or quadratic, got {self.shape!r}.")
        for name in ("shares", "epsilons", "costs"):
            table = checks.vector(name, getattr(self, name)).copy()
            if table.size < 2 or table[0] != 0.0 or not (np.diff(table) > 0.0).all():
                raise InvalidInput(f"expected {name} to rise strictly from 0.")
            checks.same_length(name, table, "shares", self.shares)
            object.__setattr__(self, name, read_only(table))
        for name, slopes in (("epsilons", self._slopes(self.epsilons)), ("costs", self.slopes)):
            if not (np.diff(slopes) >= -1e-9 * slopes[1:]).all():
                raise InvalidInput(f"expected {name} to be a convex function of the shares.")
        if not np.isfinite(self.shares[:-1]).all() or (math.isinf(self.max_share) and self.shares.size > 2):
            raise InvalidInput("expected finite shares: only a single chord may go on for ever.")

    @classmethod
    def identity(
        cls, max_epsilon: float | None = None, shape: Shape = "linear", tolerance: float = _TOLERANCE
    ) -> EpsilonCost:
        """Return the tables of pure epsilon: a share of the total is the seller's epsilon.

        Nobody sells more than ``max_epsilon``; None, for linear costs only: there is no bound. ``tolerance``:
        the :attr:`chord_error` to be met, such as a minor unit over the largest cost, by 400 chords at most.
        """
        if max_epsilon is None and shape != "linear":
            raise InvalidInput("expected max_epsilon where costs are not linear: their table must end.")
        most = math.inf if max_epsilon is None else checks.positive("max_epsilon", max_epsilon)
        knots = np.array([0.0, most]) if shape == "linear" else _epsilon_knots(most, shape, tolerance)
        return cls(knots, knots, knots ** _POWERS.get(shape, 1.0), shape)

    @classmethod
    def of_delta(
        cls, delta: float, max_epsilon: float, shape: Shape = "linear", tolerance: float = _TOLERANCE
    ) -> EpsilonCost:
        """Return the tables of the Gaussian mechanism at a public delta: a share is its parameter mu.

        Chords lie above the exact epsilon of mu, rounded up; nobody sells more than ``max_epsilon``.
        """
        delta = checks.strictly_between("delta", delta, 0.0, 1.0)
        from dpmarket.privacy.gaussian import gaussian_mus  # takes scipy.special along

        epsilons = _epsilon_knots(checks.positive("max_epsilon", max_epsilon), shape, tolerance)
        shares = np.concatenate(([0.0], gaussian_mus(epsilons[1:], delta)))
        epsilons = _convex(shares, epsilons)
        # Raised knots must not promise more: the table ends where epsilon is the largest.
        end = float(np.interp(max_epsilon, epsilons, shares))
        inside = (epsilons < max_epsilon) & (shares < end)
        shares, epsilons = np.append(shares[inside], end), np.append(epsilons[inside], max_epsilon)
        return cls(shares, epsilons, _convex(shares, epsilons ** _POWERS[shape]), shape)

    @property
    def max_share(self) -> float:
        """The last knot: nobody holds a larger share."""
        return float(self.shares[-1])

    @property
    def max_epsilon(self) -> float:
        """The largest guarantee."""
        return float(self.epsilons[-1])

    @property
    def chord_error(self) -> float:
        """Largest amount by which H lies above h of the certified epsilon, in units of h; times c: money."""
        return 0.0 if self.shape == "linear" else float(np.diff(self.epsilons).max() ** 2) / 4.0

    @property
    def is_identity(self) -> bool:
        """Whether this is the paper's: any epsilon, at a linear cost."""
        return math.isinf(self.max_share)

    @cached_property
    def slopes(self) -> FloatArray:
        """Cost per share on each chord, never falling."""
        return np.asarray(np.maximum.accumulate(self._slopes(self.costs)))

    def _slopes(self, table: FloatArray) -> FloatArray:
        if math.isinf(self.max_share):
            return np.ones(1)
        return np.asarray(np.diff(table) / np.diff(self.shares))

    def epsilon(self, shares: FloatArray) -> FloatArray:
        """Return the guarantee of each share."""
        return shares if self.is_identity else np.interp(shares, self.shares, self.epsilons)

    def cost(self, shares: FloatArray) -> FloatArray:
        """Return H of each share."""
        return shares if self.is_identity else np.interp(shares, self.shares, self.costs)

    def share(self, epsilons: FloatArray) -> FloatArray:
        """Return the share whose guarantee is this: the inverse of :meth:`epsilon`."""
        return epsilons if self.is_identity else np.interp(epsilons, self.epsilons, self.shares)

    def cost_of_epsilon(self, epsilons: FloatArray) -> FloatArray:
        """Return H as a function of the guarantee."""
        return epsilons if self.is_identity else np.interp(epsilons, self.epsilons, self.costs)

    def to_dict(self) -> dict[str, Any]:
        """Return the tables as plain data, for certificates and rules; None: no bound."""
        if self.is_identity:
            return {"shape": self.shape, "shares": None}
        tables = {name: getattr(self, name).tolist() for name in ("shares", "epsilons", "costs")}
        return {"shape": self.shape, **tables}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EpsilonCost:
        """Make the tables whose :meth:`to_dict` gave this data."""
        if data["shares"] is None:
            return cls.identity(shape=data["shape"])
        return cls(data["shares"], data["epsilons"], data["costs"], data["shape"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpsilonCost) and self.to_dict() == other.to_dict()

    def __repr__(self) -> str:
        n = self.shares.size - 1
        return f"EpsilonCost({self.shape}, {n} chord{'s' * (n > 1)}, largest epsilon {self.max_epsilon:.4g})"


def _epsilon_knots(most: float, shape: Shape, tolerance: float) -> FloatArray:
    """Return epsilons from 0 to ``most``: geometric, for a curved cost function no further than it allows."""
    furthest = math.inf
    if shape != "linear":
        furthest = max(2.0 * math.sqrt(checks.positive("tolerance", tolerance)), most / _MOST_CHORDS)
    knots = [0.0, min(_LEAST_KNOT * most, furthest)]
    while knots[-1] < most:
        knots.append(knots[-1] + min((_GROWTH - 1.0) * knots[-1], furthest))
    knots[-1] = most
    return np.array(knots)


def _convex(shares: FloatArray, table: FloatArray) -> FloatArray:
    """Raise, never lower, a table until its slopes do not fall: they are convex up to rounding."""
    slopes = np.maximum.accumulate(np.diff(table) / np.diff(shares))
    return np.asarray(np.maximum(table, np.concatenate(([0.0], np.cumsum(slopes * np.diff(shares))))))
