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

With groups a plan says what representativeness costs and gains: the same figures without quotas, with one
posted price and with one for each group. Quotas cost sampling error and noise; what they gain is the squared
bias of an unrepresentative purchase, D times the squared gaps between the groups' sums of weights and their
shares, with D from a public pilot table (:func:`~dpmarket.statistics.group_difference`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.display import html_table, short_repr
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.cross_pricing import price_for_budget, weight_for_budget
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Coverage, Group, check_coverage, weight_caps
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.price_schedule import (
    CostBins,
    PricedMarket,
    PriceSchedule,
    people_of,
    posted_price,
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
_FEW_PRICES = 40  # in simulated markets, where the luckiest of many would look too good, and per group
_ROUNDS = 50  # of improving one group's price
_CLOSE = 5e-3  # relative: how closely simulated payments meet a budget, whose own chance is larger


@dataclass(frozen=True)
class Prospect:
    """What to expect of a rule for buying: money with rounding, error in two parts, and what sellers sell.

    ``share_bought`` counts sellers who sell something, ``mean_epsilon`` is over all sellers, and the largest
    epsilon and payment are those of any seller, whatever their cost. ``group_shares`` are the groups' sums of
    weights, ``coverage_error`` what their gaps add to the error, if it is known how much groups differ, and
    ``schedules`` the prices of this rule, one schedule per group; from 100 sellers on.
    """

    name: str
    expected_payment: float
    sampling_error: float
    noise_error: float
    share_bought: float
    mean_epsilon: float
    largest_epsilon: float
    largest_payment: float
    coverage_error: float = 0.0
    group_shares: tuple[float, ...] = (1.0,)
    schedules: tuple[PriceSchedule, ...] = field(default=(), repr=False, compare=False)

    def figures(self) -> dict[str, Any]:
        """Return everything but the prices, as plain data."""
        return {name: value for name, value in vars(self).items() if name != "schedules"}

    @property
    def error(self) -> float:
        """All parts of the expected error together."""
        return self.sampling_error + self.noise_error + self.coverage_error


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
    sellers, budget, probability, coverage, group_difference
        As planned for; coverage is infinite for hard quotas, and None without groups.
    share_deviations
        How far chance takes each group's sum of weights from what is expected, as a standard deviation.
    """

    objective: AnyObjective
    schedules: tuple[PriceSchedule, ...]
    prospect: Prospect
    alternatives: tuple[Prospect, ...]
    changes: tuple[tuple[str, float], ...]
    sellers: int
    budget: float
    probability: float | None
    coverage: float | None = None
    group_difference: float | None = None
    share_deviations: tuple[float, ...] = ()

    @property
    def quota_effect(self) -> float | None:
        """By what factor quotas change the expected error, less 1; below 0 they gain. None without groups."""
        without = [rule for rule in self.alternatives if rule.name == "without quotas"]
        return self.prospect.error / without[0].error - 1.0 if without else None

    @property
    def payment_weight(self) -> float:
        """Gamma, error per unit of money."""
        return self.objective.payment_weight

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data."""
        return {
            "objective": self.objective.to_dict(),
            "schedules": [schedule.to_dict() for schedule in self.schedules],
            "prospect": self.prospect.figures(),
            "alternatives": [rule.figures() for rule in self.alternatives],
            "changes": dict(self.changes),
            "sellers": self.sellers,
            "budget": self.budget,
            "probability": self.probability,
            **({} if self.coverage is None else self._quotas()),
        }

    def _quotas(self) -> dict[str, Any]:
        return {
            "coverage": "hard" if self.coverage == math.inf else self.coverage,
            "group_difference": self.group_difference,
            "share_deviations": list(self.share_deviations),
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per rule: the optimum, and simpler rules that cost the same."""
        import polars as pl  # slow to load

        return pl.DataFrame([{**r.figures(), "error": r.error} for r in (self.prospect, *self.alternatives)])

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
        if len(found.group_shares) > 1:
            rows.append(("shares of the groups", ", ".join(f"{share:.1%}" for share in found.group_shares)))
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
    coverage: Coverage = "hard",
    group_difference: float | None = None,
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
        Strata with quotas and their tables of virtual costs; None: one, with the distribution's own.
    coverage
        How binding quotas are: ``"hard"``, or the weight D of soft ones.
    group_difference
        How much groups differ (:func:`~dpmarket.statistics.group_difference`), to say what quotas
        gain; None: the coverage, if quotas are soft, else only what they cost is said.
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
    strictness = check_coverage(coverage)
    if group_difference is None:
        judged = strictness if math.isfinite(strictness) else 0.0
    else:
        judged = checks.non_negative("group_difference", group_difference)
    terms = _Terms(people, tables, unit, judged)
    bins, count = terms.bins(1.0), sum(size for _, _, size in people)
    if probability is None or count < SMALL_MARKET:
        weight, priced = price_for_budget(bins, objective, tables, budget, unit, coverage=strictness)
    else:
        weight, priced = _price_for_quantile(
            bins, objective, tables, budget, probability, unit=unit, coverage=strictness
        )
    base = objective.with_payment_weight(weight)
    changes = _changes(terms, base, fewer_features, priced, strictness)
    markets = None
    if count < SMALL_MARKET:
        draws = _SIMULATED if probability is None else _SIMULATED_TAIL
        markets = _Simulated(terms, draws, np.random.default_rng(0) if rng is None else rng)
        weight = markets.weight_for(base, budget, probability, strictness)
        base = objective.with_payment_weight(weight)
        priced = price_market(bins, base, tables, strictness)
    if markets is None:
        prospect = _prospect("optimal prices", terms, priced, base)
    else:
        prospect = markets.prospect("optimal prices", base, strictness)
    money = prospect.expected_payment
    alternatives = _alternatives(terms, base, money, markets)
    if len(people) == 1:
        return Plan(base, priced.schedules, prospect, alternatives, changes, count, budget, probability)
    alternatives = (*_other_coverages(terms, base, money, markets, strictness), *alternatives)
    return Plan(
        base, priced.schedules, prospect, alternatives, changes, count, budget, probability,
        strictness, judged if group_difference is not None or judged > 0.0 else None, priced.share_deviations,
    )  # fmt: skip


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
    terms = _Terms(people, tables, unit, 0.0)
    bins, small = terms.bins(1.0), people[0][2] < SMALL_MARKET
    markets = _Simulated(terms, _SIMULATED, np.random.default_rng(0)) if small else None

    def expected(weight: float) -> Prospect:
        base = objective.with_payment_weight(weight)
        if markets is not None:
            return markets.prospect("optimal prices", base, math.inf)
        return _prospect("optimal prices", terms, price_market(bins, base, tables), base)

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
    return people_of(costs, sellers, groups)


@dataclass(frozen=True, eq=False)
class _Terms:
    """What all rules of a plan share: who sells, the tables, the minor unit, and how much groups differ."""

    people: _People
    tables: EpsilonCost
    unit: float
    difference: float

    def bins(self, factor: float) -> list[CostBins]:
        """Return typical sellers of each group, so many times as many as are expected."""
        return [CostBins.typical(group, dist, factor * size) for group, dist, size in self.people]

    def errors(
        self, objective: AnyObjective, squared_norm: float, total: float, shares: Sequence[float]
    ) -> tuple[float, float, float]:
        """Return the expected error from sampling, noise, and groups' sums of weights that are off."""
        sampling, noise = objective.errors(squared_norm, total)
        gap = math.fsum((w - group.share) ** 2 for w, (group, _, _) in zip(shares, self.people, strict=True))
        biased = squared_norm + objective.relative_coverage(self.difference) * gap
        return (
            sampling,
            noise,
            objective.errors(biased, total)[0] - sampling if biased > squared_norm else 0.0,
        )


def _price_for_quantile(
    bins: Sequence[CostBins], objective: AnyObjective, tables: EpsilonCost, budget: float,
    probability: float, *, unit: float, coverage: float,
) -> tuple[float, PricedMarket]:  # fmt: skip
    """Return prices whose total stays below the budget with a probability: sellers are independent."""
    from scipy.special import ndtri

    found: dict[float, PricedMarket] = {}

    def quantile(weight: float) -> float:
        found[weight] = priced = price_market(bins, objective.with_payment_weight(weight), tables, coverage)
        variance = priced.squared_payments - priced.payment**2 / sum(b.counts.sum() for b in bins)
        mean = priced.payment + 0.5 * unit * priced.bought
        return float(mean + ndtri(probability) * math.sqrt(max(variance, 0.0)))

    weight = weight_for_budget(quantile, budget, objective.payment_weight)
    return weight, found[weight]


def _prospect(name: str, terms: _Terms, priced: PricedMarket, objective: AnyObjective) -> Prospect:
    sampling, noise, coverage = terms.errors(
        objective, priced.squared_norm, priced.total, priced.group_shares
    )
    bins = terms.bins(1.0)
    sellers = sum(float(b.counts.sum()) for b in bins)
    epsilon = sum(
        float(b.counts @ schedule.quote(b.costs)[0])
        for b, schedule in zip(bins, priced.schedules, strict=True)
    )
    return Prospect(
        name,
        priced.payment + 0.5 * terms.unit * priced.bought,
        sampling,
        noise,
        priced.bought / sellers,
        epsilon / sellers,
        max(schedule.largest_epsilon for schedule in priced.schedules),
        max(schedule.largest_payment for schedule in priced.schedules),
        coverage,
        priced.group_shares,
        priced.schedules,
    )


def _changes(
    terms: _Terms, objective: AnyObjective, fewer_features: AnyObjective | None, priced: PricedMarket,
    coverage: float,
) -> tuple[tuple[str, float], ...]:  # fmt: skip
    """Return by what factor the typical market's error changes with more money, people, fewer features."""
    money = priced.payment + 0.5 * terms.unit * priced.bought

    def error(goal: AnyObjective, found: PricedMarket) -> float:
        return sum(terms.errors(goal, found.squared_norm, found.total, found.group_shares))

    def factor(goal: AnyObjective, budget: float, size: float) -> float:
        bins = terms.bins(size)
        _, found = price_for_budget(bins, goal, terms.tables, budget, terms.unit, coverage=coverage)
        return error(goal, found) / error(objective, priced)

    changes = [
        ("twice the money", factor(objective, 2.0 * money, 1.0)),
        ("twice the people", factor(objective, money, 2.0)),
    ]
    if fewer_features is not None:
        goal = fewer_features.with_payment_weight(objective.payment_weight)
        changes.append(("half of the features", factor(goal, money, 1.0)))
    return tuple(changes)


class _Simulated:
    """Simulated small markets: the same costs for every payment weight and every rule."""

    def __init__(self, terms: _Terms, markets: int, rng: np.random.Generator) -> None:
        self.terms = terms
        self.membership = np.repeat(np.arange(len(terms.people)), [size for _, _, size in terms.people])
        self.markets = [
            np.concatenate([distribution.sample(size, rng) for _, distribution, size in terms.people])
            for _ in range(markets)
        ]

    def weight_for(
        self, objective: AnyObjective, budget: float, probability: float | None, coverage: float
    ) -> float:
        """Return the payment weight at which the exact mechanism meets the budget on these markets."""

        def spent(weight: float) -> float:
            outcomes = self._run(objective.with_payment_weight(weight), coverage)
            totals = [float(o.rounded_payments(self.terms.unit).sum()) for o in outcomes]
            return float(np.mean(totals) if probability is None else np.quantile(totals, probability))

        return weight_for_budget(spent, budget, objective.payment_weight, _CLOSE)

    def _run(self, objective: AnyObjective, coverage: float) -> list[Outcome]:
        mechanism = OfflineMechanism(
            None,
            objective,
            epsilon_cost=self.terms.tables,
            groups=[group for group, _, _ in self.terms.people],
            coverage=coverage if math.isfinite(coverage) else "hard",
        )
        return [mechanism.run(costs, self.membership) for costs in self.markets]

    def prospect(self, name: str, objective: AnyObjective, coverage: float) -> Prospect:
        """Return what the exact mechanism does on average."""
        outcomes = self._run(objective, coverage)
        shares = [np.bincount(self.membership, o.weights, len(self.terms.people)) for o in outcomes]
        errors = [
            self.terms.errors(objective, float(o.weights @ o.weights), o.total, each.tolist())
            for o, each in zip(outcomes, shares, strict=True)
        ]
        sampling, noise, gaps = np.mean(errors, axis=0).tolist()
        return Prospect(
            name,
            float(np.mean([o.rounded_payments(self.terms.unit).sum() for o in outcomes])),
            sampling,
            noise,
            float(np.mean([np.mean(o.epsilons > 0.0) for o in outcomes])),
            float(np.mean([o.epsilons.mean() for o in outcomes])),
            max(float(o.epsilons.max()) for o in outcomes),
            max(float(o.payments.max()) for o in outcomes),
            gaps,
            tuple(np.mean(shares, axis=0).tolist()),
        )

    def accepting(self, price: float) -> FloatArray:
        """Return how many accept a price in each market."""
        return np.array([float((costs <= price).sum()) for costs in self.markets])


def _other_coverages(
    terms: _Terms, objective: AnyObjective, budget: float, markets: _Simulated | None, coverage: float
) -> tuple[Prospect, ...]:
    """Return the same market without quotas and, if it is not the plan's own, with the other kind."""
    others = [("without quotas", 0.0)]
    if math.isfinite(coverage):
        others.append(("hard quotas", math.inf))
    elif terms.difference > 0.0:
        others.append(("soft quotas", terms.difference))
    found = []
    for name, other in others:
        if markets is None:
            weight, priced = price_for_budget(
                terms.bins(1.0), objective, terms.tables, budget, terms.unit, coverage=other
            )
            found.append(_prospect(name, terms, priced, objective.with_payment_weight(weight)))
        else:
            weight = markets.weight_for(objective, budget, None, other)
            found.append(markets.prospect(name, objective.with_payment_weight(weight), other))
    return tuple(found)


def _alternatives(
    terms: _Terms, objective: AnyObjective, budget: float, markets: _Simulated | None
) -> tuple[Prospect, ...]:
    """Return rules with one epsilon at one price: the best such price, one that half accept, one for all.

    With groups, from 100 sellers on, also the best price for each group that meets all quotas.
    """
    bins, tables, unit = terms.bins(1.0), terms.tables, terms.unit
    top = max(each.group.virtual_cost.reserve_price for each in bins)
    sellers = math.fsum(float(each.counts.sum()) for each in bins)

    def posted(name: str, price: float) -> Prospect | None:
        """Return what one price gives for the budget; None if bounds forbid it or nobody may accept."""
        typical = np.array([float(each.counts[each.costs <= price].sum()) for each in bins])
        many = typical.sum(keepdims=True) if markets is None else markets.accepting(price)
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
        shares = typical / max(typical.sum(), 1e-300)
        sampling, noise, gaps = np.mean(
            [terms.errors(objective, 1.0 / n, n * float(share[0]), shares.tolist()) for n in many], axis=0
        ).tolist()
        money, bought = accept * (paid + 0.5 * unit), accept / sellers
        return Prospect(
            name, money, sampling, noise, bought, epsilon * bought, epsilon, paid, gaps,
            tuple(shares.tolist()), (posted_price(price, epsilon, tables),) * len(bins),
        )  # fmt: skip

    n = _PRICES if markets is None else _FEW_PRICES
    costs, counts = (np.concatenate([getattr(each, name) for each in bins]) for name in ("costs", "counts"))
    prices = _quantile_prices(costs, counts, n)
    prices = np.append(np.minimum(prices, top), top)
    tried = [rule for price in prices if (rule := posted("best posted price", float(price))) is not None]
    half = posted("price that half accept", float(prices[n // 2 - 1]))
    everybody = posted("same for all", top)
    best = [min(tried, key=lambda rule: rule.error)] if tried else []
    several = _price_per_group(terms, objective, budget) if len(bins) > 1 and markets is None else None
    return tuple(rule for rule in (*best, half, everybody, several) if rule is not None)


def _quantile_prices(costs: FloatArray, counts: FloatArray, n: int) -> FloatArray:
    """Return the lowest price that each of n shares of the sellers, the last one all, accept."""
    order = np.argsort(costs, kind="stable")
    running = np.cumsum(counts[order]) / counts.sum()
    at = np.searchsorted(running, np.linspace(1.0 / n, 1.0, n) - 1e-12)
    return np.asarray(costs[order][np.minimum(at, costs.size - 1)])


def _price_per_group(terms: _Terms, objective: AnyObjective, budget: float) -> Prospect | None:
    """Return one price for each group, those with the least error of which all meet their quotas.

    Prices are improved in turn from the best equal share of each group; None if bounds forbid all.
    """
    bins, tables, unit = terms.bins(1.0), terms.tables, terms.unit
    shares = np.array([group.share for group, _, _ in terms.people])
    sizes = [float(each.counts.sum()) for each in bins]
    caps = np.array(weight_caps(shares.tolist(), sizes, objective.weight_cap, math.inf))
    prices = [
        np.minimum(_quantile_prices(b.costs, b.counts, _FEW_PRICES), b.group.virtual_cost.reserve_price)
        for b in bins
    ]
    accepting = [
        np.array([float(b.counts[b.costs <= price].sum()) for price in offers])
        for b, offers in zip(bins, prices, strict=True)
    ]
    most = math.inf if objective.max_mean_epsilon is None else objective.max_mean_epsilon * sum(sizes)

    def rule(chosen: Sequence[int]) -> Prospect | None:
        offered = np.array([prices[g][j] for g, j in enumerate(chosen)])
        many = np.array([accepting[g][j] for g, j in enumerate(chosen)])
        if (many * caps < shares * (1.0 - 1e-9)).any():
            return None

        def spent(total: float) -> float:
            return float(many @ (offered * tables.cost(shares * total / many) + 0.5 * unit))

        limit = min(most, float((tables.max_share * many / shares).min()))
        if spent(1e-12) >= budget:
            return None
        total = min(limit, (budget - float(many.sum()) * 0.5 * unit) / float(shares @ offered))
        if not tables.is_identity:
            total = limit if spent(limit) <= budget else brentq(lambda x: spent(x) - budget, 1e-12, limit)
        sampling, noise = objective.errors(float((shares**2 / many).sum()), total)
        each = shares * total / many
        paid, epsilons = offered * tables.cost(each), tables.epsilon(each)
        bought = float(many.sum()) / sum(sizes)
        offers = zip(offered.tolist(), epsilons.tolist(), strict=True)
        schedules = tuple(posted_price(price, epsilon, tables) for price, epsilon in offers)
        return Prospect(
            "posted price per group", spent(total), sampling, noise, bought,
            float(many @ epsilons) / sum(sizes), float(epsilons.max()), float(paid.max()), 0.0,
            tuple(shares.tolist()), schedules,
        )  # fmt: skip

    tried = [(j,) * len(bins) for j in range(_FEW_PRICES)]
    best: tuple[Prospect, tuple[int, ...]] | None = None
    for _ in range(_ROUNDS):
        found = [(each, chosen) for chosen in tried if (each := rule(chosen)) is not None]
        better = min(found, key=lambda pair: pair[0].error, default=None)
        if better is None or (best is not None and better[0].error >= best[0].error):
            break
        best = better
        tried = [(*best[1][:g], j, *best[1][g + 1 :]) for g in range(len(bins)) for j in range(_FEW_PRICES)]
    return None if best is None else best[0]
