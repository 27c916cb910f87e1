"""What audits find: a verdict with its evidence; for privacy, person by person, and for which people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl


class Audit(Protocol):
    """The result of an audit, whatever was audited.

    A protocol, obeyed by the results of all audits of this package.
    """

    @property
    def passed(self) -> bool:
        """Whether nothing was found that breaks the promise under audit."""
        ...

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table, name and value; it shows no individual's cost or record."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON, with the schema's name and version."""
        ...


def verdict(*, passed: bool) -> str:
    """Return the verdict in words, the same for every audit."""
    return "passed" if passed else "FAILED"


SCHEMA = "dpmarket.audit.privacy-findings/1"
_TITLES = {
    "exact": "exact log density ratio",
    "sampled": "lower bound from sampled models",
    "accounting": "recomputed spending",
}


@dataclass(frozen=True, eq=False)
class PrivacyFindings:
    """Promises, and the epsilon that the audit could show for each audited person.

    Attributes
    ----------
    method
        ``exact``, ``sampled`` or ``accounting``.
    people
        Positions of the audited people.
    promises
        What they were promised (epsilon).
    found
        The epsilon shown: attained (exact), a lower bound (sampled), or spent (accounting).
    broken
        How many of them have more than promised.
    false_alarm
        Probability that ``broken`` is above 0 although every promise is kept; 0 where nothing is random.
    details
        How it was found, as plain data.
    """

    method: str
    people: IntArray
    promises: FloatArray
    found: FloatArray
    broken: int
    false_alarm: float
    details: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        """Whether no promise was seen broken."""
        return self.broken == 0

    @property
    def title(self) -> str:
        """The method in words."""
        return _TITLES.get(self.method, self.method)

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table."""
        shares = [f / p for f, p in zip(self.found.tolist(), self.promises.tolist(), strict=True) if p > 0.0]
        return [
            ("verdict", verdict(passed=self.passed)),
            ("method", self.title),
            ("people audited", f"{self.people.size:,}"),
            ("promises broken", f"{self.broken:,}"),
            ("largest share of a promise", f"{max(shares):.4g}" if shares else "none promised"),
            ("false-alarm rate", f"{self.false_alarm:.1e}"),
        ]

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:4])

    def _repr_html_(self) -> str:
        return html_table("Audit of privacy", self.summary())

    def to_frame(self) -> pl.DataFrame:
        """Return a row per audited person: method, person, promise, found."""
        import polars as pl

        method = [self.method] * self.people.size
        return pl.DataFrame(
            {"method": method, "person": self.people, "promise": self.promises, "found": self.found}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "schema": SCHEMA,
            "passed": self.passed,
            "method": self.method,
            "people": self.people.tolist(),
            "promises": self.promises.tolist(),
            "found": [value if math.isfinite(value) else None for value in self.found.tolist()],
            "broken": self.broken,
            "false_alarm": self.false_alarm,
            "details": dict(self.details),
        }


def audited_people(promises: FloatArray, people: object) -> IntArray:
    """Return positions: those given, checked; or the smallest, the middle and the largest promise above 0.

    Examples
    --------
    >>> audited_people(np.array([0.5, 0.0, 2.0, 1.0, 0.7]), None).tolist()
    [0, 4, 2]
    """
    if people is None:
        positive = np.flatnonzero(promises > 0.0)
        if not positive.size:
            raise InvalidInput("expected at least one promise above 0, found none.")
        ranked = positive[np.argsort(promises[positive], kind="stable")]
        places = dict.fromkeys([0, (ranked.size - 1) // 2, ranked.size - 1])
        return np.array([ranked[place] for place in places], dtype=np.int64)
    chosen = [checks.whole("people", person) for person in np.atleast_1d(np.asarray(people)).tolist()]
    if not chosen or max(chosen) >= promises.size or len(set(chosen)) < len(chosen):
        raise InvalidInput(
            f"expected people to be different positions below {promises.size}, at least one of them."
        )
    return np.array(chosen, dtype=np.int64)
