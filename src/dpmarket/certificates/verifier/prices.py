"""Check that a menu shows the prices that the market's own parameters fix: a curve, or one price for all.

Sellers compare their receipts with the menu. What a menu is worth to them is this comparison: without it a
buyer could state one curve for who audits, and show sellers another.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from .costs import virtual_costs
from .curves import Curve
from .layout import Body
from .menus import is_fine, menu_of

_MATCH = 1e-6
_ROOM = Fraction(1, 100)
"""What share of a payment may be left open between two points, where costs are regular."""


def shows_prices(body: Body) -> bool | None:
    """Whether a certificate's menu shows its market's prices; None where these are not known here."""
    if body.menu is None:
        return None
    menu = menu_of(body)
    if menu is None:
        return False
    columns = [np.array(body.menu[name], dtype=np.float64) for name in ("cost", "epsilon", "payment")]
    if body.mechanism == "online":
        shown = _shows_curve(body.market["curve"], *columns)
        return shown and is_fine(menu, _ROOM)
    if body.mechanism == "posted price":
        return _shows_one(float(body.market["price"]), float(body.market["epsilon"]), *columns)
    if body.mechanism == "same for all":
        top = _top(body.market["distribution"])
        return None if top is None else _shows_one(top, float(body.market["epsilon"]), *columns)
    return None


def _shows_curve(data: Mapping[str, Any], costs: Any, epsilons: Any, payments: Any) -> bool | None:
    psi = virtual_costs(data["distribution"])
    if psi is None:
        return None
    curve = Curve(data, psi)
    near = np.allclose(
        curve.epsilons(costs[1:]), epsilons[1:], rtol=_MATCH, atol=_MATCH * float(epsilons[-1])
    )
    paid = np.allclose(
        curve.payments(costs[1:]), payments[1:], rtol=_MATCH, atol=_MATCH * float(payments[-1])
    )
    whole = curve.largest <= float(epsilons[-1]) * (1.0 + _MATCH)
    return bool(near and paid and whole)


def _shows_one(price: float, epsilon: float, costs: Any, epsilons: Any, payments: Any) -> bool:
    """Whether a menu offers nothing, or this epsilon at this price."""
    told = ([price, price], [0.0, epsilon], [0.0, price * epsilon])
    return all(
        column.size == 2 and np.allclose(column, right, rtol=1e-12, atol=0.0)
        for column, right in zip((costs, epsilons, payments), told, strict=True)
    )


def _top(distribution: Mapping[str, Any]) -> float | None:
    """Return the highest cost of a distribution, if it says so plainly."""
    if distribution["kind"] == "piecewise linear":
        return float(distribution["knots"][-1])
    top = distribution.get("high") if distribution["kind"] in ("uniform", "scipy") else None
    return None if top is None else float(top)
