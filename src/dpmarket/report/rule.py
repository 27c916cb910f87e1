"""Turn an outcome into the rule behind it: what was offered at every cost, and where buying ended."""

from __future__ import annotations

import math

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import (
    Curve,
    GaussianMechanism,
    OfflineMechanism,
    OnlineGaussianMechanism,
    OnlineMechanism,
    Outcome,
    mechanism_of,
    population_curve,
)
from dpmarket.planning import ErrorModel, ExpectedError, expected_error

AnyRule = Curve | OnlineGaussianMechanism


def rule_of(outcome: Outcome) -> AnyRule:
    """Return the curve by which an outcome was decided.

    With a delta, all at once, it is the one that was to be expected beforehand. For an online outcome it is
    the curve itself. For another offline one it has the cutoff, total promise and cap of the allocation:
    every promise lies on it exactly, and every payment as closely as one seller's own report moves a market.

    Raises
    ------
    InvalidInput
        The outcome of another mechanism.
    """
    mechanism = mechanism_behind(outcome)
    if isinstance(mechanism, OnlineMechanism):
        return mechanism.curve
    if not isinstance(mechanism, OfflineMechanism):
        return planned_rule(outcome)
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


def planned_rule(outcome: Outcome) -> AnyRule:
    """Return the curve that was to be expected before anybody reported: a function of public values only."""
    mechanism = mechanism_behind(outcome)
    if isinstance(mechanism, OnlineMechanism):
        return mechanism.curve
    if isinstance(mechanism, OnlineGaussianMechanism):
        return mechanism
    if isinstance(mechanism, GaussianMechanism):
        return OnlineGaussianMechanism(mechanism.dist, mechanism.objective)
    return population_curve(mechanism.dist, mechanism.objective, outcome.epsilons.size)


def mechanism_behind(
    outcome: Outcome,
) -> OfflineMechanism | OnlineMechanism | GaussianMechanism | OnlineGaussianMechanism:
    """Return the mechanism behind an outcome, which has to be the offline or the online one."""
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"expected an Outcome, got {type(outcome).__name__}.")
    mechanism = mechanism_of(outcome)
    known = OfflineMechanism | OnlineMechanism | GaussianMechanism | OnlineGaussianMechanism
    if not isinstance(mechanism, known):
        raise InvalidInput(
            f"expected the outcome of the offline or the online mechanism, got {outcome.mechanism!r}."
        )
    return mechanism


def delta_of(outcome: Outcome) -> float:
    """Return the delta of an outcome's promises, 0 without one."""
    mechanism = mechanism_behind(outcome)
    if isinstance(mechanism, GaussianMechanism | OnlineGaussianMechanism):
        return mechanism.objective.delta
    return 0.0


def error_of(outcome: Outcome, model: ErrorModel) -> ExpectedError:
    """Return the error to expect of an outcome: with a delta in units of what its promises let noise move."""
    mechanism = mechanism_behind(outcome)
    if not isinstance(mechanism, GaussianMechanism | OnlineGaussianMechanism):
        return expected_error(outcome, model)
    price = mechanism.objective.price
    mu = np.interp(outcome.epsilons, price.epsilons, price.knots)
    return model.predict(float(mu @ mu) / float(mu.sum()) ** 2, float(mu.sum()))


def market_of(outcome: Outcome) -> tuple[CostDistribution, BuyerObjective]:
    """Return the cost distribution and the objective of an offline or online outcome without a delta."""
    mechanism = mechanism_behind(outcome)
    if isinstance(mechanism, OnlineMechanism):
        return mechanism.dist, mechanism.curve.objective
    if not isinstance(mechanism, OfflineMechanism):
        raise InvalidInput("expected the outcome of a mechanism without a delta.")
    return mechanism.dist, mechanism.objective
