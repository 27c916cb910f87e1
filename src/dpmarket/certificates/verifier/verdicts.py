"""What a check says: it holds, it fails, or it was skipped and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HOLDS, FAILS, SKIPPED = "holds", "FAILS", "skipped"


@dataclass(frozen=True)
class Check:
    """One check: its name, "holds", "FAILS" or "skipped", and why.

    Attributes
    ----------
    name
        What was checked.
    verdict
        "holds", "FAILS" or "skipped".
    detail
        Why, in a few words.
    """

    name: str
    verdict: str
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks. ``passed`` is true if none failed; skipped ones are listed, not counted.

    Attributes
    ----------
    checks
        One :class:`Check` for everything that was checked, or that needs more than was given.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(2, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> verification = dpm.verify(dpm.certify(outcome, model, mechanism.rules()))
    >>> verification.passed, [check.name for check in verification.checks if check.verdict == "skipped"]
    (True, ['signature', 'announced rules', 'published rules'])
    """

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.verdict != FAILS for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        rows = [{"name": c.name, "verdict": c.verdict, "detail": c.detail} for c in self.checks]
        return {"schema": "dpmarket.verification/2", "passed": self.passed, "checks": rows}


class Broken(Exception):
    """What is checked is not even of the right shape."""


def judged(name: str, good: object, yes: str, no: str) -> Check:
    """Return a check that holds for the reason ``yes``, or fails for the reason ``no``."""
    return Check(name, HOLDS if good else FAILS, yes if good else no)
