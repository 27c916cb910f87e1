"""Turn any non-increasing rule (report -> epsilon) into the payment that makes truth the best report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpmarket import checks
from dpmarket.errors import InvalidInput, NotConverged

# Gauss-Legendre rules of two orders: their difference estimates the error of the better one.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_COARSE_NODES, _COARSE_WEIGHTS = np.polynomial.legendre.leggauss(7)
# Weights that extrapolate the values at the nodes to the upper end; reversed, to the lower one.
_TO_END = np.array([np.prod([(1.0 - o) / (n - o) for o in _NODES if o != n]) for n in _NODES])
_OUTERMOST = float(1.0 - _NODES[-1])
_RELATIVE = 1e-12
_MAX_PIECES = 20_000


@dataclass(frozen=True)
class Payment:
    """A payment with the epsilon it is for and an estimate of its absolute error, in money.

    ``float(payment)`` is the payment itself.

    Attributes
    ----------
    payment
        Money.
    epsilon
        The promise that it is for.
    error
        Estimate of the payment's absolute error, money.

    Examples
    --------
    >>> from dpmarket.payments import payment_identity
    >>> payment = payment_identity(lambda report: max(3.0 - report, 0.0), cost=1.0, top=5.0)
    >>> round(float(payment), 9), payment.epsilon, payment.error < 1e-9
    (4.0, 2.0, True)
    """

    payment: float
    epsilon: float
    error: float

    def __float__(self) -> float:
        return self.payment


def payment_identity(rule: Callable[[float], float], cost: float, top: float) -> Payment:
    """Return ``cost*rule(cost)`` plus the integral of ``rule`` from ``cost`` to ``top``.

    Paper: Lemma `mech design`, in the form that counts jumps of the rule and what it still buys at
    ``top``. Whatever the other sellers do, a seller paid so loses nothing by reporting the truth, and
    never gets less than ``cost*epsilon``.

    Parameters
    ----------
    rule
        epsilon as a function of one seller's report, non-increasing, at least 0; jumps are fine.
    cost
        The seller's report, money per unit of epsilon, at least 0 and at most ``top``.
    top
        Upper end of the support of costs; may be infinite if the rule is 0 from some report on, or falls so
        fast that its integral is finite.

    Returns
    -------
    Payment
        The payment and an estimate of its error: about 1e-12 of the payment for smooth rules and rules with
        jumps alike. Each piece of the integral is halved until two quadrature rules agree on it, or until the
        rule's own fall over it bounds what can be missing.

    Raises
    ------
    InvalidInput
        The rule is caught increasing, negative or not a number; cost above top.
    NotConverged
        The accuracy cannot be reached; an integral to infinity that does not exist is one.

    Examples
    --------
    >>> round(payment_identity(lambda z: max(3.0 - z, 0.0), 1.0, 5.0).payment, 12)
    4.0
    """
    cost, top = checks.non_negative("cost", cost), checks.real("top", top)
    if cost > top:
        raise InvalidInput(f"expected cost <= top, got a cost above top={top!r}.")
    seen = _Seen(rule)
    epsilon = seen(cost)
    if epsilon == 0.0 or cost == top:
        return Payment(cost * epsilon, epsilon, 0.0)
    if math.isinf(top):
        scale = max(cost, 1.0)

        def integrand(t: float) -> float:
            # z = cost + scale*t/(1-t): the rest of the axis becomes [0, 1).
            return seen(cost + scale * t / (1.0 - t)) * scale / (1.0 - t) ** 2 if t < 1.0 else 0.0

        integral, error = _integrate(integrand, 1.0, cost * epsilon)
    else:
        integral, error = _integrate(lambda t: seen(cost + t), top - cost, cost * epsilon)
    seen.refuse_increase()
    return Payment(cost * epsilon + integral, epsilon, error)


class _Seen:
    """A rule that remembers what it has been asked, to catch it increasing."""

    def __init__(self, rule: Callable[[float], float]) -> None:
        self._rule = rule
        self._values: dict[float, float] = {}

    def __call__(self, report: float) -> float:
        if report not in self._values:
            value = checks.real("rule(report)", self._rule(report))
            if not 0.0 <= value < math.inf:
                raise InvalidInput(f"expected rule(report) to be finite and >= 0, got {value!r}.")
            self._values[report] = value
        return self._values[report]

    def refuse_increase(self) -> None:
        """Compare each value with the least at clearly lower reports: rounding may blur where a jump is."""
        reports = np.array(sorted(self._values))
        values = np.array([self._values[report] for report in reports.tolist()])
        lower = np.searchsorted(reports, reports * (1.0 - 1e-12))
        least = np.minimum.accumulate(values)
        rise = float(np.where(lower > 0, values - least[lower - 1], 0.0).max())
        if rise > 1e-12 * values.max():
            raise InvalidInput(
                "expected a rule that never rises with the report, found that it rises by "
                f"{rise:.3g}: no payment makes truth the best report for it."
            )


def _integrate(function: Callable[[float], float], length: float, already: float) -> tuple[float, float]:
    """Integrate over [0, length], to 1e-12 of the payment, of which ``already`` is the other part."""
    start = [_measure(function, k * length / 8.0, (k + 1) * length / 8.0) for k in range(8)]
    scale = already + sum(piece[2] for piece in start)
    total = error = 0.0
    stack, measured = start, 0
    while stack:
        a, b, value, missing = stack.pop()
        middle = 0.5 * (a + b)
        if missing <= _RELATIVE * scale * (b - a) / length or missing <= 1e-15 * scale or not a < middle < b:
            total += value
            error += missing
            continue
        measured += 1
        if measured > _MAX_PIECES:
            raise NotConverged(
                "expected a rule whose integral up to top exists and can be computed, gave up after "
                f"{_MAX_PIECES} pieces; is top infinite although the rule buys at every report?"
            )
        stack += [_measure(function, a, middle), _measure(function, middle, b)]
    return total, error + 1e-15 * scale


def _measure(function: Callable[[float], float], a: float, b: float) -> tuple[float, float, float, float]:
    """Return the piece, the integral over it, and what that may be missing."""
    middle, half = 0.5 * (a + b), 0.5 * (b - a)
    values = np.array([function(t) for t in (middle + half * _NODES).tolist()])
    coarse = np.array([function(t) for t in (middle + half * _COARSE_NODES).tolist()])
    fine = half * float(_WEIGHTS @ values)
    missing = abs(fine - half * float(_COARSE_WEIGHTS @ coarse))
    # A jump or kink beyond the outermost node is seen by neither sum, but by the end's own value.
    for end, expected in ((a, _TO_END[::-1] @ values), (b, _TO_END @ values)):
        missing += abs(function(end) - float(expected)) * half * _OUTERMOST
    return a, b, fine, missing
