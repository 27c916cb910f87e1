"""Turn an outcome into the rule behind it: what was offered at every cost, and where buying ended."""

from __future__ import annotations

import math

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import (
    Curve,
    OfflineMechanism,
    OnlineMechanism,
    Outcome,
    mechanism_of,
    population_curve,
)


def rule_of(outcome: Outcome) -> Curve:
    """Return the curve by which an outcome was decided.

    For an online outcome it is the curve itself. For an offline one it has the cutoff, total promise and cap
    of the allocation: every promise lies on it exactly, and every payment as closely as one seller's own
    report moves a market.

    Raises
    ------
    InvalidInput
        The outcome of another mechanism.
    """
    mechanism = mechanism_behind(outcome)
    if isinstance(mechanism, OnlineMechanism):
        return mechanism.curve
    if outcome.optimality is None:
        raise InvalidInput("expected an outcome with its optimality, found none.")
    dist, objective, best = mechanism.dist, mechanism.objective, outcome.optimality
    sellers, total = outcome.epsilons.size, outcome.planned_noise_rate
    cap = math.inf if objective.weight_cap is None else objective.weight_cap / sellers * total
    if math.isinf(best.cutoff):
        return Curve(dist, objective, sellers, math.inf, math.inf, min(total / sellers, cap))
    if objective.concentration == 0.0:
        return Curve(dist, objective, sellers, math.inf, best.cutoff, cap)
    # On the path of best allocations eta * s * |a| = mu / gamma, slope = eta / s.
    slope = objective.payment_weight * total**2 * best.concentration_part / objective.concentration**2
    return Curve(dist, objective, sellers, slope, best.cutoff, cap)


def planned_rule(outcome: Outcome) -> Curve:
    """Return the curve that was to be expected before anybody reported: a function of public values only."""
    mechanism = mechanism_behind(outcome)
    if isinstance(mechanism, OnlineMechanism):
        return mechanism.curve
    return population_curve(mechanism.dist, mechanism.objective, outcome.epsilons.size)


def mechanism_behind(outcome: Outcome) -> OfflineMechanism | OnlineMechanism:
    """Return the mechanism behind an outcome, which has to be the offline or the online one."""
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"expected an Outcome, got {type(outcome).__name__}.")
    mechanism = mechanism_of(outcome)
    if not isinstance(mechanism, OfflineMechanism | OnlineMechanism):
        raise InvalidInput(
            f"expected the outcome of the offline or the online mechanism, got {outcome.mechanism!r}."
        )
    return mechanism


def market_of(outcome: Outcome) -> tuple[CostDistribution, BuyerObjective]:
    """Return the cost distribution and the objective of an offline or online outcome."""
    mechanism = mechanism_behind(outcome)
    if isinstance(mechanism, OnlineMechanism):
        return mechanism.dist, mechanism.curve.objective
    return mechanism.dist, mechanism.objective
