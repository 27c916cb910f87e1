r"""Noisy gradient descent in whole numbers: (epsilon, delta) guarantees for any differentiable model.

Each of T steps publishes

.. math:: \sum_i A_i q_i + \mathrm{round}(s Z), \qquad |q_i|_2 \le 2^{16},

with public whole weights :math:`A_i`, each person's clipped gradient :math:`q_i` in whole cells, and
independent standard normals Z. Sums of whole numbers below 2^53 are exact in float64 in any order, and
rounding the noise commutes with adding whole numbers: a step *is* the Gaussian mechanism, post-processed.
Replacing everything about a person moves a sum by at most :math:`2 A_i 2^{16}`, so that T steps, each a
function of earlier ones and of the records, are together (epsilon, delta)-private for person i at every

.. math:: \delta \ge \delta_G(\epsilon; \mu_i), \qquad \mu_i = \frac{2 A_i 2^{16} \sqrt T}{s}

(:mod:`dpmarket.privacy.gaussian`). There is no bound on rows, no determinant, no grid cost and no limit on a
person's number of records, which are averaged before clipping.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.gaussian import gaussian_epsilons, gaussian_mus
from dpmarket.privacy.noise import CHUNK, Bits, half_normal, sign

CELLS = 2**16
"""The largest length of a person's gradient, in cells."""
_TOTAL = 2**36
"""Weights add up to at most this, so that sums stay below 2^52."""
_SCHEMA = "dpmarket.descent/1"
_FEWEST_STEPS, _MOST_STEPS = 20, 200
_PEOPLE_PER_FAILURE = 10.0


@dataclass(frozen=True)
class Descent:
    """What is public about the noise of a descent.

    Parameters
    ----------
    delta
        The delta of every guarantee, above 0 and below 1.
    steps, noise_scale
        T, at least 1; and s, the standard deviation of the noise of one step, in cells times weights, > 0.

    Notes
    -----
    Guaranteed: :meth:`epsilons` is never below the smallest epsilon at which the formula of this module
    holds, for the given floats.

    Examples
    --------
    >>> descent, weights = Descent.for_epsilons([1.0, 2.0, 0.0], delta=1e-6, n_coefficients=4)
    >>> spent = descent.epsilons(weights)
    >>> bool((spent <= [1.0, 2.0, 0.0]).all()), spent.round(6).tolist()
    (True, [1.0, 2.0, 0.0])
    """

    delta: float
    steps: int
    noise_scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", checks.strictly_between("delta", self.delta, 1e-200, 1.0))
        object.__setattr__(self, "steps", checks.whole("steps", self.steps, minimum=1))
        scale = checks.strictly_between("noise_scale", self.noise_scale, 1e-6, 1e40)
        object.__setattr__(self, "noise_scale", scale)

    @classmethod
    def for_epsilons(
        cls,
        epsilons: ArrayLike,
        delta: float,
        n_coefficients: int,
        steps: int | None = None,
        fewest_steps: int = _FEWEST_STEPS,
    ) -> tuple[Descent, IntArray]:
        r"""Return a descent and whole weights that spend everybody's epsilon and exceed nobody's.

        ``n_coefficients`` is d, all coefficients of the model. ``steps`` None means :math:`(\sum \mu / (4
        \sqrt d))^2`, between ``fewest_steps`` and 200: more only where the noise leaves something to descend
        on. 20 suit linear models, networks need more. Refused is a delta above 1 / (10 people), or nobody
        with an epsilon above 0.
        """
        budgets = checks.non_negative_vector("epsilons", epsilons)
        small = checks.strictly_between("delta", delta, 1e-200, 1.0)
        most = 1.0 / (_PEOPLE_PER_FAILURE * budgets.size)
        if small > most:
            raise InvalidInput(
                f"expected delta of at most 1 / (10 * people) = {most:.3g} for {budgets.size} people, got "
                f"{small!r}: publishing the records of a few people drawn at random would keep it."
            )
        distinct, place = np.unique(budgets, return_inverse=True)
        mu = gaussian_mus(distinct, small)[place]
        total = float(mu.sum())
        if not total > 0.0:
            raise InvalidInput("expected at least one epsilon above 0, got only zeros.")
        d = checks.whole("n_coefficients", n_coefficients, minimum=1)
        if steps is None:
            wanted = (total / (4.0 * math.sqrt(d))) ** 2
            steps = math.floor(min(max(wanted, fewest_steps), _MOST_STEPS))
        # Rounded down, and the noise up: what is charged is never above anybody's epsilon.
        whole = np.floor(mu * (_TOTAL / total) * (1.0 - 1e-12)).astype(np.int64)
        scale = 2.0 * CELLS * math.sqrt(steps) * _TOTAL / total * (1.0 + 1e-12)
        return cls(small, steps, scale), read_only(whole)

    def mu(self, weights: IntArray) -> FloatArray:
        """Return each person's mu, rounded up."""
        return np.asarray(weights * (2.0 * CELLS * math.sqrt(self.steps) / self.noise_scale * (1.0 + 1e-14)))

    def epsilons(self, weights: ArrayLike) -> FloatArray:
        """Return each person's epsilon at ``delta``, rounded up; exactly 0 for the weight 0."""
        whole = np.asarray(weights)
        if whole.ndim != 1 or whole.dtype.kind not in "iu" or (whole < 0).any():
            raise InvalidInput("expected weights to be a vector of whole numbers of at least 0.")
        distinct, place = np.unique(self.mu(whole), return_inverse=True)
        return read_only(gaussian_epsilons(distinct, self.delta)[place])

    def noise(self, stream: Bits, size: int) -> list[int]:
        """Return the exact whole noise of one step: ``round(s Z)`` for ``size`` independent normals."""
        scale = Fraction(self.noise_scale)
        return [_rounded_normal(stream, scale) for _ in range(size)]

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON: all that an outsider needs to charge again."""
        return {"schema": _SCHEMA, **asdict(self), "cells": CELLS}

    @classmethod
    def from_dict(cls, data: Any) -> Descent:
        """Return the descent that :meth:`to_dict` described; refuse anything else."""
        keys = {"schema", "delta", "steps", "noise_scale", "cells"}
        if not isinstance(data, dict) or set(data) != keys or data["schema"] != _SCHEMA:
            raise InvalidInput(f"expected a descent of the schema {_SCHEMA}.")
        if data["cells"] != CELLS:
            raise InvalidInput(f"expected {CELLS} cells, got {data['cells']!r}.")
        return cls(data["delta"], data["steps"], data["noise_scale"])


def _rounded_normal(stream: Bits, scale: Fraction) -> int:
    """Return ``round(scale * Z)`` for an exact standard normal: decided on intervals, never on a float."""
    size, negative = half_normal(stream), sign(stream) < 0
    bits = CHUNK
    while True:
        known = size.floor(bits)
        unit = scale.denominator << bits
        low = (2 * scale.numerator * known + unit) // (2 * unit)
        high = (2 * scale.numerator * (known + 1) + unit) // (2 * unit)
        if low == high:
            return -low if negative else low
        bits += CHUNK
