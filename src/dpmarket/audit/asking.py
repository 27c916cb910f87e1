"""Ask a mechanism about many reports of one seller, and add up what lies would bring.

A mechanism may refuse a report (a cost of exactly 0, say, where no best allocation exists then). A
refusal brings the seller nothing and is counted. It says nothing about other sellers or markets: a report
that was refused once is asked about again, but by itself, so that it spoils no batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.errors import Infeasible, InvalidInput, NotConverged
from dpmarket.mechanisms import BatchMechanism, Mechanism

_REFUSALS = (Infeasible, NotConverged)


@dataclass(frozen=True, eq=False)
class Asked:
    """Epsilons and payments, and which reports were answered at all (the others are 0)."""

    epsilons: FloatArray
    payments: FloatArray
    answered: BoolArray


class Answers:
    """Asks one mechanism, and keeps what an audit needs to know about the asking itself."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.refusals = 0
        self.disagreement = 0.0
        self._refused: set[float] = set()

    def at(self, costs: FloatArray, i: int, reports: FloatArray) -> Asked:
        """Return what seller ``i`` gets at each report."""
        suspect = np.array([report in self._refused for report in reports.tolist()], dtype=bool)
        epsilons, payments = np.zeros(reports.size), np.zeros(reports.size)
        answered = np.zeros(reports.size, dtype=bool)
        pending = [np.array([k]) for k in np.flatnonzero(suspect)]
        if not suspect.all():
            pending.append(np.flatnonzero(~suspect))
        refused: list[float] = []
        while pending:
            part = pending.pop()
            try:
                epsilons[part], payments[part] = self._batch(costs, i, reports[part])
                answered[part] = True
            except _REFUSALS:
                if part.size == 1:
                    refused.append(float(reports[part[0]]))
                else:
                    pending += [part[: part.size // 2], part[part.size // 2 :]]
        self.refusals += len(refused)
        if answered.any():
            # Where everything is refused the market is to blame, not the report.
            self._refused.update(refused)
        return Asked(epsilons, payments, answered)

    def hold_against_single(self, costs: FloatArray, i: int, reports: FloatArray, asked: Asked) -> None:
        """Compare a batch with single questions: the truth, one report of the middle and the last."""
        if not isinstance(self.mechanism, BatchMechanism):
            return
        for k in {0, reports.size // 2, reports.size - 1}:
            if asked.answered[k]:
                epsilon, payment = ask(self.mechanism, costs, i, float(reports[k]))
                cost = float(costs[i])
                money = payment + float(asked.payments[k]) + cost * (epsilon + float(asked.epsilons[k]))
                apart = abs(payment - asked.payments[k]) + cost * abs(epsilon - asked.epsilons[k])
                self.disagreement = max(self.disagreement, float(apart) / max(money, 5e-324))

    def _batch(self, costs: FloatArray, i: int, reports: FloatArray) -> tuple[FloatArray, FloatArray]:
        if isinstance(self.mechanism, BatchMechanism):
            curve = self.mechanism.response_curve(costs, i, reports)
            epsilons, payments = np.asarray(curve.epsilons, float), np.asarray(curve.payments, float)
        else:
            single = [ask(self.mechanism, costs, i, float(report)) for report in reports]
            epsilons, payments = np.array(single, dtype=np.float64).T
        if epsilons.shape != reports.shape or payments.shape != reports.shape:
            raise InvalidInput("expected one epsilon and one payment per report from the mechanism.")
        if not (np.isfinite(epsilons).all() and np.isfinite(payments).all() and (epsilons >= 0.0).all()):
            raise InvalidInput("expected finite payments and epsilons >= 0 from the mechanism, got others.")
        return epsilons, payments


def ask(mechanism: Mechanism, costs: FloatArray, i: int, report: float) -> tuple[float, float]:
    """Return one answer, epsilon and payment, refused if they are no numbers."""
    epsilon, payment = mechanism.respond(costs, i, report)
    answer = float(epsilon), float(payment)
    if not (math.isfinite(answer[0]) and math.isfinite(answer[1]) and answer[0] >= 0.0):
        raise InvalidInput("expected finite payments and epsilons >= 0 from the mechanism, got others.")
    return answer


_BINS = 81


@dataclass(frozen=True)
class GainProfile:
    """Gains of lying against how far the lie is from the truth, over all sellers, in bins.

    Attributes
    ----------
    distances
        Report less cost, as a share of the support's length: the middle of each bin.
    largest, mean
        The largest and the mean gain in each bin, relative to the money in play.
    """

    distances: tuple[float, ...]
    largest: tuple[float, ...]
    mean: tuple[float, ...]


class GainTally:
    """Adds up gains, lie by lie; a gain is compared to the money in play, payments and costs."""

    def __init__(self, extent: float, minor_unit: float) -> None:
        self.tried = 0
        self.largest = -np.inf
        self._extent, self._unit = extent, minor_unit
        self._worst = -np.inf
        self._top = np.full(_BINS, -np.inf)
        self._sum, self._count = np.zeros(_BINS), np.zeros(_BINS)

    def add(self, cost: float, truth: tuple[float, float], lies: FloatArray, asked: Asked) -> float | None:
        """Count the lies of one seller; return the worst lie of all if it is among them.

        ``truth`` are the epsilon and the payment of the truth, ``asked`` those of the lies.
        """
        tried = lies != cost
        self.tried += int(tried.sum())
        tried &= asked.answered
        epsilons, payments, reports = asked.epsilons[tried], asked.payments[tried], lies[tried]
        if not reports.size:
            return None
        truth_epsilon, truth_payment = truth
        gains = (payments - cost * epsilons) - (truth_payment - cost * truth_epsilon)
        money = payments + truth_payment + cost * (epsilons + truth_epsilon)
        relative = gains / np.maximum(money, 5e-324)
        self.largest = max(self.largest, float(gains.max()))
        bins = np.clip(((reports - cost) / self._extent + 1.0) / 2.0 * _BINS, 0, _BINS - 1).astype(np.int64)
        np.maximum.at(self._top, bins, relative)
        np.add.at(self._sum, bins, relative)
        np.add.at(self._count, bins, 1.0)
        # Beyond what is allowed for rounding to money; where nothing is allowed, the plain relative gain.
        excess = (gains - self._unit) / np.maximum(money, 5e-324)
        k = int(excess.argmax())
        if excess[k] <= self._worst:
            return None
        self._worst = float(excess[k])
        return float(reports[k])

    def profile(self) -> GainProfile:
        """Return the gains of all lies so far by their distance from the truth."""
        some = self._count > 0.0
        middles = (np.arange(_BINS) + 0.5) / _BINS * 2.0 - 1.0
        return GainProfile(
            tuple(middles[some].tolist()),
            tuple(self._top[some].tolist()),
            tuple((self._sum[some] / self._count[some]).tolist()),
        )
