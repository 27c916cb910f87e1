"""The mechanism behind a campaign's rules, as an audit asks it: one seller's answer to another report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.campaign.rules.pricing import CROSS_PRICED, OFFLINE
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.mechanisms.cross_pricing import CrossPricedMechanism, split
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
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
    if rules["mechanism"] not in (OFFLINE, CROSS_PRICED):
        return _Scheduled(PriceSchedule.from_dict(rules["schedule"]))
    terms = VirtualCost.from_dict(rules["virtual_cost"]), objective_from_dict(rules["objective"])
    table = EpsilonCost.from_dict(rules["epsilon_cost"])
    if rules["mechanism"] == OFFLINE:
        return _Exact(OfflineMechanism(*terms, epsilon_cost=table))
    mechanism = CrossPricedMechanism(
        *terms, share * rules["budget"], epsilon_cost=table, minor_unit=rules["minor_unit"]
    )
    return _CrossPriced(mechanism, bytes.fromhex(rules["salt"]))


class _Scheduled:
    def __init__(self, schedule: PriceSchedule) -> None:
        self.schedule = schedule

    def respond(self, reported_costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        return _sold(self.schedule, report)


class _Exact:
    def __init__(self, mechanism: OfflineMechanism) -> None:
        self.mechanism = mechanism

    def respond(self, reported_costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        epsilon, payment = self.mechanism.respond(reported_costs, i, report)
        return float(self.mechanism.epsilon_cost.cost_of_epsilon(np.array([epsilon]))[0]), payment


class _CrossPriced:
    """Prices of a part are computed once for the same reports of the other parts."""

    def __init__(self, mechanism: CrossPricedMechanism, salt: bytes) -> None:
        self.mechanism, self.salt = mechanism, salt
        self.known: dict[bytes, PriceSchedule] = {}

    def respond(self, reported_costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        costs = np.array(reported_costs, dtype=np.float64)
        costs[i] = report
        parts = split([str(k) for k in range(costs.size)], self.salt)
        histograms = self.mechanism.histograms(costs, np.zeros(costs.size, dtype=np.int64), parts)
        others = histograms.sum(axis=0) - histograms[parts[i]]
        key = others.tobytes()
        if key not in self.known:
            self.known[key] = self.mechanism.price_part(others, float(costs.size))[1].schedules[0]
        return _sold(self.known[key], report)


def _sold(schedule: PriceSchedule, report: float) -> tuple[float, float]:
    """Return what a schedule buys at a report: the amount H, and the payment."""
    _, payments = schedule.quote(np.array([report]))
    return float(schedule.amount(np.array([report]))[0]), float(payments[0])
