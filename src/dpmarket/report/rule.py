"""The mechanism behind a campaign's rules, as an audit asks it: one seller's answer to another report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.rules.pricing import CROSS_PRICED, OFFLINE, groups_in
from dpmarket.mechanisms.cross_pricing import CrossPricedMechanism, split
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import objective_from_dict
from dpmarket.mechanisms.price_schedule import PriceSchedule


class Answers(Protocol):
    """What a truthfulness audit asks: the amount H that a report sells, and its payment.

    A seller with cost c loses c H, so that an audit of linear costs is one of every cost function.
    """

    def respond(self, reported_costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        """Return seller ``i``'s amount and payment for a report, the others' reports as given."""
        ...


def answers_of(rules: Mapping[str, Any], share: float) -> Answers:
    """Return the mechanism that decides by these rules, for a share of the sellers and of the budget."""
    groups = groups_in(rules)
    if rules["mechanism"] not in (OFFLINE, CROSS_PRICED):
        return _Scheduled(tuple(map(PriceSchedule.from_dict, rules["schedules"])), groups)
    terms: Any = {
        "epsilon_cost": EpsilonCost.from_dict(rules["epsilon_cost"]),
        "groups": groups,
        "coverage": rules["coverage"],
    }
    objective = objective_from_dict(rules["objective"])
    if rules["mechanism"] == OFFLINE:
        return _Exact(OfflineMechanism(None, objective, **terms))
    mechanism = CrossPricedMechanism(
        None, objective, share * rules["budget"], minor_unit=rules["minor_unit"], **terms
    )
    return _CrossPriced(mechanism, bytes.fromhex(rules["salt"]))


def members_of(groups: Sequence[Group], sellers: int) -> IntArray:
    """Return the group of each seller of a simulated market: as many of each as its share says."""
    ends = np.cumsum([group.share for group in groups])[:-1]
    return np.searchsorted(ends, (np.arange(sellers) + 0.5) / sellers)


class _Scheduled:
    def __init__(self, schedules: tuple[PriceSchedule, ...], groups: Sequence[Group]) -> None:
        self.schedules, self.groups = schedules, groups

    def respond(self, reported_costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        return _sold(self.schedules[members_of(self.groups, len(reported_costs))[i]], report)


class _Exact:
    def __init__(self, mechanism: OfflineMechanism) -> None:
        self.mechanism = mechanism

    def respond(self, reported_costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        members = members_of(self.mechanism.groups, len(reported_costs))
        epsilon, payment = self.mechanism.respond(reported_costs, i, report, members)
        return float(self.mechanism.epsilon_cost.cost_of_epsilon(np.array([epsilon]))[0]), payment


class _CrossPriced:
    """Prices of a part are computed once for the same reports of the other parts."""

    def __init__(self, mechanism: CrossPricedMechanism, salt: bytes) -> None:
        self.mechanism, self.salt = mechanism, salt
        self.known: dict[bytes, tuple[PriceSchedule, ...]] = {}

    def respond(self, reported_costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        costs = np.array(reported_costs, dtype=np.float64)
        costs[i] = report
        parts = split([str(k) for k in range(costs.size)], self.salt)
        members = members_of(self.mechanism.groups, costs.size)
        histograms = self.mechanism.histograms(costs, members, parts)
        others = histograms.sum(axis=0) - histograms[parts[i]]
        key = others.tobytes()
        if key not in self.known:
            self.known[key] = self.mechanism.price_part(others, float(costs.size))[1].schedules
        return _sold(self.known[key][members[i]], report)


def _sold(schedule: PriceSchedule, report: float) -> tuple[float, float]:
    """Return what a schedule buys at a report: the amount H, and the payment."""
    _, payments = schedule.quote(np.array([report]))
    return float(schedule.amount(np.array([report]))[0]), float(payments[0])
