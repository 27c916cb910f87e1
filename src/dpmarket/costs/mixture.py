"""Costs of a population that has groups: a weighted mixture of cost distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.ironed import IronedDistribution
from dpmarket.errors import InvalidInput


@dataclass(frozen=True)
class Mixture(IronedDistribution):
    """A person belongs to group k with probability ``weights[k]`` and has a cost from its distribution.

    Parameters
    ----------
    distributions
        The groups' cost distributions, at least one. Gaps between their supports are fine: psi is ironed
        across them.
    weights
        Positive, summing to 1 within 1e-9 (then made to sum to 1).

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]).cdf(1.5)
    0.5
    """

    distributions: Sequence[CostDistribution]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        distributions = tuple(self.distributions)
        if not distributions or not all(isinstance(d, CostDistribution) for d in distributions):
            raise InvalidInput("expected distributions to be one or more cost distributions.")
        weights = checks.non_negative_vector("weights", self.weights)
        checks.same_length("distributions", distributions, "weights", weights)
        total = math.fsum(weights)
        if not (weights > 0.0).all() or abs(total - 1.0) > 1e-9:
            raise InvalidInput(
                f"expected weights to be positive and to sum to 1, got a sum of {total!r} "
                f"and a smallest weight of {float(weights.min())!r}."
            )
        object.__setattr__(self, "distributions", distributions)
        object.__setattr__(self, "weights", tuple((weights / total).tolist()))

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest possible cost over all groups."""
        ends = [d.support for d in self.distributions]
        return (min(low for low, _ in ends), max(high for _, high in ends))

    @cached_property
    def breakpoints(self) -> tuple[float, ...]:
        """The groups' breakpoints."""
        return tuple(sorted({point for d in self.distributions for point in d.breakpoints}))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``size`` independent costs: a group first, then a cost from it."""
        groups = rng.choice(len(self.weights), checks.whole("size", size), p=self.weights)
        costs = np.empty(size)
        for k, distribution in enumerate(self.distributions):
            members = groups == k
            costs[members] = distribution.sample(int(members.sum()), rng)
        return costs

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for :func:`distribution_from_dict`."""
        return {
            "kind": "mixture",
            "weights": list(self.weights),
            "distributions": [d.to_dict() for d in self.distributions],
        }

    def _pdf(self, c: FloatArray) -> FloatArray:
        """Density; at an end of a group's support that of the side below it.

        Where one group's support ends and another's begins, the plain sum would count both at that one
        cost, and its virtual cost would dip: whoever reported just that would be preferred.
        """
        ends = np.array(self.breakpoints[1:])
        nearest = np.minimum(np.searchsorted(ends, c), ends.size - 1)
        c = np.where(c == ends[nearest], np.nextafter(c, 0.0), c)
        parts = zip(self.weights, self.distributions, strict=True)
        return np.asarray(sum(w * d.pdf(c) for w, d in parts))

    def _cdf(self, c: FloatArray) -> FloatArray:
        parts = zip(self.weights, self.distributions, strict=True)
        return np.asarray(np.minimum(sum(w * d.cdf(c) for w, d in parts), 1.0))

    def _quantile(self, u: FloatArray) -> FloatArray:
        ends = np.stack([d.quantile(u) for d in self.distributions])
        low, high = ends.min(axis=0), ends.max(axis=0)
        root = high.copy()
        # Between the groups' own quantiles the mixture's lies; equal ones need no search.
        search = (low < high) & np.isfinite(high)
        if search.any():
            bracket = (low[search], high[search])

            def excess(c: Any, probability: Any) -> Any:
                return self._cdf(c) - probability

            from scipy.optimize.elementwise import find_root  # slow to load

            found = find_root(excess, bracket, args=(u[search],))
            missed = ~found.success
            root[search] = found.x
            # Rounding can put both ends on one side: then the root is that end.
            root[np.flatnonzero(search)[missed]] = np.where(
                self._cdf(bracket[0][missed]) >= u[search][missed],
                bracket[0][missed],
                bracket[1][missed],
            )
        # In a gap the cdf is flat: the smallest cost with this probability is the gap's lower edge.
        for edge, probability in zip(
            reversed(self.breakpoints), self._cdf(np.array(self.breakpoints))[::-1], strict=True
        ):
            root = np.where((u <= probability) & (root > edge), edge, root)
        return np.asarray(root)

    @cached_property
    def _length(self) -> float:
        quartiles = [d.quantile(np.array([0.25, 0.75])) for d in self.distributions]
        return 0.5 * min(float(third - first) for first, third in quartiles)
