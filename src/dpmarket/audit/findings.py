"""What one way of auditing privacy found, person by person; the same shape for every way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.audit.shape import verdict

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
    method : ``exact``, ``sampled`` or ``accounting``.
    people : positions of the audited people.
    promises : what they were promised (epsilon).
    found : the epsilon shown: attained (exact), a lower bound (sampled), or spent (accounting).
    broken : how many of them have more than promised.
    false_alarm : probability that ``broken`` is above 0 although every promise is kept; 0 where nothing is
        random.
    details : how it was found, as plain data.
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
            ("verdict", verdict(self.passed)),
            ("method", self.title),
            ("people audited", f"{self.people.size:,}"),
            ("promises broken", f"{self.broken:,}"),
            ("largest share of a promise", f"{max(shares):.4g}" if shares else "none promised"),
            ("false-alarm rate", f"{self.false_alarm:.1e}"),
        ]

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
