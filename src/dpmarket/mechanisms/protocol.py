"""What every mechanism promises: all that a truthfulness audit needs."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable


class Response(NamedTuple):
    """What one seller would get for a report: the promise, and the payment in money.

    Attributes
    ----------
    epsilon
        The promise.
    payment
        Money.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import PostedPrice
    >>> buyer = PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0)
    >>> epsilon, payment = buyer.respond([1.5, 2.0], i=0, report=2.5)
    >>> epsilon, payment, payment - 1.5 * epsilon
    (0.5, 1.5, 0.75)
    """

    epsilon: float
    payment: float


@runtime_checkable
class Mechanism(Protocol):
    """A way to buy privacy: sellers report costs, each gets a promise and a payment.

    A protocol: any object with the method ``respond`` is one, and all that a truthfulness audit needs. The
    mechanisms of this package also have ``run``, which decides for everybody at once.

    Examples
    --------
    A buyer who pays what sellers say they want is a mechanism, and not a truthful one.

    >>> import numpy as np
    >>> from dpmarket.audit import audit_truthfulness
    >>> from dpmarket.costs import Uniform
    >>> class PaysWhatIsAsked:
    ...     def respond(self, reported_costs, i, report):
    ...         return Response(1.0, report) if report <= 4.0 else Response(0.0, 0.0)
    >>> isinstance(PaysWhatIsAsked(), Mechanism)
    True
    >>> rng = np.random.default_rng(0)
    >>> audit_truthfulness(PaysWhatIsAsked(), Uniform(1, 5), 3, 1, 20, rng).passed
    False
    """

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        ...


@runtime_checkable
class BatchMechanism(Mechanism, Protocol):
    """A mechanism that answers many reports of one seller faster than one by one.

    A protocol: where ``response_curve`` is there, audits use it; its answers are those of ``respond``.
    """

    def response_curve(self, reported_costs: object, i: int, reports: object) -> Any:
        """Return an object with arrays ``epsilons`` and ``payments``, one element per report."""
        ...
