"""The audits whose answers belong on a page: a few seconds each, whatever the size of the market."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.audit import (
    Audit,
    Claim,
    PrivacyFindings,
    audit_participation,
    audit_spending,
    audit_truthfulness,
)
from dpmarket.campaign.rules.pricing import CROSS_PRICED, OFFLINE, terms_in
from dpmarket.campaign.rules.released import ModelFile, StatisticsFile
from dpmarket.mechanisms.cross_pricing import LEAST_SELLERS, CrossPricedMechanism, split
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import objective_from_dict
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.report.summary import GAIN, KEPT, LOSS, AuditNote, Material, noted

_SELLERS, _MISREPORTS = 12, 20  # of a simulated market that is searched for misreports
_ACCOUNTS = 500  # promises whose spending is recomputed


@dataclass(frozen=True)
class Answers:
    """A campaign's mechanism: ``respond`` returns epsilon and payment for seller i's report."""

    respond: Callable[[FloatArray, int, float], tuple[float, float]]


def answers_of(rules: Mapping[str, Any], sellers: int, share: float) -> Answers:
    """Return the mechanism of these rules for a share of all sellers, and that share of the budget."""
    groups = terms_in(rules).groups
    ends = np.cumsum([group.share for group in groups])[:-1]
    members = np.searchsorted(ends, (np.arange(sellers) + 0.5) / sellers)
    if rules["mechanism"] not in (OFFLINE, CROSS_PRICED):
        schedules = tuple(map(PriceSchedule.from_dict, rules["schedules"]))
        return Answers(lambda costs, i, report: _quoted(schedules[members[i]], report))
    objective, table = objective_from_dict(rules["objective"]), EpsilonCost.from_dict(rules["epsilon_cost"])
    terms: Any = {"epsilon_cost": table, "groups": groups, "coverage": rules["coverage"]}
    if rules["mechanism"] == OFFLINE:
        return Answers(partial(OfflineMechanism(None, objective, **terms).respond, membership=members))
    priced = CrossPricedMechanism(
        None, objective, share * rules["budget"], minor_unit=rules["minor_unit"], **terms
    )
    parts = split([str(k) for k in range(sellers)], bytes.fromhex(rules["salt"]))
    known: dict[bytes, tuple[PriceSchedule, ...]] = {}  # prices of a part, by the reports of the others

    def by_others(costs: FloatArray, i: int, report: float) -> tuple[float, float]:
        costs = np.array(costs, dtype=np.float64)
        costs[i] = report
        histograms = priced.histograms(costs, members, parts)
        others = histograms.sum(axis=0) - histograms[parts[i]]
        key = others.tobytes()
        if key not in known:
            known[key] = priced.price_part(others, float(sellers))[1].schedules
        return _quoted(known[key][members[i]], report)

    return Answers(by_others)


def _quoted(schedule: PriceSchedule, report: float) -> tuple[float, float]:
    epsilons, payments = schedule.quote([report])
    return float(epsilons[0]), float(payments[0])


def audits_of(material: Material) -> list[AuditNote]:
    """Run the audits that a report shows."""
    made, weights, epsilons = material.released, material.weights, material.outcome.epsilons
    audits: list[tuple[str, Audit]] = [(GAIN, _truthfulness(material.rules, epsilons.size))]
    if material.is_reported:
        audits.append((LOSS, _participation(material)))
    if isinstance(made, ModelFile):
        audits.append((KEPT, _accounting(made, weights, epsilons)))
    elif made is not None:
        audits.append((KEPT, _spending(made, weights, epsilons)))
    return [noted(question, audit.passed, audit.summary()) for question, audit in audits]


def _truthfulness(rules: Mapping[str, Any], people: int) -> Audit:
    """Search a simulated market under a campaign's rules for a misreport that gains."""
    sellers = LEAST_SELLERS if "budget" in rules else min(_SELLERS, people)
    answers, dist = answers_of(rules, sellers, sellers / people), terms_in(rules).distribution
    rng, table = np.random.default_rng(0), EpsilonCost.from_dict(rules["epsilon_cost"])
    return audit_truthfulness(answers, dist, sellers, 1, _MISREPORTS, rng, epsilon_cost=table)  # type: ignore[arg-type]


def _participation(material: Material) -> Audit:
    """Check that sellers who were bought from are paid what epsilon costs them, by their reports."""
    epsilons, unit = material.outcome.epsilons, 1.0 / material.minor_units
    bought = epsilons > 0.0
    losses = epsilons[bought] ** (2 if material.rules["epsilon_cost"]["shape"] == "quadratic" else 1)
    paid = material.amounts[bought] / material.minor_units
    return audit_participation(losses, paid, material.reported_costs[bought], minor_unit=unit)


def _accounting(model: ModelFile, weights: FloatArray, epsilons: FloatArray) -> Audit:
    """Recompute, by other code, what the model spent of the epsilons: of 500 at random if there are more."""
    used = np.flatnonzero(weights > 0.0)
    if used.size > _ACCOUNTS:
        used = np.random.default_rng(0).choice(used, _ACCOUNTS, replace=False)
    left, hessian = epsilons[used], model.description.get("intervals")
    if hessian is not None:  # took a share of every epsilon, in whole units
        unit = float(hessian["unit"])
        left = left - np.floor(left * float(hessian["share"]) / unit) * unit
    return audit_spending(Claim.of(model.description, weights[used]), left)


def _spending(statistics: StatisticsFile, weights: FloatArray, epsilons: FloatArray) -> Audit:
    """Check that everybody's weight costs at most the epsilon, and all of them no more than was released."""
    releases = statistics.releases().values()
    stated = sum((one.total_weight * Fraction(2) ** one.unit_exponent for one in releases), Fraction(0))
    exceeded = int(np.sum(weights > epsilons))
    # What several rounds bought together is split between them, and the parts are rounded up.
    lost = sum(map(Fraction, weights.tolist()), Fraction(0)) > stated * (1 + Fraction(1, 1 << 40))
    used = np.flatnonzero(weights > 0.0)
    found, details = (used, epsilons[used], weights[used]), {"total_spent": float(stated)}
    return PrivacyFindings("spending", *found, exceeded + lost, 0.0, details)
