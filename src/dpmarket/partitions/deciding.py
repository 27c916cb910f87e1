"""Decide the market of all partitions: from everybody if they are few, from windows if they are many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation.kernels import segments
from dpmarket.allocation.kernels.walk import Rules
from dpmarket.allocation.objective import max_epsilon
from dpmarket.allocation.settings import PathSettings, path_settings
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs import virtual_costs
from dpmarket.errors import Infeasible
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.partitions.decisions import ByCost, ByIntegrals, ByRule, Decision, Quoted, quote_each
from dpmarket.partitions.path import TooClose, prefixes
from dpmarket.partitions.premiums import (
    MOST_SINGLE,
    Neighbourhood,
    neighbourhood,
    premium_table,
)
from dpmarket.partitions.sums import BucketSums, as_float
from dpmarket.partitions.windows import Gathered, choose_windows, rule_of, solve

# The most sellers within windows: half a gigabyte of them.
_MOST_WITHIN = 1 << 25
_PLAIN = 2.0**100


@dataclass(frozen=True, eq=False)
class Census:
    """What is known of all reports without a look at single ones.

    Attributes
    ----------
    sellers
        How many there are.
    finite
        Exact sums of their finite virtual costs.
    zeros
        How many of these are 0.
    cheapest
        The least reported cost.
    distinct
        All different costs, increasing, if there are few; None if there are many.
    """

    sellers: int
    finite: BucketSums
    zeros: int
    cheapest: float
    distinct: FloatArray | None


@dataclass(frozen=True, eq=False)
class Market:
    """What was decided.

    Attributes
    ----------
    decision
        By which everybody is quoted.
    total_promise, cutoff
        Of the best allocation.
    n_capped, n_bought
        How many are at the weight cap, and how many have a promise.
    gathered
        How many sellers the driver looked at one by one.
    """

    decision: Decision
    total_promise: float
    cutoff: float
    n_capped: int
    n_bought: int
    gathered: int


def decide_from_all(costs: FloatArray, mechanism: OfflineMechanism) -> Market:
    """Decide from everybody's cost, sorted: as :meth:`OfflineMechanism.run` does."""
    from dpmarket.allocation import allocate
    from dpmarket.payments import exact_payments

    psi = virtual_costs(costs, mechanism.dist)
    allocation = allocate(psi, mechanism.objective)
    found = exact_payments(costs, psi, allocation, mechanism.objective, mechanism.dist)
    first = np.flatnonzero(np.append(True, np.diff(costs) > 0.0))
    quoted = Quoted(allocation.epsilons[first], found.payments[first], found.errors[first])
    return Market(
        decision=ByCost(costs[first], quoted),
        total_promise=allocation.total_promise,
        cutoff=allocation.cutoff,
        n_capped=allocation.n_capped,
        n_bought=allocation.n_bought,
        gathered=costs.size,
    )


Ranges = list[tuple[float, float]]
Gather = Callable[[Ranges], Sequence[Gathered]]


def decide_from_windows(census: Census, mechanism: OfflineMechanism, gather: Gather) -> Market:
    """Decide from bucket sums and the sellers within windows.

    Parameters
    ----------
    census
        Of all reports.
    mechanism
        Whose best allocation and payments are wanted.
    gather
        Returns, for ranges of virtual costs, who lies in them: one value from each partition.

    Raises
    ------
    Infeasible
        As :meth:`OfflineMechanism.run`.
    TooClose
        Windows do not decide.
    """
    settings = path_settings(mechanism.objective, census.sellers)
    finite = int(census.finite.counts.sum())
    _refuse_infeasible(finite, census, settings, mechanism)
    rules = Rules(
        settings.max_weight,
        settings.first_capped,
        settings.first_rest,
        settings.rho,
        settings.least_rate,
    )
    known = prefixes(census.finite)
    dearest = float(known.edges[-1])
    if settings.needs_cheapest or settings.needs_all_equal or not 1.0 / _PLAIN < dearest < _PLAIN:
        raise TooClose
    mean = as_float(known.sums[-1], known.unit) / finite * (1.0 + 1e-9)
    windows = choose_windows(known, rules, mean)
    ranges = [(windows.cap_low, windows.cap_high), (windows.low, windows.high)]
    within = sum(known.counts[high] - known.counts[low] for low, high in ranges)
    if within > _MOST_WITHIN:
        raise TooClose
    parts = gather([(float(known.edges[low]), float(known.edges[high])) for low, high in ranges])
    gathered = _together(parts)
    solved = solve(known, windows, gathered, rules, finite, census.zeros)
    rule = rule_of(solved, settings, mechanism.objective, max_epsilon(mechanism.objective))
    around = neighbourhood(
        solved,
        rules,
        rule,
        finite=finite,
        total=as_float(known.sums[-1], known.unit),
        epsilon_rate=settings.epsilon_rate,
        cheapest=float(known.edges[0]),
        dist=mechanism.dist,
    )
    row = solved.row
    return Market(
        decision=_decision(census, around, gathered),
        total_promise=rule[4],
        cutoff=around.cutoff,
        n_capped=int(row[segments.CAPPED]),
        n_bought=_with_promise(solved.psi, row, rule),
        gathered=gathered.psi.size,
    )


def _refuse_infeasible(
    finite: int, census: Census, settings: PathSettings, mechanism: OfflineMechanism
) -> None:
    needed = settings.first_capped + (settings.first_rest > 0.0)
    if finite < needed:
        raise Infeasible(
            f"expected at least {needed} sellers with a finite virtual cost, so that weights of at most "
            f"{settings.max_weight!r} can sum to 1, found {finite} of {census.sellers}."
        )
    if math.isinf(mechanism.dist.support[1]) and finite - 1 < needed:
        raise Infeasible(
            "expected the others to suffice when one seller leaves, because costs have no upper end; "
            "found that a seller is needed at every price: raise weight_cap, or cut the distribution."
        )


def _together(parts: Sequence[Gathered]) -> Gathered:
    psi = np.concatenate([part.psi for part in parts])
    values, which = np.unique(psi, return_inverse=True)
    counts: IntArray = np.zeros(values.size, dtype=np.int64)
    np.add.at(counts, which, np.concatenate([part.counts for part in parts]))
    dearest = np.full(values.size, -np.inf)
    np.maximum.at(dearest, which, np.concatenate([part.dearest for part in parts]))
    return Gathered(values, counts, dearest)


def _decision(census: Census, around: Neighbourhood, gathered: Gathered) -> Decision:
    if census.distinct is not None and census.distinct.size <= MOST_SINGLE:
        return ByCost(census.distinct, quote_each(around, census.distinct))
    low = around.dist.support[0]
    inside = gathered.psi <= around.rule[0]
    if around.rule[1] == 0.0:  # who is at the cutoff gets nothing
        inside = gathered.psi < around.rule[0]
    if not inside.any():
        raise TooClose
    high = float(gathered.dearest[inside].max())
    found = premium_table(around, max(census.cheapest, low), max(high, low), _at_cap(around, gathered))
    return ByIntegrals(around) if found is None else ByRule(around, found)


def _at_cap(around: Neighbourhood, gathered: Gathered) -> tuple[FloatArray, FloatArray]:
    """Return virtual costs and costs of the sellers in the window around where the cap begins to hold."""
    window = around.pieces[0][1]
    there = (gathered.psi >= window[0]) & (gathered.psi <= window[-1]) & (gathered.psi < around.cutoff)
    return gathered.psi[there], np.maximum(gathered.dearest[there], around.dist.support[0])


def _with_promise(psi: FloatArray, row: FloatArray, rule: tuple[float, ...]) -> int:
    """Return how many have a promise above 0: not those exactly at the cutoff."""
    bought = int(row[segments.BOUGHT])
    if rule[1] > 0.0:
        return bought
    return int(np.searchsorted(psi[:bought], rule[0], side="left"))
