r"""Check promises and payments against disclosed reports, with code of its own: numpy and mpmath.

An auditor to whom the buyer discloses the reported costs can check three more things: that everybody's
payment covers cost times epsilon; that the promises minimise the buyer's objective, or lie on the public
curve; and that payments follow from the payment identity :math:`t_i = c_i \epsilon_i(c_i) + \int_{c_i}^{top}
\epsilon_i(z) dz`. The last is recomputed for as many sellers as a minute allows, drawn at random by the
verifier itself after it has read the files, so that nobody can know whose payments will be looked at. What is
not known here (other mechanisms, irregular costs) is said not to have been checked.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from secrets import SystemRandom
from typing import Any

import numpy as np

from .allocation import Problem
from .certificate import examined
from .costs import virtual_costs
from .curves import Curve
from .layout import Body, Lines
from .prices import shows_prices
from .quadrature import integrals
from .receipts import is_worth_it
from .rules import MENU
from .verdicts import FAILS, NOT_MADE, Check, Verification, judged

_SECONDS = 50.0
_TOLERANCE = 2e-6
_MATCH = 1e-6
_BATCH = 200
_MISSED = 1e-6

Due = Callable[[Any], Any]
"""What sellers at the given places must be paid, in money."""


def verify_payments(
    certificate: Any, openings: bytes, reports: Mapping[Any, float], payments_checked: int | None = None
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
        How many sellers' payments to recompute, drawn at random among those bought from; None: all of them,
        or as many as take less than a minute. Whether payments cover costs is checked for everybody.

    Returns
    -------
    Verification
        The checks of :func:`~dpmarket.certificates.verifier.certificate.verify`, and three more.

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
    >>> found = verify_payments(certificate, certificate.openings(), reports)
    >>> [(check.name, check.verdict) for check in found.checks[-3:]]
    [('participation', 'holds'), ('allocation', 'holds'), ('payments', 'holds')]
    """
    if isinstance(certificate, str | os.PathLike):
        with open(certificate, "rb") as file:
            certificate = file.read()
    result, body, lines = examined(certificate, openings=openings)
    if not result.passed or body is None or lines is None:
        return result
    return Verification((*result.checks, *payment_checks(body, lines, reports, payments_checked)))


def payment_checks(
    body: Body, lines: Lines, reports: Mapping[Any, float], payments_checked: int | None
) -> list[Check]:
    """Return these checks alone, for a certificate and openings that have passed all others."""
    if any(name not in reports for name in lines.ids):
        return [Check("payments", FAILS, "some sellers of the certificate have no report")]
    costs = np.array([float(reports[name]) for name in lines.ids])
    if not bool(((costs >= 0.0) & (costs < math.inf)).all()):
        return [Check("payments", FAILS, "some reports are no costs")]
    strangers = len(reports) - len(lines.ids)
    quoted = math.fsum(lines.payments) / (body.minor_units or 1)
    checks = []
    several = [k for k, quotes in enumerate(lines.quotes) if quotes > 1]
    if several:
        # Who sold several times reported several times, and one report says nothing about the sum.
        lines, costs = _without(lines, several), np.delete(costs, several)
        detail = f"{len(several)} sellers sold several times, and are compared with the menu only"
        checks.append(Check("several quotes", NOT_MADE, detail))
    checks.append(_participation(body, lines, costs))
    try:
        checks += _menu_checks(body)
        if body.mechanism == "offline":
            return [*checks, *_offline(body, lines, costs, strangers, payments_checked)]
        if body.mechanism == "online":
            return [*checks, *_online(body, lines, costs, quoted, payments_checked)]
        if body.mechanism in ("posted price", "same for all") and body.menu is not None:
            return [*checks, _posted(body, lines, costs)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        return [*checks, Check("payments", FAILS, f"cannot be recomputed ({type(problem).__name__})")]
    return [*checks, Check("payments", NOT_MADE, f"not known for the mechanism {body.mechanism!r}")]


def _menu_checks(body: Body) -> list[Check]:
    """Compare the menu with the market's prices: lines of several quotes are compared with it alone."""
    shown = shows_prices(body)
    if body.menu is None or shown is None:
        return [] if body.menu is None else [Check(MENU, NOT_MADE, "this market's costs are not known here")]
    return [judged(MENU, shown, "those of the market", "not those of the market")]


def _without(lines: Lines, places: list[int]) -> Lines:
    gone = set(places)
    names = [field.name for field in fields(lines)]
    columns = ([value for k, value in enumerate(getattr(lines, name)) if k not in gone] for name in names)
    return Lines(*columns)


def chance_of_missing(wrong: int, drawn: int, among: int) -> float:
    """Return the probability that none of so many wrong lines is among the drawn ones."""
    if wrong + drawn > among:
        return 0.0
    logs = (math.log1p(-drawn / (among - k)) for k in range(wrong))
    return math.exp(math.fsum(logs))


def _participation(body: Body, lines: Lines, costs: Any) -> Check:
    """Compare every payment with cost times epsilon: floats where they are clear, fractions where not."""
    promises, payments = np.array(lines.promises), np.array(lines.payments)
    worth, paid = costs * promises, payments / (body.minor_units or 1)
    unclear = np.flatnonzero(~(paid * (1.0 - 1e-12) >= worth)).tolist()
    losing = sum(
        not is_worth_it(lines.promises[k], lines.payments[k], float(costs[k]), body.minor_units)
        for k in unclear
    )
    return judged(
        "participation",
        losing == 0,
        f"all {len(lines.ids):,} payments cover cost times epsilon",
        f"{losing} payments do not cover cost times epsilon",
    )


def _offline(
    body: Body, lines: Lines, costs: Any, strangers: int, payments_checked: int | None
) -> list[Check]:
    psi = virtual_costs(body.market["distribution"])
    objective = body.market["objective"]
    if psi is None or not objective["concentration"] > 0.0:
        return [Check("payments", NOT_MADE, "this market's costs or objective are not known here")]
    if strangers:
        return [Check("allocation", FAILS, f"{strangers} reports are of nobody in the certificate")]
    inside = np.maximum(costs, psi.low)
    virtual = psi(costs)
    problem = Problem(virtual, objective)
    promised = np.array(lines.promises)
    best = min(problem.promises(), key=lambda solution: int(_away(promised, solution).sum()))
    allocation = _allocation(problem, promised, best)

    def due(places: Any) -> Any:
        """Return cost times epsilon and the integral: by the minimal value where psi is a straight line."""
        own, paid = virtual[places], inside[places] * best[places]
        if psi.is_affine:
            # The minimal value's slope in psi_i is gamma eps_i, and psi has the slope 2.
            base = problem.moved(own[:1], own[:1]).value[0]
            top = problem.moved(own, np.full(own.size, float(psi(psi.high)))).value
            return paid + (top - base) / (2.0 * problem.gamma)

        def epsilons(which: Any, z: Any) -> Any:
            return problem.moved(own[which], psi(z)).epsilon

        return paid + integrals(epsilons, inside[places], psi.high, _TOLERANCE / 4.0)

    return [allocation, _payments(body, lines, promised, best > 0.0, due, payments_checked)]


def _away(promised: Any, solution: Any) -> Any:
    """Return which promises are not those of a solution."""
    return np.abs(promised - solution) > _MATCH * solution + 1e-3 * _MATCH * solution.max()


def _allocation(problem: Problem, promised: Any, best: Any) -> Check:
    """Check that promises keep the buyer's limits, and then that each is the best for the buyer."""
    total = float(promised.sum())
    if not total > 0.0:
        return Check("allocation", FAILS, "nothing was promised, which is not the best for the buyer")
    if promised.max() > problem.cap * total * (1.0 + 1e-9):
        return Check("allocation", FAILS, "somebody has more weight than weight_cap allows")
    if total > problem.most * (1.0 + 1e-9):
        return Check("allocation", FAILS, "more was promised than max_mean_epsilon allows")
    away = int(_away(promised, best).sum())
    return judged(
        "allocation",
        away == 0,
        "every promise minimises the buyer's objective, within its limits",
        f"{away} promises are not the best for the buyer",
    )


def _online(body: Body, lines: Lines, costs: Any, quoted: float, payments_checked: int | None) -> list[Check]:
    psi = virtual_costs(body.market["curve"]["distribution"])
    if psi is None:
        return [Check("payments", NOT_MADE, "this market's costs are not known here")]
    curve = Curve(body.market["curve"], psi)
    promised, payments = np.array(lines.promises), np.array(lines.payments)
    expected = curve.epsilons(costs)
    away = np.abs(promised - expected) > _MATCH * expected + 1e-3 * _MATCH * curve.largest
    nothing = away & (promised == 0.0) & (payments == 0.0)
    # Who declined is named as one who withdrew.
    declined = nothing & np.array(lines.withdrew)
    refused = nothing & ~declined
    quoted += float(curve.payments(costs[declined]).sum())
    used_up = _is_used_up(body, quoted, float(curve.payments(np.array([psi.low]))[0]))
    wrong = int((away & ~nothing).sum()) + (0 if used_up else int(refused.sum()))
    late = int(refused.sum())
    allocation = judged(
        "allocation",
        wrong == 0,
        "every promise lies on the public curve"
        + (f"; {late} were offered nothing when the stated budget was used up" if late else ""),
        f"{wrong} promises are not on the curve"
        + ("" if used_up or not late else f", {late} of them nothing while the budget had room"),
    )

    def due(places: Any) -> Any:
        return curve.payments(costs[places])

    checked = (expected > 0.0) & ~nothing
    return [allocation, _payments(body, lines, promised, checked, due, payments_checked)]


def _is_used_up(body: Body, quoted: float, largest: float) -> bool:
    """Whether so little of a stated budget is left that the next seller is offered nothing.

    That is so once what is left is below the largest payment there is. Whoever withdrew had money set aside.
    """
    budget = body.market.get("budget")
    if budget is None:
        return False
    unit = 1.0 / body.minor_units if body.minor_units else 0.0
    return bool(quoted + largest + unit > float(budget) * (1.0 - 1e-9))


def _posted(body: Body, lines: Lines, costs: Any) -> Check:
    """Check that everybody who would sell at the one price was offered it."""
    assert body.menu is not None
    price, epsilon = body.menu["cost"][-1], body.menu["epsilon"][-1]
    wrong = int((np.array(lines.promises) != np.where(costs <= price, epsilon, 0.0)).sum())
    return judged(
        "allocation",
        wrong == 0,
        "everybody whose cost is at most the price was offered it",
        f"{wrong} were offered something although their cost is above the price, or the other way round",
    )


def _payments(
    body: Body, lines: Lines, promised: Any, checked: Any, due: Due, payments_checked: int | None
) -> Check:
    """Recompute payments in a random order until all, enough, or a minute's worth of them are done."""
    unit = body.minor_units
    paid = np.array(lines.payments) / (unit or 1)
    rounding = 1.0 / unit if unit else 0.0
    for_nothing = int(((promised == 0.0) & (paid > 0.0)).sum())
    order = np.flatnonzero(checked)
    among = order.size
    order = np.array(SystemRandom().sample(order.tolist(), among), dtype=np.int64)
    if payments_checked is not None:
        order = order[: max(payments_checked, 1)]
    started, drawn, wrong = time.monotonic(), 0, 0
    while drawn < order.size and (drawn == 0 or time.monotonic() - started < _SECONDS):
        places = order[drawn : drawn + _BATCH]
        right, given = due(places), paid[places]
        good = (given >= right * (1.0 - _TOLERANCE)) & (given <= right * (1.0 + _TOLERANCE) + rounding)
        wrong += int((~good).sum())
        drawn += places.size
    how = f"all {among:,}" if drawn == among else f"{drawn:,} of {among:,}, drawn at random,"
    return judged(
        "payments",
        wrong + for_nothing == 0,
        f"{how} recomputed from the reports agree, and nothing is paid for nothing{_power(drawn, among)}",
        f"{wrong} of {drawn:,} recomputed differ, {for_nothing} are paid for no promise",
    )


def _power(drawn: int, among: int) -> str:
    """Say how many wrong payments a sample would have found, but for one chance in a million."""
    if drawn >= among:
        return ""
    low, high = 1, among
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if chance_of_missing(middle, drawn, among) <= _MISSED else (middle + 1, high)
        )
    return f"; {low:,} wrong ones would be missed with probability {chance_of_missing(low, drawn, among):.0e}"
