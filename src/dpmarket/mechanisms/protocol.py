"""What every mechanism promises: all that a truthfulness audit needs."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable


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
