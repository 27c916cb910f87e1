"""One plan before anybody reports: the payment weight for a budget, and what the money buys.

A payment weight that depends on reports makes misreporting pay. So it is found from the announced
distribution, as the weight at which the *expected* payments, rounded up to minor units, meet the budget, or
at which they stay below it with a stated probability.

The typical market, quantile bins with counts, stands for any number of sellers. With fewer than
:data:`SMALL_MARKET` one seller's report moves everybody's prices, so the exact mechanism is run on simulated
markets. Simpler rules that cost the same, and markets without quotas, are judged on the same markets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.display import html_table, short_repr
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.cross_pricing import SPENT, weight_for_budget
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.forecasts import BUDGETS, CAMPAIGNS, Forecast, PublicArrays, forecast, is_number
from dpmarket.mechanisms.groups import Coverage, Group, check_coverage, groups_of, weight_caps
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.price_schedule import CostBins, PriceSchedule, posted_price, price_market, quote_each
from dpmarket.mechanisms.water_filling import check_terms

if TYPE_CHECKING:
    import polars as pl

SMALL_MARKET = 100
"""With fewer sellers, markets are simulated."""
_SIMULATED = 40  # markets for an expectation
_SIMULATED_TAIL = 60  # markets for a quantile
_PRICES = 400  # posted prices that are tried
_FEW_PRICES = 40  # in simulated markets, where the luckiest of many would look too good, and per group
_NEAR_LIMIT = 1e-3  # relative: errors so close to what any money reaches cost more than anybody has
_ROUNDS = 50  # of improving one group's price
_CLOSE = 5e-3  # relative: how closely simulated payments meet a budget, whose own chance is larger


@dataclass(frozen=True)
class Prospect:
    """What to expect of a rule for buying: money with rounding, error in parts, and what sellers sell."""

    name: str
    expected_payment: float
    sampling_error: float
    noise_error: float
    share_bought: float
    mean_epsilon: float  # over all sellers
    largest_epsilon: float
    largest_payment: float
    coverage_error: float = 0.0  # what gaps of the groups' shares add
    group_shares: tuple[float, ...] = (1.0,)  # their sums of weights
    # One per group; from 100 sellers on.
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
    costs, epsilon_cost
        The distribution of costs, None with groups, and the cost of epsilon, as planned for.
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
    costs: CostDistribution | None = field(default=None, repr=False)
    epsilon_cost: EpsilonCost | None = field(default=None, repr=False, compare=False)

    @property
    def quota_effect(self) -> float | None:
        """By what factor quotas change the expected error, less 1; below 0 they gain. None without groups."""
        without = [rule for rule in self.alternatives if rule.name == "without quotas"]
        return self.prospect.error / without[0].error - 1.0 if without else None

    @property
    def payment_weight(self) -> float:
        """Gamma, error per unit of money."""
        return self.objective.payment_weight

    def forecast(
        self, public: Any, outcome: str, *, budgets: Sequence[float] | None = None,
        campaigns: int = CAMPAIGNS, rng: np.random.Generator | None = None,
    ) -> Forecast:  # fmt: skip
        """Simulate campaigns on a public table; return the accuracy, or the R squared, that money will buy.

        ``public`` is a data frame of public records of the same kind as the sellers', or of a pilot whose
        people agreed, never of private records; :meth:`~dpmarket.learning.PublicEncoder.from_public` encodes
        its features. ``outcome`` is the column that is predicted: labels, or fractions with more than 20
        values. Without ``budgets`` they are a quarter of the plan's to four times as much.
        """
        from sklearn import linear_model  # type: ignore[import-untyped]

        from dpmarket.learning import PrivateLinearRegression, PrivateLogisticRegression, PublicEncoder

        if self.costs is None:
            raise InvalidInput("expected a plan without groups: a table does not say who is in which.")
        columns = list(getattr(public, "columns", ()))
        if outcome not in columns or len(columns) < 2:
            raise InvalidInput(f"expected a data frame with a column {outcome!r} and others.")
        encoder = PublicEncoder.from_public(public[[name for name in columns if name != outcome]])
        X, y = encoder.fit_transform(public).toarray(), np.asarray(public[outcome])
        y = y if y.dtype.kind in "fiub" else y.astype(str)
        norm = encoder.noise_norm()
        if is_number(y):
            center, scale = float(y.mean()), float(y.std())
            model: Any = PrivateLinearRegression(center=center, scale=scale, noise_norm=norm)
            ordinary = linear_model.LinearRegression()
        else:
            model = PrivateLogisticRegression(classes=np.unique(y).tolist(), noise_norm=norm)
            ordinary = linear_model.LogisticRegression(C=100.0, max_iter=1_000)
        budgets = [self.budget * factor for factor in BUDGETS] if budgets is None else budgets
        tables: Any = {"epsilon_cost": self.epsilon_cost, "probability": self.probability}
        plans = [plan(self.costs, self.objective, self.sellers, budget, **tables) for budget in budgets]
        rng = np.random.default_rng() if rng is None else rng
        return forecast(plans, self.costs, PublicArrays(model, ordinary, X, y), campaigns, rng)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data."""
        planned_for = ("sellers", "budget", "probability", "group_difference", "share_deviations")
        return {
            "objective": self.objective.to_dict(),
            "schedules": [schedule.to_dict() for schedule in self.schedules],
            "prospect": self.prospect.figures(),
            "alternatives": [rule.figures() for rule in self.alternatives],
            "changes": dict(self.changes),
            "coverage": "hard" if self.coverage == math.inf else self.coverage,
            **{name: getattr(self, name) for name in planned_for},
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
    costs: CostDistribution | Sequence[CostDistribution], objective: AnyObjective,
    sellers: int | Sequence[int], budget: float, *,
    probability: float | None = None, minor_unit: float = 0.01, epsilon_cost: EpsilonCost | None = None,
    groups: Sequence[Group] | None = None, coverage: Coverage = "hard",
    group_difference: float | None = None, fewer_features: AnyObjective | None = None,
) -> Plan:  # fmt: skip
    """Return the payment weight for a budget, and what the money buys.

    Parameters
    ----------
    costs, sellers
        The distribution of costs, common knowledge, and how many sellers are expected, at least 2; with
        groups one of each for every group.
    objective
        What the buyer minimises; its payment weight is only where the search starts.
    budget, minor_unit
        Money, above 0, and the unit to which payments are rounded up.
    probability
        With which payments (from 100 sellers on: by the typical market's schedule) shall stay below the
        budget; None: they meet it on average.
    epsilon_cost, groups, coverage
        As in :class:`~dpmarket.mechanisms.exact.OfflineMechanism`.
    group_difference
        How much groups differ (:func:`~dpmarket.statistics.group_difference` of a public pilot), to say what
        quotas gain; None: the coverage of soft quotas, nothing for hard ones.
    fewer_features
        The objective with half of the features, to say what that would do.

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
    people, strictness = _people(costs, sellers, groups), check_coverage(coverage)
    judged = strictness if math.isfinite(strictness) else 0.0
    if group_difference is not None:
        judged = checks.non_negative("group_difference", group_difference)
    typical = Markets.typical(people, tables, unit, judged)
    markets, count = typical, sum(size for _, _, size in people)
    base = typical.for_budget(objective, budget, None if count < SMALL_MARKET else probability, strictness)
    changes = _changes(people, typical, base, fewer_features, strictness)
    if count < SMALL_MARKET:
        draws = _SIMULATED if probability is None else _SIMULATED_TAIL
        markets = typical.drawn(people, draws)
        base = markets.for_budget(base, budget, probability, strictness)
    prospect = markets.optimum("optimal prices", base, strictness)
    money = prospect.expected_payment
    priced = price_market(typical.bins, base, tables, strictness)
    alternatives = _alternatives(markets, base, money)
    if len(people) == 1:
        return Plan(
            base, priced.schedules, prospect, alternatives, changes, count, budget, probability,
            costs=people[0][1], epsilon_cost=tables,
        )  # fmt: skip
    others = {"without quotas": 0.0}
    if math.isfinite(strictness):
        others["hard quotas"] = math.inf
    elif judged > 0.0:
        others["soft quotas"] = judged
    same_money = [
        markets.optimum(name, markets.for_budget(base, money, None, other), other)
        for name, other in others.items()
    ]
    return Plan(
        base, priced.schedules, prospect, (*same_money, *alternatives), changes, count, budget, probability,
        strictness, judged if group_difference is not None or judged > 0.0 else None, priced.share_deviations,
        epsilon_cost=tables,
    )  # fmt: skip


def budget_for_error(
    costs: CostDistribution, objective: AnyObjective, sellers: int, target: float, *,
    minor_unit: float = 0.01, epsilon_cost: EpsilonCost | None = None,
) -> float:  # fmt: skip
    """Return the budget with which the expected error is a target: :func:`plan` the other way round.

    Parameters
    ----------
    costs, objective, sellers, minor_unit, epsilon_cost
        As in :func:`plan`.
    target
        Expected error, sampling and noise together. One that so many sellers cannot reach is refused.

    Returns
    -------
    float
        Expected payments, rounding included.
    """
    tables = check_terms(objective, epsilon_cost)
    target, unit = checks.positive("target", target), checks.positive("minor_unit", minor_unit)
    people = _people(costs, sellers, None)
    markets = Markets.typical(people, tables, unit, 0.0)
    if people[0][2] < SMALL_MARKET:
        markets = markets.drawn(people, _SIMULATED)

    def expected(weight: float) -> Prospect:
        return markets.optimum("optimal prices", objective.with_payment_weight(weight), math.inf)

    # The error rises with the payment weight, as money falls; its inverse is searched like a budget.
    accuracy = 1e-4 if markets.is_typical else _CLOSE
    weight = weight_for_budget(
        lambda w: 1.0 / expected(w).error, (1.0 + accuracy) / target, objective.payment_weight, accuracy
    )
    least = min(expected(weight / factor).error for factor in (1.0, 1e4, 1e8))
    if target < least * (1.0 + _NEAR_LIMIT):
        raise Infeasible(
            f"expected a target clearly above {least:.3g}, which is what {people[0][2]} sellers reach for "
            f"any money, got {target:.3g}: ask more people, or for fewer features."
        )
    return expected(weight).expected_payment


_People = list[tuple[Group, CostDistribution, int]]
Sale = tuple[FloatArray, FloatArray, FloatArray]
"""What each seller of a market sells: epsilon, payment, and the money that it takes with rounding."""


def _people(costs: object, sellers: object, groups: Sequence[Group] | None) -> _People:
    if groups is None:
        if not isinstance(costs, CostDistribution):
            raise InvalidInput(f"expected a cost distribution, got {type(costs).__name__}.")
        found, costs, sellers = groups_of(costs, None), [costs], [sellers]
    elif not isinstance(costs, Sequence) or not isinstance(sellers, Sequence):
        raise InvalidInput("expected a distribution and a number of sellers for each group.")
    else:
        found = groups_of(None, groups)
        checks.same_length("costs", costs, "groups", found)
        checks.same_length("sellers", sellers, "groups", found)
    sizes = [checks.whole("sellers", size, minimum=2) for size in sellers]
    return list(zip(found, costs, sizes, strict=True))


@dataclass(frozen=True, eq=False)
class Markets:
    """The markets that all rules of a plan are judged on: a typical one of bins, or several drawn ones."""

    groups: tuple[Group, ...]
    tables: EpsilonCost
    unit: float  # of money
    difference: float  # of the groups, in units of the objective's error
    membership: IntArray  # the group of each bin, and how many sellers it stands for, shapes (n,)
    counts: FloatArray
    costs: tuple[FloatArray, ...]  # of each market, shape (n,); the typical market is the only one

    @classmethod
    def typical(
        cls, people: Sequence[tuple[Group, CostDistribution, float]], tables: EpsilonCost, unit: float,
        difference: float, times: float = 1.0,
    ) -> Markets:  # fmt: skip
        """Return the market of quantile bins, of so many times as many people."""
        bins = [CostBins.typical(group, dist, times * size) for group, dist, size in people]
        membership = np.repeat(np.arange(len(bins)), [each.costs.size for each in bins])
        counts, costs = (np.concatenate([getattr(b, name) for b in bins]) for name in ("counts", "costs"))
        return cls(tuple(b.group for b in bins), tables, unit, difference, membership, counts, (costs,))

    def drawn(self, people: _People, markets: int) -> Markets:
        """Return markets of the same people with costs at random, the same ones each time."""
        rng = np.random.default_rng(0)
        membership = np.repeat(np.arange(len(people)), [size for _, _, size in people])
        costs = [np.concatenate([dist.sample(size, rng) for _, dist, size in people]) for _ in range(markets)]
        return replace(self, membership=membership, counts=np.ones(membership.size), costs=tuple(costs))

    @property
    def is_typical(self) -> bool:
        """Whether schedules of the typical market are quoted; else the exact mechanism decides."""
        return len(self.costs) == 1

    @cached_property
    def bins(self) -> list[CostBins]:
        """The typical market, group by group."""
        own = [(group, self.membership == g) for g, group in enumerate(self.groups)]
        return [CostBins(group, self.costs[0][of], self.counts[of]) for group, of in own]

    def judge(
        self, name: str, objective: AnyObjective, sales: Sequence[Sale],
        schedules: tuple[PriceSchedule, ...] = (),
    ) -> Prospect:  # fmt: skip
        """Return what a rule brings on average, from each market's sales."""
        rows, wanted = [], np.array([group.share for group in self.groups])
        for epsilons, _, money in sales:
            shares = self.tables.share(epsilons)
            total = float(self.counts @ shares)
            weights = shares / max(total, 1e-300)
            squared_norm = float(self.counts @ weights**2)
            sums = np.bincount(self.membership, self.counts * weights, wanted.size).astype(np.float64)
            sampling, noise = objective.errors(squared_norm, total)
            gaps = objective.relative_coverage(self.difference) * float((sums - wanted) @ (sums - wanted))
            biased = objective.errors(squared_norm + gaps, total)[0] - sampling if total > 0.0 else 0.0
            bought = self.counts[epsilons > 0.0].sum()
            rows.append([self.counts @ money, sampling, noise, biased, bought, self.counts @ epsilons, *sums])
        paid, sampling, noise, biased, bought, epsilon, *sums = np.mean(rows, axis=0).tolist()
        largest = [max(float(column.max()) for column in columns) for columns in zip(*sales, strict=True)]
        if schedules:
            largest = [max(s.largest_epsilon for s in schedules), max(s.largest_payment for s in schedules)]
        sellers = float(self.counts.sum())
        return Prospect(
            name, paid, sampling, noise, bought / sellers, epsilon / sellers, largest[0], largest[1],
            biased, tuple(sums), schedules,
        )  # fmt: skip

    def quoted(self, name: str, objective: AnyObjective, schedules: Sequence[PriceSchedule]) -> Prospect:
        """Return what price schedules bring, one per group."""
        quotes = [quote_each(schedules, self.membership, costs) for costs in self.costs]
        sales = [(eps, paid, paid + 0.5 * self.unit * (eps > 0.0)) for eps, paid in quotes]
        return self.judge(name, objective, sales, tuple(schedules))

    def decide(self, objective: AnyObjective, coverage: float) -> list[Sale]:
        """Return what the exact mechanism buys in drawn markets."""
        mechanism = OfflineMechanism(
            None, objective, epsilon_cost=self.tables, groups=self.groups, coverage=coverage
        )
        outcomes = [mechanism.run(costs, self.membership) for costs in self.costs]
        return [(o.epsilons, o.payments, o.rounded_payments(self.unit)) for o in outcomes]

    def optimum(self, name: str, objective: AnyObjective, coverage: float) -> Prospect:
        """Return what optimal prices bring at the objective's payment weight."""
        if not self.is_typical:
            return self.judge(name, objective, self.decide(objective, coverage))
        priced = price_market(self.bins, objective, self.tables, coverage)
        return self.quoted(name, objective, priced.schedules)

    def for_budget(
        self, objective: AnyObjective, budget: float, probability: float | None, coverage: float
    ) -> AnyObjective:
        """Return the objective whose optimal prices meet a budget, on average or with a probability."""
        from scipy.special import ndtri

        def spent(weight: float) -> float:
            goal = objective.with_payment_weight(weight)
            if not self.is_typical:
                totals = [float(money.sum()) for _, _, money in self.decide(goal, coverage)]
                return float(np.mean(totals) if probability is None else np.quantile(totals, probability))
            priced = price_market(self.bins, goal, self.tables, coverage)
            # Sellers are independent.
            variance = priced.squared_payments - priced.payment**2 / float(self.counts.sum())
            above = float(ndtri(probability or 0.5)) * math.sqrt(max(variance, 0.0))
            return priced.payment + 0.5 * self.unit * priced.bought + above

        close = SPENT if self.is_typical else _CLOSE
        weight = weight_for_budget(spent, budget, objective.payment_weight, close)
        return objective.with_payment_weight(weight)

    def posted(
        self, name: str, objective: AnyObjective, budget: float, prices: FloatArray, *, quotas: bool
    ) -> Prospect | None:
        """Return what one price per group brings for a budget; None if bounds forbid it or nobody accepts."""
        offered, n = prices[self.membership], prices.size
        taking = np.array([np.bincount(self.membership, self.counts * (c <= offered), n) for c in self.costs])
        sizes, shares = np.bincount(self.membership, self.counts, n), np.array([g.share for g in self.groups])
        if not quotas:  # everybody sells the same, in whichever group
            taking, sizes = taking.sum(axis=1, keepdims=True), sizes.sum(keepdims=True)
            prices, shares = prices[:1], np.ones(1)
        mean, least, most = taking.mean(axis=0), taking.min(axis=0), taking.max(axis=0)
        caps = np.array(weight_caps(shares.tolist(), sizes.tolist(), objective.weight_cap, math.inf))
        money = budget - 0.5 * self.unit * float(mean.sum())
        if (least < 1e-9).any() or (least * caps < shares * (1.0 - 1e-9)).any() or money <= 0.0:
            return None
        weights = shares / mean
        total = self._affordable(money, mean * prices, weights)
        if objective.max_mean_epsilon is not None:
            total = min(total, objective.max_mean_epsilon * float(sizes.sum() * (mean / most).min()))
        epsilons = self.tables.epsilon(weights * total)
        schedules = [posted_price(*each, self.tables) for each in zip(prices.tolist(), epsilons, strict=True)]
        return self.quoted(name, objective, schedules if quotas else schedules * n)

    def _affordable(self, money: float, prices: FloatArray, weights: FloatArray) -> float:
        """Return the total at fixed weights that costs so much: what it costs is piecewise linear."""
        if self.tables.is_identity:
            return money / float(prices @ weights)
        most = self.tables.max_share / float(weights.max())
        totals = np.unique(np.minimum(np.outer(self.tables.shares, 1.0 / weights), most))
        return float(np.interp(money, self.tables.cost(np.outer(totals, weights)) @ prices, totals))

    def prices(self, n: int, g: int | None = None) -> FloatArray:
        """Return the lowest price that each of n shares of a group's sellers accept, at most the reserve."""
        groups = self.groups if g is None else self.groups[g : g + 1]
        of = slice(None) if g is None else self.membership == g
        costs = np.concatenate([each[of] for each in self.costs])
        counts = np.tile(self.counts[of], len(self.costs))
        order = np.argsort(costs, kind="stable")
        running = np.cumsum(counts[order]) / counts.sum()
        at = np.searchsorted(running, np.linspace(1.0 / n, 1.0, n) - 1e-12)
        top = max(group.virtual_cost.reserve_price for group in groups)
        found: FloatArray = np.minimum(costs[order][np.minimum(at, costs.size - 1)], top)
        return found


def _changes(
    people: _People, typical: Markets, objective: AnyObjective, fewer_features: AnyObjective | None,
    coverage: float,
) -> tuple[tuple[str, float], ...]:  # fmt: skip
    """Return by what factor the typical market's error changes with more money, people, fewer features."""
    now = typical.optimum("", objective, coverage)
    money = now.expected_payment

    def factor(goal: AnyObjective, budget: float, times: float) -> float:
        others = Markets.typical(people, typical.tables, typical.unit, typical.difference, times)
        best = others.for_budget(goal, budget, None, coverage)
        return others.optimum("", best, coverage).error / now.error

    changes = [
        ("twice the money", factor(objective, 2.0 * money, 1.0)),
        ("twice the people", factor(objective, money, 2.0)),
    ]
    if fewer_features is not None:
        goal = fewer_features.with_payment_weight(objective.payment_weight)
        changes.append(("half of the features", factor(goal, money, 1.0)))
    return tuple(changes)


def _alternatives(markets: Markets, objective: AnyObjective, budget: float) -> tuple[Prospect, ...]:
    """Return the best posted price, one that half accept, one for all, and with groups one for each."""
    groups = len(markets.groups)
    offers = markets.prices(_PRICES if markets.is_typical else _FEW_PRICES)
    top = max(group.virtual_cost.reserve_price for group in markets.groups)

    def posted(name: str, price: float) -> Prospect | None:
        return markets.posted(name, objective, budget, np.full(groups, price), quotas=False)

    tried = [posted("best posted price", float(price)) for price in np.unique([*offers, top])]
    best = min((rule for rule in tried if rule is not None), key=lambda rule: rule.error, default=None)
    half = posted("price that half accept", float(offers[offers.size // 2 - 1]))
    several = _price_per_group(markets, objective, budget) if groups > 1 and markets.is_typical else None
    return tuple(rule for rule in (best, half, posted("same for all", top), several) if rule is not None)


def _price_per_group(markets: Markets, objective: AnyObjective, budget: float) -> Prospect | None:
    """Return the best price for each group that meets quotas, improved in turn from equal shares."""
    offers = [markets.prices(_FEW_PRICES, g) for g in range(len(markets.groups))]
    tried, best = list(np.array(offers).T), None
    for _ in range(_ROUNDS):
        found = [markets.posted("posted price per group", objective, budget, p, quotas=True) for p in tried]
        better = min((rule for rule in found if rule), key=lambda rule: rule.error, default=None)
        if better is None or (best is not None and better.error >= best.error):
            break
        best = better
        prices = np.array([schedule.reserve_price for schedule in best.schedules])
        own = np.eye(prices.size, dtype=bool)
        tried = [np.where(own[g], price, prices) for g, each in enumerate(offers) for price in each]
    return best
