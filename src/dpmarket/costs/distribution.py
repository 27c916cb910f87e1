"""Cost distributions: scipy's frozen ones, the uniform and mixtures, each with a support.

A :class:`CostDistribution` is a *law* cut to an interval of costs. A law is anything with ``pdf``, ``cdf``,
``ppf`` and ``support()``: a frozen ``scipy.stats`` distribution, or one of the two laws here. Mechanisms
read a distribution once, to make the public table of virtual costs
(:class:`~dpmarket.costs.virtual_cost.VirtualCost`); plans also read its quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput

Costs = TypeVar("Costs", float, FloatArray)
"""A scalar or an array; a function of one returns the same kind."""
_LEAST_SHARE = 1e-6  # of a law's probability within its support: with less, rounding spoils the cdf
_BISECTIONS = 60


def pointwise(
    name: str, check: Callable[[str, object], FloatArray]
) -> Callable[[Callable[[Any, FloatArray], FloatArray]], Callable[[Any, Costs], Costs]]:
    """Let a method of vectors take a scalar, or an array of any shape, that passes a check."""

    def decorated(method: Callable[[Any, FloatArray], FloatArray]) -> Any:
        @wraps(method)
        def checked(self: Any, values: object) -> Any:
            array = check(name, values)
            found = np.asarray(method(self, array.reshape(-1)))
            return float(found[0]) if array.ndim == 0 else found.reshape(array.shape)

        return checked

    return decorated


@dataclass(frozen=True, eq=False, repr=False)
class CostDistribution:
    """How privacy costs (money per unit of epsilon) are distributed: common knowledge, F_C in the paper.

    Parameters
    ----------
    law
        A frozen continuous ``scipy.stats`` distribution with scalar parameters, or any hashable object with
        vectorised ``pdf``, ``cdf``, ``ppf`` and ``support()``.
    low, high
        Where the law is cut, at least 0; None: the end of its own support. The highest may be infinite.

    Examples
    --------
    >>> from scipy import stats
    >>> dist = CostDistribution(stats.lognorm(s=0.5, scale=2.0), high=20)
    >>> dist.support, round(dist.quantile(0.5), 3)
    ((0.0, 20.0), 2.0)
    """

    law: Any
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not all(callable(getattr(self.law, name, None)) for name in ("pdf", "cdf", "ppf", "support")):
            raise InvalidInput(f"expected a frozen scipy.stats distribution, got {type(self.law).__name__}.")
        ends = [np.asarray(end, dtype=np.float64) for end in self.law.support()]
        if any(end.ndim for end in ends) or not ends[0] < ends[1]:
            raise InvalidInput("expected a distribution with valid scalar parameters.")
        low = float(ends[0]) if self.low is None else max(checks.finite("low", self.low), float(ends[0]))
        high = float(ends[1]) if self.high is None else min(checks.real("high", self.high), float(ends[1]))
        if low < 0.0:
            raise InvalidInput(f"expected costs of at least 0, got {low!r}: cut the distribution by low=0.")
        if not low < high:
            raise InvalidInput(f"expected low < high within the distribution's own support, got {low!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if not self._share >= _LEAST_SHARE:
            raise InvalidInput(f"expected at least {_LEAST_SHARE} of the probability from {low} to {high}.")

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest possible cost; the highest may be infinite."""
        return self.low, self.high  # type: ignore[return-value]

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Finite costs at which the density jumps."""
        own = getattr(self.law, "breakpoints", ())
        return tuple(sorted({c for c in (*own, *self.support) if math.isfinite(c)}))

    @cached_property
    def _below(self) -> float:
        return float(self.law.cdf(self.support[0]))

    @cached_property
    def _share(self) -> float:
        return float(self.law.cdf(self.support[1])) - self._below

    @pointwise("costs", checks.numbers)
    def pdf(self, costs: FloatArray) -> FloatArray:
        """Return the density, 0 outside the support."""
        low, high = self.support
        inside = (costs >= low) & (costs <= high)
        return np.where(inside, np.asarray(self.law.pdf(costs)) / self._share, 0.0)

    @pointwise("costs", checks.numbers)
    def cdf(self, costs: FloatArray) -> FloatArray:
        """Return the probability of a cost of at most this."""
        mass = np.asarray(self.law.cdf(np.clip(costs, *self.support))) - self._below
        return np.clip(mass / self._share, 0.0, 1.0)

    @pointwise("probabilities", checks.probabilities)
    def quantile(self, probabilities: FloatArray) -> FloatArray:
        """Return the lowest cost whose cdf is at least this."""
        low, high = self.support
        below = np.minimum(self._below + probabilities * self._share, 1.0)
        costs = np.clip(self.law.ppf(below), low, high)
        return np.where(probabilities == 0.0, low, np.where(probabilities == 1.0, high, costs))

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw independent costs."""
        return np.asarray(self.quantile(rng.random(checks.whole("size", size))))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for :func:`~dpmarket.costs.text.distribution_from_dict`."""
        low, high = self.support
        if hasattr(self.law, "to_dict"):
            return dict(self.law.to_dict(low, high))
        family = getattr(self.law, "dist", None)
        if family is None:
            return {"kind": "own", "law": repr(self.law), "low": low, "high": high}
        shapes, loc, scale = family._parse_args(*self.law.args, **self.law.kwds)
        names = [*filter(None, (family.shapes or "").replace(" ", "").split(",")), "loc", "scale"]
        parameters = dict(zip(names, map(float, (*shapes, loc, scale)), strict=True))
        top = high if math.isfinite(high) else None
        return {"kind": "scipy", "name": family.name, "parameters": parameters, "low": low, "high": top}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostDistribution) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.support)

    def __repr__(self) -> str:
        return f"CostDistribution({', '.join(f'{name}={value}' for name, value in self.to_dict().items())})"


@dataclass(frozen=True)
class _UniformLaw:
    """Every cost between two bounds is equally likely."""

    low: float
    high: float

    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def pdf(self, c: FloatArray) -> FloatArray:
        return np.full(np.shape(c), 1.0 / (self.high - self.low))

    def cdf(self, c: FloatArray) -> FloatArray:
        return (np.clip(c, self.low, self.high) - self.low) / (self.high - self.low)

    def ppf(self, u: FloatArray) -> FloatArray:
        return self.low + u * (self.high - self.low)

    def to_dict(self, low: float, high: float) -> dict[str, Any]:
        return {"kind": "uniform", "low": low, "high": high}


@dataclass(frozen=True)
class _MixtureLaw:
    """With probability ``weights[k]`` a cost follows ``distributions[k]``."""

    distributions: tuple[CostDistribution, ...]
    weights: tuple[float, ...]

    @property
    def breakpoints(self) -> tuple[float, ...]:
        return tuple(c for dist in self.distributions for c in dist.breakpoints)

    def support(self) -> tuple[float, float]:
        return min(d.support[0] for d in self.distributions), max(d.support[1] for d in self.distributions)

    def pdf(self, c: FloatArray) -> FloatArray:
        return self._mean([dist.pdf(c) for dist in self.distributions])

    def cdf(self, c: FloatArray) -> FloatArray:
        return self._mean([dist.cdf(c) for dist in self.distributions])

    def ppf(self, u: FloatArray) -> FloatArray:
        # The lowest cost whose cdf is large enough lies between the parts' own.
        each = np.array([np.asarray(dist.quantile(u)) for dist in self.distributions])
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(_BISECTIONS):
            middle = np.where(np.isfinite(high), 0.5 * (low + high), 2.0 * low + 1.0)
            enough = self.cdf(middle) >= u
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(high)

    def to_dict(self, low: float, high: float) -> dict[str, Any]:
        parts = [dist.to_dict() for dist in self.distributions]
        return {"kind": "mixture", "distributions": parts, "weights": list(self.weights)}

    def _mean(self, values: Sequence[object]) -> FloatArray:
        return np.asarray(np.tensordot(self.weights, np.asarray(values, dtype=np.float64), axes=1))


def Uniform(low: float, high: float) -> CostDistribution:
    """Return uniform costs; their virtual cost is 2c - low.

    Parameters
    ----------
    low, high
        The support, 0 <= low < high.

    Returns
    -------
    CostDistribution
        In closed form.

    Examples
    --------
    >>> Uniform(1, 5).quantile(0.25)
    2.0
    """
    low, high = checks.non_negative("low", low), checks.positive("high", high)
    if not low < high or not math.isfinite(1.0 / (high - low)):
        raise InvalidInput(f"expected low < high, got low={low!r}, high={high!r}.")
    return CostDistribution(_UniformLaw(low, high))


def Mixture(distributions: Sequence[CostDistribution], weights: Sequence[float]) -> CostDistribution:
    """Return the costs of a population of groups.

    Parameters
    ----------
    distributions, weights
        One for each group, and the groups' shares, above 0; they add up to 1.

    Returns
    -------
    CostDistribution
        Gaps between supports are fine.

    Examples
    --------
    >>> Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]).cdf(1.5)
    0.5
    """
    parts = tuple(distributions)
    if not parts or not all(isinstance(dist, CostDistribution) for dist in parts):
        raise InvalidInput("expected distributions to be one or more cost distributions.")
    shares = checks.non_negative_vector("weights", weights)
    checks.same_length("distributions", parts, "weights", shares)
    total = math.fsum(shares)
    if not (shares > 0.0).all() or abs(total - 1.0) > 1e-9:
        raise InvalidInput(f"expected weights above 0 that add up to 1, got a sum of {total!r}.")
    return CostDistribution(_MixtureLaw(parts, tuple((shares / total).tolist())))
