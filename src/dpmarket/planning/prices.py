r"""Turn a budget and public facts into the buyer's prices: those under which the expected error is least.

What the buyer wants is a small expected error, ``A |a|^2 + B / eta^2``
(:mod:`dpmarket.planning.error_model`). What the mechanisms minimise is the paper's
``concentration * |a| + noise / eta`` plus money. The two agree at one point if the prices are the slopes
there, ``concentration = 2 A |a|`` and ``noise = 2 B / eta``. So, in two steps:

1. the best purchase of the population (sellers at evenly spaced quantiles of the cost distribution) is
   computed exactly, and the two prices are frozen from it;
2. the payment weight is planned anew with these prices, so that expected payments meet the budget.

No report is an argument of any of it. A distribution that was fitted to the sellers' own reports would bring
them in by the back door, and lying would pay: fit it to people who will not sell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.allocation.simplex import UNCAPPED, split_cap
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput
from dpmarket.planning.budgets import checked_market, plan_payment_weight, refuse_unspendable
from dpmarket.planning.class_error import classifier_error
from dpmarket.planning.error_model import ErrorModel, ExpectedError
from dpmarket.planning.markets import Markets, population
from dpmarket.planning.path import BestPurchase, walk_path
from dpmarket.planning.plan import Plan
from dpmarket.planning.search import ALL_BELOW, estimate_payment_weight, payments, share_to_look_at
from dpmarket.progress import Progress

# Above the least possible expected error by more than this share: another ratio of the prices is looked for.
_LOSS = 0.02
# Concentrations that are then tried, as multiples of the first one.
_FACTORS = tuple(2.0**k for k in range(-10, 5))
_OVER = 1e-3  # share of the budget by which a purchase lies beyond a jump
_BEYOND_A_JUMP = 1e-6  # of the logarithm of the payment weight


@dataclass(frozen=True)
class TypicalPurchase:
    """The best purchase that a budget allows in a market of typical costs.

    No purchase from that market whose virtual costs are within the budget has a smaller expected error.

    Attributes
    ----------
    error
        Its expected error.
    total_promise
        The sum of its promises.
    objective
        The prices at which the paper's objective has its slopes there, and the payment weight that goes with
        them in the typical market.
    share_bought
        The share of sellers bought from.
    """

    error: ExpectedError
    total_promise: float
    objective: BuyerObjective
    share_bought: float


def suggest_prices(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    n_features: int,
    row_bound: float,
    *,
    n_classes: int = 2,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
    confidence: float | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> BuyerObjective:
    """Return the buyer's objective under which a budget buys the least expected error.

    Concentration and noise are the prices, payment weight the one at which expected payments meet the budget.
    The mechanisms keep the paper's form, so that truthfulness and participation hold as for any prices.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge; not fitted to the reports of these sellers.
    sellers
        How many will report, at least 1. Once their number is known, plan again with it.
    budget
        Expected total payment, money, above 0.
    n_features
        Number of coefficients of the model (with more than two classes: of one of them), the constant's
        included.
    row_bound
        R, the length that no row exceeds, its constant included. It scales all prices alike and changes no
        promise; :func:`~dpmarket.planning.error_model.estimator_error` knows the estimator's.
    n_classes
        K, how many classes the model tells apart, at least 2.
    weight_cap, max_mean_epsilon
        Bounds of the objective, as in :class:`BuyerObjective`.
    confidence, rng, progress
        As in :func:`~dpmarket.planning.budgets.plan_payment_weight`.

    Returns
    -------
    BuyerObjective
        A function of these arguments alone.

    Raises
    ------
    InvalidInput, Infeasible
        As :func:`~dpmarket.planning.budgets.plan_payment_weight`.

    See Also
    --------
    plan_prices : the same with what to expect of it, for any error model.
    dpmarket.planning.compare_noises : which noise is the smaller one, and what a delta would gain.
    tune : tries prices on public data.

    Notes
    -----
    Departs from the paper, which takes the prices from a bound on the error
    (:func:`~dpmarket.planning.bounds.bound_constants`); see "Planning a purchase".

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> prices = suggest_prices(Uniform(1, 5), sellers=456, budget=600.0, n_features=31, row_bound=1.03)
    >>> round(prices.noise / prices.concentration)
    227
    """
    error_model = classifier_error(n_features, row_bound, n_classes)
    return plan_prices(
        dist,
        sellers,
        budget,
        error_model,
        weight_cap=weight_cap,
        max_mean_epsilon=max_mean_epsilon,
        confidence=confidence,
        rng=rng,
        progress=progress,
    ).objective


def plan_prices(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    error_model: ErrorModel | None,
    *,
    concentration: float | None = None,
    noise: float | None = None,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
    confidence: float | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return the plan for a budget whose prices are those of the least expected error, or given ones.

    Parameters
    ----------
    dist, sellers, budget, weight_cap, max_mean_epsilon, confidence, rng, progress
        As in :func:`suggest_prices`.
    error_model
        What noise and few people cost, such as
        :func:`~dpmarket.planning.error_model.logistic_error`; None only with a price.
    concentration, noise
        Prices to keep. With one of them the other is 1; with neither, both are suggested.

    Returns
    -------
    Plan
        A function of the arguments alone; ``plan.expected_error`` is what it was made for.

    Raises
    ------
    InvalidInput, Infeasible
        As :func:`~dpmarket.planning.budgets.plan_payment_weight`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import logistic_error
    >>> plan = plan_prices(Uniform(1, 5), sellers=456, budget=600.0, error_model=logistic_error(31, 1.03))
    >>> print(plan.expected_error.sentence())
    Of the expected error 72% is noise and 28% comes from few people.
    """
    objective = freeze_prices(
        dist,
        sellers,
        budget,
        error_model,
        concentration=concentration,
        noise=noise,
        weight_cap=weight_cap,
        max_mean_epsilon=max_mean_epsilon,
    )
    plan = plan_payment_weight(
        dist, objective, sellers, budget, confidence=confidence, rng=rng, progress=progress
    )
    return replace(plan, error_model=error_model)


def freeze_prices(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    error_model: ErrorModel | None,
    *,
    concentration: float | None = None,
    noise: float | None = None,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
) -> BuyerObjective:
    """Return the prices alone: the first of the two steps, for whoever plans the payment weight.

    Parameters
    ----------
    dist, sellers, budget, error_model, concentration, noise, weight_cap, max_mean_epsilon
        As in :func:`plan_prices`.

    Returns
    -------
    BuyerObjective
        Its payment weight is only a start: that of the typical market, with which few sellers would be
        overpaid, or 1 with prices that were given.

    Raises
    ------
    InvalidInput, Infeasible
        As :func:`plan_prices`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import logistic_error
    >>> prices = freeze_prices(Uniform(1, 5), 5, 20.0, logistic_error(31, 1.03))
    >>> plan = plan_payment_weight(Uniform(1, 5), prices, 5, 20.0)
    >>> plan.payment_weight > prices.payment_weight
    True
    """
    if concentration is not None or noise is not None:
        mu, sigma = (1.0 if price is None else price for price in (concentration, noise))
        return BuyerObjective(mu, sigma, 1.0, weight_cap, max_mean_epsilon)
    if error_model is None:
        raise InvalidInput(
            "expected the number of features, from which an error model and so prices follow; or "
            "concentration and noise, which are kept."
        )
    typical = typical_purchase(
        dist, sellers, budget, error_model, weight_cap=weight_cap, max_mean_epsilon=max_mean_epsilon
    )
    return _met_by_the_mechanism(dist, typical, sellers, budget, error_model)


def typical_purchase(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    error_model: ErrorModel,
    *,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
) -> TypicalPurchase:
    """Return the purchase of least expected error for a budget, in a market of typical costs.

    Sellers stand at evenly spaced quantiles of the cost distribution, at most 4096 of them, each for as many
    as it takes; in a large market only the cheap ones are looked at.

    Parameters
    ----------
    dist, sellers, budget, error_model, weight_cap, max_mean_epsilon
        As in :func:`plan_prices`.

    Returns
    -------
    TypicalPurchase
        Its error is a lower bound of what any purchase from that market has within the budget.

    Raises
    ------
    InvalidInput, Infeasible
        As :func:`~dpmarket.planning.budgets.plan_payment_weight`.
    """
    if not isinstance(error_model, ErrorModel):
        raise InvalidInput(
            f"expected an ErrorModel, as logistic_error makes it, got {type(error_model).__name__}."
        )
    bounded = BuyerObjective(1.0, 1.0, 1.0, weight_cap, max_mean_epsilon)
    sellers = checked_market(dist, bounded, sellers)
    budget = checks.positive("budget", budget)
    refuse_unspendable(dist, bounded, sellers, budget)
    cheapest = 1.0
    while True:
        crowd = population(dist, sellers, cheapest)
        found = _best(crowd, bounded, budget, error_model)
        share = found.bought * crowd.each / sellers
        narrower = share_to_look_at(share, sellers)
        if sellers <= ALL_BELOW or narrower > 0.5 * cheapest:
            break
        cheapest = narrower
    squared_norm = found.squared_norm / crowd.each
    slope = 2.0 * error_model.sampling / crowd.each / found.spread / found.total_promise
    objective = replace(
        bounded,
        concentration=2.0 * error_model.sampling * math.sqrt(squared_norm),
        noise=2.0 * error_model.noise / found.total_promise,
        payment_weight=slope if slope > 0.0 else 1.0,
    )
    error = error_model.predict(squared_norm, found.total_promise)
    return TypicalPurchase(error, found.total_promise, objective, share)


def _best(crowd: Markets, bounded: BuyerObjective, budget: float, error_model: ErrorModel) -> BestPurchase:
    """Solve the population: an element that stands for ``each`` people has the weight of all of them."""
    layout = UNCAPPED
    if bounded.weight_cap is not None:
        layout = split_cap(Fraction(bounded.weight_cap) * Fraction(crowd.each) / crowd.sellers)
    most = math.inf
    if bounded.max_mean_epsilon is not None:
        most = bounded.max_mean_epsilon * crowd.sellers
    path = walk_path(np.sort(crowd.virtual_costs[0]), *layout)
    return path.best_for(budget, error_model.sampling / crowd.each, error_model.noise, most)


def _met_by_the_mechanism(
    dist: CostDistribution, typical: TypicalPurchase, sellers: int, budget: float, error_model: ErrorModel
) -> BuyerObjective:
    """Return prices under which the paper's objective comes to the typical purchase, or closest to it.

    With the slopes as prices the purchase is a stationary point of the paper's objective, and nearly always
    its minimum. Where a few people are very cheap and all others dear, the objective can have another, lower
    minimum; then the ratio of the prices is searched for the least expected error.
    """
    first = typical.objective
    error = _typical_error(dist, first, sellers, budget, error_model)
    if error <= (1.0 + _LOSS) * typical.error.total:
        return first
    candidates = [replace(first, concentration=factor * first.concentration) for factor in _FACTORS]
    errors = [_typical_error(dist, other, sellers, budget, error_model) for other in candidates]
    return candidates[int(np.argmin(errors))]


def _typical_error(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budget: float, error_model: ErrorModel
) -> float:
    """Return the expected error of the paper's objective in the typical market, within the budget."""
    estimate = estimate_payment_weight(dist, objective, sellers, payments, budget)
    expectation = estimate.expectation
    if expectation.payment > (1.0 + _OVER) * budget:
        weight = estimate.objective.payment_weight * math.exp(_BEYOND_A_JUMP)
        within = replace(estimate.objective, payment_weight=weight)
        expectation = population(dist, sellers, estimate.cheapest).expect(within)
    return error_model.sampling * expectation.squared_norm + error_model.noise * expectation.inverse_square
