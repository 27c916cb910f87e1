r"""State how the noise enters the joint objective: two readings that have a minimum, and the printed one.

As printed, the objective contains :math:`2 b \cdot w/\eta` with the noise b already drawn and w free. With
:math:`w = -2b/(\eta\Lambda)` it behaves like :math:`-2|b|^2/(\Lambda\eta^2)` and falls without bound as
:math:`\eta \to 0`: a grid that reaches below about :math:`2|b|^2/(\Lambda\sigma)` picks its smallest value.
The two sound readings repair that from what the paper says elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import Infeasible


@runtime_checkable
class Reading(Protocol):
    """How the noise enters the choice of weights and noise rate.

    A protocol: :class:`ExpectedNoise`, :class:`BoundedCoefficients` and :class:`AsPrinted` obey it.
    """

    @property
    def coef_radius(self) -> float:
        """Largest norm of the coefficients; may be infinite."""
        ...

    def choosing_noise(self, noise: FloatArray) -> FloatArray:
        """Return the noise b that the choice is made with."""
        ...

    def slack(self, noise: FloatArray, price: float) -> tuple[float, float]:
        """Return bounds on what ``1/eta`` costs in all: ``price + 2 b.w``, over the allowed w.

        Raises
        ------
        Infeasible
            The lower bound is not positive, and the objective falls without bound as eta -> 0.
        """
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which reading this is."""
        ...


@dataclass(frozen=True)
class ExpectedNoise:
    """Choose weights and noise rate without the noise, whose mean is 0; then train with it. The default.

    Payments and promises do not depend on the noise.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> from dpmarket.privacy import SeededNoise
    >>> first, second = (
    ...     JointMechanism(
    ...         Uniform(1, 5), objective, l2=1.0, reading=ExpectedNoise(), noise_source=SeededNoise(seed)
    ...     ).run(costs, X, y)
    ...     for seed in (1, 2)
    ... )
    >>> bool((first.payments == second.payments).all())
    True
    >>> bool((first.coefficients == second.coefficients).any())
    False
    """

    @property
    def coef_radius(self) -> float:
        """Infinite."""
        return math.inf

    def choosing_noise(self, noise: FloatArray) -> FloatArray:
        """Return zeros."""
        return np.zeros_like(noise)

    def slack(self, noise: FloatArray, price: float) -> tuple[float, float]:
        """Return the price of noise, twice."""
        if not price > 0.0:
            raise Infeasible(
                "expected noise > 0 in the objective: without it the smallest noise rate is always best, "
                "and there is no smallest. Pass mean_epsilons to fix the range."
            )
        return price, price

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which reading this is."""
        return {"kind": "expected noise"}


@dataclass(frozen=True)
class BoundedCoefficients:
    """Keep ``|w| <= coef_radius`` (the paper's beta) while choosing and training, with the noise as drawn.

    Parameters
    ----------
    coef_radius
        The paper's beta, > 0.

    Notes
    -----
    A minimum exists if the objective's ``noise`` exceeds ``2*|b|*coef_radius``; the length of b has the
    Gamma(n, 1) distribution. The paper's own sigma (theorem `gen loss`) is at least
    ``2*coef_radius*v^-1(delta')`` with ``P(2|b| > v^-1(delta')) = delta'``, so that it suffices with
    probability ``1 - delta'``.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> from dpmarket.privacy import SeededNoise
    >>> objective = BuyerObjective(concentration=5.0, noise=10.0, payment_weight=0.01)
    >>> reading = BoundedCoefficients(coef_radius=0.5)
    >>> mechanism = JointMechanism(
    ...     Uniform(1, 5), objective, l2=0.1, reading=reading, noise_source=SeededNoise(0)
    ... )
    >>> outcome = mechanism.run(costs, X, y)
    >>> round(float(np.linalg.norm(outcome.coefficients)), 9) <= 0.5, outcome.edge
    (True, 'inside')
    """

    coef_radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "coef_radius", checks.positive("coef_radius", self.coef_radius))

    def choosing_noise(self, noise: FloatArray) -> FloatArray:
        """Return the noise itself."""
        return noise

    def slack(self, noise: FloatArray, price: float) -> tuple[float, float]:
        """Return the price of noise less and plus ``2*|b|*coef_radius``."""
        reach = 2.0 * float(np.linalg.norm(noise)) * self.coef_radius
        if not price > reach:
            raise Infeasible(
                "expected noise > 2*|b|*coef_radius in the objective, so that a best noise rate exists; "
                "the noise b that was drawn is longer: raise noise, or lower coef_radius."
            )
        return price - reach, price + reach

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which reading this is."""
        return {"kind": "bounded coefficients", "coef_radius": self.coef_radius}


@dataclass(frozen=True)
class AsPrinted:
    """Take the printed objective literally: it has no minimum, so ``mean_epsilons`` must bound the search.

    For comparison only. Where the grid reaches below about ``2*|b|^2/(l2*noise)``, as in the example, the
    answer is an artefact of its lower end.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> from dpmarket.privacy import SeededNoise
    >>> for lowest in (1e-1, 1e-2, 1e-3):
    ...     mechanism = JointMechanism(
    ...         Uniform(1, 5), objective, l2=1.0, reading=AsPrinted(), noise_source=SeededNoise(0),
    ...         mean_epsilons=[lowest, 1.0],
    ...     )
    ...     print(mechanism.run(costs, X, y).edge)
    lowest
    lowest
    lowest
    """

    @property
    def coef_radius(self) -> float:
        """Infinite."""
        return math.inf

    def choosing_noise(self, noise: FloatArray) -> FloatArray:
        """Return the noise itself."""
        return noise

    def slack(self, noise: FloatArray, price: float) -> tuple[float, float]:
        """Refuse: there is no bound."""
        raise Infeasible(
            "expected mean_epsilons for the printed objective: it falls without bound as the noise rate "
            "goes to 0. ExpectedNoise and BoundedCoefficients have a minimum."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which reading this is."""
        return {"kind": "as printed"}
