"""Turn virtual costs into the globally best allocation, with its proof.

The work is one sort of the cheap part of the costs, one walk along the path of best allocations
(:mod:`dpmarket.allocation.kernels.walk`) and one pass that writes the result in the caller's order: a
seller's weight depends on their own virtual cost and three numbers, so nobody's position need be remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.allocation.certificate import examine
from dpmarket.allocation.kernels import segments, walk
from dpmarket.allocation.objective import BuyerObjective, max_epsilon
from dpmarket.allocation.result import Allocation, LocalMinimum
from dpmarket.allocation.settings import PathSettings, path_settings
from dpmarket.allocation.simplex import UNCAPPED, split_cap
from dpmarket.allocation.sorting import sorted_costs
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, InvalidInput, NotConverged

WeightRule = Callable[[FloatArray], FloatArray]

# Below this many sellers, sorting all is as fast as finding out whom one need not sort.
SAMPLE_FROM = 1 << 17
_SAMPLE = 1 << 13
# Elements written at a time: they stay in the processor's cache between the steps.
_CHUNK = 1 << 15
# Costs beyond 2**100 or all below 2**-100 are measured in another power of two: squares must not overflow.
PLAIN_EXPONENT = 100
# Costs beyond 2**200 times what is needed are not bought.
_REACH_EXPONENT = 200


def allocate(virtual_costs: object, objective: BuyerObjective) -> Allocation:
    """Return the allocation that minimises the buyer's objective, globally.

    Minimises ``concentration*|a| + noise/eta + payment_weight*eta*<a, psi>`` over loss weights
    ``0 <= a_i <= weight_cap/m`` with sum 1 and total promises ``0 < eta <= m*max_mean_epsilon``; seller
    i is promised ``epsilon_i = a_i * eta``.

    Parameters
    ----------
    virtual_costs : array_like of shape (m,)
        psi, at least 0, money per unit of epsilon. Infinity means: never buy from this seller; ``m``
        still counts them.
    objective : BuyerObjective
        With ``noise`` and ``payment_weight`` above 0. A ``concentration`` of 0 buys from the cheapest
        up to the cap and splits ties equally.

    Returns
    -------
    Allocation
        In the order of ``virtual_costs``. The weights sum to 1 to rounding; no weight exceeds
        ``weight_cap/m`` and no epsilon ``max_epsilon(objective)``, even by the last bit. Equal
        virtual costs get equal epsilons, and who is dearer never gets more. Among minima of exactly
        equal value the one with the smallest total promise is taken.

    Raises
    ------
    InvalidInput
        If the costs are not a vector of numbers of at least 0, or ``noise`` or ``payment_weight`` is 0.
    Infeasible
        If too few sellers have a finite virtual cost for the weight cap; or if no minimum exists,
        because the cheapest sellers cost nothing, more epsilon is free and ``max_mean_epsilon`` is not
        set.

    Notes
    -----
    Paper, Algorithm 2, step 1. The paper grids eta and descends for each value; here every local
    minimum is found in closed form and all of them are compared, because the payments are truthful
    only for the global one. O(m) plus the sort of the part of the costs that can matter.

    Examples
    --------
    >>> objective = BuyerObjective(concentration=1.0, noise=1.0, payment_weight=0.01)
    >>> allocation = allocate([1.0, 1.0, 50.0], objective)
    >>> allocation.loss_weights.round(6).tolist()
    [0.5, 0.5, 0.0]
    >>> round(allocation.total_promise, 6), allocation.kkt_residual < 1e-12
    (10.0, True)
    """
    if objective.noise <= 0.0:
        raise InvalidInput(
            "expected objective.noise > 0, got 0.0: without a price of noise, buying nothing is best."
        )
    if objective.payment_weight <= 0.0:
        raise InvalidInput(
            "expected objective.payment_weight > 0, got 0.0: if money does not count, more epsilon is "
            "always better and no best allocation exists."
        )
    psi = _checked_costs(virtual_costs)
    finite, dearest = _within_reach(*_finite_part(psi), path_settings(objective, psi.size))
    settings = path_settings(objective, psi.size, _unit(dearest))
    _check_feasible(finite.size, psi.size, settings, objective)
    if settings.needs_cheapest:
        rule, minima = _cheapest(finite, settings, objective)
        chosen = 0
    elif settings.needs_all_equal:
        rule, minima = _all_equal(finite, settings, objective)
        chosen = 0
    else:
        rule, minima, chosen = _best_on_path(finite, dearest, settings, objective)
    minimum = minima[chosen]
    if math.isfinite(minimum.cutoff) and minimum.cutoff > dearest and psi.size > finite.size:
        beyond = psi[(psi > dearest) & (psi < math.inf)]
        if minimum.cutoff > float(beyond.min(initial=math.inf)):
            raise NotConverged(
                "expected virtual costs of the sellers that matter within a factor of 2^200 of each other, "
                "found that some dearer than that would be bought; rescale concentration and payment_weight."
            )
    weights, epsilons = _fill(psi, rule, minimum.total_promise, max_epsilon(objective))
    evidence = examine(psi, weights, epsilons, minimum.total_promise, objective)
    return Allocation(
        epsilons=read_only(epsilons),
        loss_weights=read_only(weights),
        total_promise=minimum.total_promise,
        objective_value=evidence.concentration_part + evidence.noise_part + evidence.payment_part,
        concentration_part=evidence.concentration_part,
        noise_part=evidence.noise_part,
        payment_part=evidence.payment_part,
        cutoff=minimum.cutoff,
        spread=minimum.spread,
        max_weight=settings.max_weight,
        n_capped=minimum.n_capped,
        n_bought=evidence.n_bought,
        at_bound=minimum.at_bound,
        kkt_residual=evidence.kkt_residual,
        local_minima=minima,
    )


def _checked_costs(virtual_costs: object) -> FloatArray:
    psi = checks.vector("virtual_costs", virtual_costs)
    if float(psi.min()) < 0.0:
        negative = psi < 0.0
        raise InvalidInput(
            "expected every element of virtual_costs to be >= 0 (infinity means: never buy), found "
            f"{int(negative.sum())} of {psi.size} that are not, the first at position "
            f"{int(negative.argmax())}."
        )
    return psi


def _finite_part(psi: FloatArray) -> tuple[FloatArray, float]:
    """Return the finite costs, copied only if others exist, and the largest of them."""
    dearest = float(psi.max())
    if dearest < math.inf:
        return psi, dearest
    finite = psi[psi < math.inf]
    return finite, float(finite.max(initial=0.0))


def _within_reach(finite: FloatArray, dearest: float, settings: PathSettings) -> tuple[FloatArray, float]:
    """Leave out costs so far above the needed ones that squares of both do not fit into a float."""
    needed = settings.first_capped + (settings.first_rest > 0.0)
    if math.frexp(dearest)[1] <= PLAIN_EXPONENT or finite.size <= needed:
        return finite, dearest
    margin = float(np.partition(finite, needed - 1)[needed - 1])
    exponent = max(math.frexp(margin)[1], -PLAIN_EXPONENT) + _REACH_EXPONENT
    limit = math.ldexp(1.0, exponent) if exponent < 1024 else math.inf
    kept = finite[finite <= limit]
    return kept, float(kept.max())


def _unit(dearest: float) -> float:
    exponent = math.frexp(dearest)[1]
    return 1.0 if abs(exponent) <= PLAIN_EXPONENT else math.ldexp(0.5, exponent)


def _check_feasible(finite: int, sellers: int, settings: PathSettings, objective: BuyerObjective) -> None:
    needed = settings.first_capped + (settings.first_rest > 0.0)
    if finite < needed:
        way_out = "lower the cost distribution's upper end or leave the others out of the market"
        if objective.weight_cap is not None and finite > 0:
            way_out = f"raise weight_cap to at least {sellers / finite!r}"
        raise Infeasible(
            f"expected at least {needed} sellers with a finite virtual cost, so that weights of at most "
            f"{settings.max_weight!r} can sum to 1, found {finite} of {sellers}: {way_out}."
        )


def _best_on_path(
    finite: FloatArray, dearest: float, settings: PathSettings, objective: BuyerObjective
) -> tuple[WeightRule, tuple[LocalMinimum, ...], int]:
    """Return the rule of the global minimum, all local minima, and which of them it is."""
    table, at_infinity = _walk(finite, dearest, settings, objective)
    chosen = int(segments.best_row(table)) if len(table) else -1
    if chosen < 0 or table[chosen, segments.VALUE] > at_infinity:
        raise _no_minimum()
    minima = tuple(_local_minimum(row, settings, objective) for row in table.tolist())
    spread = float(table[chosen, segments.SPREAD])
    base = float(table[chosen, segments.BASE])
    gap = float(table[chosen, segments.GAP])

    def rule(costs: FloatArray) -> FloatArray:
        # (r - psi_i)/s, with r - psi_i written as a sum of two terms of one sign.
        scaled = costs if settings.unit == 1.0 else costs / settings.unit
        weights = base - scaled
        bought = weights >= 0.0
        np.maximum(weights, -gap, out=weights)
        weights += gap
        weights /= spread
        weights *= bought
        return np.minimum(weights, settings.max_weight, out=weights)

    return rule, minima, chosen


def _walk(
    finite: FloatArray, dearest: float, settings: PathSettings, objective: BuyerObjective
) -> tuple[FloatArray, float]:
    """Return the table of local minima and the value at infinity, sorting no more than it must."""
    with np.errstate(over="ignore"):
        mean = min(float(finite.mean()), dearest) / settings.unit * (1.0 + 1e-9)
    if finite.size >= SAMPLE_FROM:
        cheap = _cheap_part(finite, mean, settings, objective)
        if cheap.size < finite.size:
            table, at_infinity, _, status = _walk_sorted(cheap, finite.size, mean, settings)
            if status == walk.COMPLETE:
                return table, at_infinity
    table, at_infinity, _, _ = _walk_sorted(_sorted(finite, settings), finite.size, mean, settings)
    return table, at_infinity


def _walk_sorted(costs: FloatArray, sellers: int, mean: float, settings: PathSettings) -> Any:
    layout = settings.max_weight, settings.first_capped, settings.first_rest
    return walk.walk_path(costs, sellers, walk.Rules(*layout, settings.rho, settings.least_rate), mean)


def _sorted(costs: FloatArray, settings: PathSettings) -> FloatArray:
    return sorted_costs(costs if settings.unit == 1.0 else costs / settings.unit)


def _cheap_part(
    finite: FloatArray, mean: float, settings: PathSettings, objective: BuyerObjective
) -> FloatArray:
    """Return, sorted, all costs up to a level that the walk will probably not pass.

    The level comes from walking a regular sample in which each seller stands for ``each`` sellers: the
    rates then shrink by ``sqrt(each)``, so rho grows by ``each``. A bad guess costs time, never
    correctness: the walk reports that it ran out of sellers.
    """
    sample = _sorted(finite[:: finite.size // _SAMPLE], settings)
    each = finite.size / sample.size
    layout = UNCAPPED
    if objective.weight_cap is not None:
        layout = split_cap(Fraction(settings.max_weight) * finite.size / sample.size)
    rules = walk.Rules(*layout, settings.rho * each, settings.least_rate / math.sqrt(each))
    reached: int = walk.walk_path(sample, sample.size, rules, mean)[2]
    last = reached + reached // 4 + 32
    if 2 * last > sample.size:
        return finite
    return _sorted(finite[finite <= sample[last] * settings.unit], settings)


def _local_minimum(row: list[float], settings: PathSettings, objective: BuyerObjective) -> LocalMinimum:
    at_bound = row[segments.AT_BOUND] > 0.0
    total = settings.max_total_promise
    if not at_bound:
        total = min(settings.epsilon_rate / row[segments.RATE], total)
    return LocalMinimum(
        objective_value=(
            objective.concentration * row[segments.NORM]
            + objective.noise / total
            + objective.payment_weight * total * row[segments.COST] * settings.unit
        ),
        total_promise=total,
        cutoff=(row[segments.BASE] + row[segments.GAP]) * settings.unit,
        spread=row[segments.SPREAD] * settings.unit,
        n_capped=int(row[segments.CAPPED]),
        n_bought=int(row[segments.BOUGHT]),
        at_bound=at_bound,
    )


def _cheapest(
    finite: FloatArray, settings: PathSettings, objective: BuyerObjective
) -> tuple[WeightRule, tuple[LocalMinimum, ...]]:
    """Fill up the cheapest to the cap, ties sharing equally: the limit of no concentration."""
    cap, capped, rest = settings.max_weight, settings.first_capped, settings.first_rest
    last = capped if rest > 0.0 else capped - 1
    margin = float(np.partition(finite, last)[last])
    cheaper = finite[finite < margin]
    ties = int(np.count_nonzero(finite == margin))
    share = min((rest + cap * (capped - cheaper.size)) / ties, cap)

    def rule(costs: FloatArray) -> FloatArray:
        weights = np.where(costs < margin, cap, 0.0)
        weights[costs == margin] = share
        return weights

    cost = cap * float(cheaper.sum()) + ties * share * margin
    norm = math.sqrt(cheaper.size * cap * cap + ties * share * share)
    n_capped = cheaper.size + (ties if share >= cap else 0)
    n_bought = cheaper.size + ties
    return rule, (
        _limit(
            norm,
            cost,
            cutoff=margin,
            spread=0.0,
            n_capped=n_capped,
            n_bought=n_bought,
            settings=settings,
            objective=objective,
        ),
    )


def _all_equal(
    finite: FloatArray, settings: PathSettings, objective: BuyerObjective
) -> tuple[WeightRule, tuple[LocalMinimum, ...]]:
    """Give everybody with a finite cost the same weight: the limit of negligible payments."""
    share = min(1.0 / finite.size, settings.max_weight)

    def rule(costs: FloatArray) -> FloatArray:
        return np.where(costs < math.inf, share, 0.0)

    cost = float((finite / finite.size).sum())
    norm = 1.0 / math.sqrt(finite.size)
    n_capped = finite.size if share >= settings.max_weight else 0
    minimum = _limit(
        norm,
        cost,
        cutoff=math.inf,
        spread=math.inf,
        n_capped=n_capped,
        n_bought=finite.size,
        settings=settings,
        objective=objective,
    )
    return rule, (minimum,)


def _limit(
    norm: float,
    cost: float,
    *,
    cutoff: float,
    spread: float,
    n_capped: int,
    n_bought: int,
    settings: PathSettings,
    objective: BuyerObjective,
) -> LocalMinimum:
    """Return the only minimum where the weights do not depend on the total promise."""
    sigma, gamma = objective.noise, objective.payment_weight
    wanted = math.sqrt(sigma) / math.sqrt(gamma) / math.sqrt(cost) if cost > 0.0 else math.inf
    total = min(wanted, settings.max_total_promise)
    if total == math.inf:
        raise _no_minimum()
    return LocalMinimum(
        objective_value=objective.concentration * norm + sigma / total + gamma * total * cost,
        total_promise=total,
        cutoff=cutoff,
        spread=spread,
        n_capped=n_capped,
        n_bought=n_bought,
        at_bound=wanted >= settings.max_total_promise,
    )


def _no_minimum() -> Infeasible:
    return Infeasible(
        "expected virtual costs under which a best total promise exists, found that the cheapest sellers "
        "cost nothing, so that more epsilon is always better: set max_mean_epsilon."
    )


def _fill(
    psi: FloatArray, rule: WeightRule, total_promise: float, bound: float
) -> tuple[FloatArray, FloatArray]:
    """Write weights and epsilons in the order of ``psi``; no epsilon exceeds ``bound``."""
    weights, epsilons = np.empty_like(psi), np.empty_like(psi)
    for start in range(0, psi.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        weights[part] = rule(psi[part])
        np.multiply(weights[part], total_promise, out=epsilons[part])
        if bound < math.inf:
            np.minimum(epsilons[part], bound, out=epsilons[part])
    return weights, epsilons
