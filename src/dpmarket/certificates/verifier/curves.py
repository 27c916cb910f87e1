r"""Recompute what a curve that was fixed beforehand offers: epsilon and payment at a reported cost.

The curve is :math:`\epsilon(c) = slope \cdot \mathrm{clip}(cutoff - \psi(c), 0, most / slope)`, or a step.
Between the cost up to which it is flat and the cost at which it ends it is smooth, where one rule of 20
points on each of 64 pieces gives its integral to the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .costs import VirtualCosts

_PIECES = 64
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


class Curve:
    """A curve as a certificate states it; None stands for infinity there."""

    def __init__(self, data: Mapping[str, Any], psi: VirtualCosts) -> None:
        self.psi = psi
        self.slope, self.cutoff, self.most = (
            math.inf if data[name] is None else float(data[name])
            for name in ("slope", "cutoff", "max_epsilon")
        )
        self.margin = float(data["margin_epsilon"])
        self.largest = float(self.epsilons(np.array([psi.low]))[0])
        self._end = psi.inverse(self.cutoff)
        flat = (
            self.cutoff - self.most / self.slope
            if math.isfinite(self.slope)
            else math.nextafter(self.cutoff, 0.0)
        )
        self._knee = psi.inverse(flat) if float(psi(psi.low)) <= flat else psi.low
        self._edges = np.linspace(self._knee, self._end, _PIECES + 1)
        pieces = self._smooth(self._edges[:-1], self._edges[1:])
        self._after = np.concatenate([np.cumsum(pieces[::-1])[::-1], [0.0]])

    def epsilons(self, costs: Any) -> Any:
        """Return what is offered at each cost."""
        virtual = self.psi(costs)
        if math.isfinite(self.slope):
            return np.clip(self.slope * (self.cutoff - virtual), 0.0, self.most)
        return np.where(virtual < self.cutoff, self.most, np.where(virtual == self.cutoff, self.margin, 0.0))

    def payments(self, costs: Any) -> Any:
        """Return cost times epsilon and the integral of epsilon from the cost upwards."""
        own = np.maximum(costs, self.psi.low)
        inner = np.clip(own, self._knee, self._end)
        k = np.clip(np.searchsorted(self._edges, inner, side="right"), 1, _PIECES)
        rent = self._smooth(inner, self._edges[k]) + self._after[k]
        if math.isfinite(self.most):
            rent = rent + self.most * np.maximum(self._knee - own, 0.0)
        return own * self.epsilons(costs) + rent

    def _smooth(self, left: Any, right: Any) -> Any:
        """Integrate the smooth part between pairs of costs."""
        half = 0.5 * (right - left)
        z = (left + half)[:, None] + half[:, None] * _NODES
        return half * (self.epsilons(z) @ _WEIGHTS)
