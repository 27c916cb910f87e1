"""Turn everything about a market into a summary that shows no individual.

This is the border: what lies behind it knows every seller's report, promise and payment; what comes after it
(charts, the page, JSON) sees counts, totals and means of at least ten people. Totals are exact, so that they
are no secret from somebody who knows every seller's cost but one; that, too, is said on the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.audit import Audit
from dpmarket.campaign import ModelFile, StatisticFile
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import GaussianMechanism, OnlineGaussianMechanism, OnlineMechanism, Outcome
from dpmarket.planning import Comparison, ErrorModel
from dpmarket.report.evidence import GAIN, KEPT, LOSS, SEALED
from dpmarket.report.groups import LEAST, Group, group_ends, group_sellers
from dpmarket.report.numbers import Numbers, numbers_in
from dpmarket.report.options import Option
from dpmarket.report.parameters import Feature, Parameter, features_of, parameters_of
from dpmarket.report.promise import Meaning, meaning
from dpmarket.report.rule import AnyRule, delta_of, error_of, mechanism_behind, planned_rule, rule_of
from dpmarket.report.score import Score

SCHEMA = "dpmarket.report/3"
_POINTS = 81  # of the rule, as drawn
_TRIED = {
    GAIN: "In simulated markets under this rule sellers named other costs than their own: lower ones, higher "
    "ones, and those where offers change. A lie that brings more than the truth, beyond rounding, is found.",
    LOSS: "Every payment was held against the reported cost times the promise, in exact arithmetic and in "
    "whole smallest units of money.",
    KEPT: "What was spent of the promises was computed again, by other code, from the weights and the noise "
    "that were used.",
    SEALED: "A program that shares no code with the rest read the certificate as a stranger would, and "
    "checked its layout, its sums, the noise of the release and its limits.",
}
_UNSHOWN = ("verdict", "where", "first at positions")  # rows of audits that point at one seller


@dataclass(frozen=True, eq=False, repr=False)
class Material:
    """All that a report can be made from; confidential. Only the first four are needed.

    Attributes
    ----------
    title
        What the campaign is called.
    outcome
        Promises and payments of everybody who was quoted, by the offline or online mechanism.
    reported_costs
        In the outcome's order, shape (m,).
    minor_units
        Smallest units of money to one unit; payments are counted as they are rounded to them.
    currency
        Its short name; empty if it has none.
    amounts
        Payments in smallest units as they were told, shape (m,); None: the outcome's, rounded up.
    withdrawn
        Who withdrew before training, shape (m,); None: nobody.
    budget
        What the buyer set out to spend, money.
    error_model
        What noise and few people cost the model that is trained, for the error to expect.
    options
        What more and less money would have bought.
    model, score
        The released model, and its error on public data.
    statistics
        The released statistics, where no model was trained.
    comparison
        What other buyers would have got for the same money.
    audits
        A question in words, and the audit that answers it.
    digest
        The digest of the certificate.
    """

    title: str
    outcome: Outcome
    reported_costs: FloatArray
    minor_units: int
    currency: str = ""
    amounts: IntArray | None = None
    withdrawn: BoolArray | None = None
    budget: float | None = None
    error_model: ErrorModel | None = None
    options: tuple[Option, ...] = ()
    model: ModelFile | None = None
    statistics: StatisticFile | None = None
    score: Score | None = None
    comparison: Comparison | None = None
    audits: tuple[tuple[str, Audit], ...] = ()
    digest: str | None = None


@dataclass(frozen=True)
class Totals:
    """Counts and totals over all sellers who have not withdrawn; payments in smallest units."""

    sellers: int
    bought: int
    not_bought: int
    withdrawn: int
    paid_minor_units: int
    minor_units: int
    paid: float
    total_promise: float
    mean_epsilon: float
    mean_payment: float


@dataclass(frozen=True)
class Rule:
    """What was offered at every cost, up to a little beyond where buying ends.

    ``is_planned`` tells that the rule is the one expected beforehand: the rule that came out would give away
    what the few who withdrew had been promised. ``cutoff`` is a cost, ``virtual_cutoff`` its virtual cost;
    both None where everybody is bought from.
    """

    is_planned: bool
    cutoff: float | None
    virtual_cutoff: float | None
    largest_epsilon: float
    largest_payment: float
    costs: tuple[float, ...]
    epsilons: tuple[float, ...]
    payments: tuple[float, ...]


@dataclass(frozen=True)
class AuditNote:
    """The question that an audit answers, its verdict, what was done in words, and its evidence as rows."""

    question: str
    passed: bool
    words: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Summary:
    """What a report says, as values; no seller can be told from it.

    Attributes
    ----------
    title, currency, budget, options, score, digest
        As in :class:`Material`.
    mechanism
        Which one decided.
    totals
        Counts and sums over all sellers who have not withdrawn.
    rule
        What was offered at every cost.
    bought_groups, other_groups
        Sellers bought from, and the others, in groups of at least ten.
    one_by_one
        Whether sellers were quoted one by one, by a curve fixed beforehand.
    expected_error, noise_share
        The error to expect and the share of noise in it; None where somebody withdrew, and without an error
        model.
    kkt_residual
        Of the outcome; None where somebody withdrew.
    meanings
        What the promises mean for the people who got them.
    noise_standard_error
        Bound on what noise adds to a coefficient; None without a model.
    numbers
        Released statistics; None without any.
    comparison
        Other buyers, as plain data; None if they were not compared.
    audits
        Questions, verdicts and evidence.
    parameters, features
        Every public parameter, and the features with their bounds.
    delta
        Of every promise; 0 without one.
    """

    title: str
    currency: str
    mechanism: str
    totals: Totals
    rule: Rule
    bought_groups: tuple[Group, ...]
    other_groups: tuple[Group, ...]
    one_by_one: bool
    expected_error: float | None
    noise_share: float | None
    kkt_residual: float | None
    budget: float | None
    options: tuple[Option, ...]
    meanings: tuple[Meaning, ...]
    score: Score | None
    noise_standard_error: float | None
    numbers: Numbers | None
    comparison: dict[str, Any] | None
    audits: tuple[AuditNote, ...]
    parameters: tuple[Parameter, ...]
    features: tuple[Feature, ...]
    digest: str | None
    delta: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"schema": SCHEMA, **asdict(self)}


def summarise(material: Material) -> Summary:
    """Make the summary of a market.

    Parameters
    ----------
    material
        Confidential; what of it is given decides what the summary says.

    Returns
    -------
    Summary
        Sums, means over at least ten sellers, and public values.

    Raises
    ------
    InvalidInput
        Fewer than ten sellers who were bought from, whose totals would tell what single ones reported;
        arguments that do not belong together.
    """
    outcome = material.outcome
    mechanism = mechanism_behind(outcome)
    costs = checks.non_negative_vector("reported_costs", material.reported_costs)
    checks.same_length("reported_costs", costs, "outcome.epsilons", outcome.epsilons)
    kept = np.ones(costs.size, dtype=bool) if material.withdrawn is None else ~material.withdrawn
    checks.same_length("withdrawn", kept, "outcome.epsilons", outcome.epsilons)
    withdrew = int(costs.size - kept.sum())
    # Who was promised nothing hides nobody: only promises are missing from a total.
    few_withdrew = 0 < int((outcome.epsilons[~kept] > 0.0).sum()) < LEAST
    amounts = material.amounts
    if amounts is None:
        amounts = outcome.in_minor_units(material.minor_units).amounts
    checks.same_length("amounts", amounts, "outcome.epsilons", outcome.epsilons)
    amounts = amounts[kept]
    costs, epsilons = costs[kept], outcome.epsilons[kept]
    totals = _totals(epsilons, amounts, material.minor_units, withdrew)
    curve = planned_rule(outcome) if few_withdrew else rule_of(outcome)
    bought = epsilons > 0.0
    ends = group_ends(mechanism.dist, curve.reach)
    payments = amounts / material.minor_units
    groups = [group_sellers(costs[some], epsilons[some], payments[some], ends) for some in (bought, ~bought)]
    optimality = outcome.optimality if withdrew == 0 else None
    error = None
    if withdrew == 0 and material.error_model is not None:
        error = error_of(outcome, material.error_model)
    return Summary(
        title=material.title,
        currency=material.currency,
        mechanism=outcome.mechanism,
        totals=totals,
        rule=_rule(curve, is_planned=few_withdrew or isinstance(mechanism, GaussianMechanism)),
        bought_groups=groups[0],
        other_groups=groups[1],
        one_by_one=isinstance(mechanism, OnlineMechanism | OnlineGaussianMechanism),
        expected_error=None if error is None else error.total,
        noise_share=None if error is None else error.noise_share,
        kkt_residual=None if optimality is None else optimality.kkt_residual,
        budget=material.budget,
        options=material.options,
        meanings=_meanings(totals, curve),
        score=material.score,
        noise_standard_error=None if material.model is None else material.model.noise_standard_error,
        numbers=None if material.statistics is None else numbers_in(material.statistics),
        comparison=None if material.comparison is None else material.comparison.to_dict(),
        audits=tuple(_note(question, audit) for question, audit in material.audits),
        parameters=parameters_of(outcome, material.minor_units, material.model),
        features=() if material.model is None else features_of(material.model),
        digest=material.digest,
        delta=delta_of(outcome),
    )


def _totals(epsilons: FloatArray, amounts: IntArray, minor_units: int, withdrew: int) -> Totals:
    bought = epsilons > 0.0
    count = int(bought.sum())
    if count < LEAST:
        raise InvalidInput(
            f"expected at least {LEAST} sellers who were bought from, got {count}: totals of so few would "
            "tell what single sellers reported. Report on a larger market."
        )
    paid = int(amounts.sum())
    return Totals(
        sellers=epsilons.size,
        bought=count,
        not_bought=epsilons.size - count,
        withdrawn=withdrew,
        paid_minor_units=paid,
        minor_units=minor_units,
        paid=paid / minor_units,
        total_promise=float(epsilons.sum()),
        mean_epsilon=float(epsilons[bought].mean()),
        mean_payment=float(amounts[bought].mean()) / minor_units,
    )


def _rule(curve: AnyRule, *, is_planned: bool) -> Rule:
    low, high = curve.dist.support
    ends = curve.reach
    everybody = not ends < high
    reach = ends if everybody else min(high, low + 1.4 * (ends - low))
    costs = np.linspace(low, reach, _POINTS)
    offers = curve.offers(costs)
    return Rule(
        is_planned=is_planned,
        cutoff=None if everybody else float(ends),
        virtual_cutoff=None if everybody else float(curve.cutoff),
        largest_epsilon=curve.largest_epsilon,
        largest_payment=curve.largest_payment,
        costs=tuple(costs.tolist()),
        epsilons=tuple(offers.epsilons.tolist()),
        payments=tuple(offers.payments.tolist()),
    )


def _meanings(totals: Totals, curve: AnyRule) -> tuple[Meaning, ...]:
    # Not the highest promise given: it would tell what the cheapest seller reported. The rule's own bound.
    return (
        meaning("the average seller who was bought from", totals.mean_epsilon),
        meaning("the most that the rule promises anybody", curve.largest_epsilon),
    )


def _note(question: str, audit: Audit) -> AuditNote:
    rows: Sequence[tuple[str, str]] = audit.summary()
    told = tuple(row for row in rows if row[0] not in _UNSHOWN)
    return AuditNote(question, audit.passed, _TRIED.get(question, ""), told)
