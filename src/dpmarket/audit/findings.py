"""Results of audits: a verdict with its evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput

_EVIDENCE = {
    "sampled": "lower bound from sampled models",
    "density": "exact log density ratio",
    "spending": "recomputed spending",
}


class Audit:
    """The result of an audit, whatever was audited: a verdict with its evidence."""

    title: ClassVar[str]
    schema: ClassVar[str]

    @property
    def passed(self) -> bool:
        """Whether no violation was found."""
        raise NotImplementedError

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table, name and value; it shows no individual's cost or record."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON."""
        return {"schema": self.schema, "passed": self.passed, **asdict(self)}  # type: ignore[call-overload]

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:4])

    def _repr_html_(self) -> str:
        return html_table(self.title, self.summary())


def verdict(*, passed: bool) -> str:
    """Return the verdict in words, the same for every audit."""
    return "passed" if passed else "FAILED"


@dataclass(frozen=True, eq=False, repr=False)
class PrivacyFindings(Audit):
    """Privacy budgets, and the epsilon that one kind of evidence shows for each audited person.

    Attributes
    ----------
    method
        ``sampled``, ``density`` or ``spending``.
    people, epsilons
        Positions of the audited people, and their privacy budgets.
    found
        The epsilon shown: a lower bound (sampled), attained (density), or spent (spending).
    broken
        How many of them are above the budget.
    false_alarm
        Probability that ``broken`` is above 0 although every budget is respected; 0 where nothing is random.
    details
        How it was found, as plain data.
    """

    method: str
    people: IntArray
    epsilons: FloatArray
    found: FloatArray
    broken: int
    false_alarm: float
    details: Mapping[str, Any]
    title: ClassVar[str] = "Audit of privacy"

    def __post_init__(self) -> None:
        for array in (self.people, self.epsilons, self.found):
            read_only(array)

    @property
    def passed(self) -> bool:
        """Whether no budget was seen exceeded."""
        return self.broken == 0

    @property
    def evidence(self) -> str:
        """The method in words."""
        return _EVIDENCE[self.method]

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table."""
        shares = self.found[self.epsilons > 0.0] / self.epsilons[self.epsilons > 0.0]
        return [
            ("verdict", verdict(passed=self.passed)),
            ("method", self.evidence),
            ("people audited", f"{self.people.size:,}"),
            ("budgets exceeded", f"{self.broken:,}"),
            ("largest share of a budget", f"{shares.max():.4g}" if shares.size else "no budget above 0"),
            ("false-alarm rate", f"{self.false_alarm:.1e}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "passed": self.passed,
            "method": self.method,
            "people": self.people.tolist(),
            "epsilons": self.epsilons.tolist(),
            "found": [value if math.isfinite(value) else None for value in self.found.tolist()],
            "broken": self.broken,
            "false_alarm": self.false_alarm,
            "details": dict(self.details),
        }


def audited_people(epsilons: FloatArray, people: object) -> IntArray:
    """Return positions: those given, checked; or the smallest, the middle and the largest budget above 0."""
    if people is None:
        positive = np.flatnonzero(epsilons > 0.0)
        if not positive.size:
            raise InvalidInput("expected at least one epsilon above 0, found none.")
        ranked = positive[np.argsort(epsilons[positive], kind="stable")]
        return np.asarray(ranked[np.unique([0, (ranked.size - 1) // 2, ranked.size - 1])])
    chosen = [checks.whole("people", person) for person in np.atleast_1d(np.asarray(people)).tolist()]
    if not chosen or max(chosen) >= epsilons.size or len(set(chosen)) < len(chosen):
        raise InvalidInput(
            f"expected people to be different positions below {epsilons.size}, at least one of them."
        )
    return np.array(chosen, dtype=np.int64)
