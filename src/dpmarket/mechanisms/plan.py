r"""One plan before anybody reports: the payment weight for a budget, and what the money buys.

A budget may not decide anything once reports are in: a payment weight that depends on reports makes
misreporting pay. So it is found from the announced distribution, as the weight at which the *expected*
payments, rounded up to minor units, meet the budget, or at which they stay below it with a stated
probability.

The typical market stands for any number of sellers: quantile bins with counts, never one number per seller.
With fewer than :data:`SMALL_MARKET` sellers one seller's report moves everybody's prices, so the exact
mechanism is run on simulated markets instead.

Beside the optimum a plan has the same figures for simpler rules that cost the same, on the same markets: the
best posted price, a price that half of the people accept, and one epsilon for everybody. So every plan says
what personal prices buy. It also says what twice the money, twice the people or fewer features would do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.display import html_table, short_repr
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.cross_pricing import price_for_budget, weight_for_budget
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group, check_groups
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.price_schedule import (
    CostBins,
    PricedMarket,
    PriceSchedule,
    price_market,
)
from dpmarket.mechanisms.water_filling import check_terms

if TYPE_CHECKING:
    import polars as pl

SMALL_MARKET = 100
"""With fewer sellers, markets are simulated."""
_SIMULATED = 40  # markets for an expectation
_SIMULATED_TAIL = 60  # markets for a quantile
_PRICES = 400  # posted prices that are tried
_FEW_PRICES = 40  # in simulated markets, where the luckiest of many would look too good
_CLOSE = 5e-3  # relative: how closely simulated payments meet a budget, whose own chance is larger


@dataclass(frozen=True)
class Prospect:
    """What to expect of a rule for buying: money with rounding, error in two parts, and what sellers sell.

    ``share_bought`` counts sellers who sell something, ``mean_epsilon`` is over all sellers, and the largest
    epsilon and payment are those of any seller, whatever their cost.
    """

    name: str
    expected_payment: float
    sampling_error: float
    noise_error: float
    share_bought: float
    mean_epsilon: float
    largest_epsilon: float
    largest_payment: float

    @property
    def error(self) -> float:
        """Both parts of the expected error together."""
        return self.sampling_error + self.noise_error


@dataclass(frozen=True, repr=False)
class Plan:
    """What a budget buys, fixed before anybody reports.

    Attributes
    ----------
    objective
        With the payment weight that belongs to the budget.
    schedules
        What the typical market offers at each cost, one per group.
    prospect, alternatives
        Of the optimal purchase, and of simpler rules at the same expected payment.
    changes
        Factors by which other circumstances would change the expected error of the typical market.
    sellers, budget, probability
        As planned for.
    """

    objective: AnyObjective
    schedules: tuple[PriceSchedule, ...]
    prospect: Prospect
    alternatives: tuple[Prospect, ...]
    changes: tuple[tuple[str, float], ...]
    sellers: int
    budget: float
    probability: float | None

    @property
    def payment_weight(self) -> float:
        """Gamma, error per unit of money."""
        return self.objective.payment_weight

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data."""
        return {
            "objective": self.objective.to_dict(),
            "schedules": [schedule.to_dict() for schedule in self.schedules],
            "prospect": {**vars(self.prospect)},
            "alternatives": [{**vars(rule)} for rule in self.alternatives],
            "changes": dict(self.changes),
            "sellers": self.sellers,
            "budget": self.budget,
            "probability": self.probability,
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per rule: the optimum, and simpler rules that cost the same."""
        import polars as pl  # slow to load

        return pl.DataFrame([{**vars(r), "error": r.error} for r in (self.prospect, *self.alternatives)])

    def __repr__(self) -> str:
        return short_repr(self, self._rows())

    def _repr_html_(self) -> str:
        return html_table("Plan", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        found = self.prospect
        rows = [
            ("payment weight", f"{self.payment_weight:.4g}"),
            ("expected payment", f"{found.expected_payment:.6g}"),
            ("expected error", f"{found.error:.4g}"),
            ("share bought", f"{found.share_bought:.1%}"),
            ("largest epsilon", f"{found.largest_epsilon:.4g}"),
        ]
        rows += [(rule.name, f"{rule.error / found.error - 1.0:+.0%} error") for rule in self.alternatives]
        return rows + [(name, f"{factor - 1.0:+.0%} error") for name, factor in self.changes]


def plan(
    costs: CostDistribution | Sequence[CostDistribution],
    objective: AnyObjective,
    sellers: int | Sequence[int],
    budget: float,
    *,
    probability: float | None = None,
    minor_unit: float = 0.01,
    epsilon_cost: EpsilonCost | None = None,
    groups: Sequence[Group] | None = None,
    fewer_features: AnyObjective | None = None,
    rng: np.random.Generator | None = None,
) -> Plan:
    """Return the payment weight for a budget, and what the money buys.

    Parameters
    ----------
    costs
        The distribution of costs, common knowledge; with groups one for each.
    objective
        What the buyer minimises; its payment weight is only where the search starts.
    sellers
        How many are expected, at least 2; with groups one number for each.
    budget
        Money, above 0.
    probability
        With which payments shall stay below the budget, above 0 and below 1; None: they meet it on average.
        From 100 sellers on it is that of sellers who are quoted by the typical market's schedule.
    minor_unit
        Payments are rounded up to it.
    epsilon_cost
        What a share of the total costs its seller; the default is pure epsilon at a linear cost.
    groups
        Strata with hard quotas and their tables of virtual costs; None: one, with the distribution's own.
    fewer_features
        The objective with half of the features, to say what that would do; None: it is not said.
    rng
        For simulated markets; None: the same ones each time.

    Returns
    -------
    Plan
        Its payment weight is for mechanisms, its schedules are for sellers who come one by one.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.objective import Objective
    >>> found = plan(Uniform(1, 5), Objective.for_model(31), sellers=2000, budget=500)
    >>> 499.0 < found.prospect.expected_payment <= 500.0
    True

    """
    tables = check_terms(objective, epsilon_cost)
    budget, unit = checks.positive("budget", budget), checks.positive("minor_unit", minor_unit)
    if probability is not None:
        probability = checks.strictly_between("probability", probability, 0.0, 1.0)
    people = _people(costs, sellers, groups)
    bins = [CostBins.typical(group, distribution, size) for group, distribution, size in people]
    count = sum(size for _, _, size in people)
    if probability is None or count < SMALL_MARKET:
        weight, priced = price_for_budget(bins, objective, tables, budget, unit)
    else:
        weight, priced = _price_for_quantile(bins, objective, tables, budget, probability, unit)
    base = objective.with_payment_weight(weight)
    changes = _changes(people, base, fewer_features, tables, priced, unit)
    markets = None
    if count < SMALL_MARKET:
        draws = _SIMULATED if probability is None else _SIMULATED_TAIL
        markets = _Simulated(people, tables, unit, draws, np.random.default_rng(0) if rng is None else rng)
        weight = markets.weight_for(base, budget, probability)
        base = objective.with_payment_weight(weight)
        priced = price_market(bins, base, tables)
    prospect = _prospect(priced, bins, base, unit) if markets is None else markets.prospect(base)
    money = prospect.expected_payment
    alternatives = _alternatives(bins[0], base, tables, money, unit, markets) if len(people) == 1 else ()
    return Plan(base, priced.schedules, prospect, alternatives, changes, count, budget, probability)


def budget_for_error(
    costs: CostDistribution,
    objective: AnyObjective,
    sellers: int,
    target: float,
    *,
    minor_unit: float = 0.01,
    epsilon_cost: EpsilonCost | None = None,
) -> float:
    """Return the budget with which the expected error is a target: :func:`plan` the other way round.

    Parameters
    ----------
    costs, objective, sellers, minor_unit, epsilon_cost
        As in :func:`plan`.
    target
        Expected error, sampling and noise together, in units of the objective.

    Returns
    -------
    float
        Expected payments, rounding included. A target that so many sellers cannot reach is refused.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.objective import Objective
    >>> 60 < budget_for_error(Uniform(1, 5), Objective.for_model(10), sellers=1000, target=0.1) < 80
    True
    """
    tables = check_terms(objective, epsilon_cost)
    target, unit = checks.positive("target", target), checks.positive("minor_unit", minor_unit)
    people = _people(costs, sellers, None)
    bins = [CostBins.typical(group, distribution, size) for group, distribution, size in people]
    small = people[0][2] < SMALL_MARKET
    markets = _Simulated(people, tables, unit, _SIMULATED, np.random.default_rng(0)) if small else None

    def expected(weight: float) -> Prospect:
        terms = objective.with_payment_weight(weight)
        if markets is not None:
            return markets.prospect(terms)
        return _prospect(price_market(bins, terms, tables), bins, terms, unit)

    # The error rises with the payment weight, as money falls; its inverse is searched like a budget.
    accuracy = _CLOSE if small else 1e-4
    weight = weight_for_budget(
        lambda w: 1.0 / expected(w).error, (1.0 + accuracy) / target, objective.payment_weight, accuracy
    )
    found = expected(weight)
    if found.error > target * (1.0 + 2.0 * accuracy):
        raise Infeasible(
            f"expected a target of at least {found.error:.3g}, which is what {people[0][2]} sellers can "
            f"reach, got {target:.3g}: ask more people, or for fewer features."
        )
    return found.expected_payment


_People = list[tuple[Group, CostDistribution, int]]


def _people(costs: object, sellers: object, groups: Sequence[Group] | None) -> _People:
    if groups is None:
        if not isinstance(costs, CostDistribution):
            raise InvalidInput(f"expected a cost distribution, got {type(costs).__name__}.")
        size = checks.whole("sellers", sellers, minimum=2)
        return [(Group("all", 1.0, VirtualCost.of(costs)), costs, size)]
    found = check_groups(groups)
    if not isinstance(costs, Sequence) or not isinstance(sellers, Sequence):
        raise InvalidInput("expected a distribution and a number of sellers for each group.")
    checks.same_length("costs", costs, "groups", found)
    checks.same_length("sellers", sellers, "groups", found)
    sizes = [checks.whole("sellers", size, minimum=2) for size in sellers]
    return list(zip(found, costs, sizes, strict=True))


def _price_for_quantile(
    bins: Sequence[CostBins], objective: AnyObjective, tables: EpsilonCost, budget: float,
    probability: float, unit: float,
) -> tuple[float, PricedMarket]:  # fmt: skip
    """Return prices whose total stays below the budget with a probability: sellers are independent."""
    from scipy.special import ndtri

    found: dict[float, PricedMarket] = {}

    def quantile(weight: float) -> float:
        found[weight] = priced = price_market(bins, objective.with_payment_weight(weight), tables)
        variance = priced.squared_payments - priced.payment**2 / sum(b.counts.sum() for b in bins)
        mean = priced.payment + 0.5 * unit * priced.bought
        return float(mean + ndtri(probability) * math.sqrt(max(variance, 0.0)))

    weight = weight_for_budget(quantile, budget, objective.payment_weight)
    return weight, found[weight]


def _prospect(
    priced: PricedMarket, bins: Sequence[CostBins], objective: AnyObjective, unit: float
) -> Prospect:
    sampling, noise = objective.errors(priced.squared_norm, priced.total)
    sellers = sum(float(b.counts.sum()) for b in bins)
    epsilon = sum(
        float(b.counts @ schedule.quote(b.costs)[0])
        for b, schedule in zip(bins, priced.schedules, strict=True)
    )
    return Prospect(
        "optimal prices",
        priced.payment + 0.5 * unit * priced.bought,
        sampling,
        noise,
        priced.bought / sellers,
        epsilon / sellers,
        max(schedule.largest_epsilon for schedule in priced.schedules),
        max(schedule.largest_payment for schedule in priced.schedules),
    )


def _changes(
    people: _People, objective: AnyObjective, fewer_features: AnyObjective | None, tables: EpsilonCost,
    priced: PricedMarket, unit: float,
) -> tuple[tuple[str, float], ...]:  # fmt: skip
    """Return by what factor the typical market's error changes with more money, people, fewer features."""
    error = sum(objective.errors(priced.squared_norm, priced.total))
    money = priced.payment + 0.5 * unit * priced.bought

    def factor(terms: AnyObjective, budget: float, size: float) -> float:
        bins = [CostBins.typical(group, dist, size * count) for group, dist, count in people]
        _, found = price_for_budget(bins, terms, tables, budget, unit)
        return sum(terms.errors(found.squared_norm, found.total)) / error

    changes = [
        ("twice the money", factor(objective, 2.0 * money, 1.0)),
        ("twice the people", factor(objective, money, 2.0)),
    ]
    if fewer_features is not None:
        terms = fewer_features.with_payment_weight(objective.payment_weight)
        changes.append(("half of the features", factor(terms, money, 1.0)))
    return tuple(changes)


class _Simulated:
    """Simulated small markets: the same costs for every payment weight and every rule."""

    def __init__(
        self, people: _People, tables: EpsilonCost, unit: float, markets: int, rng: np.random.Generator
    ) -> None:
        self.people, self.tables, self.unit = people, tables, unit
        self.membership = np.repeat(np.arange(len(people)), [size for _, _, size in people])
        self.markets = [
            np.concatenate([distribution.sample(size, rng) for _, distribution, size in people])
            for _ in range(markets)
        ]

    def weight_for(self, objective: AnyObjective, budget: float, probability: float | None) -> float:
        """Return the payment weight at which the exact mechanism meets the budget on these markets."""

        def spent(weight: float) -> float:
            outcomes = self._run(objective.with_payment_weight(weight))
            totals = [float(o.rounded_payments(self.unit).sum()) for o in outcomes]
            return float(np.mean(totals) if probability is None else np.quantile(totals, probability))

        return weight_for_budget(spent, budget, objective.payment_weight, _CLOSE)

    def _run(self, objective: AnyObjective) -> list[Outcome]:
        groups = [group for group, _, _ in self.people]
        mechanism = OfflineMechanism(None, objective, epsilon_cost=self.tables, groups=groups)
        return [mechanism.run(costs, self.membership) for costs in self.markets]

    def prospect(self, objective: AnyObjective) -> Prospect:
        """Return what the exact mechanism does on average."""
        outcomes = self._run(objective)
        totals = [float(o.rounded_payments(self.unit).sum()) for o in outcomes]
        return Prospect(
            "optimal prices",
            float(np.mean(totals)),
            float(np.mean([o.sampling_error for o in outcomes])),
            float(np.mean([o.noise_error for o in outcomes])),
            float(np.mean([np.mean(o.epsilons > 0.0) for o in outcomes])),
            float(np.mean([o.epsilons.mean() for o in outcomes])),
            max(float(o.epsilons.max()) for o in outcomes),
            max(float(o.payments.max()) for o in outcomes),
        )

    def accepting(self, price: float) -> FloatArray:
        """Return how many accept a price in each market."""
        return np.array([float((costs <= price).sum()) for costs in self.markets])


def _alternatives(
    bins: CostBins, objective: AnyObjective, tables: EpsilonCost, budget: float, unit: float,
    markets: _Simulated | None,
) -> tuple[Prospect, ...]:  # fmt: skip
    """Return rules with one epsilon at one price: the best such price, one that half accept, one for all."""
    top = bins.group.virtual_cost.reserve_price
    sellers = float(bins.counts.sum())

    def posted(name: str, price: float) -> Prospect | None:
        """Return what one price gives for the budget; None if bounds forbid it or nobody may accept."""
        typical = np.array([float(bins.counts[bins.costs <= price].sum())])
        many = typical if markets is None else markets.accepting(price)
        accept = float(many.mean())
        cap = objective.weight_cap
        if many.min() < 1e-9 or (cap is not None and many.min() * cap < sellers * (1.0 - 1e-9)):
            return None
        each = budget / accept - 0.5 * unit
        if each <= 0.0:
            return None
        share = np.array([each / price])
        if not tables.is_identity:
            share = np.interp(share, tables.costs, tables.shares)
        if objective.max_mean_epsilon is not None:
            share = np.minimum(share, objective.max_mean_epsilon * sellers / many.max())
        epsilon, paid = float(tables.epsilon(share)[0]), price * float(tables.cost(share)[0])
        sampling, noise = np.mean([objective.errors(1.0 / n, n * float(share[0])) for n in many], axis=0)
        money, bought = accept * (paid + 0.5 * unit), accept / sellers
        return Prospect(name, money, float(sampling), float(noise), bought, epsilon * bought, epsilon, paid)

    n = _PRICES if markets is None else _FEW_PRICES
    shares = np.linspace(1.0 / n, 1.0, n)
    running = np.cumsum(bins.counts) / sellers
    prices = bins.costs[np.minimum(np.searchsorted(running, shares - 1e-12), bins.costs.size - 1)]
    prices = np.append(np.minimum(prices, top), top)
    tried = [rule for price in prices if (rule := posted("best posted price", float(price))) is not None]
    half = posted("price that half accept", float(prices[n // 2 - 1]))
    everybody = posted("same for all", top)
    best = [min(tried, key=lambda rule: rule.error)] if tried else []
    return tuple(rule for rule in (*best, half, everybody) if rule is not None)
