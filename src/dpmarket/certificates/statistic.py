"""What a certificate of statistics speaks of: whole numbers, what was asked, and what a weight spends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.certificates.verifier.constants import LARGEST_NUMBER
from dpmarket.certificates.verifier.numbers_released import STATISTIC, statistic_release, wrong_parts
from dpmarket.errors import InvalidInput, NotCertifiable
from dpmarket.statistics import ReleasedStatistic, SeveralStatistics
from dpmarket.statistics.sample import RESOLUTION


@dataclass(frozen=True)
class CertifiedStatistic:
    """One statistic of a release.

    Attributes
    ----------
    name
        Different from the others' of the same release.
    columns
        What it was asked of.
    share
        Its part of every promise, at most 1.
    release
        What was released.
    """

    name: str
    columns: tuple[str, ...]
    share: float
    release: ReleasedStatistic


@dataclass(frozen=True)
class ReleasedStatistics:
    """Statistics that were released together: all that their accounting can be recomputed from.

    Attributes
    ----------
    statistics
        At least one.
    rows_per_person
        The bound on the records of one person.
    """

    statistics: tuple[CertifiedStatistic, ...]
    rows_per_person: int

    @classmethod
    def of(cls, statistic: Any, name: str | None = None, column: str = "value") -> ReleasedStatistics:
        """Return the public part of a statistic that was released by itself.

        Raises
        ------
        InvalidInput
            Nothing was released.
        """
        release = getattr(statistic, "release_", None)
        if not isinstance(release, ReleasedStatistic):
            raise InvalidInput("expected a statistic that was released.")
        columns = tuple(getattr(statistic, "names", (column,)))
        only = CertifiedStatistic(release.kind if name is None else name, columns, 1.0, release)
        return cls((only,), int(statistic.rows_per_person))

    @classmethod
    def of_several(cls, several: SeveralStatistics) -> ReleasedStatistics:
        """Return the public part of several statistics that were released together.

        Raises
        ------
        InvalidInput
            Nothing was released.
        NotCertifiable
            They do not allow the same number of records of one person.
        """
        if not hasattr(several, "releases_"):
            raise InvalidInput("expected statistics that were released.")
        rows = {int(release.question["rows_per_person"]) for release in several.releases_.values()}
        if len(rows) > 1:
            raise NotCertifiable("expected the same rows_per_person of all statistics, found several.")
        parts = [
            CertifiedStatistic(
                name, tuple(release.question.get("names", (name,))), several.share(name), release
            )
            for name, release in several.releases_.items()
        ]
        return cls(tuple(parts), rows.pop())

    @property
    def unit(self) -> Fraction:
        """Everybody's weight is a whole multiple of this much epsilon."""
        return Fraction(2) ** min(one.release.unit_exponent for one in self.statistics)

    @property
    def spent(self) -> Fraction:
        """What was spent on everybody together, exactly."""
        releases = [one.release for one in self.statistics]
        return sum(
            (release.total_weight * Fraction(2) ** release.unit_exponent for release in releases), Fraction(0)
        )

    def whole(self, weights: FloatArray) -> FloatArray:
        """Return weights as the whole multiples of the unit that they are, but for what rounding did to them.

        What several rounds bought together was split between them and added up again.
        """
        unit = float(self.unit)
        return np.rint(weights / unit) * unit

    def to_dict(self) -> dict[str, Any]:
        """Return the release as a certificate states it."""
        total = float(self.spent)
        if Fraction(total) < self.spent:
            total = math.nextafter(total, math.inf)
        return {
            "kind": STATISTIC,
            "delta": 0.0,
            "rows_per_person": self.rows_per_person,
            "weight_total": total,
            "statistics": [_stated(one) for one in self.statistics],
        }


def statistic_part(released: ReleasedStatistics, total_promise: float, largest: float) -> dict[str, Any]:
    """Return the release part of a certificate's body.

    Parameters
    ----------
    released
        What was released.
    total_promise
        All promises together, rounded up.
    largest
        The largest number in a line.

    Raises
    ------
    NotCertifiable
        If a public number is not within what a verifier accepts.
    """
    stated = released.to_dict()
    wrong = wrong_parts(statistic_release(stated), total_promise)
    if wrong:
        raise NotCertifiable(
            f"expected public constants that a verifier accepts, got {', '.join(wrong)} out of range."
        )
    if not largest <= LARGEST_NUMBER:
        raise NotCertifiable(f"expected promises and payments up to {LARGEST_NUMBER:.0e}, got larger ones.")
    return stated


def refuse_other_spending(released: ReleasedStatistics, spent: FloatArray, weights: FloatArray) -> None:
    """Refuse to certify spending that does not follow from whole weights.

    Raises
    ------
    NotCertifiable
        A weight that is not whole, one that costs more than was spent, or weights that are not all.
    """
    counts = [Fraction(weight) / released.unit for weight in weights.tolist()]
    follows = bool((spent >= weights).all()) and all(count.denominator == 1 for count in counts)
    if not follows or sum(counts, Fraction(0)) * released.unit != released.spent:
        raise NotCertifiable("expected spent epsilons that follow from the statistics' weights; they do not.")


def weights_of_several(several: SeveralStatistics) -> FloatArray:
    """Return what all statistics together spent on each person, exactly.

    Raises
    ------
    NotCertifiable
        A sum is no float, because the shares are too far apart.
    """
    columns = [spent.tolist() for spent in several.spent_by_.values()]
    exact = [sum(map(Fraction, person), Fraction(0)) for person in zip(*columns, strict=True)]
    weights = np.array([float(number) for number in exact])
    if any(Fraction(weight) != number for weight, number in zip(weights.tolist(), exact, strict=True)):
        raise NotCertifiable("expected shares no further apart than a thousand times; these are.")
    return weights


def _stated(one: CertifiedStatistic) -> dict[str, Any]:
    release = one.release
    return {
        "name": one.name,
        "columns": list(one.columns),
        "question": _floats(release.question),
        "share": one.share,
        "numerators": [str(number) for number in release.numerators],
        "total_weight": str(release.total_weight),
        "unit_exponent": release.unit_exponent,
        "noise_scale": math.ldexp(_changed(release) * RESOLUTION, -release.unit_exponent),
        "values": [float(value) for value in release.values],
    }


def _changed(release: ReleasedStatistic) -> int:
    """Return by how many times a weight one person's replaced records move what is released."""
    if release.kind in ("mean", "share") or (release.kind == "histogram" and len(release.labels) == 2):
        return 1
    return 2


def _floats(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question with every bound as a float, as canonical JSON tells it apart from a whole number."""
    found = dict(question)
    for name in ("low", "high", "level", "interval_share", "bound", "confidence"):
        if name in found:
            found[name] = float(found[name])
    for name in ("candidates", "edges"):
        if name in found:
            found[name] = [float(number) for number in found[name]]
    return found
