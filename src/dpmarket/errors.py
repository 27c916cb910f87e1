"""Every exception of the project: what was expected, what was found, what to do.

All of them derive from :class:`DpmarketError`, so that one ``except`` clause at an edge (a command, a
service) catches everything the project refuses on purpose, and nothing else. Messages never contain
private values: no record, and no reported cost.
"""

from __future__ import annotations

from collections.abc import Sequence


class DpmarketError(Exception):
    """Base class of everything that dpmarket refuses on purpose.

    Its text says what was expected, what was found and, where there is one, the way out.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> try:
    ...     dpm.Uniform(5, 1)
    ... except dpm.DpmarketError as refusal:
    ...     print(refusal)
    expected low < high, got low=5.0, high=1.0.
    """


class InvalidInput(DpmarketError, ValueError):
    """An argument is not what the function's contract asks for.

    Public parameters are quoted in the message; elements of arrays never are, only how many offend and where.
    """


class Infeasible(DpmarketError, ValueError):
    """The arguments are valid one by one, but no solution meets all of them together."""


class NotConverged(DpmarketError, ArithmeticError):
    """A computation could not reach the accuracy that its contract promises: it returns nothing then."""


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


class MarketRefusal(DpmarketError):
    """The market refuses one act, and everything is as before; ``kind`` says why in a word for programs.

    Kinds are ``unknown`` (no such thing, or not yours), ``state`` (not possible any more, or not yet),
    ``expired`` (too late), ``early`` (too soon), ``invalid`` (not what was asked for), ``funds`` (too little
    money is set aside), ``few`` (people), ``limit`` (of a lifetime), ``confirm`` (a yes is needed) and
    ``reused`` (an idempotency key that belongs to another request).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
