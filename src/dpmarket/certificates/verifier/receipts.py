"""Check one seller's receipt: the line is in the certificate, its promise was kept and is paid for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .commitments import climbs, leaf_of
from .constants import has_quadratic_costs, with_delta
from .gaussian import gaussian_covers
from .layout import Body, Release, receipt_of
from .losses import loss_up, release_up
from .menus import Menu
from .money import amount_text
from .reading import MOST_RECEIPT, only_line, parsed
from .verdicts import FAILS, NOT_MADE, Check, judged


def receipt_checks(
    body: Body, digest: str, data: bytes, cost: float | None, menu: Menu | None
) -> list[Check]:
    """Return every check of a receipt; with the holder's own cost, that the payment is worth it."""
    receipt = receipt_of(parsed(only_line(data), "the receipt", MOST_RECEIPT))
    line = receipt["line"]
    inside = climbs(body, leaf_of(line, receipt["salt"]), receipt["position"], receipt["path"])
    paid = amount_text(line["payment"], body.minor_units, body.currency)
    mine = (
        f"is in the certificate: id {line['id']!r}, promise {line['promise']!r}, payment {paid}"
        + (f", {line['quotes']} quotes together" if line["quotes"] > 1 else "")
        + (", withdrawn: nothing of it is owed" if line["withdrew"] else "")
    )
    covered = is_covered(line["weight"], line["spent"], body)
    told = {"currency": body.currency, "minor_units": body.minor_units}
    same = receipt["money"] == told and receipt["not_promised"] == body.not_promised
    checks = [
        judged(
            "receipt's digest", receipt["certificate"] == digest, "this certificate", "another certificate"
        ),
        judged("receipt's line", inside, mine, "is not in the certificate"),
        judged("receipt's numbers", _fits(line, body), "fit into the totals", "are more than the totals"),
        judged("receipt's spent epsilon", covered, "covers the weight used", "is less than the weight costs"),
        judged("receipt's promise", _kept(line), f"was kept{with_delta(body.release.delta)}", "was exceeded"),
        judged("receipt's words", same, "about money and limits are the certificate's", "are others"),
    ]
    if body.minor_units is not None:
        whole = float(line["payment"]).is_integer()
        checks.append(
            judged("receipt's payment", whole, "in whole units of money", "is no whole number of units")
        )
    if body.menu is not None:
        offer = line["promise"], line["payment"], line["quotes"]
        offered = menu is not None and menu.has(*offer, body.minor_units)
        checks.append(
            judged("receipt's offer", offered, "is on the public menu", "is not what the menu offers")
        )
    return [*checks, _participation(line, body, cost)]


def is_covered(weight: float, spent: float, body: Body) -> bool:
    """Whether a spent epsilon covers a weight and, if it is above 0, the release: by exact comparison."""
    release = release_up(body.release) if weight > 0.0 else Fraction(0)
    told = body.release
    if weight > 0.0 and release is not None and isinstance(told, Release) and told.is_gaussian:
        return gaussian_covers(weight, Fraction(spent) - release, release, told)
    return release is not None and loss_up(weight, body.release) + release <= Fraction(spent)


def is_worth_it(line: Mapping[str, Any], cost: float, body: Body) -> bool:
    """Whether a payment is at least cost times epsilon, or its square: by exact comparison."""
    loss = Fraction(line["promise"]) ** (2 if has_quadratic_costs(body.market) else 1)
    return Fraction(line["payment"]) / (body.minor_units or 1) >= Fraction(cost) * loss


def _fits(line: Mapping[str, Any], body: Body) -> bool:
    totals = body.totals
    if line["quotes"] > 1 and body.menu is None:
        return False
    if line["withdrew"]:
        return totals.withdrawn >= 1
    return bool(
        line["promise"] <= totals.promise
        and line["payment"] <= totals.payment
        and line["spent"] <= totals.spent
        and line["weight"] <= body.release.weight_total
    )


def _kept(line: Mapping[str, Any]) -> bool:
    if line["withdrew"]:
        return bool(line["spent"] == line["weight"] == 0.0)
    return bool(line["spent"] <= line["promise"])


def _participation(line: Mapping[str, Any], body: Body, cost: float | None) -> Check:
    name = "participation"
    if line["withdrew"]:
        return Check(name, NOT_MADE, "this line says that you withdrew: nothing was used, nothing is owed")
    if cost is None:
        return Check(name, NOT_MADE, "enter your own cost to check it")
    if not 0.0 <= cost < math.inf:
        return Check(name, FAILS, "the cost given is none: expected a number of at least 0")
    worth = is_worth_it(line, cost, body)
    return judged(name, worth, "the payment covers the loss", "the payment is too small")
