"""The truthfulness audit: a search for the most profitable misreport that a mechanism allows.

A mechanism is truthful if no seller, whatever the others report, gains by reporting anything but the true
cost. The search sees it through ``respond(costs, i, report) -> (epsilon, payment)`` alone (a price schedule
through ``quote``). A misreport that it finds refutes truthfulness; that it finds none is evidence, not a
proof. It tries the support, its ends and beyond, ties with other sellers' costs, reports close to the truth
(a kink), around the best one and within the largest fall of epsilon (a jump, or the cutoff). A refused report
brings nothing; a refused truth beside an answered misreport fails the audit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.audit.findings import Audit, verdict
from dpmarket.costs.distribution import CostDistribution
from dpmarket.errors import Infeasible, InvalidInput, NotConverged
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.progress import Progress

_SHARE_OF_FIRST = 0.625  # of the misreports, before the search narrows
_TINY = 1e-300


@runtime_checkable
class Mechanism(Protocol):
    """All that the audit needs of a mechanism."""

    def respond(self, reported_costs: object, i: int, report: float) -> tuple[float, float]:
        """Return seller ``i``'s epsilon and payment for a report, the others' reports as given."""
        ...


@dataclass(frozen=True)
class Misreport:
    """One seller's report that is not the truth, and what it brings.

    Attributes
    ----------
    market, seller, cost, report
        Which simulated market, the seller's position, the true cost and the report.
    epsilon, payment, truthful_epsilon, truthful_payment
        What the report brings, and what the truth brings.
    gain
        Money by which the misreport is better, after privacy costs.
    """

    market: int
    seller: int
    cost: float
    report: float
    epsilon: float
    payment: float
    truthful_epsilon: float
    truthful_payment: float
    gain: float


@dataclass(frozen=True, repr=False)
class TruthfulnessAudit(Audit):
    """The most profitable misreport found.

    Attributes
    ----------
    sellers, markets, misreports_tried
        Sellers in each simulated market, how many of these there were, and misreports of all sellers.
    refused, refused_truths
        Reports that the mechanism refused, and truths that it refused although it answered a misreport.
    worst, excess
        The misreport with the largest gain relative to the money in play, beyond the minor unit; and that
        gain, at most the tolerance for a truthful mechanism.
    tolerance, minor_unit
        What is allowed: relative to the money in play, and in money for rounded payments.
    """

    sellers: int
    markets: int
    misreports_tried: int
    refused: int
    refused_truths: int
    worst: Misreport
    excess: float
    tolerance: float
    minor_unit: float
    title: ClassVar[str] = "Audit of truthfulness"
    schema: ClassVar[str] = "dpmarket.audit.truthfulness/2"

    @property
    def passed(self) -> bool:
        """Whether no misreport gains more than is allowed."""
        return self.excess <= self.tolerance and self.refused_truths == 0

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table; it shows no seller's cost."""
        rows = [
            ("verdict", verdict(passed=self.passed)),
            ("sellers asked", f"{self.sellers * self.markets:,}"),
            ("misreports tried", f"{self.misreports_tried:,}"),
            ("largest gain", f"{self.worst.gain:.3g}"),
            ("relative to the money in play", f"{self.excess:.2e} (allowed {self.tolerance:.0e})"),
        ]
        if self.refused or self.refused_truths:
            rows.append(("reports refused", f"{self.refused:,}, truths {self.refused_truths:,}"))
        return rows


def audit_truthfulness(
    mechanism: Mechanism | PriceSchedule,
    dist: CostDistribution,
    sellers: int,
    markets: int,
    misreports: int,
    rng: np.random.Generator,
    *,
    epsilon_cost: EpsilonCost | None = None,
    tolerance: float = 1e-9,
    minor_unit: float = 0.0,
    progress: Progress | None = None,
) -> TruthfulnessAudit:
    """Search simulated markets for a misreport that gains.

    Parameters
    ----------
    mechanism
        Anything with ``respond(costs, i, report)``, or a price schedule.
    dist
        True costs are drawn from it (its ``sample`` may give suspect ones); the mechanism may believe in
        another one.
    sellers, markets, misreports, rng
        How many in each market, how many markets, at least 1, and misreports of each seller, at least 8; and
        the generator of the simulated costs.
    epsilon_cost
        What epsilon costs a seller: loss c H. None: the mechanism's own ``epsilon_cost``, or linear.
    tolerance, minor_unit
        Gain allowed for rounding, relative to the money in play (payments and privacy costs); and in money,
        where payments are rounded up to it.
    progress
        Called with the number of sellers asked and the number of all.

    Returns
    -------
    TruthfulnessAudit
        With the worst misreport, which can be repeated.

    Raises
    ------
    Infeasible
        If the mechanism refuses everybody's truth.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.price_schedule import PriceSchedule
    >>> schedule = PriceSchedule([1.0, 5.0], [2.0, 0.0])
    >>> audit_truthfulness(schedule, Uniform(1, 5), 4, 2, 40, np.random.default_rng(0)).passed
    True
    """
    checks.whole("markets", markets, 1)
    checks.whole("sellers", sellers, 1)
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput("expected rng to be a numpy Generator.")
    if not callable(getattr(dist, "sample", None)):
        raise InvalidInput(f"expected dist to be a CostDistribution, got a {type(dist).__name__}.")
    profiles = [np.asarray(dist.sample(sellers, rng)) for _ in range(markets)]
    respond = _respond(mechanism)
    table = getattr(mechanism, "epsilon_cost", None) if epsilon_cost is None else epsilon_cost
    table = EpsilonCost.identity() if table is None else table
    count = checks.whole("misreports", misreports, 8)
    first = max(8, math.ceil(_SHARE_OF_FIRST * count))
    tolerance = checks.non_negative("tolerance", tolerance)
    unit = checks.non_negative("minor_unit", minor_unit)
    worst, excess = None, -math.inf
    tried = refused = refused_truths = done = 0
    for market, profile in enumerate(profiles):
        costs = checks.non_negative_vector("costs", profile)
        for i, cost in enumerate(costs.tolist()):
            reports = _first(costs, i, dist, first)
            answers = np.array([_answer(respond, costs, i, report) for report in reports])
            more = _second(reports, answers, table, dist, max(4, count - first))
            reports = np.concatenate((reports, more))
            answers = np.array([*answers, *(_answer(respond, costs, i, report) for report in more)])
            misreport, answered = reports != cost, np.isfinite(answers[:, 0])
            tried += int(misreport.sum())
            refused += int((~answered).sum())
            if not answered[0]:
                refused_truths += bool(answered.any())
            elif (misreport & answered).any():
                paid, loss = answers[:, 1], cost * _cost_of(table, answers[:, 0])
                gains = (paid - loss) - (paid[0] - loss[0])
                relative = (gains - unit) / np.maximum(paid + paid[0] + loss + loss[0], _TINY)
                k = int(np.where(misreport & answered, relative, -np.inf).argmax())
                if relative[k] > excess:
                    excess = float(relative[k])
                    values = (*answers[k].tolist(), *answers[0].tolist(), float(gains[k]))
                    worst = Misreport(market, i, cost, float(reports[k]), *values)
            done += 1
            if progress is not None:
                progress(done, sum(len(each) for each in profiles))
    if worst is None:
        raise Infeasible("expected a mechanism that answers, got one that refuses the truth of everybody.")
    return TruthfulnessAudit(
        len(profiles[0]), len(profiles), tried, refused, refused_truths, worst, excess, tolerance, unit
    )


def _respond(mechanism: object) -> Callable[[FloatArray, int, float], tuple[float, float]]:
    if isinstance(mechanism, PriceSchedule):
        schedule = mechanism

        def quote(costs: FloatArray, i: int, report: float) -> tuple[float, float]:
            epsilons, payments = schedule.quote([report])
            return float(epsilons[0]), float(payments[0])

        return quote
    if not isinstance(mechanism, Mechanism):
        raise InvalidInput("expected a mechanism with a method respond, or a PriceSchedule.")
    return mechanism.respond


def _answer(respond: Any, costs: FloatArray, i: int, report: float) -> tuple[float, float]:
    """Return epsilon and payment, both NaN for a report that is refused."""
    try:
        epsilon, payment = respond(costs, i, float(report))
    except (Infeasible, NotConverged):
        return math.nan, math.nan
    if not (math.isfinite(epsilon) and math.isfinite(payment) and epsilon >= 0.0):
        raise InvalidInput("expected finite payments and epsilons >= 0 from the mechanism, got others.")
    return float(epsilon), float(payment)


def _cost_of(table: EpsilonCost, epsilons: FloatArray) -> FloatArray:
    """Return H, NaN where a report was refused."""
    found = table.cost_of_epsilon(np.nan_to_num(epsilons))
    return np.where(np.isfinite(epsilons), found, np.nan)


def _first(costs: FloatArray, i: int, dist: CostDistribution, wanted: int) -> FloatArray:
    """Return the truth and ``wanted`` misreports: ends, ties, near the truth, and a grid."""
    low, top = dist.support[0], _top(dist)
    # Beside 0 the next float is no cost that anybody could mean: a billionth of the support is.
    beside = math.nextafter(low, math.inf) if low > 0.0 else 1e-9 * (top - low)
    edges = [0.0, 0.5 * low, math.nextafter(low, 0.0), low, beside]
    edges += [math.nextafter(top, 0.0), top, math.nextafter(top, math.inf), 1.1 * top]
    others = np.delete(costs, i)
    nearest = others[np.argsort(np.abs(others - costs[i]), kind="stable")[: wanted // 18]]
    ties = np.concatenate((nearest, np.nextafter(nearest, 0.0), np.nextafter(nearest, np.inf)))
    special = np.concatenate((edges, ties, _near(float(costs[i]), top - low, wanted // 8)))
    special = np.unique(special[special >= 0.0])[:wanted]
    rest = max(wanted - special.size, 2)
    even = low + (top - low) * (np.arange(rest - rest // 2) + 0.5) / (rest - rest // 2)
    by_share = np.asarray(dist.quantile((np.arange(rest // 2) + 0.5) / (rest // 2)))
    return np.concatenate((costs[i : i + 1], special, even, by_share))


def _second(
    reports: FloatArray, answers: FloatArray, table: EpsilonCost, dist: CostDistribution, wanted: int
) -> FloatArray:
    """Return ``wanted`` misreports around the best so far, and within the largest fall of epsilon."""
    cost, answered = reports[0], np.isfinite(answers[:, 0])
    if not answered.any():
        return np.empty(0)
    reports, answers = reports[answered], answers[answered]
    order = np.argsort(reports, kind="stable")
    falls = -np.diff(answers[order, 0])
    inside = np.empty(0)
    if falls.size and falls.max() > 0.0:
        k = int(falls.argmax())
        inside = np.linspace(reports[order[k]], reports[order[k + 1]], wanted // 2 + 2)[1:-1]
    utilities = np.where(reports == cost, -np.inf, answers[:, 1] - cost * _cost_of(table, answers[:, 0]))
    around = _near(float(reports[utilities.argmax()]), _top(dist) - dist.support[0], wanted - inside.size)
    chosen = np.concatenate((inside, around))
    return chosen[chosen >= 0.0]


def _top(dist: CostDistribution) -> float:
    high = dist.support[1]
    return float(high) if math.isfinite(high) else float(dist.quantile(1.0 - 1e-6))


def _near(centre: float, extent: float, count: int) -> FloatArray:
    """Return points on both sides, from a hundred-millionth to a tenth of the support away."""
    steps = extent * np.geomspace(1e-1, 1e-8, max(count + 1, 2) // 2)
    return np.column_stack((centre - steps, centre + steps)).ravel()[: max(count, 0)]
