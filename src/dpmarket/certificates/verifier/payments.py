r"""Check promises and payments against disclosed reports, with code of its own: numpy and mpmath.

An auditor to whom the buyer discloses the reported costs can check two more things: that the promises
minimise the buyer's objective, and that payments follow from the payment identity
:math:`t_i = c_i \epsilon_i(c_i) + \int_{c_i}^{top} \epsilon_i(z) dz`. Only the offline mechanism is known
here, with cost distributions that are uniform or one of a few families, and regular; anything else is said
not to have been checked. Nothing of dpmarket is used but the verifier beside this file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

from .certificate import (
    FAILS,
    NOT_MADE,
    VALUES,
    Check,
    Verification,
    judged,
    verify,
)

_GRID = 160
_TOLERANCE = 1e-5


def verify_payments(
    certificate: Any, openings: bytes, reports: Mapping[Any, float], payments_checked: int = 20
) -> Verification:
    """Check a certificate with its openings, and what was promised and paid against the reports.

    Parameters
    ----------
    certificate
        The file's bytes, or its path, or anything with ``bytes(certificate)``.
    openings
        Bytes of the buyer's openings.
    reports
        Reported cost by seller id.
    payments_checked
        How many sellers' payments to recompute, spread evenly over those bought from: each takes some
        hundred solutions of the whole problem.

    Returns
    -------
    Verification
        The checks of :func:`~dpmarket.certificates.verifier.certificate.verify`, and two more.

    Raises
    ------
    OSError
        If a path cannot be read. Whatever is wrong with what was read is a check that fails.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5], seller_ids=["ann", "bob", "cem"])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model)
    >>> reports = {"ann": 1.5, "bob": 2.0, "cem": 2.5}
    >>> found = verify_payments(certificate, certificate.openings(), reports, payments_checked=1)
    >>> [(check.name, check.verdict) for check in found.checks[-2:]]
    [('allocation', 'holds'), ('payments', 'holds')]
    """
    if isinstance(certificate, str | os.PathLike):
        with open(certificate, "rb") as file:
            certificate = file.read()
    result = verify(certificate, openings=openings)
    if not result.passed:
        return result
    return Verification((*result.checks, *payment_checks(certificate, openings, reports, payments_checked)))


def payment_checks(
    certificate: Any, openings: bytes, reports: Mapping[Any, float], payments_checked: int
) -> list[Check]:
    """Return the two checks alone, for a certificate and openings that have passed all others."""
    body = json.loads(bytes(certificate).partition(b"\n")[0][len(b'{"body":') : -1])
    opened = json.loads(openings)
    columns = [opened[name] for name in ("id", *VALUES)]
    lines = [dict(zip(("id", *VALUES), row, strict=True)) for row in zip(*columns, strict=True)]
    if any(line["id"] not in reports for line in lines):
        return [Check("payments", FAILS, "some sellers of the certificate have no report")]
    try:
        return _market(body, lines, reports, max(payments_checked, 1))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        return [Check("payments", FAILS, f"cannot be recomputed ({type(problem).__name__})")]


def _market(
    body: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]],
    reports: Mapping[Any, float],
    payments_checked: int,
) -> list[Check]:
    if body["mechanism"] != "offline":
        return [Check("payments", NOT_MADE, f"not known for the mechanism {body['mechanism']!r}")]
    if body["totals"]["withdrawn"]:
        return [Check("payments", NOT_MADE, "sellers withdrew; what they were promised is not certified")]
    market = body["market"]
    psi = _virtual_cost(market["distribution"])
    if psi is None or not market["objective"]["concentration"] > 0.0:
        return [Check("payments", NOT_MADE, "this market's costs or objective are not known here")]
    costs = np.array([float(reports[line["id"]]) for line in lines])
    promise = np.array([line["promise"] for line in lines])
    low, high = psi.support
    virtual = np.array([psi(c) if c <= high else math.inf for c in np.maximum(costs, low)])
    best = _minimum(virtual, market["objective"])
    reached = _objective(promise, virtual, market["objective"])
    optimal = reached <= best.value * (1.0 + 1e-9)
    unit = body["money"]["minor_units"]
    bought = np.flatnonzero(promise > 0.0)
    chosen = bought[
        np.unique(np.linspace(0, bought.size - 1, min(payments_checked, bought.size)).astype(int))
    ]
    for_nothing = sum(line["promise"] == 0.0 and line["payment"] != 0.0 for line in lines)
    wrong = 0
    for i in chosen.tolist():

        def rule(z: float, i: int = i) -> float:
            moved = virtual.copy()
            moved[i] = psi(z)
            return float(_minimum(moved, market["objective"]).epsilons[i])

        cost = max(float(costs[i]), low)
        due = cost * float(promise[i]) + _integral(rule, cost, high)
        paid = lines[i]["payment"] / (unit or 1)
        rounding = 1.0 / unit if unit else 0.0
        wrong += not due * (1.0 - _TOLERANCE) <= paid <= due * (1.0 + _TOLERANCE) + rounding
    return [
        judged(
            "allocation", bool(optimal), "minimises the buyer's objective", "is not the best for the buyer"
        ),
        judged(
            "payments",
            wrong + for_nothing == 0,
            f"{len(chosen)} recomputed from the reports agree, and nothing is paid for nothing",
            f"{wrong} of {len(chosen)} recomputed differ, {for_nothing} are paid for no promise",
        ),
    ]


class _VirtualCost:
    """c + F(c) / f(c) for a distribution of costs that is known here."""

    def __init__(
        self, cdf: Callable[[float], Any], pdf: Callable[[float], Any], low: float, high: float
    ) -> None:
        self.support = (low, high)
        self._cdf, self._pdf, self._below = cdf, pdf, cdf(low)

    def __call__(self, c: float) -> float:
        density = self._pdf(c)
        return float(c + (self._cdf(c) - self._below) / density) if density > 0 else math.inf


def _virtual_cost(data: Mapping[str, Any]) -> _VirtualCost | None:
    """Return the virtual cost of a distribution; None if it is not known here or not increasing."""
    kind = data["kind"]
    if kind == "uniform":
        low, high = data["low"], data["high"]
        found = _VirtualCost(lambda c: c, lambda c: 1.0, low, high)
    elif kind == "scipy" and data["name"] in _FAMILIES and data["high"] is not None:
        parameters = dict(data["parameters"])
        loc, scale = parameters.pop("loc"), parameters.pop("scale")
        cdf, pdf = _FAMILIES[data["name"]](**parameters)
        found = _VirtualCost(
            lambda c: cdf((c - loc) / scale),
            lambda c: pdf((c - loc) / scale) / scale,
            data["low"],
            data["high"],
        )
    else:
        return None
    values = [found(c) for c in np.linspace(*found.support, 2001)]
    return found if bool((np.diff(values) > -1e-12).all()) else None


def _normal() -> tuple[Any, Any]:
    return mpmath.ncdf, mpmath.npdf


def _lognormal(s: float) -> tuple[Any, Any]:
    return (
        lambda x: mpmath.ncdf(mpmath.log(x) / s) if x > 0 else 0,
        lambda x: mpmath.npdf(mpmath.log(x) / s) / (s * x) if x > 0 else 0,
    )


def _exponential() -> tuple[Any, Any]:
    return lambda x: 1 - mpmath.exp(-x), lambda x: mpmath.exp(-x)


def _gamma(a: float) -> tuple[Any, Any]:
    return (
        lambda x: mpmath.gammainc(a, 0, x, regularized=True),
        lambda x: mpmath.exp(-x) * mpmath.mpf(x) ** (a - 1) / mpmath.gamma(a),
    )


def _beta(a: float, b: float) -> tuple[Any, Any]:
    return (
        lambda x: mpmath.betainc(a, b, 0, x, regularized=True),
        lambda x: mpmath.mpf(x) ** (a - 1) * (1 - mpmath.mpf(x)) ** (b - 1) / mpmath.beta(a, b),
    )


_FAMILIES: dict[str, Callable[..., tuple[Any, Any]]] = {
    "norm": _normal, "lognorm": _lognormal, "expon": _exponential, "gamma": _gamma, "beta": _beta,
}  # fmt: skip


@dataclass(frozen=True)
class _Minimum:
    value: float
    epsilons: Any


def _objective(epsilons: Any, virtual: Any, objective: Mapping[str, Any]) -> float:
    """Return mu |a| + sigma / eta + gamma <eps, psi> at given promises."""
    eta = float(epsilons.sum())
    bought = epsilons > 0.0
    return float(
        objective["concentration"] * np.linalg.norm(epsilons) / eta
        + objective["noise"] / eta
        + objective["payment_weight"] * (epsilons[bought] @ virtual[bought])
    )


def _minimum(virtual: Any, objective: Mapping[str, Any]) -> _Minimum:
    """Minimise the buyer's objective by a search along the path a(s) = clip((r - psi) / s, 0, cap).

    The best weights for any eta lie on that path; for weights a the best eta is known. So one number, s, is
    searched: over a grid first, because there may be several minima, then around every dip of the grid.
    """
    mu, sigma, gamma = (objective[k] for k in ("concentration", "noise", "payment_weight"))
    m = virtual.size
    cap = 1.0 if objective["weight_cap"] is None else min(objective["weight_cap"] / m, 1.0)
    most = math.inf if objective["max_mean_epsilon"] is None else m * objective["max_mean_epsilon"]
    finite = np.flatnonzero(np.isfinite(virtual))
    psi = virtual[finite]

    def weights(s: float) -> Any:
        # The total weight is piecewise linear in r and bends where somebody enters or is capped.
        bends = np.concatenate([psi, psi + cap * s])
        order = np.argsort(bends, kind="stable")
        bends, steps = bends[order], np.where(order < psi.size, 1.0, -1.0)
        slope = np.cumsum(steps)[:-1] / s
        total = np.concatenate([[0.0], np.cumsum(slope * np.diff(bends))])
        k = min(int(np.searchsorted(total, 1.0)), total.size - 1)
        r = bends[k] if total[k] <= 1.0 else bends[k - 1] + (1.0 - total[k - 1]) / slope[k - 1]
        a = np.clip((r - psi) / s, 0.0, cap)
        return a / a.sum()

    def at(log_s: float) -> tuple[float, Any, float]:
        a = weights(math.exp(log_s))
        price = float(a @ psi)
        eta = min(math.sqrt(sigma / (gamma * price)) if price > 0.0 else math.inf, most)
        return mu * float(np.linalg.norm(a)) + sigma / eta + gamma * eta * price, a, eta

    cheapest, dearest = max(float(psi.min()), 1e-300), max(float(psi.max()), 1e-300)
    largest = min(math.sqrt(sigma / (gamma * cheapest)), most)
    smallest = min(math.sqrt(sigma / (gamma * dearest)), largest)
    first, last = (
        math.log(mu / (gamma * largest)) - 0.1,
        math.log(mu * math.sqrt(m) / (gamma * smallest)) + 0.1,
    )
    grid = np.linspace(first, last, _GRID)
    values = np.array([at(x)[0] for x in grid])
    padded = np.concatenate([[math.inf], values, [math.inf]])
    dips = np.flatnonzero((padded[1:-1] <= padded[:-2]) & (padded[1:-1] <= padded[2:]))
    found = [
        _dip(lambda x: at(x)[0], float(grid[max(k - 1, 0)]), float(grid[min(k + 1, _GRID - 1)]))
        for k in dips.tolist()
    ]
    value, a, eta = at(min(found, key=lambda x: at(x)[0]))
    epsilons = np.zeros(m)
    epsilons[finite] = a * eta
    return _Minimum(value, epsilons)


def _dip(function: Callable[[float], float], left: float, right: float) -> float:
    """Return where a function with one dip between two points is smallest: golden section."""
    share = (math.sqrt(5.0) - 1.0) / 2.0
    x, y = right - share * (right - left), left + share * (right - left)
    at_x, at_y = function(x), function(y)
    while right - left > 1e-7:
        if at_x <= at_y:
            right, y, at_y = y, x, at_x
            x = right - share * (right - left)
            at_x = function(x)
        else:
            left, x, at_x = x, y, at_y
            y = left + share * (right - left)
            at_y = function(y)
    return (left + right) / 2.0


def _integral(rule: Callable[[float], float], low: float, high: float) -> float:
    """Integrate a non-increasing rule that is 0 from some point on: bisect that point, then Simpson."""
    if rule(high) == 0.0:
        start, end = low, high
        while end - start > 1e-7 * (high - low):
            middle = (start + end) / 2.0
            start, end = (middle, end) if rule(middle) > 0.0 else (start, middle)
        high = end

    def simpson(a: float, b: float, fa: float, fm: float, fb: float, allowed: float) -> float:
        m = (a + b) / 2.0
        left, right = rule((a + m) / 2.0), rule((m + b) / 2.0)
        coarse = (b - a) / 6.0 * (fa + 4.0 * fm + fb)
        fine = (b - a) / 12.0 * (fa + 4.0 * left + 2.0 * fm + 4.0 * right + fb)
        if abs(fine - coarse) <= allowed or b - a <= 1e-6 * (high - low):
            return fine
        allowed /= 2.0
        return simpson(a, m, fa, left, fm, allowed) + simpson(m, b, fm, right, fb, allowed)

    ends = rule(low), rule((low + high) / 2.0), rule(high)
    return simpson(low, high, *ends, _TOLERANCE * (ends[0] * low + ends[1] * (high - low)))
