"""Costs that follow any continuous distribution of scipy.stats, cut to an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.ironed import IronedDistribution
from dpmarket.errors import InvalidInput

# Below this share of the original distribution, rounding in its cdf spoils the truncated one.
_SMALLEST_SHARE = 1e-9
# Densities below this have lost digits; their ratios are taken from logarithms.
_TINY = 1e-290
_SMALLEST_COST = 1e-300


@dataclass(frozen=True, eq=False)
class FromScipy(IronedDistribution):
    """A frozen continuous ``scipy.stats`` distribution, truncated to [low, high].

    Parameters
    ----------
    frozen
        For example ``scipy.stats.lognorm(s=0.5, scale=2.0)``; scalar parameters.
    low, high
        Where to cut, in money per unit of epsilon; ``low`` at least 0, ``high`` may be infinite. None means
        the end of the distribution's own support. The support is the part of [low, high] that the
        distribution reaches, which must hold at least 1e-9 of its probability.

    Examples
    --------
    >>> from scipy import stats
    >>> FromScipy(stats.expon(), 0, 10).support
    (0.0, 10.0)
    """

    frozen: Any
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        from scipy import stats  # slow to load, and Uniform needs none of it

        if not isinstance(getattr(self.frozen, "dist", None), stats.rv_continuous):
            raise InvalidInput(
                "expected frozen to be a frozen continuous scipy.stats distribution such as "
                f"scipy.stats.lognorm(s=0.5), got {type(self.frozen).__name__}."
            )
        shapes = (*self.frozen.args, *self.frozen.kwds.values())
        if any(np.ndim(value) for value in shapes):
            raise InvalidInput("expected frozen to have scalar parameters, got arrays.")
        own_low, own_high = (float(end) for end in self.frozen.support())
        if not own_low < own_high:
            raise InvalidInput("expected frozen to have valid parameters, scipy finds none valid.")
        low = own_low if self.low is None else checks.finite("low", self.low)
        high = own_high if self.high is None else checks.real("high", self.high)
        if low < 0.0:
            raise InvalidInput(
                f"expected costs to be at least 0, got a support from {low!r}; pass low=0 to cut it."
            )
        low, high = max(low, own_low), min(high, own_high)
        if not low < high:
            raise InvalidInput(
                f"expected low < high within the distribution's own support "
                f"[{own_low!r}, {own_high!r}], got low={self.low!r}, high={self.high!r}."
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if not self._share >= _SMALLEST_SHARE:
            raise InvalidInput(
                f"expected [{low!r}, {high!r}] to hold at least {_SMALLEST_SHARE} of the "
                f"distribution's probability, got {self._share:.3g}; choose one that lives there."
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FromScipy):
            return NotImplemented
        from scipy import stats

        family = type(self.frozen.dist)
        if type(getattr(stats, self.frozen.dist.name, None)) is not family:
            return self.frozen is other.frozen and self.support == other.support
        return family is type(other.frozen.dist) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.frozen.dist.name, *self.support))

    @cached_property
    def support(self) -> tuple[float, float]:
        """Lowest and highest possible cost; the highest may be infinite."""
        assert self.low is not None
        assert self.high is not None
        return (self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for :func:`distribution_from_dict`."""
        shapes, loc, scale = self.frozen.dist._parse_args(*self.frozen.args, **self.frozen.kwds)
        names = [name for name in (self.frozen.dist.shapes or "").replace(" ", "").split(",") if name]
        parameters = dict(zip(names, map(float, shapes), strict=True))
        low, high = self.support
        return {
            "kind": "scipy",
            "name": self.frozen.dist.name,
            "parameters": {**parameters, "loc": float(loc), "scale": float(scale)},
            "low": low,
            "high": high if math.isfinite(high) else None,
        }

    @cached_property
    def _upper_half(self) -> bool:
        """Whether the support starts above the median, where 1 - cdf has the digits."""
        return bool(self.frozen.cdf(self.support[0]) > 0.5)

    @cached_property
    def _base(self) -> float:
        low = self.support[0]
        return float(self.frozen.sf(low) if self._upper_half else self.frozen.cdf(low))

    @cached_property
    def _share(self) -> float:
        return float(self._mass(np.array([self.support[1]]))[0])

    def _mass(self, c: FloatArray) -> FloatArray:
        """Probability, before truncation, between the lower end and c."""
        if self._upper_half:
            return np.asarray(self._base - self.frozen.sf(c))
        mass = np.asarray(self.frozen.cdf(c))
        return mass if self._base == 0.0 else mass - self._base

    def _cdf(self, c: FloatArray) -> FloatArray:
        low, high = self.support
        return np.clip(self._mass(np.clip(c, low, high)) / self._share, 0.0, 1.0)

    def _pdf(self, c: FloatArray) -> FloatArray:
        low, high = self.support
        density = np.asarray(self.frozen.pdf(_evaluable(c))) / self._share
        return np.where((c >= low) & (c <= high), density, 0.0)

    def _quantile(self, u: FloatArray) -> FloatArray:
        if self._upper_half:
            costs = self.frozen.isf(np.maximum(self._base - u * self._share, 0.0))
        else:
            costs = self.frozen.ppf(np.minimum(self._base + u * self._share, 1.0))
        low, high = self.support
        return np.where(u == 0.0, low, np.where(u == 1.0, high, np.clip(costs, low, high)))

    def _raw(self, c: FloatArray) -> FloatArray:
        low = self.support[0]
        c = _evaluable(c)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            density = np.asarray(self.frozen.pdf(c))
            psi = self._mass(c)
            psi /= density
            # Where the density is (nearly) 0 the quotient of logarithms has the digits.
            tiny = density < _TINY
            if tiny.any():
                psi[tiny] = np.nan_to_num(self._tiny_ratio(c[tiny]), nan=0.0, posinf=np.inf)
            psi += c
        if not float(c.min(initial=np.inf)) > low:
            psi[c <= low] = low
        return psi

    def _tiny_ratio(self, c: FloatArray) -> FloatArray:
        log_density = self.frozen.logpdf(c)
        if self._base == 0.0 and not self._upper_half:
            return np.asarray(np.exp(self.frozen.logcdf(c) - log_density))
        return np.asarray(self._mass(c) * np.exp(-log_density))


def _evaluable(c: FloatArray) -> FloatArray:
    """Move costs between 0 and 1e-300 to 1e-300: some of scipy's densities overflow with an error there."""
    if float(c.min(initial=1.0)) > _SMALLEST_COST:
        return c
    return np.where((c > 0.0) & (c < _SMALLEST_COST), _SMALLEST_COST, c)
