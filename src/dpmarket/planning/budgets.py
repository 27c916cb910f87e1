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
from dpmarket.mechanisms import OfflineMechanism, population_curve
from dpmarket.mechanisms.inputs import check_dist_and_objective
from dpmarket.mechanisms.simple import expected_price
from dpmarket.planning.markets import Expectation, draw_markets
from dpmarket.planning.plan import Guarantee, Plan, plan_from
from dpmarket.planning.search import Found, find_payment_weight, payments
from dpmarket.progress import Progress

_CAMPAIGNS = 400  # simulated with real payments, at least
_RISK = 0.01  # probability that the campaigns mislead about their quantile
_MOST_CAMPAIGNS = 100_000  # that a confidence may need
_PAYMENTS = 1 << 12  # of the typical market, from which the mean of what rounding adds is taken
_ROUNDINGS = 6
_LITTLE = 1e-3  # share of the budget by which what rounding adds need not be known better
_WASTE = 0.02  # share of the budget that a plan with confidence may leave unused at its quantile


def plan_payment_weight(
    dist: CostDistribution,
    objective: BuyerObjective,
    sellers: int,
    budget: float,
    *,
    confidence: float | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
    minor_units: int | None = None,
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
    dist
        The distribution of costs.
    objective
        Prices and bounds; its payment weight is ignored.
    sellers
        How many will report, at least 1.
    budget
        Money, above 0.
    confidence
        Probability strictly between 0 and 1 with which payments stay within the budget, or None for a budget
        that is met on average.
    rng
        Source of randomness. None means a fixed seed: whoever knows the distribution and the objective can
        then check the plan, sellers included.
    progress
        Called with the numbers of simulated campaigns, done and expected.
    minor_units
        Smallest currency units to one unit of money: count payments as they are rounded up to them. None:
        count the payments themselves.

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
        what can be spent), if costs have no upper end and everybody is needed, or if rounding up alone
        would exceed the budget.

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
    if minor_units is None:
        found = find_payment_weight(dist, objective, sellers, payments, budget, source)
    else:
        minor_units = checks.whole("minor_units", minor_units, minimum=1)
        found = _rounded_up(dist, objective, sellers, budget, minor_units)
    if confidence is None:
        return plan_from(found, sellers)
    return _with_confidence(
        dist,
        found,
        sellers,
        budget,
        confidence=confidence,
        rng=source,
        progress=progress,
        minor_units=minor_units,
    )


def stays_within(
    dist: CostDistribution,
    objective: BuyerObjective,
    sellers: int,
    budget: float,
    confidence: float | None,
    minor_units: int,
) -> bool:
    """Tell whether an objective's payments stay within a budget if this many sellers report.

    Parameters
    ----------
    dist
        The distribution of costs.
    objective
        Prices and bounds, with the payment weight that is asked about.
    sellers
        How many report, at least 1.
    budget
        Money, above 0.
    confidence
        The probability with which payments should stay within the budget; None: on average.
    minor_units
        Smallest currency units to one unit of money, to which payments are rounded up.
    """
    if confidence is not None:
        count, rank = _ranked(confidence)
        seeds = np.random.default_rng(0).integers(2**63, size=count)
        totals = _Campaigns(dist, sellers, None, count, minor_units).totals(objective, seeds)
        return bool(np.sort(totals)[rank - 1] <= budget)
    expectation = draw_markets(dist, sellers, np.random.default_rng(0)).expect(objective)
    added = _units_added(dist, objective, sellers, minor_units) / minor_units
    return expectation.payment + expectation.share * sellers * added <= budget


def _rounded_up(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budget: float, minor_units: int
) -> Found:
    """Return the payment weight at which payments, rounded up to smallest units, meet the budget on average.

    What rounding adds to a payment is between nothing and one unit: first it is taken to be a whole one, then
    what the population's payments say, until that does not change.
    """
    least = 1 if objective.weight_cap is None else math.ceil(sellers / min(objective.weight_cap, sellers))
    if least / minor_units >= budget:
        raise Infeasible(
            f"expected a budget above {least / minor_units!r}, which rounding payments up to 1/{minor_units} "
            f"costs alone where at least {least} sellers are bought from; got {budget!r}."
        )
    units = 1.0
    for _ in range(_ROUNDINGS):
        found = _with_rounding(dist, objective, sellers, budget, units / minor_units)
        before, units = units, _units_added(dist, found.objective, sellers, minor_units)
        if abs(units - before) * found.expectation.share * sellers / minor_units <= _LITTLE * budget:
            break
    return found


def _with_rounding(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budget: float, added: float
) -> Found:
    def rounded(expectation: Expectation) -> tuple[float, float]:
        return expectation.payment + expectation.share * sellers * added, expectation.payment_error

    try:
        return find_payment_weight(dist, objective, sellers, rounded, budget, np.random.default_rng(0))
    except NotConverged:
        raise Infeasible(
            f"expected a budget that leaves something after payments are rounded up, got {budget!r}: use "
            "smaller units of money (money.minor_units), or a larger budget."
        ) from None


def _units_added(dist: CostDistribution, objective: BuyerObjective, sellers: int, minor_units: int) -> float:
    """Return what rounding up adds to a payment on average, in smallest units, in the typical market."""
    costs = dist.quantile((np.arange(_PAYMENTS) + 0.5) / _PAYMENTS)
    offers = population_curve(dist, objective, sellers).offers(costs)
    bought = offers.epsilons > 0.0
    if not bought.any():
        return 1.0
    exact = offers.payments[bought] * minor_units
    return float(np.mean(np.ceil(exact) - exact))


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
    *,
    confidence: float,
    rng: np.random.Generator,
    progress: Progress | None,
    minor_units: int | None,
) -> Plan:
    """Raise the payment weight until the budget suffices with the probability asked for."""
    count, rank = _ranked(confidence)
    campaigns = _Campaigns(dist, sellers, progress, 5 * count, minor_units)
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


def _ranked(confidence: float) -> tuple[int, int]:
    """Return how many campaigns to simulate, and which of their totals, in order, is above the quantile."""
    count = max(_CAMPAIGNS, 2 * math.ceil(math.log(_RISK) / math.log(confidence)))
    return count, int(stats.binom.isf(_RISK, count, confidence)) + 1


class _Campaigns:
    """Simulated campaigns with real payments, counted for the progress callback."""

    def __init__(
        self,
        dist: CostDistribution,
        sellers: int,
        progress: Progress | None,
        expected: int,
        minor_units: int | None,
    ):
        self._dist, self._sellers, self._progress = dist, sellers, progress
        self._done, self._expected = 0, expected
        self._minor_units = minor_units

    def totals(self, objective: BuyerObjective, seeds: IntArray) -> FloatArray:
        """Return the total payment of the campaign of each seed."""
        mechanism = OfflineMechanism(self._dist, objective)
        totals = np.empty(len(seeds))
        for k, seed in enumerate(seeds):
            costs = self._dist.sample(self._sellers, np.random.default_rng(int(seed)))
            outcome = mechanism.run(costs)
            totals[k] = outcome.total_payment
            if self._minor_units is not None:
                totals[k] = outcome.in_minor_units(self._minor_units).total / self._minor_units
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
