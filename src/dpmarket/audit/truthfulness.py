"""Turn a mechanism into the most profitable lie that a search can find in it.

A mechanism is truthful if no seller, whatever the others report, gains by reporting anything but the true
cost. The search sees the mechanism through ``respond`` only (and through the faster ``response_curve``,
held against ``respond``, where there is one). It can refute truthfulness with a lie that anybody can
repeat; that it finds none is evidence, not a proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.audit.asking import Answers, GainProfile, GainTally, ask
from dpmarket.audit.findings import verdict
from dpmarket.audit.lies import best_pair_gain, first_lies, second_lies, width
from dpmarket.costs import CostDistribution
from dpmarket.display import html_table, short_repr
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms import Mechanism
from dpmarket.mechanisms.inputs import check_distribution
from dpmarket.progress import Progress

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.audit.truthfulness/1"
_CHECKED_AGAIN = 3


@dataclass(frozen=True)
class Lie:
    """One seller's lie, asked about again through ``respond``; the market is a simulated one.

    Attributes
    ----------
    profile, seller
        Which simulated market, and which seller of it; both count from 0.
    cost, report
        The true cost and the lie (money per unit of epsilon).
    truth_epsilon, truth_payment
        What the truth gets.
    epsilon, payment
        What the lie gets.
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
    sellers, profiles
        Sellers in each simulated market, and how many markets there were.
    lies_tried
        Reports asked about, over all sellers and markets.
    refused
        Reports that the mechanism refused to answer; they bring nobody anything.
    unaudited
        Sellers, over all markets, whose true cost was refused: no lie can be compared with it.
    only_lies_answered
        Those of them who got an answer to some lie: whom the mechanism drives to lying. One is enough to
        fail.
    tolerance, minor_unit
        A lie counts as profitable if its gain exceeds ``tolerance`` times the money in play plus
        ``minor_unit``.
    largest_gain
        The largest gain of any lie, in money.
    worst
        The lie with the largest gain relative to the money in play.
    disagreement
        Largest difference between ``response_curve`` and ``respond``, relative to the money in play; 0 where
        there is no ``response_curve``.
    pair_gain
        The largest joint gain found for two sellers lying together, in money. Information only: no payment
        rule of this kind protects against it.
    gain_profile
        Gains against how far the lie is from the truth.

    Examples
    --------
    Who pays what is asked has sellers ask for more.

    >>> from dpmarket.costs import Uniform
    >>> class PaysWhatIsAsked:
    ...     def respond(self, reported_costs, i, report):
    ...         return (1.0, report) if report <= 4.0 else (0.0, 0.0)
    >>> rng = np.random.default_rng(0)
    >>> audit = audit_truthfulness(PaysWhatIsAsked(), Uniform(1, 5), 3, 1, 20, rng)
    >>> audit.passed, audit.worst.report > audit.worst.cost, audit.largest_gain > 1.0
    (False, True, True)
    """

    sellers: int
    profiles: int
    lies_tried: int
    refused: int
    unaudited: int
    only_lies_answered: int
    tolerance: float
    minor_unit: float
    largest_gain: float
    worst: Lie
    disagreement: float
    pair_gain: float
    gain_profile: GainProfile

    @property
    def passed(self) -> bool:
        """Whether no lie pays beyond the tolerance or replaces a refused truth, and both ways agree."""
        allowed = self.tolerance * self.worst.scale + self.minor_unit
        agreed = self.disagreement <= self.tolerance
        return self.worst.gain <= allowed and agreed and self.only_lies_answered == 0

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table."""
        worst, scale = self.worst, max(self.worst.scale, 5e-324)
        return [
            ("verdict", verdict(passed=self.passed)),
            ("simulated markets", f"{self.profiles:,} of {self.sellers:,} sellers"),
            ("lies tried", f"{self.lies_tried:,}"),
            ("refused reports", f"{self.refused:,}"),
            (
                "sellers whose truth was refused",
                f"{self.unaudited:,}, of whom {self.only_lies_answered:,} had a lie answered",
            ),
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

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:4])

    def _repr_html_(self) -> str:
        return html_table("Audit of truthfulness", self.summary())

    def to_frame(self) -> pl.DataFrame:
        """Return the profile of gains: how far lies are from the truth, largest and mean gain."""
        import polars as pl

        profile = self.gain_profile
        return pl.DataFrame(
            {"distance": profile.distances, "largest_gain": profile.largest, "mean_gain": profile.mean}
        )

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
    *,
    tolerance: float = 1e-9,
    minor_unit: float = 0.0,
    pairs: int = 3,
    progress: Progress | None = None,
) -> TruthfulnessAudit:
    """Search simulated markets for a lie that pays.

    Parameters
    ----------
    mechanism
        Anything with ``respond(reported_costs, i, report) -> (epsilon, payment)``; its ``response_curve`` is
        used where it has one.
    dist
        The distribution from which the sellers' true costs are drawn, and whose ends are tried as lies.
    sellers
        Number of sellers in each market; every one of them is audited.
    profiles
        Number of markets.
    misreports
        Lies tried by every seller, at least 20.
    rng
        Draws costs and pairs.
    tolerance
        Gain allowed per unit of money in play (payments and costs, of truth and lie). The default is the
        accuracy to which this project's payments are computed.
    minor_unit
        Money allowed besides, for a mechanism that rounds payments: its smallest unit.
    pairs
        Pairs of sellers per market for whom joint lies are tried, for information; 0 tries none.
    progress
        Called with the sellers done and all sellers.

    Returns
    -------
    TruthfulnessAudit
        The worst lie is asked about again through ``respond``, so that it can be repeated.

    Raises
    ------
    InvalidInput
        Arguments that are not these.
    Infeasible
        The mechanism refuses the truth itself in every market.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OfflineMechanism
    >>> mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    >>> audit = audit_truthfulness(mechanism, Uniform(1, 5), 5, 2, 40, np.random.default_rng(0))
    >>> audit.passed, audit.lies_tried > 350
    (True, True)
    """
    count = checks.whole("sellers", sellers, minimum=1)
    markets = checks.whole("profiles", profiles, minimum=1)
    check_distribution(dist)
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"expected rng to be a numpy Generator, got {type(rng).__name__}.")
    drawn = (dist.sample(count, rng) for _ in range(markets))
    search = _Search(
        mechanism, dist, misreports, rng, tolerance=tolerance, minor_unit=minor_unit, pairs=pairs
    )
    return search.result(drawn, count, markets, progress)


def audit_truthfulness_at(
    mechanism: Mechanism,
    dist: CostDistribution,
    costs: object,
    misreports: int,
    rng: np.random.Generator,
    *,
    tolerance: float = 1e-9,
    minor_unit: float = 0.0,
    pairs: int = 3,
) -> TruthfulnessAudit:
    """Search one market, with the given true costs, for a lie that pays.

    For an auditor who suspects where a mechanism breaks. Otherwise as :func:`audit_truthfulness`. The result
    contains the costs of the worst liar: do not pass costs that are confidential.

    Parameters
    ----------
    costs
        The sellers' true costs, shape (m,), finite, at least 0.
    mechanism, dist, misreports, rng, tolerance, minor_unit, pairs
        As for :func:`audit_truthfulness`.

    Returns
    -------
    TruthfulnessAudit

    Raises
    ------
    InvalidInput
        Arguments that are not these.
    Infeasible
        The mechanism refuses the truth itself.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import CheapestK
    >>> buyer = CheapestK(Uniform(1, 5), k=1, epsilon=0.5)
    >>> audit_truthfulness_at(buyer, Uniform(1, 5), [2.0, 2.0, 3.0], 40, np.random.default_rng(0)).passed
    True
    """
    profile = checks.non_negative_vector("costs", costs)
    search = _Search(
        mechanism, dist, misreports, rng, tolerance=tolerance, minor_unit=minor_unit, pairs=pairs
    )
    return search.result(iter([profile]), profile.size, 1, None)


class _Search:
    """One audit under way: the mechanism, what is tried, and what was found so far."""

    def __init__(
        self,
        mechanism: Mechanism,
        dist: CostDistribution,
        misreports: int,
        rng: np.random.Generator,
        *,
        tolerance: float,
        minor_unit: float,
        pairs: int,
    ) -> None:
        if not callable(getattr(mechanism, "respond", None)):
            raise InvalidInput(f"expected a mechanism with a method respond, got {type(mechanism).__name__}.")
        self.dist, self.rng = dist, rng
        self.lies = checks.whole("misreports", misreports, minimum=20)
        self.pairs = checks.whole("pairs", pairs)
        self.tolerance = checks.non_negative("tolerance", tolerance)
        self.minor_unit = checks.non_negative("minor_unit", minor_unit)
        self.answers = Answers(mechanism)
        self.tally = GainTally(width(dist), self.minor_unit)
        self.unaudited = self.only_lies_answered = 0

    def result(
        self, markets: Iterator[FloatArray], sellers: int, profiles: int, progress: Progress | None
    ) -> TruthfulnessAudit:
        """Search all markets and describe what was found."""
        pair_gain, found = 0.0, None
        for profile, costs in enumerate(markets):
            again = set(self.rng.choice(sellers, min(_CHECKED_AGAIN, sellers), replace=False).tolist())
            for i in range(sellers):
                best = self._best_lie(costs, i, again=i in again)
                if best is not None:
                    found = (profile, i, costs, best)
                if progress is not None:
                    progress(profile * sellers + i + 1, sellers * profiles)
            joint = best_pair_gain(self.answers, self.dist, costs, self.pairs, self.rng)
            pair_gain = max(pair_gain, joint)
        if found is None:
            raise Infeasible("expected markets that the mechanism accepts, found that it refuses the truth.")
        return TruthfulnessAudit(
            sellers=sellers,
            profiles=profiles,
            lies_tried=self.tally.tried,
            refused=self.answers.refusals,
            unaudited=self.unaudited,
            only_lies_answered=self.only_lies_answered,
            tolerance=self.tolerance,
            minor_unit=self.minor_unit,
            largest_gain=self.tally.largest,
            worst=_confirmed(self.answers.mechanism, *found),
            disagreement=self.answers.disagreement,
            pair_gain=pair_gain,
            gain_profile=self.tally.profile(),
        )

    def _best_lie(self, costs: FloatArray, i: int, *, again: bool) -> float | None:
        """Try lies of seller i; return the best if it is the worst lie of the whole audit so far."""
        answers, cost = self.answers, float(costs[i])
        reports = np.append(cost, first_lies(costs, i, self.dist, self.lies))
        first = answers.at(costs, i, reports)
        if not first.answered[0]:
            self.unaudited += 1
            self.only_lies_answered += bool(first.answered.any())
            return None
        gains = first.payments - cost * first.epsilons
        gains -= gains[0]
        gains[~first.answered] = -np.inf
        more = second_lies(cost, reports, gains, first.epsilons, self.dist, self.lies)
        second = answers.at(costs, i, more)
        best = None
        truth = float(first.epsilons[0]), float(first.payments[0])
        for asked, lies in ((first, reports), (second, more)):
            report = self.tally.add(cost, truth, lies, asked)
            best = report if report is not None else best
        if again:
            answers.hold_against_single(costs, i, reports, first)
        return best


def _confirmed(mechanism: Mechanism, profile: int, i: int, costs: FloatArray, report: float) -> Lie:
    cost = float(costs[i])
    truth, lie = ask(mechanism, costs, i, cost), ask(mechanism, costs, i, report)
    return Lie(profile, i, cost, float(report), *truth, *lie)
