"""Every exception of the project: what was expected, what was found, what to do.

All of them derive from :class:`DpmarketError`, so that one ``except`` clause at an edge (a command, a
service) catches everything the project refuses on purpose, and nothing else. Messages never contain
private values: no record, and no reported cost.
"""

from __future__ import annotations

from collections.abc import Sequence


class DpmarketError(Exception):
    """Base class of everything that dpmarket refuses on purpose."""


class InvalidInput(DpmarketError, ValueError):
    """An argument is not what the function's contract asks for."""


class Infeasible(DpmarketError, ValueError):
    """The arguments are valid one by one, but no solution meets all of them together."""


class NotConverged(DpmarketError, ArithmeticError):
    """A computation could not reach the accuracy that its contract promises."""


class EntropyUnavailable(DpmarketError, RuntimeError):
    """The operating system gave no random bits, so that no private model can be made."""


class NotCertifiable(DpmarketError, ValueError):
    """What was done cannot be certified: a promise does not follow from it."""


class FileProblem(DpmarketError, OSError):
    """A file cannot be read, written or understood; ``details`` holds one sentence per thing found in it."""

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = tuple(details)

    def __str__(self) -> str:
        return " ".join((super().__str__(), *self.details))


class LedgerRefusal(DpmarketError):
    """The privacy ledger says no: a promise is spent, withdrawn or was never made."""
