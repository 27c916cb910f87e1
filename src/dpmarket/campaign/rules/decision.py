"""Decisions about frozen reports, by rules that were fixed before anybody reported.

With a budget and at least 50 reports sellers are cross-priced: each part of them by the other parts' reports.
With fewer reports, with a payment weight, or where the budget must hold with a stated probability, the exact
mechanism decides; its payment weight follows from the rules and from how many reports there are.
"""

import hashlib
import hmac
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.rules.pricing import CROSS_PRICED, OFFLINE, objective_for, terms_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.errors import Infeasible, MarketRefusal
from dpmarket.mechanisms.cross_pricing import LEAST_SELLERS, CrossPricedMechanism
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.outcome import Outcome, whole_units


@dataclass(frozen=True)
class Binding:
    """What the salt of cross-pricing follows from, together with the frozen list of sellers.

    It is the digest of the announced rules, and the secret key of the sellers' digest, whose SHA-256 the
    rules announce: nothing about the salt is left to choose afterwards, and no cost goes into it.
    """

    rules: str
    nonce: bytes

    @property
    def announced(self) -> str:
        """What the rules say about the nonce."""
        return hashlib.sha256(self.nonce).hexdigest()


UNBOUND = Binding("00" * 32, bytes(32))  # for dry runs, whose salt is nobody's


def sellers_digest(nonce: bytes, ids: Sequence[str]) -> str:
    """Return the keyed digest of the frozen list of sellers; no cost goes into it."""
    return sorted_digest(nonce, [sorted(map(str.encode, ids))])


def sorted_digest(nonce: bytes, batches: Iterable[Sequence[bytes]]) -> str:
    """Return the digest of a list of sellers that comes in batches, in the order of the ids' bytes."""
    keyed = hmac.new(nonce, b"dpmarket-sellers-1", hashlib.sha256)
    for names in batches:
        keyed.update(b"".join(len(name).to_bytes(4, "big") + name for name in names))
    return keyed.hexdigest()


def bound_salt(rules_digest: str, sellers: str) -> bytes:
    """Return the salt that follows from the digests of the rules and of the frozen list of sellers."""
    content = b"dpmarket-salt-1" + bytes.fromhex(rules_digest) + bytes.fromhex(sellers)
    return hashlib.sha256(content).digest()


def is_cross_priced(rules: Rules, reports: int) -> bool:
    """Whether so many reports are priced part by part; else the exact mechanism decides."""
    wanted = rules.objective
    return wanted.budget is not None and wanted.confidence is None and reports >= LEAST_SELLERS


def decide_offline(
    rules: Rules, names: Sequence[str], costs: FloatArray, membership: IntArray, binding: Binding = UNBOUND
) -> tuple[Outcome, IntArray, dict[str, Any]]:
    """Decide about all sellers at once; return the outcome, payments in minor units, and all that decided.

    Sellers are split into parts by their names, all different, and a salt that ``binding`` fixes. Costs are
    money per unit of the cost function; ``membership`` is each one's group, as a position in the rules.
    """
    refuse_too_many(rules, costs.size)
    budget_in_minor_units(rules)  # refuses one with which nobody can be paid
    terms = terms_of(rules)
    if is_cross_priced(rules, costs.size):
        by_parts, public = cross_pricing_of(rules)
        sellers = sellers_digest(binding.nonce, names)
        outcome, prices = by_parts.run(names, costs, membership, salt=bound_salt(binding.rules, sellers))
        public |= {**prices.to_dict(), "sellers": sellers, "nonce": binding.announced}
    else:
        sizes = tuple(np.bincount(membership, minlength=len(terms.groups)).tolist())
        objective = objective_for(rules, sizes if costs.size else terms.sizes(1))
        mechanism = OfflineMechanism(
            None, objective, epsilon_cost=terms.epsilon_cost, groups=terms.groups, coverage=terms.coverage
        )
        outcome = mechanism.run(costs, membership)
        public = terms.public(OFFLINE, objective)
    if not outcome.epsilons.any():
        raise Infeasible(
            "None of these reports buys anything: too few of them lie below the reserve price. Nothing was "
            "entered."
        )
    losses = terms.epsilon_cost.cost_of_epsilon(outcome.epsilons)
    amounts = whole_units(outcome.payments, rules.money.minor_units, costs, losses)
    return outcome, np.where(outcome.epsilons > 0.0, np.maximum(amounts, 1), 0), public


def cross_pricing_of(rules: Rules) -> tuple[CrossPricedMechanism, dict[str, Any]]:
    """Return the mechanism that prices each part of the sellers by the others, and its public tables."""
    terms, budget = terms_of(rules), rules.objective.budget
    assert budget is not None
    # The search for each part's payment weight starts from that of the typical market.
    objective, _ = terms.for_budget(terms.bins(rules.people), budget)
    public = terms.public(CROSS_PRICED, objective, budget=budget, minor_unit=terms.unit)
    mechanism = CrossPricedMechanism(
        None, objective, budget, epsilon_cost=terms.epsilon_cost, groups=terms.groups,
        coverage=terms.coverage, minor_unit=terms.unit,
    )  # fmt: skip
    return mechanism, public


def budget_in_minor_units(rules: Rules) -> int | None:
    """Return the budget in whole minor units, rounded down; None if there is none; refuses one of 0."""
    if rules.objective.budget is None:
        return None
    budget = math.floor(Fraction(rules.objective.budget) * rules.money.minor_units)
    if budget == 0:
        raise Infeasible(
            f"expected a budget of at least 1/{rules.money.minor_units}, the smallest unit of money, got "
            f"{rules.objective.budget!r}."
        )
    return budget


def refuse_too_many(rules: Rules, people: int) -> None:
    """Refuse more people than a campaign's delta allows together: a tenth of one guarantee may fail."""
    delta = rules.delta
    if people and delta > 0.1 / people:
        most = math.floor(0.1 / delta)
        raise MarketRefusal(
            "invalid",
            f"objective.delta = {delta:g} allows at most {most:,} people, and these are "
            f"{people:,}: publishing the records of a few people at random would keep such guarantees. "
            "Nothing was entered.",
        )
