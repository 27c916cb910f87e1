r"""Price schedules: a public, stateless, never-rising epsilon of the reported cost, with Myerson payments.

A schedule has knots of cost with an epsilon and an amount H (the cost function of epsilon) at each, linear in
between, and buys nothing above the last knot. A seller with cost c gets

.. math:: t(c) = c\, H(c) + \int_c^{c_K} H(z)\, dz,

so that truth is the best report whatever anybody else does, and taking part never loses money: the best pair
of the menu of (epsilon, payment) for cost c is the one that reporting c gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import AnyObjective, PaperObjective
from dpmarket.mechanisms.water_filling import Entry, Market, check_terms

QUANTILES = 1000
"""Bins by which a distribution stands for any number of sellers."""


@dataclass(frozen=True, eq=False)
class PriceSchedule:
    """A never-rising, piecewise-linear epsilon of the reported cost, with Myerson payments.

    Parameters
    ----------
    costs
        Knots, rising strictly; reports below the first count as the first, above the last nothing is bought.
    epsilons, amounts
        At each knot the privacy budget and the cost function H of it (None: the same), never rising, at least
        0: a seller with cost c loses c H.

    Examples
    --------
    >>> schedule = PriceSchedule([1.0, 3.0], [2.0, 0.0])
    >>> epsilons, payments = schedule.quote([1.0, 2.0, 4.0])
    >>> epsilons.tolist(), payments.tolist()
    ([2.0, 1.0, 0.0], [4.0, 2.5, 0.0])
    """

    costs: FloatArray
    epsilons: FloatArray
    amounts: FloatArray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        costs = checks.non_negative_vector("costs", self.costs).copy()
        if costs.size < 2 or not (np.diff(costs) > 0.0).all():
            raise InvalidInput("expected at least two costs that rise strictly.")
        object.__setattr__(self, "costs", read_only(costs))
        given = self.epsilons if self.amounts is None else self.amounts
        for name, values in (("epsilons", self.epsilons), ("amounts", given)):
            table = checks.non_negative_vector(name, values).copy()
            checks.same_length(name, table, "costs", costs)
            if not (np.diff(table) <= 0.0).all():
                raise InvalidInput(f"expected {name} that never rise with the cost.")
            object.__setattr__(self, name, read_only(table))

    @property
    def reserve_price(self) -> float:
        """The highest cost that anything is bought at."""
        return float(self.costs[-1])

    @property
    def largest_epsilon(self) -> float:
        """What the lowest cost is offered."""
        return float(self.epsilons[0])

    @property
    def largest_payment(self) -> float:
        """What the lowest cost is paid: what a hard budget must hold for the next seller."""
        return float(self.quote(self.costs[:1])[1][0])

    @cached_property
    def _rents(self) -> FloatArray:
        """The integral of H from each knot to the last."""
        areas = 0.5 * (self.amounts[1:] + self.amounts[:-1]) * np.diff(self.costs)
        return np.append(np.cumsum(areas[::-1])[::-1], 0.0)

    def quote(self, costs: object) -> tuple[FloatArray, FloatArray]:
        """Return epsilon and payment for each report of a vector, in money before rounding to minor units."""
        reports = np.maximum(checks.non_negative_vector("costs", costs), self.costs[0])
        above = np.clip(np.searchsorted(self.costs, reports, side="left"), 1, self.costs.size - 1)
        amounts = np.interp(reports, self.costs, self.amounts)
        rents = self._rents[above] + 0.5 * (amounts + self.amounts[above]) * (self.costs[above] - reports)
        payments = reports * amounts + rents
        epsilons = np.interp(reports, self.costs, self.epsilons)
        refused = reports > self.reserve_price
        epsilons[refused] = payments[refused] = 0.0
        return epsilons, payments

    def amount(self, costs: FloatArray) -> FloatArray:
        """Return the amount H that each report sells: a seller with cost c loses c H."""
        return np.where(costs > self.reserve_price, 0.0, np.interp(costs, self.costs, self.amounts))

    def menu(self, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the offers that differ, as a menu: costs, epsilons and payments, from the lowest cost up.

        There are at most n, evenly spaced in epsilon; fewer where the schedule has steps. Each is the best
        offer for its cost.

        >>> [column.tolist() for column in posted_price(3.0, 0.5).menu(50)]
        [[3.0], [0.5], [1.5]]
        """
        levels = np.linspace(self.largest_epsilon, 0.0, checks.whole("n", n, minimum=1) + 1)[:-1]
        # The highest cost that is offered each level, up to rounding: within the piece that falls below it.
        last = np.searchsorted(-self.epsilons, -levels * (1.0 - 1e-9), side="right") - 1
        following = np.minimum(last + 1, self.costs.size - 1)
        above, fall = self.epsilons[last] - levels, self.epsilons[last] - self.epsilons[following]
        share = np.divide(np.maximum(above, 0.0), fall, out=np.zeros(levels.size), where=fall > 0.0)
        costs = np.unique(self.costs[last] + share * (self.costs[following] - self.costs[last]))
        epsilons, payments = self.quote(costs)
        sold = epsilons > 0.0
        return costs[sold], epsilons[sold], payments[sold]

    def to_dict(self) -> dict[str, Any]:
        """Return the schedule as plain data, for certificates and rules."""
        return {name: getattr(self, name).tolist() for name in ("costs", "epsilons", "amounts")}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PriceSchedule:
        """Make the schedule whose :meth:`to_dict` gave this data."""
        return cls(data["costs"], data["epsilons"], data["amounts"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PriceSchedule) and self.to_dict() == other.to_dict()

    def __repr__(self) -> str:
        return (
            f"PriceSchedule({self.costs.size} knots, epsilon up to {self.largest_epsilon:.4g}, "
            f"costs up to {self.reserve_price:.4g})"
        )


@dataclass(frozen=True, eq=False)
class CostBins:
    """Sellers of one group: rising costs, and how many sellers there are at each, shapes (n,)."""

    group: Group
    costs: FloatArray
    counts: FloatArray

    @classmethod
    def typical(cls, group: Group, distribution: CostDistribution, sellers: float) -> CostBins:
        """Return mid-quantiles of a distribution, each for the same number of sellers."""
        n = max(min(QUANTILES, math.ceil(sellers)), 1)
        costs = np.asarray(distribution.quantile((np.arange(n) + 0.5) / n))
        return cls(group, costs, np.full(n, sellers / n))


@dataclass(frozen=True, eq=False)
class PricedMarket:
    """A typical market with its optimal schedules, one per group; those that buy nothing have epsilon 0."""

    schedules: tuple[PriceSchedule, ...]
    payment: float  # expected, of all, before rounding
    squared_payments: float  # expected sum of squares
    bought: float  # expected number of sellers
    share_deviations: tuple[float, ...]  # of the groups' sums of weights, if costs are independent


def price_market(
    groups: Sequence[CostBins], objective: AnyObjective, epsilon_cost: EpsilonCost, coverage: float = math.inf
) -> PricedMarket:
    """Solve a market of bins over all totals, and return its schedules; D is infinite for hard quotas."""
    schedules = [_no_schedule(bins.group.virtual_cost) for bins in groups]
    sums, variances = np.zeros(len(groups)), np.zeros(len(groups))
    payment = squared_payments = bought = 0.0
    kept = [bins.costs <= bins.group.virtual_cost.reserve_price for bins in groups]
    parts = [(bins.group, bins.costs[low], bins.counts[low]) for bins, low in zip(groups, kept, strict=True)]
    if not any(costs.size for _, costs, _ in parts):
        return PricedMarket(tuple(schedules), payment, squared_payments, bought, tuple(sums))
    market = Market(parts, objective, epsilon_cost, coverage)
    entry = market.refined()
    for k, g in enumerate(market.present):
        schedules[g] = _schedule(market, k, entry)
        _, costs, counts = parts[g]
        weights = _weights(market, k, entry, market.strata[k].excess)
        sums[g] = float(counts @ weights)
        variances[g] = float(counts @ weights**2) - sums[g] ** 2 / float(groups[g].counts.sum())
        paid = schedules[g].quote(costs)[1]
        payment += float(counts @ paid)
        squared_payments += float(counts @ paid**2)
        bought += float(counts[weights > 0.0].sum())
    # A share is a group's sum over that of all: to first order its deviation weighs each group's.
    gradient = np.eye(len(groups)) - sums[:, None]
    deviations = np.sqrt(gradient**2 @ np.maximum(variances, 0.0))
    return PricedMarket(tuple(schedules), payment, squared_payments, bought, tuple(deviations.tolist()))


def _weights(market: Market, k: int, entry: Entry, excess: FloatArray) -> FloatArray:
    ramps = market.ramps(market.strata[k], np.array([entry.entry]))
    return ramps.hold(np.zeros(1, dtype=np.int64), excess, np.array([entry.levels[k]])).weights


def _schedule(market: Market, k: int, entry: Entry) -> PriceSchedule:
    """Return what an optimum offers at each cost: linear between knots of the two tables."""
    stratum, table = market.strata[k], market.strata[k].table
    ramps = market.ramps(stratum, np.array([entry.entry]))
    turns = np.concatenate((ramps.starts[0], ramps.ends[0]))
    psi = (entry.levels[k] - turns) / np.tile(ramps.steepness, 2) + stratum.lowest
    cutoff = float(psi[0])  # the virtual cost at which the first chord starts: nothing is bought beyond
    if cutoff <= table.values[0]:
        return _no_schedule(table)
    # H is linear between knots only if every chord begins and ends at one. Within a jump of the table, a very
    # short piece, a cost does not say its virtual cost well enough: knots are pairs of both.
    inside = psi[(psi > table.values[0]) & (psi < table.values[-1])]
    costs = np.concatenate((table.knots, np.asarray(table.inverse(inside))))
    values = np.concatenate((table.values, inside))
    order = np.lexsort((values, costs))
    if cutoff < table.values[-1]:
        order = order[costs[order] <= float(table.inverse(cutoff))]
    costs, values = costs[order], values[order]
    # Knots that differ by rounding are one; the last stays.
    apart = np.append(np.diff(costs) > 2.0 * np.spacing(costs[1:]), True)
    costs, values = costs[apart], values[apart]
    shares = _weights(market, k, entry, values - stratum.lowest) * market.total(entry)
    if cutoff < table.values[-1]:
        shares[-1] = 0.0
    shares = np.minimum.accumulate(shares)
    return PriceSchedule(costs, market.table.epsilon(shares), market.table.cost(shares))


def _no_schedule(table: VirtualCost) -> PriceSchedule:
    return PriceSchedule(table.knots[[0, -1]], np.zeros(2))


def population_schedule(
    costs: CostDistribution, objective: AnyObjective, expected_sellers: int, *,
    epsilon_cost: EpsilonCost | None = None,
) -> PriceSchedule:  # fmt: skip
    """Return what the optimum of a typical market offers at each cost.

    Parameters
    ----------
    costs
        The distribution of costs, common knowledge.
    objective, epsilon_cost
        As in :class:`~dpmarket.mechanisms.exact.OfflineMechanism`; bounds hold for the typical market.
    expected_sellers
        How many sellers are expected, at least 1.

    Returns
    -------
    PriceSchedule
        Fixed before the first seller comes.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.objective import Objective
    >>> schedule = population_schedule(Uniform(1, 5), Objective.for_model(10, 0.001), 1000)
    >>> 1.0 < schedule.reserve_price < 2.0
    True
    """
    sellers = checks.whole("expected_sellers", expected_sellers, minimum=1)
    group = Group("all", 1.0, VirtualCost.of(costs))
    tables = check_terms(objective, epsilon_cost)
    return price_market([CostBins.typical(group, costs, sellers)], objective, tables).schedules[0]


def quote_each(
    schedules: Sequence[PriceSchedule], which: IntArray, costs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return epsilons and payments of costs, each by the schedule of its number."""
    epsilons, payments = np.zeros(costs.size), np.zeros(costs.size)
    for k, schedule in enumerate(schedules):
        of = np.flatnonzero(which == k)
        if of.size:  # of few sellers a part may have none
            epsilons[of], payments[of] = schedule.quote(costs[of])
    return epsilons, payments


def posted_price(price: float, epsilon: float, epsilon_cost: EpsilonCost | None = None) -> PriceSchedule:
    """Return the schedule of one epsilon at one price; at the highest possible cost everybody sells the same.

    Parameters
    ----------
    price, epsilon
        Money per unit of the cost function of epsilon, and what sellers with at most this cost sell; above 0.
    epsilon_cost
        The cost function; the default is linear.

    Returns
    -------
    PriceSchedule
        With one step down.
    """
    tables = EpsilonCost.identity() if epsilon_cost is None else epsilon_cost
    price, epsilon = checks.positive("price", price), checks.positive("epsilon", epsilon)
    if epsilon > tables.max_epsilon:
        raise InvalidInput(f"expected an epsilon of at most {tables.max_epsilon!r}, got {epsilon!r}.")
    amount = float(tables.cost_of_epsilon(np.array([epsilon]))[0])
    return PriceSchedule(np.array([0.0, price]), np.full(2, epsilon), np.full(2, amount))


def paper_schedule(
    virtual_cost: VirtualCost, objective: PaperObjective, expected_sellers: int, density_at_zero: float
) -> PriceSchedule:
    r"""Return the schedule of the paper's Algorithm 3.

    .. math:: \epsilon(c) = \kappa\, (\lambda - \gamma \psi(c))^+, \qquad
              \lambda = \sqrt{\frac{\mu^2 \gamma}{\sigma m f_\Psi(0)}}, \qquad
              \kappa = \frac{2 \sqrt 3\, \gamma^{3/2} \mu}{f_\Psi(0)^{3/2} m^{3/2} \lambda^{7/2}}

    Parameters
    ----------
    virtual_cost, objective, expected_sellers
        The table of virtual costs; the paper's objective, without bounds; m, at least 1.
    density_at_zero
        Density of the virtual cost at 0, above 0; the paper's own experiment has none.

    Returns
    -------
    PriceSchedule
        It buys nothing if lambda does not reach the lowest virtual cost.
    """
    m = checks.whole("expected_sellers", expected_sellers, minimum=1)
    density = checks.positive("density_at_zero", density_at_zero)
    gamma, mu = objective.gamma, objective.mu
    level = math.sqrt(mu**2 * gamma / (objective.sigma * m * density))
    factor = 2.0 * math.sqrt(3.0) * gamma**1.5 * mu / (density * m) ** 1.5 / level**3.5
    cutoff = level / gamma
    costs = virtual_cost.knots
    if virtual_cost.values[0] < cutoff < virtual_cost.values[-1]:
        costs = np.unique(np.append(costs, float(virtual_cost.inverse(cutoff))))
    epsilons = factor * np.maximum(level - gamma * np.asarray(virtual_cost(costs)), 0.0)
    return PriceSchedule(costs, np.minimum.accumulate(epsilons))
