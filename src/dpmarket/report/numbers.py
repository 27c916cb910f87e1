"""Turn released statistics into values that a page shows, and check that they kept every promise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.arrays import FloatArray, read_only
from dpmarket.audit import Audit, PrivacyFindings
from dpmarket.campaign.rules.released import StatisticsFile
from dpmarket.report.evidence import KEPT
from dpmarket.statistics import ReleasedStatistic


@dataclass(frozen=True)
class Number:
    """One released number.

    Attributes
    ----------
    name, kind, label
        The statistic's name, its kind, and what of it this number is.
    value
        As released, brought into its public range.
    low, high
        The ends of its interval, or None.
    """

    name: str
    kind: str
    label: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Numbers:
    """Everything about released statistics that a page shows.

    Attributes
    ----------
    rows
        One for every number.
    confidence
        The least probability with which the intervals of a statistic hold what they are about.
    radius
        For a vector's mean: it is within this distance of the population's; None without one.
    effective_people
        The least effective sample size of any of them.
    caution
        What the numbers do not say.
    """

    rows: tuple[Number, ...]
    confidence: float
    radius: float | None
    effective_people: float
    caution: str


def numbers_in(statistics: StatisticsFile) -> Numbers:
    """Return what a page shows of released statistics."""
    releases = statistics.releases()
    rows = []
    for name, release in releases.items():
        frame = release.to_frame()
        rows += [
            Number(name, release.kind, label, value, low, high) for label, value, low, high in frame.rows()
        ]
    radii = [release.radius for release in releases.values() if release.radius is not None]
    return Numbers(
        rows=tuple(rows),
        confidence=min(release.confidence for release in releases.values()),
        radius=max(radii, default=None),
        effective_people=min(release.effective_people for release in releases.values()),
        caution=next(iter(releases.values())).caution,
    )


def _spent_by(release: ReleasedStatistic) -> Fraction:
    """Return what a release spent on everybody together, exactly."""
    return release.total_weight * Fraction(2) ** release.unit_exponent


def spending_of(statistics: StatisticsFile, weights: FloatArray, promises: FloatArray) -> tuple[str, Audit]:
    """Check that everybody's weight costs at most the promise, and all of them no more than was released.

    Parameters
    ----------
    statistics
        As released.
    weights
        What was spent on everybody of the quotes, in epsilon.
    promises
        What they were promised.
    """
    told = sum((_spent_by(release) for release in statistics.releases().values()), Fraction(0))
    exceeded = int(np.sum(weights > promises))
    # What several rounds bought together is split between them, and the parts are rounded up.
    lost = sum(map(Fraction, weights.tolist()), Fraction(0)) > told * (1 + Fraction(1, 1 << 40))
    used = np.flatnonzero(weights > 0.0)
    return KEPT, PrivacyFindings(
        method="spending",
        people=read_only(used),
        epsilons=read_only(promises[used].copy()),
        found=read_only(weights[used].copy()),
        broken=exceeded + lost,
        false_alarm=0.0,
        details={"total_spent": float(told)},
    )
