"""What a cost distribution is: the protocol that every mechanism and plan relies on."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.costs.ironing import IronedInterval
from dpmarket.costs.pointwise import Costs


@runtime_checkable
class CostDistribution(Protocol):
    """How people's privacy costs (money per unit of epsilon) are distributed: common knowledge.

    The paper's f_C and F_C with the virtual cost psi(c) = c + F_C(c)/f_C(c). Functions of a cost are
    vectorised; a scalar in gives a scalar out. Costs are never negative.

    A protocol: any object with these members is one, and works with every mechanism and plan. To be saved and
    read again it must be one that :func:`~dpmarket.costs.text.distribution_from_dict` knows.

    Examples
    --------
    >>> from dpmarket.costs import CostDistribution, Uniform
    >>> def price_for_share(dist: CostDistribution, share: float) -> float:
    ...     return dist.quantile(share)
    >>> price_for_share(Uniform(1, 5), 0.25)
    2.0
    >>> isinstance(Uniform(1, 5), CostDistribution), isinstance("uniform(1, 5)", CostDistribution)
    (True, False)
    """

    def __hash__(self) -> int:
        """A distribution is a value: equal ones have equal hashes, so that tables of them can be kept."""
        ...

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest possible cost; the highest may be infinite."""
        ...

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Finite costs at which the density is not smooth, ends of the support included."""
        ...

    @property
    def is_regular(self) -> bool:
        """Whether psi is increasing as it stands (the paper's Assumption on virtual costs)."""
        ...

    @property
    def ironed_intervals(self) -> tuple[IronedInterval, ...]:
        """Where psi had to be made flat; empty for a regular distribution."""
        ...

    def pdf(self, costs: Costs) -> Costs:
        """Density, 0 outside the support."""
        ...

    def cdf(self, costs: Costs) -> Costs:
        """Probability of a cost of at most this."""
        ...

    def quantile(self, probabilities: Costs) -> Costs:
        """Smallest cost whose cdf is at least this; the inverse of ``cdf``."""
        ...

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``size`` independent costs."""
        ...

    def virtual_cost(self, costs: Costs) -> Costs:
        """Ironed psi for costs within the support (elsewhere: see :func:`virtual_costs`)."""
        ...

    def virtual_cost_slope(self, costs: Costs) -> Costs:
        """Derivative of the ironed psi: 0 on ironed intervals."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which :func:`distribution_from_dict` makes the same distribution."""
        ...
