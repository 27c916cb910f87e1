"""What a check says: it holds, it fails, or it was skipped and why, in the sentences of ``tables.txt``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLES = Path(__file__).with_name("tables.txt").read_text(encoding="utf-8")
"""The parts of certificates, the sentences of checks, and limits: the page gets the same text."""
PARTS, CHECKS, LIMITS = (
    [line for line in table.replace("\n  ", " ").splitlines() if not line.startswith("#")]
    for table in TABLES.split("\n\n")
)
_SENTENCES = {name: rest.split(" | ") for name, _, rest in (line.partition(": ") for line in CHECKS)}
Part = Mapping[str, Any]
HOLDS, FAILS, SKIPPED = "holds", "FAILS", "skipped"


@dataclass(frozen=True)
class Check:
    """What was checked, whether it holds, and why.

    Attributes
    ----------
    name, verdict, detail
        Of which check; "holds", "FAILS" or "skipped"; the reason.
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
        In the order in which they were made.

    Examples
    --------
    >>> Verification((Check("limits", "holds", ""), Check("signature", "skipped", ""))).passed
    True
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


def judged(name: str, good: object, detail: str = "", of: str = "") -> Check:
    """Return a check that holds or fails, with the table's sentence for it."""
    sentence = _SENTENCES[name][0 if good else 1]
    return Check(of + name, HOLDS if good else FAILS, sentence.replace("{}", detail))


def failed(name: str, why: str = "") -> Check:
    """Return a check that fails for this reason."""
    return judged(name, good=False, detail=why)


def skipped(name: str, of: str = "") -> Check:
    """Return a check that was skipped, with the table's reason."""
    return Check(of + name, SKIPPED, _SENTENCES[name][2])
