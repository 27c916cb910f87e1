"""Turn a mechanism into the most profitable lie that a search can find in it.

A mechanism is truthful if no seller, whatever the others report, gains by reporting anything but the true
cost. The search sees the mechanism through ``respond`` only (and through the faster ``response_curve``, held
against ``respond``, where there is one). It can refute truthfulness with a lie that anybody can repeat; that it
finds none is evidence, not a proof.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.audit.answers import Answers, ask
from dpmarket.audit.gains import GainProfile, GainTally
from dpmarket.audit.lies import first_lies, second_lies, width
from dpmarket.audit.pairs import best_pair_gain
from dpmarket.audit.shape import Progress, verdict
from dpmarket.costs import CostDistribution
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms import Mechanism

SCHEMA = "dpmarket.audit.truthfulness/1"
_CHECKED_AGAIN = 3


@dataclass(frozen=True)
class Lie:
    """One seller's lie, asked about again through ``respond``; the market is a simulated one.

    Attributes
    ----------
    profile, seller : which simulated market, and which seller of it; both count from 0.
    cost, report : the true cost and the lie (money per unit of epsilon).
    truth_epsilon, truth_payment : what the truth gets.
    epsilon, payment : what the lie gets.
    """

    profile: int
    seller: int
    cost: float
    report: float
    truth_epsilon: float
    truth_payment: float
    epsilon: float
    payment: float

    @property
    def gain(self) -> float:
        """Money gained by lying: what the lie is worth at the true cost, less what the truth is worth."""
        return (self.payment - self.cost * self.epsilon) - (
            self.truth_payment - self.cost * self.truth_epsilon
        )

    @property
    def scale(self) -> float:
        """All money in play, to which the gain is compared: payments and costs, of truth and lie."""
        return (
            self.payment + self.truth_payment + self.cost * (self.epsilon + self.truth_epsilon)
        )  # fmt: skip


@dataclass(frozen=True)
class TruthfulnessAudit:
    """What the search for profitable lies found.

    Attributes
    ----------
    sellers, profiles : sellers in each simulated market, and how many markets there were.
    lies_tried : reports asked about, over all sellers and markets.
    refused : reports that the mechanism refused to answer; they bring nobody anything.
    tolerance, minor_unit : a lie counts as profitable if its gain exceeds ``tolerance`` times the money in
        play plus ``minor_unit``.
    largest_gain : the largest gain of any lie, in money.
    worst : the lie with the largest gain relative to the money in play.
    disagreement : largest difference between ``response_curve`` and ``respond``, relative to the money in
        play; 0 where there is no ``response_curve``.
    pair_gain : the largest joint gain found for two sellers lying together, in money. Information only: no
        payment rule of this kind protects against it.
    gain_profile : gains against how far the lie is from the truth.
    """

    sellers: int
    profiles: int
    lies_tried: int
    refused: int
    tolerance: float
    minor_unit: float
    largest_gain: float
    worst: Lie
    disagreement: float
    pair_gain: float
    gain_profile: GainProfile

    @property
    def passed(self) -> bool:
        """Whether no lie pays beyond the tolerance, and both ways of asking agree to it."""
        allowed = self.tolerance * self.worst.scale + self.minor_unit
        return self.worst.gain <= allowed and self.disagreement <= self.tolerance

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table."""
        worst, scale = self.worst, max(self.worst.scale, 5e-324)
        return [
            ("verdict", verdict(self.passed)),
            ("simulated markets", f"{self.profiles:,} of {self.sellers:,} sellers"),
            ("lies tried", f"{self.lies_tried:,}"),
            ("refused reports", f"{self.refused:,}"),
            ("largest gain, in money", f"{self.largest_gain:.3g}"),
            ("largest gain / money in play", f"{worst.gain / scale:.1e}"),
            ("tolerated", f"{self.tolerance:.1e} of the money in play, plus {self.minor_unit:g}"),
            (
                "where",
                f"market {worst.profile}, seller {worst.seller}: {worst.report:.6g} for {worst.cost:.6g}",
            ),
            ("batch against single answers", f"{self.disagreement:.1e}"),
            ("largest gain of a pair (information)", f"{self.pair_gain:.3g}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data; the worst lie can be repeated from it."""
        return {"schema": SCHEMA, "passed": self.passed, **asdict(self)}


def audit_truthfulness(
    mechanism: Mechanism,
    dist: CostDistribution,
    sellers: int,
    profiles: int,
    misreports: int,
    rng: np.random.Generator,
    tolerance: float = 1e-9,
    minor_unit: float = 0.0,
    progress: Progress | None = None,
) -> TruthfulnessAudit:
    """Search simulated markets for a lie that pays.

    Parameters
    ----------
    mechanism : anything with ``respond(reported_costs, i, report) -> (epsilon, payment)``; its
        ``response_curve`` is used where it has one.
    dist : the distribution from which the sellers' true costs are drawn, and whose ends are tried as lies.
    sellers : number of sellers in each market; every one of them is audited.
    profiles : number of markets.
    misreports : lies tried by every seller, at least 20.
    rng : draws costs and pairs.
    tolerance : gain allowed per unit of money in play (payments and costs, of truth and lie). The default
        is the accuracy to which this project's payments are computed.
    minor_unit : money allowed besides, for a mechanism that rounds payments: its smallest unit.
    progress : called with the sellers done and all sellers.

    Returns
    -------
    TruthfulnessAudit
        The worst lie is asked about again through ``respond``, so that it can be repeated.

    Raises
    ------
    InvalidInput : arguments that are not these.
    Infeasible : the mechanism refuses the truth itself in every market.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OfflineMechanism
    >>> mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    >>> audit = audit_truthfulness(mechanism, Uniform(1, 5), 5, 2, 40, np.random.default_rng(0))
    >>> audit.passed, audit.lies_tried
    (True, 400)
    """
    count = checks.whole("sellers", sellers, minimum=1)
    markets = checks.whole("profiles", profiles, minimum=1)
    if not isinstance(dist, CostDistribution):
        raise InvalidInput(f"expected dist to be a cost distribution, got {type(dist).__name__}.")
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"expected rng to be a numpy Generator, got {type(rng).__name__}.")
    drawn = (dist.sample(count, rng) for _ in range(markets))
    return _audited(
        mechanism, dist, drawn, (count, markets), misreports, rng, tolerance, minor_unit, progress
    )


def audit_truthfulness_at(
    mechanism: Mechanism,
    dist: CostDistribution,
    costs: object,
    misreports: int,
    rng: np.random.Generator,
    tolerance: float = 1e-9,
    minor_unit: float = 0.0,
) -> TruthfulnessAudit:
    """Search one market, with the given true costs, for a lie that pays.

    For an auditor who suspects where a mechanism breaks. Otherwise as :func:`audit_truthfulness`. The result
    contains the costs of the worst liar: do not pass costs that are confidential.
    """
    profile = checks.non_negative_vector("costs", costs)
    size = (profile.size, 1)
    return _audited(mechanism, dist, iter([profile]), size, misreports, rng, tolerance, minor_unit, None)


def _audited(
    mechanism: Mechanism,
    dist: CostDistribution,
    markets: Any,
    size: tuple[int, int],
    misreports: int,
    rng: np.random.Generator,
    tolerance: float,
    minor_unit: float,
    progress: Progress | None,
) -> TruthfulnessAudit:
    if not callable(getattr(mechanism, "respond", None)):
        raise InvalidInput(f"expected a mechanism with a method respond, got {type(mechanism).__name__}.")
    lies = checks.whole("misreports", misreports, minimum=20)
    tolerance = checks.non_negative("tolerance", tolerance)
    unit = checks.non_negative("minor_unit", minor_unit)
    tally = GainTally(width(dist), tolerance, unit)
    pair_gain, found = 0.0, None
    answers = Answers(mechanism)
    for profile, costs in enumerate(markets):
        again = set(rng.choice(costs.size, min(_CHECKED_AGAIN, costs.size), replace=False).tolist())
        for i in range(costs.size):
            best = _best_lie(answers, dist, costs, i, lies, tally, again=i in again)
            if best is not None:
                found = (profile, i, costs, best)
            if progress is not None:
                progress(profile * size[0] + i + 1, size[0] * size[1])
        pair_gain = max(pair_gain, best_pair_gain(answers, dist, costs, rng))
    if found is None:
        raise Infeasible(
            "expected markets that the mechanism accepts, found that it refuses the truth in all."
        )
    return TruthfulnessAudit(
        sellers=size[0],
        profiles=size[1],
        lies_tried=tally.tried,
        refused=answers.refusals,
        tolerance=tolerance,
        minor_unit=unit,
        largest_gain=tally.largest,
        worst=_confirmed(mechanism, *found),
        disagreement=answers.disagreement,
        pair_gain=pair_gain,
        gain_profile=tally.profile(),
    )


def _best_lie(
    answers: Answers,
    dist: CostDistribution,
    costs: FloatArray,
    i: int,
    count: int,
    tally: GainTally,
    again: bool,
) -> float | None:
    """Try ``count`` lies of seller i; return the best if it is the worst lie of the whole audit so far."""
    cost = float(costs[i])
    reports = np.append(cost, first_lies(costs, i, dist, count))
    first = answers.at(costs, i, reports)
    if not first.answered[0]:
        return None
    gains = first.payments - cost * first.epsilons
    gains -= gains[0]
    gains[~first.answered] = -np.inf
    more = second_lies(cost, reports, gains, first.epsilons, dist, count)
    # The truth once more: its payment in another batch may differ in its last digits.
    second = answers.at(costs, i, np.append(cost, more))
    best = None
    for asked, lies in ((first, reports[1:]), (second, more)):
        report = tally.add(cost, lies, asked)
        best = report if report is not None else best
    if again:
        answers.hold_against_single(costs, i, reports, first)
    return best


def _confirmed(mechanism: Mechanism, profile: int, i: int, costs: FloatArray, report: float) -> Lie:
    cost = float(costs[i])
    truth, lie = ask(mechanism, costs, i, cost), ask(mechanism, costs, i, report)
    return Lie(profile, i, cost, float(report), *truth, *lie)
