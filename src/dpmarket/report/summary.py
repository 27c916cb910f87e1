"""Everything about a campaign as a summary that shows no individual.

This is the border: what lies behind it knows every seller's report, promise and payment; what comes after it
(charts, the page, JSON) sees counts, totals and means of at least ten people. Totals are exact, so that they
are no secret from somebody who knows every seller's cost but one; the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.rules import pricing
from dpmarket.campaign.rules.released import ModelFile, Released, StatisticsFile
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.forecasts import Forecast
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.plan import Plan
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.report.groups import LEAST, Group, group_ends, group_sellers
from dpmarket.report.rows import Feature, Numbers, Parameter, features_of, numbers_in, parameters_of
from dpmarket.report.score import NumberScore, Score

SCHEMA = "dpmarket.report/4"
GUESSES = (0.01, 0.1, 0.5)
_POINTS = 81  # of the rule, as drawn
GAIN = "Could anybody have gained by naming another cost?"
LOSS = "Was anybody paid less than their cost?"
KEPT = "Does the release keep every privacy budget?"
SEALED = "Does the certificate hold together?"
_TRIED = {
    GAIN: "In simulated markets under this rule sellers named other costs than their own: lower ones, higher "
    "ones, and those where offers change. A misreport that gains, beyond rounding, is found.",
    LOSS: "Every payment was held against the reported cost times the epsilon, in exact arithmetic and in "
    "whole smallest units of money.",
    KEPT: "What was spent of the privacy budgets was computed again, by other code, from the weights and the "
    "noise that were used.",
    SEALED: "A program that shares no code with the rest read the certificate as an outsider would, and "
    "checked its layout, its sums, the noise of the release and its limits.",
}
_UNSHOWN = ("verdict", "where", "first at positions")  # rows of audits that point at one seller


@dataclass(frozen=True, eq=False, repr=False)
class Material:
    """All that a report is made from; confidential. Arrays have an entry for everybody who was quoted."""

    title: str
    outcome: Outcome
    rules: Mapping[str, Any]  # all that decided, as plain data
    ceiling: float  # the epsilon that nobody could be asked to exceed
    reported_costs: FloatArray  # or else read off the rule
    amounts: IntArray  # payments in smallest units
    minor_units: int
    withdrawn: BoolArray  # before training
    members: IntArray  # positions in the rules' groups
    weights: FloatArray  # in what was released
    currency: str = ""
    budget: float | None = None
    budget_words: str = ""
    declined: int = 0  # of those withdrawn: their quote was declined or expired
    is_reported: bool = False
    released: Released | None = None
    score: Score | NumberScore | None = None
    plan: Plan | None = None  # of the rules' own mechanism and simpler ones; None without a budget
    forecast: Forecast | None = None
    audits: tuple[AuditNote, ...] = ()
    digest: str | None = None


@dataclass(frozen=True)
class Totals:
    """Totals of sellers who stayed, in smallest units; ``priced_out`` of these were offered nothing."""

    sellers: int
    bought: int
    priced_out: int
    declined: int
    withdrawn: int
    paid_minor_units: int
    minor_units: int
    paid: float
    total_epsilon: float
    mean_epsilon: float
    mean_payment: float


@dataclass(frozen=True)
class Rule:
    """What was offered at every cost, up to a little beyond where buying ends."""

    is_planned: bool  # the rule expected beforehand: the one that came out would tell on few who withdrew
    cutoff: float | None  # a cost; None where everybody is bought from
    virtual_cutoff: float | None
    largest_epsilon: float
    largest_payment: float
    costs: tuple[float, ...]
    epsilons: tuple[float, ...]
    payments: tuple[float, ...]


@dataclass(frozen=True)
class Stratum:
    """A group with a share of the population, and what it came to: None where that would show too few."""

    name: str
    share: float
    sellers: int
    bought: int | None
    share_bought: float | None
    rule: Rule


@dataclass(frozen=True)
class Meaning:
    """What one epsilon allows: by what factor odds of a guess grow at most, and what becomes of guesses."""

    who: str
    epsilon: float
    odds_factor: float
    guesses: tuple[float, ...]


@dataclass(frozen=True)
class AuditNote:
    """The question that an audit answers, its verdict, what was done in words, and its evidence as rows."""

    question: str
    passed: bool
    words: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Summary:
    """What a report says, as values; none identifies a seller."""

    title: str
    currency: str
    mechanism: str
    totals: Totals
    rule: Rule
    bought_groups: tuple[Group, ...]  # of at least ten
    other_groups: tuple[Group, ...]
    one_by_one: bool  # quoted by a curve fixed beforehand
    expected_error: float | None  # None, as its share of noise, where somebody withdrew
    noise_share: float | None
    alternatives: tuple[dict[str, Any], ...]
    budget: float | None
    changes: tuple[tuple[str, float], ...]
    meanings: tuple[Meaning, ...]
    score: Score | NumberScore | None
    has_model: bool
    numbers: Numbers | None
    budget_words: str
    beats_guessing: bool | None  # None without a score
    audits: tuple[AuditNote, ...]
    parameters: tuple[Parameter, ...]
    features: tuple[Feature, ...]
    digest: str | None
    delta: float = 0.0
    strata: tuple[Stratum, ...] = ()
    forecast: Forecast | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"schema": SCHEMA, **asdict(self)}


def meaning(who: str, epsilon: float) -> Meaning:
    """Say what epsilon allows: the odds of any guess change by a factor of at most exp(epsilon)."""
    epsilon = checks.non_negative("epsilon", epsilon)
    return Meaning(who, epsilon, math.exp(epsilon), tuple(guess_after(before, epsilon) for before in GUESSES))


def guess_after(before: float, epsilon: float) -> float:
    """Return how likely a guess is at most after the release was seen, if it was ``before`` likely."""
    return before / (before + (1.0 - before) * math.exp(-epsilon))


def summarise(material: Material) -> Summary:
    """Make the summary of a market: sums, means over at least ten sellers, and public values."""
    outcome, rules, kept = material.outcome, material.rules, ~material.withdrawn
    checks.same_length("reported_costs", material.reported_costs, "outcome.epsilons", outcome.epsilons)
    # Sellers without an epsilon hide nobody: only epsilons are missing from a total.
    is_fixed = "schedules" in rules  # before anybody was quoted: it tells nothing of them
    few_withdrew = not is_fixed and 0 < int((outcome.epsilons[~kept] > 0.0).sum()) < LEAST
    costs, epsilons, amounts = material.reported_costs[kept], outcome.epsilons[kept], material.amounts[kept]
    totals = _totals(material, epsilons, amounts)
    everybody = kept.size if few_withdrew else material.reported_costs
    schedules = pricing.schedules_of(rules, everybody, material.members)
    each = [
        _rule(schedule, group.virtual_cost, material.ceiling, is_planned=few_withdrew)
        for schedule, group in zip(schedules, pricing.terms_in(rules).groups, strict=True)
    ]
    ends = group_ends(
        pricing.terms_in(rules).distribution, max(schedule.reserve_price for schedule in schedules)
    )
    bought, payments = epsilons > 0.0, amounts / material.minor_units
    groups = [group_sellers(costs[some], epsilons[some], payments[some], ends) for some in (bought, ~bought)]
    error = outcome.sampling_error + outcome.noise_error if kept.all() else None
    made, score = material.released, material.score
    model = made if isinstance(made, ModelFile) else None
    return Summary(
        title=material.title,
        currency=material.currency,
        mechanism=rules["mechanism"],
        totals=totals,
        rule=each[0],
        bought_groups=groups[0],
        other_groups=groups[1],
        one_by_one=rules["mechanism"] not in (pricing.OFFLINE, pricing.CROSS_PRICED),
        expected_error=error,
        noise_share=None if error is None else outcome.noise_error / error,
        alternatives=_alternatives(material.plan),
        budget=material.budget,
        changes=() if material.plan is None else material.plan.changes,
        # Not the highest epsilon of all: it would tell what the lowest cost was. The rule's own bound.
        meanings=(
            meaning("the average seller who was bought from", totals.mean_epsilon),
            meaning("the most that the rule asks of anybody", material.ceiling),
        ),
        score=score,
        has_model=model is not None,
        numbers=numbers_in(made) if isinstance(made, StatisticsFile) else None,
        budget_words=material.budget_words,
        beats_guessing=None if score is None else score.is_better_than_guessing,
        audits=material.audits,
        parameters=parameters_of(rules, material.minor_units, model),
        features=() if model is None else features_of(model),
        digest=material.digest,
        delta=rules["delta"],
        strata=_strata(material, kept, each) if len(each) > 1 else (),
        forecast=material.forecast,
    )


def _strata(material: Material, kept: BoolArray, each: Sequence[Rule]) -> tuple[Stratum, ...]:
    """Return what each group came to, without sellers who left."""
    members, weights = material.members, material.weights
    sizes = np.bincount(members[kept], minlength=len(each))
    sold = kept & (material.outcome.epsilons > 0.0)
    bought = np.bincount(members[sold], minlength=len(each))
    sums = np.bincount(members[sold], weights[sold], minlength=len(each))
    shows = not ((bought > 0) & (bought < LEAST)).any() and sums.sum() > 0.0
    return tuple(
        Stratum(
            group.name,
            group.share,
            int(sizes[g]),
            int(bought[g]) if shows else None,
            float(sums[g] / sums.sum()) if shows else None,
            each[g],
        )
        for g, group in enumerate(pricing.terms_in(material.rules).groups)
    )


def _totals(material: Material, epsilons: FloatArray, amounts: IntArray) -> Totals:
    """Return the totals of sellers who stayed, with these epsilons and amounts."""
    bought = epsilons > 0.0
    count = int(bought.sum())
    if count < LEAST:
        raise InvalidInput(
            f"expected at least {LEAST} sellers who were bought from, got {count}: totals of so few would "
            "tell what single sellers reported. Report on a larger market."
        )
    paid, minor_units = int(amounts.sum()), material.minor_units
    return Totals(
        sellers=epsilons.size,
        bought=count,
        priced_out=epsilons.size - count,
        declined=material.declined,
        withdrawn=int(material.withdrawn.sum()) - material.declined,
        paid_minor_units=paid,
        minor_units=minor_units,
        paid=paid / minor_units,
        total_epsilon=float(epsilons.sum()),
        mean_epsilon=float(epsilons[bought].mean()),
        mean_payment=float(amounts[bought].mean()) / minor_units,
    )


def _rule(schedule: PriceSchedule, virtual_cost: VirtualCost, largest: float, *, is_planned: bool) -> Rule:
    low, high, ends = float(virtual_cost.knots[0]), virtual_cost.reserve_price, schedule.reserve_price
    everybody = not ends < high
    costs = np.linspace(low, ends if everybody else min(high, low + 1.4 * (ends - low)), _POINTS)
    epsilons, payments = schedule.quote(costs)
    return Rule(
        is_planned=is_planned,
        cutoff=None if everybody else ends,
        virtual_cutoff=None if everybody else float(virtual_cost(ends)),
        largest_epsilon=largest,
        largest_payment=schedule.largest_payment,
        costs=tuple(costs.tolist()),
        epsilons=tuple(epsilons.tolist()),
        payments=tuple(payments.tolist()),
    )


def _alternatives(plan: Plan | None) -> tuple[dict[str, Any], ...]:
    """Return simpler rules for the same expected payment: their figures, and by what share they err more."""
    if plan is None:
        return ()
    own = plan.prospect.error
    return tuple(
        {**rule.figures(), "error": rule.error, "more_error": rule.error / own - 1.0}
        for rule in plan.alternatives
    )


def noted(question: str, passed: bool, rows: Iterable[tuple[str, str]]) -> AuditNote:  # noqa: FBT001
    """Return what a page says about an audit: nothing that points at one seller."""
    shown = tuple((name, text) for name, text in rows if name not in _UNSHOWN)
    return AuditNote(question, passed, _TRIED.get(question, ""), shown)
