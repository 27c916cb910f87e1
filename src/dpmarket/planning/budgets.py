"""Turn a budget into a payment weight, from the cost distribution alone and before anybody reports.

The paper suggests to adjust the payment weight until payments fit a budget. Done with the reports this makes
the weight a function of every report, and lying pays. Here the reports are not an argument.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import stats

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs import CostDistribution
from dpmarket.errors import Infeasible, InvalidInput, NotConverged
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.mechanisms.inputs import check_dist_and_objective
from dpmarket.mechanisms.simple import expected_price
from dpmarket.planning.markets import draw_markets
from dpmarket.planning.plan import Guarantee, Plan, plan_from
from dpmarket.planning.search import Found, find_payment_weight, payments
from dpmarket.progress import Progress

_CAMPAIGNS = 400  # simulated with real payments, at least
_RISK = 0.01  # probability that the campaigns mislead about their quantile
_MOST_CAMPAIGNS = 100_000  # that a confidence may need
_WASTE = 0.02  # share of the budget that a plan with confidence may leave unused at its quantile


def plan_payment_weight(
    dist: CostDistribution,
    objective: BuyerObjective,
    sellers: int,
    budget: float,
    confidence: float | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return the payment weight under which payments meet a budget.

    Without ``confidence`` the *expected* total payment is the budget, and never above it by more than its
    standard error. Where costs come in groups, payments can jump over the budget as the payment weight falls;
    the plan then stays below the jump, and its ``gap`` is what it leaves unspent. With ``confidence`` the
    payment weight is raised until the budget suffices with that probability: by simulated campaigns with
    real payments, the one whose rank lies above the quantile asked for with 99% certainty is within the
    budget, and so are enough of as many fresh campaigns.

    Parameters
    ----------
    dist : the distribution of costs.
    objective : prices and bounds; its payment weight is ignored.
    sellers : how many will report, at least 1.
    budget : money, above 0.
    confidence : probability strictly between 0 and 1 with which payments stay within the budget, or None for
        a budget that is met on average.
    rng : source of randomness. None means a fixed seed: whoever knows the distribution and the objective can
        then check the plan, sellers included.
    progress : called with the numbers of simulated campaigns, done and expected.

    Returns
    -------
    Plan
        A function of the arguments alone; ``float(plan)`` is the payment weight.

    Raises
    ------
    InvalidInput
        For arguments out of their range.
    Infeasible
        If ``max_mean_epsilon`` keeps payments below the budget whatever the payment weight (the message says
        what can be spent), or if costs have no upper end and everybody is needed.

    Notes
    -----
    Expected payments equal expected virtual costs (paper, Lemma ``mech design``) and fall with the payment
    weight. Totals of real payments need not, draw by draw, so that a plan with confidence is checked on
    fresh draws before it is returned.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> plan = plan_payment_weight(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0), sellers=2000, budget=25.0)
    >>> round(plan.expected_payment / 25.0, 2), plan.objective.payment_weight == float(plan)
    (1.0, True)
    """
    sellers = checked_market(dist, objective, sellers)
    budget = checks.positive("budget", budget)
    if confidence is not None:
        confidence = checks.strictly_between("confidence", confidence, 0.0, 1.0)
        possible = math.exp(2.0 * math.log(_RISK) / _MOST_CAMPAIGNS)
        if confidence > possible:
            raise InvalidInput(
                f"expected a confidence of at most {possible!r}, for which {_MOST_CAMPAIGNS} simulated "
                f"campaigns are enough, got {confidence!r}."
            )
    refuse_unspendable(dist, objective, sellers, budget)
    source = np.random.default_rng(0) if rng is None else rng
    found = find_payment_weight(dist, objective, sellers, payments, budget, source)
    if confidence is None:
        return plan_from(found, sellers)
    return _with_confidence(dist, found, sellers, budget, confidence, source, progress)


def refuse_unspendable(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budget: float
) -> None:
    """Refuse a budget that ``max_mean_epsilon`` keeps from being spent, whatever the payment weight."""
    if objective.max_mean_epsilon is None:
        return
    most = sellers * objective.max_mean_epsilon * _limit_of_price(dist, objective, sellers)
    if budget >= most:
        raise Infeasible(
            f"expected a budget below {most!r}, the most that {sellers} sellers can be paid in "
            f"expectation with max_mean_epsilon={objective.max_mean_epsilon!r}, got {budget!r}."
        )


def _limit_of_price(dist: CostDistribution, objective: BuyerObjective, sellers: int) -> float:
    """Return what a unit of epsilon costs, in expectation, as the payment weight goes to 0.

    Everybody then gets the same weight, and is paid what the dearest would be. But if uneven weights have no
    price, all is bought from the cheapest, as many as the weight cap demands: the n cheapest are paid the
    cost of the next.
    """
    if objective.concentration > 0.0:
        return dist.support[1]
    largest = 1.0 if objective.weight_cap is None else min(objective.weight_cap / sellers, 1.0)
    whole = min(math.floor(1.0 / largest * (1.0 + 1e-12)), sellers)
    price = largest * whole * expected_price(dist, sellers, whole)
    if whole < sellers:
        next_one = (whole + 1) * expected_price(dist, sellers, whole + 1) - whole * price / (largest * whole)
        price += max(1.0 - whole * largest, 0.0) * next_one
    return price


def checked_market(dist: CostDistribution, objective: BuyerObjective, sellers: int) -> int:
    """Refuse what is no market that can be planned; return the number of sellers."""
    check_dist_and_objective(dist, objective)
    if not objective.noise > 0.0:
        raise InvalidInput("expected objective.noise > 0: without a price of noise, buying nothing is best.")
    sellers = checks.whole("sellers", sellers, minimum=1)
    others = (sellers - 1) * (1.0 if objective.weight_cap is None else objective.weight_cap / sellers)
    if math.isinf(dist.support[1]) and others < 1.0:
        raise Infeasible(
            "expected costs with an upper end, or a weight_cap under which nobody is needed at every price: "
            "expected payments are infinite otherwise."
        )
    return sellers


def _with_confidence(
    dist: CostDistribution,
    found: Found,
    sellers: int,
    budget: float,
    confidence: float,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Plan:
    """Raise the payment weight until the budget suffices with the probability asked for."""
    count = max(_CAMPAIGNS, 2 * math.ceil(math.log(_RISK) / math.log(confidence)))
    rank = int(stats.binom.isf(_RISK, count, confidence)) + 1
    campaigns = _Campaigns(dist, sellers, progress, 5 * count)
    seeds = rng.integers(2**63, size=count)
    objective, goal = found.objective, budget
    too_low, enough = 0.0, math.inf  # payment weights with a quantile above and within the goal
    for _ in range(40):
        weight = objective.payment_weight
        quantile = float(np.sort(campaigns.totals(objective, seeds))[rank - 1])
        if quantile > goal:
            too_low = max(too_low, weight)
        else:
            enough = min(enough, weight)
            if quantile >= (1.0 - _WASTE) * goal or weight <= (1.0 + _WASTE) * too_low:
                fresh = campaigns.totals(objective, rng.integers(2**63, size=count))
                share = float(np.mean(fresh <= budget))
                if share >= confidence:
                    guarantee = Guarantee(budget, confidence, quantile, share, count)
                    return _priced(dist, objective, found, sellers, guarantee)
                goal, enough = (1.0 - _WASTE) * min(goal, quantile), math.inf
        # Totals move with the payment weight nearly as their mean does; where they jump, halve the distance.
        weight *= math.exp(math.log(quantile / ((1.0 - 0.25 * _WASTE) * goal)) / -found.slope)
        if not too_low < weight < enough:
            weight = math.sqrt(max(too_low, 0.25 * enough) * min(enough, 4.0 * max(too_low, 1e-300)))
        objective = replace(objective, payment_weight=weight)
    raise NotConverged(
        f"expected a payment weight whose payments stay within the budget with probability {confidence!r}, "
        "found none in forty attempts; plan with another seed or confidence."
    )


class _Campaigns:
    """Simulated campaigns with real payments, counted for the progress callback."""

    def __init__(self, dist: CostDistribution, sellers: int, progress: Progress | None, expected: int):
        self._dist, self._sellers, self._progress = dist, sellers, progress
        self._done, self._expected = 0, expected

    def totals(self, objective: BuyerObjective, seeds: IntArray) -> FloatArray:
        """Return the total payment of the campaign of each seed."""
        mechanism = OfflineMechanism(self._dist, objective)
        totals = np.empty(len(seeds))
        for k, seed in enumerate(seeds):
            costs = self._dist.sample(self._sellers, np.random.default_rng(int(seed)))
            totals[k] = mechanism.run(costs).total_payment
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, max(self._expected, self._done))
        return totals


def _priced(
    dist: CostDistribution, objective: BuyerObjective, found: Found, sellers: int, guarantee: Guarantee
) -> Plan:
    """Return the plan with what is expected at the payment weight that was chosen."""
    expectation = draw_markets(dist, sellers, np.random.default_rng(0)).expect(objective)
    chosen = Found(objective, expectation, found.slope, found.draws)
    return replace(plan_from(chosen, sellers), guarantee=guarantee)
