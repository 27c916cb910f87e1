r"""What a weight costs in privacy, for every family of releases: the same five questions of each.

``norm``: objective perturbation with noise of a norm. With weight a, noise rate eta, penalty Lambda, reach S
of the loss and row bounds R1, R2 put :math:`\alpha = a \eta S R_1 / 2`, :math:`c = a R_2^2 / \Lambda`; then

.. math:: \epsilon = \alpha + \max_{0 \le t \le 1} f(t), \quad
          f(t) = \alpha t + \sum_k m_k \log(1 + c\, (p_k (1 - t) + q_k t + v_k t (1 - t))),

with log-determinant terms (m, p, q, v) of the loss (:mod:`.constants` derives them). f is concave, so that
for any t whatsoever its maximum is at most :math:`f(t) + \max(f'(t)(1 - t), -f'(t) t)`: t may be rounded
freely. Of several bounds on the determinant the smallest is charged.

``descent``: T steps of whole weights A with Gaussian noise of deviation s have
:math:`\mu = 2 A \cdot 2^{16} \sqrt T / s`. ``statistics``: a weight *is* the epsilon that it spends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from .constants import CELLS, norm_problems
from .gaussian import about_delta, keeps_delta
from .layout import is_whole, is_whole_text
from .model import model_problems
from .rounding import log1p_up, sqrt_up
from .statistics import spent_on_all, statistics_problems, unit_of

_FLOATS_AGREE = 1e-12
_DELTAS_AGREE = 1e-6
_PLACES = 256
_LARGEST_TOTAL = 2**36
"""Whole weights of a descent add up to at most this, so that its sums are exact."""
_RANGES = {
    "grid": (2.0**-300, 2.0**100),
    "gradient_bound": (1e-100, 1.0),
    "noise_accuracy": (1e-100, 1.0),
    "noise_rate": (1e-9, 1e12),
    "numerical_epsilon": (1e-100, 10.0),
    "weight_total": (1e-9, 1.001),
}
_Term = tuple[Any, Any, Any, Any]


class NormRelease:
    """Objective perturbation with noise of a norm."""

    delta = 0.0

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found, self.terms = found, found["terms"]
        self.constants = found["terms"]["constants"]
        self._cost: Fraction | None = None

    def problems(self) -> list[str]:
        """Return the names of constants that are out of range or do not follow from the description."""
        wrong = [
            name for name, (low, high) in _RANGES.items() if not low <= self.found[name] <= high
        ] + norm_problems(self.terms)
        if math.frexp(self.found["grid"])[0] != 0.5:
            wrong.append("grid")
        if wrong:
            return wrong
        shape = (int(self.constants["outputs"]), int(self.constants["coefficients"]))
        return [
            *([] if _are_cells(self.found["cells"], shape) else ["cells"]),
            *model_problems(self.found["model"], self.terms["loss"], self.terms["norm"]),
        ]

    def cost(self) -> tuple[Fraction | None, float]:
        """Return what releasing on the grid costs, rounded up (None: too fine), and what was charged."""
        if self._cost is None:
            self._cost = _grid_cost(self.found)
        return self._cost, self.found["numerical_epsilon"]

    def covers(self, weight: float, used: float) -> bool:
        """Whether an epsilon covers a weight and the grid, by exact comparison."""
        if weight == 0.0:
            return True
        cost = self.cost()[0]
        return cost is not None and bool(self._charge_up(Fraction(weight)) + cost <= Fraction(used))

    def clearly_short(self, weight: float, used: float) -> bool:
        """Whether an epsilon is too small already in floats, which agree to twelve digits."""
        if weight == 0.0:
            return False
        cost = self.cost()[0]
        needed = math.inf if cost is None else self._charge(weight) + float(cost)
        return not used >= needed * (1.0 - _FLOATS_AGREE)

    def adds_up(self, weights: Sequence[float]) -> bool:
        """Whether all weights together are at most what is stated."""
        return bool(math.fsum(weights) <= self.found["weight_total"])

    def _scales(self, weight: Any, number: type) -> tuple[Any, Any]:
        reach, bound, long = (number(self.constants[key]) for key in ("reach", "row_bound", "row_bound_2"))
        alpha = weight * number(self.found["noise_rate"]) * reach * bound / 2
        return alpha, weight * long * long / number(self.terms["l2"])

    def _charge(self, weight: float) -> float:
        alpha, c = self._scales(weight, float)
        found: list[float] = []
        for terms in self.constants["bounds"]:
            t = _maximiser(alpha, c, terms)
            found.append(alpha * (1.0 + t) + sum(term[0] * math.log1p(c * _g(t, term)) for term in terms))
        return min(found)

    def _charge_up(self, weight: Fraction) -> Fraction:
        alpha, c = self._scales(weight, Fraction)
        found: list[Fraction] = []
        for stated in self.constants["bounds"]:
            terms: list[Any] = [tuple(map(Fraction, term)) for term in stated]
            t = Fraction(_maximiser(float(alpha), float(c), stated))
            slope = _slope(alpha, c, t, terms)
            if 0 < t < 1:  # one step of Newton's method on fractions, then rounded
                t = min(max(t - slope / _curvature(c, t, terms), Fraction(0)), Fraction(1))
                t = Fraction(t.numerator * (1 << _PLACES) // t.denominator, 1 << _PLACES)
                slope = _slope(alpha, c, t, terms)
            logs = sum((term[0] * log1p_up(c * _g(t, term)) for term in terms), Fraction(0))
            found.append(alpha * (1 + t) + logs + max(slope * (1 - t), -slope * t))
        return min(found)


class DescentRelease:
    """Noisy descent in whole numbers, with a delta."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found, self.terms, self.delta = found, found["terms"], found["terms"]["delta"]

    def problems(self) -> list[str]:
        """Return the names of constants that are out of range."""
        terms, total = self.terms, self.found["weight_total"]
        rows = self.found["coefficients"]
        tests = {
            "schema": terms["schema"] == "dpmarket.descent/1",
            "delta": 1e-200 <= terms["delta"] < 1.0,
            "steps": is_whole(terms["steps"], 1, 10**6),
            "noise_scale": 1e-6 <= terms["noise_scale"] <= 1e40,
            "cells": terms["cells"] == CELLS,
            "weight_total": is_whole(total, 1, _LARGEST_TOTAL),
            "coefficients": bool(rows) and len({len(row) for row in rows}) == 1,
        }
        wrong = [name for name, good in tests.items() if not good]
        if wrong:
            return wrong
        return model_problems(self.found["model"], self.found["loss"], None, (len(rows), len(rows[0])))

    def cost(self) -> tuple[Fraction | None, float]:
        """Return 0: whole numbers with whole noise, nothing is rounded."""
        return Fraction(0), 0.0

    def covers(self, weight: float, used: float) -> bool:
        """Whether an epsilon has at most the stated delta at a weight's mu, by exact comparison."""
        if not is_whole(weight, 0, _LARGEST_TOTAL):
            return False
        return weight == 0.0 or keeps_delta(Fraction(used), self._mu(weight), Fraction(self.delta))

    def clearly_short(self, weight: float, used: float) -> bool:
        """Whether an epsilon is too small already in floats, whose deltas agree to six digits."""
        if weight == 0.0:
            return False
        mu = float(self._mu(weight))
        return not about_delta(used, mu) <= self.delta * (1.0 + _DELTAS_AGREE)

    def adds_up(self, weights: Sequence[float]) -> bool:
        """Whether all weights are whole, and exactly what is stated."""
        return all(map(float.is_integer, weights)) and sum(map(int, weights)) == self.found["weight_total"]

    def _mu(self, weight: float) -> Fraction:
        steps = sqrt_up(Fraction(self.terms["steps"]))
        return 2 * Fraction(weight) * CELLS * steps / Fraction(self.terms["noise_scale"])


class StatisticsRelease:
    """Means, shares, histograms, quantiles and mean vectors with whole weights and whole noise."""

    delta = 0.0

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.found = found

    def problems(self) -> list[str]:
        """Return the names of parts that are out of range or do not fit together."""
        return statistics_problems(self.found)

    def cost(self) -> tuple[Fraction | None, float]:
        """Return 0: whole numbers with whole noise, nothing is rounded."""
        return Fraction(0), 0.0

    def covers(self, weight: float, used: float) -> bool:
        """Whether an epsilon covers a weight that is a whole multiple of the unit."""
        return (Fraction(weight) / unit_of(self.found)).denominator == 1 and weight <= used

    def clearly_short(self, weight: float, used: float) -> bool:
        """Whether an epsilon is below its weight."""
        return not weight <= used

    def adds_up(self, weights: Sequence[float]) -> bool:
        """Whether all weights together are exactly what the statistics used."""
        total = math.fsum(weights)
        exact = Fraction(total) + Fraction(math.fsum([*weights, -total]))
        return exact == spent_on_all(self.found)


FAMILIES: dict[str, Any] = {"norm": NormRelease, "descent": DescentRelease, "statistics": StatisticsRelease}


def _are_cells(rows: list[list[str]], shape: tuple[int, int]) -> bool:
    return len(rows) == shape[0] and all(
        len(row) == shape[1] and all(is_whole_text(cell, 20) and abs(int(cell)) <= 2**63 for cell in row)
        for row in rows
    )


def _g(t: Any, term: Sequence[Any]) -> Any:
    _, start, end, bend = term
    return start * (1 - t) + end * t + bend * t * (1 - t)


def _slope(alpha: Any, c: Any, t: Any, terms: Sequence[Sequence[Any]]) -> Any:
    return alpha + sum(
        term[0] * c * (term[2] - term[1] + term[3] * (1 - 2 * t)) / (1 + c * _g(t, term)) for term in terms
    )


def _curvature(c: Any, t: Any, terms: Sequence[Sequence[Any]]) -> Any:
    total = 0
    for term in terms:
        inner = 1 + c * _g(t, term)
        rise = c * (term[2] - term[1] + term[3] * (1 - 2 * t)) / inner
        total -= term[0] * (rise * rise + 2 * c * term[3] / inner)
    return total


def _maximiser(alpha: float, c: float, terms: Sequence[Sequence[Any]]) -> float:
    """Return about where f is largest: by halving, in floats."""
    if _slope(alpha, c, 1.0, terms) >= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _slope(alpha, c, middle, terms) > 0.0 else (low, middle)
    return low


def _grid_cost(found: Mapping[str, Any]) -> Fraction | None:
    """Return what boxes of the grid cost: 2 K n artanh(share) + share * grid * slope of the log density."""
    terms, constants = found["terms"], found["terms"]["constants"]
    g, l2, total, eta = (
        Fraction(x) for x in (found["grid"], terms["l2"], found["weight_total"], found["noise_rate"])
    )
    k, n, rank, bound, long = (
        Fraction(constants[x]) for x in ("outputs", "coefficients", "rank", "row_bound", "row_bound_2")
    )
    share = 2 * (Fraction(found["gradient_bound"]) + Fraction(found["noise_accuracy"])) / (l2 * g)
    if not share < 1:
        return None
    curvature, ones, sums, third, relative = (
        Fraction(constants[x]) for x in ("curvature_1", "ones", "largest_sum", "third", "relative_third")
    )
    noise = k * l2 * ones + total * curvature * bound * sums
    bent = min(relative * n * rank * long, third * total * long**3 / l2)
    slope = eta / 2 * noise + sqrt_up(n) * bent
    return k * n * log1p_up(2 * share / (1 - share)) + share * g * slope
