r"""Virtual costs :math:`c + F(c) / f(c)` of the distributions that are known here, where they are regular.

Known are uniform, piecewise linear, normal, log-normal, exponential, gamma and beta costs, cut off at the
ends of the support. Where virtual costs do not rise with costs, dpmarket irons them; that is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

_Function = Callable[[float], Any]
_LEAST_SHAPE, _LARGEST_SHAPE = 1e-2, 1e3


class VirtualCosts:
    """Virtual costs of a distribution, for arrays of costs.

    Attributes
    ----------
    low, high
        The ends of the support.
    is_affine
        Whether virtual costs are the straight line ``2 c - low``.
    """

    def __init__(
        self, low: float, high: float, values: Callable[[Any], Any], *, is_affine: bool = False
    ) -> None:
        self.low, self.high, self.is_affine, self._values = low, high, is_affine, values

    def __call__(self, costs: Any) -> Any:
        """Return virtual costs; below the support those of its lower end, above it infinity."""
        costs = np.asarray(costs, dtype=np.float64)
        inside = np.clip(costs, self.low, self.high)
        return np.where(costs <= self.high, self._values(inside), np.inf)

    def inverse(self, level: float) -> float:
        """Return the largest cost whose virtual cost is at most ``level``; the lower end if none is."""
        if float(self(self.high)) <= level:
            return self.high
        left, right = self.low, self.high
        while left < 0.5 * (left + right) < right:
            middle = 0.5 * (left + right)
            left, right = (middle, right) if float(self(middle)) <= level else (left, middle)
        return left


def virtual_costs(data: Mapping[str, Any]) -> VirtualCosts | None:
    """Return the virtual costs of a distribution, as plain data; None if they are not known here."""
    kind = data["kind"]
    if kind == "uniform":
        found = _uniform(float(data["low"]), float(data["high"]))
    elif kind == "piecewise linear":
        found = _piecewise_linear(data)
    elif kind == "scipy" and data["name"] in _FAMILIES and data["high"] is not None and _is_usual(data):
        found = _family(data)
    else:
        return None
    if not 0.0 <= found.low < found.high < math.inf:
        return None
    values = found(np.linspace(found.low, found.high, 2001))
    with np.errstate(invalid="ignore"):
        rises = np.diff(values) > -1e-12
    return found if bool((rises | np.isinf(values[1:])).all()) else None


def _uniform(low: float, high: float) -> VirtualCosts:
    return VirtualCosts(low, high, lambda c: 2.0 * c - low, is_affine=True)


def _piecewise_linear(data: Mapping[str, Any]) -> VirtualCosts:
    knots, heights = (np.array(data[name], dtype=np.float64) for name in ("knots", "heights"))
    pieces = np.diff(knots) * 0.5 * (heights[1:] + heights[:-1])
    before = np.concatenate([[0.0], np.cumsum(pieces)])

    def values(costs: Any) -> Any:
        k = np.clip(np.searchsorted(knots, costs, side="right") - 1, 0, knots.size - 2)
        step = costs - knots[k]
        rise = (heights[k + 1] - heights[k]) / (knots[k + 1] - knots[k])
        density = heights[k] + rise * step
        share = before[k] + step * (heights[k] + 0.5 * rise * step)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(density > 0.0, costs + share / density, np.inf)

    return VirtualCosts(float(knots[0]), float(knots[-1]), values)


def _is_usual(data: Mapping[str, Any]) -> bool:
    """Whether parameters are such as honest costs have; with others, series take minutes or end."""
    shapes = {name: value for name, value in data["parameters"].items() if name not in ("loc", "scale")}
    numbers = [data["low"], data["high"], *data["parameters"].values()]
    return (
        all(type(number) in (int, float) for number in numbers)
        and all(_LEAST_SHAPE <= shape <= _LARGEST_SHAPE for shape in shapes.values())
        and data["parameters"]["scale"] > 0.0
    )


def _family(data: Mapping[str, Any]) -> VirtualCosts:
    parameters = dict(data["parameters"])
    loc, scale = parameters.pop("loc"), parameters.pop("scale")
    cdf, pdf = _FAMILIES[data["name"]](**parameters)
    below = cdf((data["low"] - loc) / scale)

    def one(cost: float) -> float:
        x = (cost - loc) / scale
        try:
            density = pdf(x) / scale
            return float(cost + (cdf(x) - below) / density) if density > 0 else math.inf
        except mpmath.NoConvergence:
            raise ArithmeticError("a probability was not found") from None

    def values(costs: Any) -> Any:
        return np.array([one(cost) for cost in np.ravel(costs).tolist()]).reshape(np.shape(costs))

    return VirtualCosts(data["low"], data["high"], values)


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _normal_pdf(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _normal() -> tuple[_Function, _Function]:
    return _normal_cdf, _normal_pdf


def _lognormal(s: float) -> tuple[_Function, _Function]:
    return (
        lambda x: _normal_cdf(math.log(x) / s) if x > 0.0 else 0.0,
        lambda x: _normal_pdf(math.log(x) / s) / (s * x) if x > 0.0 else 0.0,
    )


def _exponential() -> tuple[_Function, _Function]:
    return lambda x: -math.expm1(-x), lambda x: math.exp(-x)


def _gamma(a: float) -> tuple[_Function, _Function]:
    return (
        lambda x: mpmath.gammainc(a, 0, x, regularized=True),
        lambda x: mpmath.exp(-x) * mpmath.mpf(x) ** (a - 1) / mpmath.gamma(a),
    )


def _beta(a: float, b: float) -> tuple[_Function, _Function]:
    return (
        lambda x: mpmath.betainc(a, b, 0, x, regularized=True),
        lambda x: mpmath.mpf(x) ** (a - 1) * (1 - mpmath.mpf(x)) ** (b - 1) / mpmath.beta(a, b),
    )


_FAMILIES: dict[str, Callable[..., tuple[_Function, _Function]]] = {
    "norm": _normal, "lognorm": _lognormal, "expon": _exponential, "gamma": _gamma, "beta": _beta,
}  # fmt: skip
