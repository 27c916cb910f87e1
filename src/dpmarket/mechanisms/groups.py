r"""Groups of sellers with quotas, hard or soft, and the weight cap that keeps small markets feasible.

A buyer fixes public strata g with population shares :math:`\pi_g`, each with its own table of virtual costs.
The *coverage* says how binding they are for :math:`w_g`, the sum of the weights of a stratum's sellers. Hard:
:math:`w_g = \pi_g`. Soft, a number D of at least 0: :math:`D \sum_g (w_g - \pi_g)^2` is added to the
objective, the squared bias of an unrepresentative purchase if D is
:func:`~dpmarket.statistics.group_difference` of a public pilot. Membership must be verified, and is not
protected by any guarantee.

Shares and caps depend on how many sellers each group has, never on a cost below the reserve price, so quotas
keep mechanisms truthful; shares of groups from which nobody sells go to the others. The cap on a weight is
k/m, but at least :data:`FEASIBLE_MULTIPLE` times :math:`\pi_g/(m_g - 1)`: at the smallest feasible cap every
seller would be indispensable and would be paid the reserve price. Soft quotas count all as one group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput

Coverage = float | Literal["hard"]
"""How binding quotas are: ``"hard"``, or the weight D of squared gaps in units of the objective's error."""
FEASIBLE_MULTIPLE = 1.5
"""Of a group's mean weight without one seller: no weight cap is lower than this."""


@dataclass(frozen=True)
class Group:
    """A public stratum of sellers with a quota.

    Parameters
    ----------
    name, share, virtual_cost
        What it is called; its share of the population, above 0 (all shares add up to 1); the table for its
        sellers' reports.
    """

    name: str
    share: float
    virtual_cost: VirtualCost

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", checks.positive("share", self.share))

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts as plain data."""
        return {"name": self.name, "share": self.share, "virtual_cost": self.virtual_cost.to_dict()}


def groups_of(
    costs: CostDistribution | VirtualCost | None, groups: Sequence[Group] | None
) -> tuple[Group, ...]:
    """Return the groups of a market: those given, if their shares add up to 1, or one for everybody."""
    if (costs is None) == (groups is None):
        raise InvalidInput("expected either costs for all sellers or groups with their own.")
    if groups is None:
        table = costs if isinstance(costs, VirtualCost) else VirtualCost.of(costs)  # type: ignore[arg-type]
        return (Group("all", 1.0, table),)
    found = tuple(groups)
    if not found or not all(isinstance(group, Group) for group in found):
        raise InvalidInput("expected at least one group, each a Group.")
    if len({group.name for group in found}) < len(found):
        raise InvalidInput("expected groups with different names.")
    total = math.fsum(group.share for group in found)
    if abs(total - 1.0) > 1e-9:
        raise InvalidInput(f"expected shares of groups that add up to 1, got {total!r}.")
    return found


def check_coverage(coverage: object) -> float:
    """Return D, infinite for hard quotas; refuse what is neither ``"hard"`` nor a number of at least 0."""
    return math.inf if coverage in ("hard", math.inf) else checks.non_negative("coverage", coverage)


def check_membership(membership: object, sellers: int, groups: int) -> IntArray:
    """Return each seller's group as a position in the list of groups; None: there is only one."""
    if membership is None:
        if groups > 1:
            raise InvalidInput(f"expected the group of each seller, as there are {groups} groups.")
        return np.zeros(sellers, dtype=np.int64)
    found: npt.NDArray[Any] = np.asarray(membership)
    if found.shape != (sellers,) or not np.issubdtype(found.dtype, np.integer):
        raise InvalidInput(f"expected the groups of {sellers} sellers as a vector of whole numbers.")
    if found.size and (int(found.min()) < 0 or int(found.max()) >= groups):
        raise InvalidInput(f"expected groups as positions from 0 to {groups - 1}.")
    return found.astype(np.int64)


def quotas(groups: Sequence[Group], sizes: Sequence[float] | FloatArray) -> list[float]:
    """Return the sum of weights of each group, given how many sellers it has; 0 for an empty one."""
    present = [group.share if size > 0 else 0.0 for group, size in zip(groups, sizes, strict=True)]
    total = math.fsum(present)
    return [share / total if total > 0.0 else 0.0 for share in present]


def weight_cap(quota: float, size: float, sellers: float, multiple: float | None) -> float:
    """Return the largest weight of a seller in a group of ``size``: k/m, raised in small groups."""
    if multiple is None or size < 2:
        return quota
    return min(quota, max(multiple / sellers, FEASIBLE_MULTIPLE * quota / (size - 1)))


def weight_caps(
    shares: Sequence[float], sizes: Sequence[float], multiple: float | None, coverage: float
) -> list[float]:
    """Return the largest weight of a seller in each group; soft quotas leave one for everybody."""
    sellers = math.fsum(sizes)
    if math.isfinite(coverage):
        return [weight_cap(1.0, sellers, sellers, multiple)] * len(shares)
    return [weight_cap(share, size, sellers, multiple) for share, size in zip(shares, sizes, strict=True)]
