"""Turn released statistics into values that a page shows, and check that they kept every promise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.arrays import FloatArray, read_only
from dpmarket.audit import Audit, PrivacyFindings
from dpmarket.campaign.rules.released import StatisticsFile
from dpmarket.report.evidence import KEPT


@dataclass(frozen=True)
class Number:
    """One released number: its statistic and kind, what of it this is, the value and its interval."""

    name: str
    kind: str
    label: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Numbers:
    """Everything about released statistics that a page shows.

    ``confidence`` and ``effective_people`` are the least of any of them; a vector's mean is within ``radius``
    of the population's.
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


def spending_of(statistics: StatisticsFile, weights: FloatArray, promises: FloatArray) -> tuple[str, Audit]:
    """Check that everybody's weight costs at most the epsilon, and all of them no more than was released."""
    releases = statistics.releases().values()
    told = sum((one.total_weight * Fraction(2) ** one.unit_exponent for one in releases), Fraction(0))
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
