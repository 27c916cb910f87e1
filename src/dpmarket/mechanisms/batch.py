"""Choose the mechanism for a whole list of reports: all at once, or one by one in the list's order."""

from __future__ import annotations

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.curve_choice import population_curve
from dpmarket.mechanisms.offline import OfflineMechanism
from dpmarket.mechanisms.online import OnlineMechanism


def batch_mechanism(
    dist: CostDistribution,
    objective: BuyerObjective,
    expected_sellers: int | None,
    budget: float | None,
    minor_units: int,
) -> OfflineMechanism | OnlineMechanism:
    """Return the offline mechanism, or the online one where a number of expected sellers is given.

    The number must be chosen without looking at the reports. A hard budget needs the online mechanism:
    offline, a budget that depends on the reports would make lying pay.
    """
    if expected_sellers is None:
        if budget is not None:
            raise InvalidInput(
                "expected a budget only when sellers are quoted one by one; all at once, choose the "
                "payment weight beforehand."
            )
        return OfflineMechanism(dist, objective)
    curve = population_curve(dist, objective, expected_sellers)
    return OnlineMechanism(dist, curve, budget=budget, minor_units=None if budget is None else minor_units)
