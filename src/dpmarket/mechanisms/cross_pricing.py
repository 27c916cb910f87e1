"""Cross-pricing: each part of the sellers is priced by the other parts' reports.

Sellers are split by a salted hash of their ids into k parts. Each part is quoted by the price schedule
(:mod:`~dpmarket.mechanisms.price_schedule`) that is optimal for the *other* parts' reports, with the payment
weight re-planned from them so that the part's share of the budget is spent. No report moves its own prices,
so truth is each seller's best report exactly; and the budget is met even where the announced distribution is
wrong. The guarantee needs one id per person, a salt that is drawn after the list of reports is frozen (or
follows from it), budgets of parts by counts that include refused reports, and :data:`LEAST_SELLERS` sellers.

Only histograms of costs on a public grid leave a part. Schedules tell about the other parts' costs: they are
not private.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.groups import Coverage, Group, check_coverage, check_membership, groups_of
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.outcome import Outcome, decided
from dpmarket.mechanisms.price_schedule import CostBins, PricedMarket, PriceSchedule, price_market, quote_each
from dpmarket.mechanisms.water_filling import announced_terms, check_terms

PARTS = 16
"""Into how many parts sellers are split."""
LEAST_SELLERS = 50
"""With fewer sellers the other parts say too little."""
GRID = 2048
"""Cells of the public grid of costs."""
SPENT = 1e-5
"""How closely prices meet a budget, relative to it."""
_LEAST_SALT, _SALT = 16, 32  # bytes
# Where few sellers are paid, a part with more of them than the others is priced by others with fewer, at
# higher prices. At fixed proportions the budget would be overspent by k/(k - 1) over the number who are paid;
# measured, as schedules respond, by about this.
_FEEDBACK = 0.6
_SEARCHES = 80
_HIGHEST = 200.0  # logarithm of a payment weight: beyond it rounding up to minor units is all that is paid


@dataclass(frozen=True, eq=False)
class CrossPrices:
    """The prices of one run: everything that a verifier needs.

    Attributes
    ----------
    salt
        What the hash of an id starts from.
    schedules, payment_weights
        Of each part, one schedule per group, and the weight as re-planned from the other parts.
    share_deviations
        Standard deviation of each group's share, from what is expected, by the chance of who reports what.
    histograms
        Reports of each part and group, shape (parts, groups, cells + 2): those that count as the lowest cost,
        those in each cell of the public grid, and refused ones.
    """

    salt: bytes
    schedules: tuple[tuple[PriceSchedule, ...], ...]
    payment_weights: tuple[float, ...]
    share_deviations: tuple[float, ...]
    histograms: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Return the salt and every part's prices as plain data: what is certified."""
        parts = zip(self.payment_weights, self.schedules, strict=True)
        prices = [{"payment_weight": w, "schedules": [s.to_dict() for s in each]} for w, each in parts]
        return {"salt": self.salt.hex(), "prices": prices}


class CrossPricedMechanism:
    """Price each part of the sellers by the other parts' reports, and meet a budget.

    Parameters
    ----------
    costs
        The distribution of costs, or its announced table of virtual costs; None if there are groups.
    objective, budget
        What the buyer minimises, whose payment weight is only where the search for the budget's starts; and
        money for all payments together, above 0.
    epsilon_cost, groups, coverage
        As in :class:`~dpmarket.mechanisms.exact.OfflineMechanism`. Prices meet quotas on average:
        :attr:`CrossPrices.share_deviations` says how closely, and
        :func:`~dpmarket.statistics.rebalanced` meets them exactly with what was bought.
    minor_unit
        Payments will be rounded up to it; None: they are not.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.objective import Objective
    >>> mechanism = CrossPricedMechanism(Uniform(1, 5), Objective.for_model(10), budget=100.0)
    >>> costs = np.linspace(1, 5, 400)
    >>> outcome, prices = mechanism.run(range(400), costs, salt=bytes(32))  # leave the salt out: it is drawn
    >>> 95.0 < outcome.total_payment < 105.0
    True
    """

    def __init__(
        self, costs: CostDistribution | VirtualCost | None, objective: AnyObjective, budget: float, *,
        epsilon_cost: EpsilonCost | None = None, groups: Sequence[Group] | None = None,
        coverage: Coverage = "hard", minor_unit: float | None = None,
    ) -> None:  # fmt: skip
        self.objective = objective
        self.coverage = check_coverage(coverage)
        self.epsilon_cost = check_terms(objective, epsilon_cost)
        self.groups = groups_of(costs, groups)
        self.budget = checks.positive("budget", budget)
        self.minor_unit = None if minor_unit is None else checks.positive("minor_unit", minor_unit)
        self.grids = tuple(_grid(group.virtual_cost) for group in self.groups)

    def run(
        self, ids: Sequence[object], reported_costs: object, membership: object = None, *,
        salt: bytes | None = None,
    ) -> tuple[Outcome, CrossPrices]:  # fmt: skip
        """Decide and pay for all sellers of a frozen list; return the outcome and the prices that decided it.

        Ids are all different, and hashed as text. A ``salt`` is given only to repeat a run; None draws one
        now, after the list is frozen.
        """
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        members = check_membership(membership, costs.size, len(self.groups))
        names = [str(each) for each in ids]
        if len(names) != costs.size or len(set(names)) < len(names):
            raise InvalidInput("expected one id per report, and one report per id.")
        if costs.size < LEAST_SELLERS:
            raise Infeasible(
                f"expected at least {LEAST_SELLERS} sellers for prices from the other parts' reports, got "
                f"{costs.size}: take the exact OfflineMechanism."
            )
        salt = secrets.token_bytes(_SALT) if salt is None else salt
        parts = split(names, salt)
        prices = self.price(self.histograms(costs, members, parts), salt)
        every = list(chain.from_iterable(prices.schedules))
        epsilons, payments = quote_each(every, parts * len(self.groups) + members, costs)
        shares = self.epsilon_cost.share(epsilons)
        total = math.fsum(shares)
        weights = shares / total if total > 0.0 else shares.copy()
        return decided(epsilons, payments, weights, total, self.objective), prices

    def rules(self, prices: CrossPrices) -> dict[str, Any]:
        """Return all that decided a run, as plain data; its histograms are for an auditor's eyes."""
        terms = self.objective, self.epsilon_cost, self.groups, self.coverage
        more = {"budget": self.budget, "histograms": prices.histograms.tolist(), **prices.to_dict()}
        return announced_terms("cross-priced", *terms) | more

    def histograms(self, costs: FloatArray, membership: IntArray, parts: IntArray) -> FloatArray:
        """Return how many reports each part and group has in each cell of the public grid."""
        found = np.zeros((PARTS, len(self.groups), GRID + 2))
        for g, grid in enumerate(self.grids):
            of = np.flatnonzero(membership == g)
            cell = np.searchsorted(grid, costs[of], side="left")
            counts = np.bincount(parts[of] * (GRID + 2) + cell, minlength=PARTS * (GRID + 2))
            found[:, g] = counts.reshape(PARTS, GRID + 2)
        return found

    def price(self, histograms: FloatArray, salt: bytes) -> CrossPrices:
        """Return the prices that follow from the parts' histograms."""
        sellers = float(histograms.sum())
        everybody = histograms.sum(axis=0)
        priced = [self.price_part(everybody - histograms[p], sellers) for p in range(PARTS)]
        deviations = np.max([market.share_deviations for _, market in priced], axis=0)
        weights, markets = zip(*priced, strict=True)
        schedules = tuple(market.schedules for market in markets)
        return CrossPrices(salt, schedules, weights, tuple(deviations.tolist()), histograms)

    def price_part(self, others: FloatArray, sellers: float) -> tuple[float, PricedMarket]:
        """Return payment weight and prices of a part; the others' histograms stand for all sellers."""
        known = float(others.sum())
        if known == 0.0:
            raise Infeasible("expected reports in more than one part: draw another salt.")
        bins = []
        for group, grid, counts in zip(self.groups, self.grids, others, strict=True):
            middles = np.concatenate((grid[:1], 0.5 * (grid[1:] + grid[:-1])))
            filled = np.flatnonzero(counts[:-1])
            bins.append(CostBins(group, middles[filled], counts[filled] * (sellers / known)))
        # The search starts from a public weight: another part's would depend on this part's reports.
        return price_for_budget(
            bins, self.objective, self.epsilon_cost, self.budget, self.minor_unit,
            feedback=_FEEDBACK, coverage=self.coverage,
        )  # fmt: skip


def split(names: Sequence[str], salt: bytes) -> IntArray:
    """Return the part of each id: a hash with a salt that nobody knew when reports were made."""
    if not _LEAST_SALT <= len(salt) <= 64:
        raise InvalidInput(f"expected a salt of {_LEAST_SALT} to 64 bytes.")
    salted, digests = hashlib.sha256(b"dpmarket-part-1" + salt), bytearray()
    for name in names:
        state = salted.copy()
        state.update(name.encode())
        digests += state.digest()[:8]
    return (np.frombuffer(digests, dtype=">u8") % PARTS).astype(np.int64)


def price_for_budget(
    bins: Sequence[CostBins], objective: AnyObjective, epsilon_cost: EpsilonCost, budget: float,
    minor_unit: float | None = None, *, feedback: float = 0.0, coverage: float = math.inf,
) -> tuple[float, PricedMarket]:  # fmt: skip
    """Return the payment weight at which a market of bins spends a budget, and its prices.

    Rounding up to the minor unit costs half of it on average; ``feedback`` is the relative overspending to be
    expected, times the effective number of sellers who are paid.
    """
    found: dict[float, PricedMarket] = {}

    def spent(weight: float) -> float:
        priced = price_market(bins, objective.with_payment_weight(weight), epsilon_cost, coverage)
        found[weight] = priced
        if priced.payment == 0.0:
            return 0.0
        over = feedback * priced.squared_payments / priced.payment
        return priced.payment + over + 0.5 * (minor_unit or 0.0) * priced.bought

    weight = weight_for_budget(spent, budget, objective.payment_weight)
    return weight, found[weight]


def weight_for_budget(
    spent: Callable[[float], float], budget: float, start: float, tolerance: float = SPENT
) -> float:
    """Return a payment weight at which ``spent`` meets a budget from below, up to a relative tolerance.

    What is spent falls with the payment weight, perhaps in steps. Refuses a budget below everything tried.
    """
    gaps: dict[float, float] = {}

    def gap(at: float) -> float:
        """Return the logarithm of what is spent over the budget, at the logarithm of a weight."""
        if at not in gaps:
            gaps[at] = math.log(max(spent(math.exp(at)), 1e-300) / budget)
        return gaps[at]

    low = high = math.log(start)  # spends too much, and not too much
    stride = math.log(4.0)
    while gap(high) > 0.0 and high < _HIGHEST:
        low, high, stride = high, high + stride, 1.5 * stride
    while gap(low) <= 0.0 and len(gaps) < _SEARCHES:
        if gap(low) >= -tolerance or (low < high and gap(low) - gap(high) < 1e-9):
            return math.exp(low)  # met; or a much lower weight buys no more: everybody sells all they may
        high, low, stride = low, low - stride, 1.5 * stride
    if gap(high) > 0.0:
        raise Infeasible("expected a budget that buys something: raise it, or allow larger epsilons.")
    # Payments fall about like a power of the weight, perhaps in steps: secants of logarithms in a bracket,
    # aimed a little towards the side that does not overspend.
    while gap(high) < -tolerance and high - low >= 0.1 * tolerance and len(gaps) < _SEARCHES:
        width = high - low
        aim = low + width * gap(low) / (gap(low) - gap(high)) + 0.3 * tolerance
        inner = min(max(aim, low + 0.02 * width), high - 0.02 * width)
        at = inner if len(gaps) % 4 else 0.5 * (low + high)
        low, high = (low, at) if gap(at) <= 0.0 else (at, high)
    return math.exp(high)


def _grid(table: VirtualCost) -> FloatArray:
    """Return the public grid of costs: half evenly spaced, half in proportion to the table's own knots."""
    even = np.linspace(table.knots[0], table.reserve_price, GRID // 2 + 1)
    pieces = table.knots.size - 1
    own = np.interp(np.linspace(0.0, pieces, GRID // 2 + 1), np.arange(pieces + 1), table.knots)
    merged = np.unique(np.concatenate((even, own)))
    # Exactly GRID cells, whatever coincides.
    places = np.linspace(0.0, merged.size - 1.0, GRID + 1)
    return np.asarray(np.interp(places, np.arange(merged.size), merged))
