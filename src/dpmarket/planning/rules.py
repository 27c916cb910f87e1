"""Turn a budget into one price for all, and say what a finer rule would gain over it.

A truthful rule may be as fine as a curve from cost to promise, or as plain as one price for one epsilon, take
it or leave it. The plain one is told in a line. What it gives up is known before anybody reports, as a share
of the expected error, so that the simplest rule that loses little can be chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, largest_cost_at
from dpmarket.mechanisms import PostedPrice
from dpmarket.planning.budgets import checked_market
from dpmarket.planning.error_model import ErrorModel, ExpectedError
from dpmarket.planning.plan import Plan, Prospect

_SHARES = 400  # prices that are tried
_LITTLE = 0.10  # more expected error than this is worth a rule that takes explaining

BEST, POSTED_PRICE = "best", "posted price"
"""Names of the rules in a market file."""


@dataclass(frozen=True)
class RuleChoice:
    """The best rule and one price for all, for the same money, by the error to expect.

    Attributes
    ----------
    best, posted
        The expected errors.
    price
        Of the posted price, money per unit of epsilon.
    epsilon
        What whoever accepts it is promised.
    share_accepting
        The share of people whose cost it covers.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import logistic_error, plan_prices
    >>> dist, model = Uniform(1, 5), logistic_error(n_features=31, row_bound=1.03)
    >>> choice = compare_rules(dist, plan_prices(dist, 5000, 600.0, model), 600.0)
    >>> choice.recommended, round(choice.loss, 3)
    ('posted price', 0.039)
    """

    best: ExpectedError
    posted: ExpectedError
    price: float
    epsilon: float
    share_accepting: float

    @property
    def loss(self) -> float:
        """How much larger the posted price's expected error is, as a share of the best rule's."""
        return self.posted.total / self.best.total - 1.0

    @property
    def recommended(self) -> Literal["best", "posted price"]:
        """The simplest rule that loses little: at most a tenth of the expected error."""
        return "posted price" if self.loss <= _LITTLE else "best"

    def sentence(self) -> str:
        """Say what the posted price would be, what it loses, and which of the two is recommended."""
        offer = (
            f"One price for all, {self.price:.4g} per unit of epsilon for a promise of {self.epsilon:.4g}, "
            f"which {self.share_accepting:.0%} of people would accept, has an expected error "
        )
        change = f"{abs(self.loss):.0%} {'larger' if self.loss >= 0.0 else 'smaller'}"
        if self.recommended == "posted price":
            return (
                offer
                + f'{change} and is told in a line: recommended, as objective.mechanism = "posted price".'
            )
        return offer + f"{change}: the best rule is worth explaining that cheaper people give, and get, more."

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        return {
            "recommended": self.recommended,
            "loss": self.loss,
            "best": self.best.to_dict(),
            "posted": self.posted.to_dict(),
            "price": self.price,
            "epsilon": self.epsilon,
            "share_accepting": self.share_accepting,
        }


def compare_rules(dist: CostDistribution, plan: Plan, budget: float) -> RuleChoice:
    """Return what one price for all would give for the money of a plan, beside what the plan gives.

    Parameters
    ----------
    dist
        The distribution of costs that the plan was made for.
    plan
        With an error model, as :func:`~dpmarket.planning.prices.plan_prices` makes it.
    budget
        Expected total payment, money.

    Returns
    -------
    RuleChoice
        With a recommendation.

    Raises
    ------
    InvalidInput
        If the plan has no error model.
    """
    best, model = plan.prospect.error, plan.error_model
    assert model is not None  # there is no prospect without one
    posted = best_posted_price(
        dist,
        plan.sellers,
        budget,
        model,
        weight_cap=plan.objective.weight_cap,
        max_mean_epsilon=plan.objective.max_mean_epsilon,
    )
    prospect = posted_prospect(posted, plan.sellers, model)
    return RuleChoice(best, prospect.error, posted.price, posted.epsilon, prospect.share_bought)


def posted_prospect(offer: PostedPrice, sellers: int, error_model: ErrorModel) -> Prospect:
    """Return what can be expected of a posted price.

    Parameters
    ----------
    offer
        The price and the promise.
    sellers
        How many will be asked.
    error_model
        What noise and few people cost.

    Returns
    -------
    Prospect
        The payment is the budget that the offer was made for.
    """
    share = float(offer.dist.cdf(offer.price))
    error = posted_error(error_model, sellers, share, offer.epsilon)
    return Prospect(sellers * share * offer.epsilon * offer.price, error, share)


def best_posted_price(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    error_model: ErrorModel,
    *,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
) -> PostedPrice:
    """Return the posted price with the least expected error for a budget, from public facts alone.

    With a price that a share F accepts, about ``sellers * F`` records of equal weight are bought for a total
    promise of ``budget / price``. Prices are never inside an ironed interval, so that
    :func:`~dpmarket.mechanisms.posted_price_curve` takes them.

    Parameters
    ----------
    dist
        The distribution of costs.
    sellers
        How many will be asked, at least 1.
    budget
        Expected total payment, money, above 0.
    error_model
        What noise and few people cost.
    weight_cap
        Nobody's weight exceeds this many times 1/m: at least one in so many must accept.
    max_mean_epsilon
        Upper bound of the mean epsilon over all sellers; it may leave money unspent.

    Returns
    -------
    PostedPrice
        The best of 400 prices.

    Raises
    ------
    InvalidInput, Infeasible
        For arguments out of their range.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import logistic_error
    >>> offer = best_posted_price(Uniform(1, 5), 456, 600.0, logistic_error(n_features=31, row_bound=1.03))
    >>> round(offer.price, 2), round(offer.epsilon)
    (1.28, 15)
    """
    sellers = checked_market(dist, BuyerObjective(1.0, 1.0, 1.0, weight_cap, max_mean_epsilon), sellers)
    budget = checks.positive("budget", budget)
    least = max(min(2.0 / sellers, 0.5), 0.0 if weight_cap is None else 1.0 / weight_cap)
    prices = _prices(dist, np.geomspace(min(least, 1.0), 1.0, _SHARES))
    shares = np.asarray(dist.cdf(prices))
    usable = (shares >= least * (1.0 - 1e-9)) & (prices > 0.0)
    prices, shares = prices[usable], shares[usable]
    totals = budget / prices
    if max_mean_epsilon is not None:
        totals = np.minimum(totals, sellers * max_mean_epsilon)
    epsilons = totals / (sellers * shares)
    errors = [
        posted_error(error_model, sellers, share, epsilon).total
        for share, epsilon in zip(shares.tolist(), epsilons.tolist(), strict=True)
    ]
    best = int(np.argmin(errors))
    return PostedPrice(dist, float(epsilons[best]), float(prices[best]))


def posted_error(error_model: ErrorModel, sellers: int, share: float, epsilon: float) -> ExpectedError:
    """Return the error to expect of a promise that a share of the sellers accepts.

    Their number K is binomial; the means of 1/K and 1/K^2 are taken to the second order in its spread.
    """
    expected = sellers * share
    spread = (1.0 - share) / expected
    return ExpectedError(
        error_model.sampling / expected * (1.0 + spread),
        error_model.noise / (expected * epsilon) ** 2 * (1.0 + 3.0 * spread),
        error_model.signal,
    )


def _prices(dist: CostDistribution, shares: FloatArray) -> FloatArray:
    """Return the prices that these shares of people accept; those in ironed intervals move to their ends."""
    if math.isinf(dist.support[1]):
        shares = shares[shares < 1.0]
    prices = np.asarray(dist.quantile(shares))
    for interval in dist.ironed_intervals:
        inside = (prices >= interval.low) & (prices < interval.high)
        if inside.any():
            beyond = largest_cost_at(math.nextafter(interval.virtual_cost, 0.0), dist)
            below = math.nextafter(beyond, 0.0)
            ends = [below, interval.high] if below > dist.support[0] else [interval.high]
            prices = np.append(prices[~inside], ends)
    return np.unique(prices)
