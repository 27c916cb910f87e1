"""What every mechanism promises: all that a truthfulness audit needs."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable


class Response(NamedTuple):
    """What one seller would get for a report: the promise, and the payment in money."""

    epsilon: float
    payment: float


@runtime_checkable
class Mechanism(Protocol):
    """A way to buy privacy: sellers report costs, each gets a promise and a payment."""

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        ...


@runtime_checkable
class BatchMechanism(Mechanism, Protocol):
    """A mechanism that answers many reports of one seller faster than one by one."""

    def response_curve(self, reported_costs: object, i: int, reports: object) -> Any:
        """Return an object with arrays ``epsilons`` and ``payments``, one element per report."""
        ...
