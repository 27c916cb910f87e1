"""Choose how a market's payments are computed: the fastest case of which it is certain that it applies."""

from __future__ import annotations

import math

import numpy as np

from dpmarket.allocation import Allocation, BuyerObjective
from dpmarket.allocation.kernels.walk import Rules
from dpmarket.allocation.result import LocalMinimum
from dpmarket.allocation.settings import PathSettings
from dpmarket.arrays import FloatArray
from dpmarket.payments.kernels.alone import Alone
from dpmarket.payments.kernels.limits import CHEAPEST, EQUAL, Limit
from dpmarket.payments.kernels.moves import Problem, anchor_at
from dpmarket.payments.kernels.several import Several
from dpmarket.payments.kernels.whole import Whole
from dpmarket.payments.stretches import stretches_of
from dpmarket.payments.uniqueness import is_alone, value_without_cheapest

Case = Alone | Several | Limit | Whole


def case_of(
    psi: FloatArray, settings: PathSettings, objective: BuyerObjective, allocation: Allocation
) -> Case:
    """Return the case of a solved market.

    Parameters
    ----------
    psi
        All finite virtual costs, sorted.
    settings, objective, allocation
        The market's.
    """
    if settings.needs_cheapest or settings.needs_all_equal:
        return _limit(psi, settings, objective)
    layout = settings.max_weight, settings.first_capped, settings.first_rest
    rules = Rules(*layout, settings.rho, settings.least_rate)
    problem = Problem(psi, psi.size, float(psi.sum()), rules, settings.epsilon_rate)
    minima, threshold = _possible_minima(problem, objective, allocation)
    if len(minima) == 1 and is_alone(problem, minima[0], threshold):
        minimum = minima[0]
        return Alone(problem, anchor_at(psi, minimum.n_capped, minimum.n_bought, minimum.spread))
    return _several_or_whole(problem, minima, threshold)


def slower_case(case: Case, objective: BuyerObjective, allocation: Allocation) -> Case | None:
    """Return the case to use where ``case`` has no answer, or None if there is none."""
    if isinstance(case, Limit | Whole):
        return None
    if isinstance(case, Several):
        return Whole(case.problem)
    return _several_or_whole(case.problem, *_possible_minima(case.problem, objective, allocation))


def _possible_minima(
    problem: Problem, objective: BuyerObjective, allocation: Allocation
) -> tuple[list[LocalMinimum], float]:
    """Return the minima around which moved problems can have theirs, and the value up to which that is so."""
    threshold = value_without_cheapest(problem)
    if not np.isfinite(threshold):
        return [], threshold
    concentration = objective.concentration
    return [m for m in allocation.local_minima if m.objective_value / concentration <= threshold], threshold


def _several_or_whole(problem: Problem, minima: list[LocalMinimum], threshold: float) -> Several | Whole:
    stretches = stretches_of(problem, minima, threshold) if minima else None
    return Whole(problem) if stretches is None else Several(problem, stretches)


def _limit(psi: FloatArray, settings: PathSettings, objective: BuyerObjective) -> Limit:
    regime = CHEAPEST if settings.needs_cheapest else EQUAL
    return Limit(
        psi=psi,
        regime=regime,
        total=float(psi.sum()),
        sums=np.append(0.0, np.cumsum(psi)) if regime == CHEAPEST else np.empty(0),
        cap=settings.max_weight,
        first_capped=settings.first_capped,
        first_rest=settings.first_rest,
        most_epsilon=settings.max_total_promise,
        epsilon_rate=math.sqrt(objective.noise / objective.payment_weight),
    )
