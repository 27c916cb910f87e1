"""Check that a menu shows the prices of the market's own description: its price schedule.

Sellers compare their receipts with the menu. Without this comparison a buyer could state one schedule for an
auditor and show sellers another.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .layout import Body
from .menus import is_fine, menu_of

_MATCH = 1e-6
_ROOM = Fraction(1, 100)
"""What share of a payment may be left open between two points."""


def shows_prices(body: Body) -> bool | None:
    """Whether a certificate's menu shows its market's schedule; None where it has no menu or schedule."""
    if body.menu is None or "schedule" not in body.market:
        return None
    menu = menu_of(body)
    if menu is None:
        return False
    told = body.market["schedule"]
    knots, epsilons, amounts = (
        np.array(told[name], dtype=np.float64) for name in ("costs", "epsilons", "amounts")
    )
    if not (np.diff(knots) > 0.0).all() or not (np.diff(epsilons) <= 0.0).all():
        return False
    # Myerson payments: the cost of what is sold, and what all higher costs are offered.
    areas = 0.5 * (amounts[1:] + amounts[:-1]) * np.diff(knots)
    rents = np.append(np.cumsum(areas[::-1])[::-1], 0.0)
    costs, offered, paid = (np.array(body.menu[name][1:]) for name in ("cost", "epsilon", "payment"))
    above = np.clip(np.searchsorted(knots, costs), 1, knots.size - 1)
    sold = np.interp(costs, knots, amounts)
    due = costs * sold + rents[above] + 0.5 * (sold + amounts[above]) * (knots[above] - costs)
    same = np.allclose(np.interp(costs, knots, epsilons), offered, rtol=_MATCH, atol=_MATCH * offered[-1])
    whole = epsilons[0] <= offered[-1] * (1.0 + _MATCH) and costs[0] <= knots[-1] * (1.0 + _MATCH)
    return bool(same and whole and np.allclose(due, paid, rtol=_MATCH, atol=0.0)) and is_fine(menu, _ROOM)
