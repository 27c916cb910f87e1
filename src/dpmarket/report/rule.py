"""Turn an outcome into the rule behind it: what was offered at every cost, and where buying ended."""

from __future__ import annotations

import math

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution, distribution_from_dict
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import Curve, Outcome, population_curve


def rule_of(outcome: Outcome) -> Curve:
    """Return the curve by which an outcome was decided.

    For an online outcome it is the curve itself. For an offline one it has the cutoff, total promise and cap
    of the allocation: every promise lies on it exactly, and every payment as closely as one seller's own
    report moves a market.

    Raises
    ------
    InvalidInput : the outcome of another mechanism.
    """
    dist, objective = market_of(outcome)
    if outcome.mechanism == "online":
        return Curve.from_dict(outcome.parameters["curve"])
    sellers, total = outcome.epsilons.size, outcome.planned_noise_rate
    cap = math.inf if objective.weight_cap is None else objective.weight_cap / sellers * total
    if math.isinf(outcome.cutoff):
        return Curve(dist, objective, sellers, math.inf, math.inf, min(total / sellers, cap))
    if objective.concentration == 0.0:
        return Curve(dist, objective, sellers, math.inf, outcome.cutoff, cap)
    # On the path of best allocations eta * s * |a| = mu / gamma, slope = eta / s.
    slope = objective.payment_weight * total**2 * outcome.concentration_part / objective.concentration**2
    return Curve(dist, objective, sellers, slope, outcome.cutoff, cap)


def planned_rule(outcome: Outcome) -> Curve:
    """Return the curve that was to be expected before anybody reported: a function of public values only."""
    dist, objective = market_of(outcome)
    if outcome.mechanism == "online":
        return Curve.from_dict(outcome.parameters["curve"])
    return population_curve(dist, objective, outcome.epsilons.size)


def market_of(outcome: Outcome) -> tuple[CostDistribution, BuyerObjective]:
    """Return the cost distribution and the objective of an offline or online outcome."""
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"expected an Outcome, got {type(outcome).__name__}.")
    if outcome.mechanism not in ("offline", "online"):
        raise InvalidInput(
            f"expected the outcome of the offline or the online mechanism, got {outcome.mechanism!r}."
        )
    return (
        distribution_from_dict(outcome.parameters["distribution"]),
        BuyerObjective.from_dict(outcome.parameters["objective"]),
    )
