r"""What a buyer minimises: expected error plus money, over a public menu of totals.

A purchase gives seller i the weight :math:`a_i` (they sum to 1) and the share :math:`q_i = a_i \eta` of the
total :math:`\eta`. An objective prices it: :class:`Objective`, the expected squared error of what is released
plus weighted money, or :class:`PaperObjective`, the paper's bound on the excess risk.

**Contract.** For each entry of a public geometric *menu* the
solver (:mod:`~dpmarket.mechanisms.water_filling`) minimises one convex function of the weights alone,

.. math:: K = \min_a |a|^2 + d \sum_g (w_g - \pi_g)^2 + 2 u \langle \psi, E(a) \rangle,

and the objective says how large u and d are, what the entry is worth given K (:meth:`~Objective.value`,
:meth:`~Objective.increase`) and which total belongs to it. The menu contains no report, and for a fixed
purchase the objective is linear in each virtual cost with slope :math:`\gamma H_i`. Hence its minimum is
concave in each virtual cost, what a seller gives up never rises with their report, and the envelope theorem
pays exactly.

For the paper's form the entries are :math:`\theta = |a| \eta`: since
:math:`|a| = \min_t (|a|^2/t + t)/2`, its minimum is that of
:math:`\frac{\mu \eta}{2 \theta} K + (\sigma + \mu \theta/2)/\eta` with :math:`u = \gamma \theta/\mu`, where
the best :math:`\eta` has a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput

STEP = 1.0 / 256.0
"""Between two entries of the menu of totals, as a difference of logarithms."""
REACH = 40.0
"""The menu reaches from exp(-40) to exp(40)."""
MENU: FloatArray = read_only(np.exp(STEP * np.arange(-REACH / STEP, REACH / STEP + 1.0)))
"""The public entries, before bounds."""
_USUAL_SPREAD = 0.2  # trace of the covariance of one gradient, in units of R^2; at most 1/4


def _check(objective: Objective | PaperObjective, *above_zero: str) -> None:
    bounded = () if objective.max_mean_epsilon is None else ("max_mean_epsilon",)
    for name in (*above_zero, *bounded):
        object.__setattr__(objective, name, checks.positive(name, getattr(objective, name)))
    if objective.weight_cap is not None:
        object.__setattr__(objective, "weight_cap", checks.at_least("weight_cap", objective.weight_cap, 1.0))


@dataclass(frozen=True)
class Objective:
    r"""Expected squared error of the release plus weighted money.

    .. math:: A |a|^2 + \frac{B}{\eta^2} + \gamma \sum_i \psi_i H(a_i \eta)

    For records that do not depend on the weights, the first two terms are the expected squared error of the
    weighted mean gradient (or of a statistic), not a bound on it.

    Parameters
    ----------
    sampling_error, noise_error
        A, the squared error of one single record, and B, that of the noise at a total of 1; above 0.
    payment_weight
        Gamma, error per unit of money, above 0: :func:`~dpmarket.mechanisms.plan.plan` finds it for a budget.
    weight_cap
        k: no weight above k/m, at least 1; raised in small markets (:mod:`~dpmarket.mechanisms.groups`).
    max_mean_epsilon
        L: the total is at most m L. With a delta it bounds the mean of the Gaussian parameter mu.

    Examples
    --------
    >>> objective = Objective.for_model(n_features=31, payment_weight=1e-3)
    >>> objective.sampling_error, objective.noise_error
    (0.2, 3968.0)
    """

    sampling_error: float
    noise_error: float
    payment_weight: float
    weight_cap: float | None = None
    max_mean_epsilon: float | None = None

    def __post_init__(self) -> None:
        _check(self, "sampling_error", "noise_error", "payment_weight")

    @classmethod
    def for_model(
        cls, n_features: int, payment_weight: float = 1.0, n_classes: int = 2, **bounds: float | None
    ) -> Objective:
        """Return the objective of a private logistic or softmax regression with pure epsilon.

        Of n coefficients (the constant's included) and rows no longer than 1 the noise has a squared length
        of 4 n (n + 1) / eta^2 on average, and one gradient spreads by 0.2. With K > 2 classes, n coefficients
        each, a record moves the noise of two of them: 16 (K - 1) n (n + 1) / eta^2 and 1 - 1/K, without what
        all classes have in common.
        """
        n = checks.whole("n_features", n_features, minimum=1)
        classes = checks.whole("n_classes", n_classes, minimum=2)
        if classes > 2:
            noise = 16.0 * (classes - 1.0) * n * (n + 1.0)
            return cls(1.0 - 1.0 / classes, noise, payment_weight, **bounds)
        return cls(_USUAL_SPREAD, 4.0 * n * (n + 1.0), payment_weight, **bounds)

    @classmethod
    def for_descent(
        cls, n_parameters: int, payment_weight: float = 1.0, clip: float = 0.5, **bounds: float | None
    ) -> Objective:
        """Return the objective of a model trained by noisy descent with a delta, in units of mu.

        Of d parameters with each person's gradient clipped to length C: A = C^2, B = 4 d C^2.
        """
        d = checks.whole("n_parameters", n_parameters, minimum=1)
        squared = checks.positive("clip", clip) ** 2
        return cls(squared, 4.0 * d * squared, payment_weight, **bounds)

    def with_payment_weight(self, payment_weight: float) -> Objective:
        """Return the same objective with another price of money."""
        return replace(self, payment_weight=payment_weight)

    def errors(self, squared_norm: float, total: float) -> tuple[float, float]:
        """Return the expected squared error from sampling and from noise."""
        if total <= 0.0:
            return math.inf, math.inf
        return self.sampling_error * squared_norm, self.noise_error / total**2

    def relative_coverage(self, coverage: float) -> float:
        """Return d, the weight of soft quotas D in units of the sampling error."""
        return coverage / self.sampling_error

    def largest_entry(self, most: float, capacity: float) -> float:
        """Return where the menu ends: at the mean cap, or where everybody sells all they may."""
        return min(most, capacity)

    def slope(self, entries: FloatArray) -> FloatArray:
        """Return u of each entry."""
        return entries * (self.payment_weight / (2.0 * self.sampling_error))

    def total(self, entries: FloatArray, inner: FloatArray, most: float) -> FloatArray:
        """Return the total of each entry, given K."""
        return entries

    def value(self, entries: FloatArray, inner: FloatArray, most: float) -> FloatArray:
        """Return the objective's minimum at each entry, given K."""
        return self.sampling_error * inner + self.noise_error / entries**2

    def increase(self, entries: FloatArray, inner: FloatArray, more: FloatArray, most: float) -> FloatArray:
        """Return by how much the minimum rises when K rises by ``more``."""
        return self.sampling_error * more

    def bound(self, low: FloatArray, high: FloatArray, inner: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return a lower bound of the minimum at all entries between two, given K at both: K never falls."""
        return self.sampling_error * inner[0] + self.noise_error / high**2

    def to_dict(self) -> dict[str, Any]:
        """Return the public numbers, for certificates and rules."""
        return {"kind": "squared error", **vars(self)}


@dataclass(frozen=True)
class PaperObjective:
    r"""The paper's objective: a bound on the excess risk plus weighted money.

    .. math:: \mu |a| + \frac{\sigma}{\eta} + \gamma \eta \langle a, \psi \rangle

    Paper: Algorithm 2. Costs are linear and epsilons unbounded: no table of epsilon costs goes with it.

    Parameters
    ----------
    mu, sigma, gamma
        The paper's constants for uneven weights, for noise and for money, above 0.
    weight_cap, max_mean_epsilon
        As in :class:`Objective`.
    """

    mu: float
    sigma: float
    gamma: float
    weight_cap: float | None = None
    max_mean_epsilon: float | None = None

    def __post_init__(self) -> None:
        _check(self, "mu", "sigma", "gamma")

    def with_payment_weight(self, payment_weight: float) -> PaperObjective:
        """Return the same objective with another price of money."""
        return replace(self, gamma=payment_weight)

    @property
    def payment_weight(self) -> float:
        """Gamma, error per unit of money."""
        return self.gamma

    def errors(self, squared_norm: float, total: float) -> tuple[float, float]:
        """Return the two parts of the bound: uneven weights, noise."""
        if total <= 0.0:
            return math.inf, math.inf
        return self.mu * math.sqrt(squared_norm), self.sigma / total

    def relative_coverage(self, coverage: float) -> float:
        r"""Return d: soft quotas replace :math:`\mu |a|` by the root of its square plus D times the gaps'."""
        return coverage / self.mu**2

    def largest_entry(self, most: float, capacity: float) -> float:
        """Return where the menu of theta ends: its bounds are in the closed form of eta."""
        return math.inf

    def slope(self, entries: FloatArray) -> FloatArray:
        """Return u of each entry theta."""
        return entries * (self.gamma / self.mu)

    def total(self, entries: FloatArray, inner: FloatArray, most: float) -> FloatArray:
        """Return the best total epsilon of each entry, given K."""
        alpha, beta = self._factors(entries)
        return np.minimum(np.sqrt(beta / (alpha * inner)), most)

    def value(self, entries: FloatArray, inner: FloatArray, most: float) -> FloatArray:
        """Return the objective's minimum at each entry, given K."""
        alpha, beta = self._factors(entries)
        total = self.total(entries, inner, most)
        return alpha * inner * total + beta / total

    def increase(self, entries: FloatArray, inner: FloatArray, more: FloatArray, most: float) -> FloatArray:
        """Return by how much the minimum rises when K rises by ``more``: linear at the bound, then a root."""
        alpha, beta = self._factors(entries)
        if math.isinf(most):
            start, risen, linear = inner, more, 0.0 * more
        else:
            edge = beta / (alpha * most**2)
            within = np.clip(edge - inner, 0.0, more)
            start, risen, linear = np.maximum(inner, edge), more - within, alpha * most * within
        root = 2.0 * np.sqrt(alpha * beta) * risen / (np.sqrt(start + risen) + np.sqrt(start))
        return np.asarray(linear + root)

    def bound(self, low: FloatArray, high: FloatArray, inner: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Return a lower bound of the minimum at all entries between two: K rises and K/theta falls."""
        rising = self.mu * inner[0] * (2.0 * self.sigma / high + self.mu)
        falling = self.mu * (inner[1] / high) * (2.0 * self.sigma + self.mu * low)
        return np.sqrt(np.maximum(rising, falling))

    def _factors(self, entries: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.mu / (2.0 * entries), self.sigma + 0.5 * self.mu * entries

    def to_dict(self) -> dict[str, Any]:
        """Return the public numbers, for certificates and rules."""
        return {"kind": "paper", **vars(self)}


AnyObjective = Objective | PaperObjective


def objective_from_dict(data: Mapping[str, Any]) -> AnyObjective:
    """Make the objective whose ``to_dict`` gave this data."""
    kinds: dict[Any, type[AnyObjective]] = {"squared error": Objective, "paper": PaperObjective}
    if data.get("kind") not in kinds:
        raise InvalidInput(f"expected an objective of the kind {' or '.join(kinds)}.")
    return kinds[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})
