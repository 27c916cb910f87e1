"""What every audit has in common: a verdict, and its evidence as rows that a person can read."""

from __future__ import annotations

from typing import Any, Protocol


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


def verdict(passed: bool) -> str:
    """Return the verdict in words, the same for every audit."""
    return "passed" if passed else "FAILED"
