"""Check a certificate's public numbers: release, totals, money, and the market's tables."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .layout import is_whole
from .market import LARGEST, market_problems
from .model import row_length_check
from .money import is_currency
from .reading import is_hash, number_text
from .release import FAMILIES
from .verdicts import FAILS, HOLDS, SKIPPED, Check, judged

_LARGEST_MARKET = 10**10


def public_checks(body: Mapping[str, Any]) -> list[Check]:
    """Return what can be said of a certificate's public part; lines are checked if the first two hold."""
    release = FAMILIES[body["release"]["family"]](body["release"])
    wrong = [*release.problems(), *_problems(body)]
    unsound = market_problems(body, release.delta) if "money" not in wrong else ["money"]
    checks = [
        judged("public numbers", not wrong, "within their ranges, and consistent",
               f"out of range, or not fitting together: {', '.join(wrong)}"),
        judged("market tables", not unsound, f"sound; the mechanism is {body['market']['mechanism']}",
               f"missing or not sound: {', '.join(unsound)}"),
    ]  # fmt: skip
    if wrong or unsound:
        return checks
    cost, charged = release.cost()
    covered = cost is not None and cost <= Fraction(charged)
    shown = "nothing" if cost is None else f"{float(cost):.4g}"
    totals = body["totals"]
    within = totals["total_used"] <= totals["total_epsilon"]
    return [
        *checks,
        judged("release", covered, f"rounding costs {shown}, as charged", "rounding costs more than charged"),
        judged("total used", within, "at most the total epsilon", "more than the total epsilon"),
        *_delta_check(release.delta, totals),
        *row_length_check(body["release"]),
    ]


def _problems(body: Mapping[str, Any]) -> list[str]:
    totals, units = body["totals"], body["money"]["minor_units"]
    counts = [totals[name] for name in ("bought_from", "withdrawn")]
    sums = [totals[name] for name in ("total_epsilon", "total_payment", "total_used")]
    counted = all(is_whole(count, 0, _LARGEST_MARKET) for count in counts)
    tests = {
        "money": is_whole(units, 1, 2**53) and is_currency(body["money"]["currency"]),
        "sellers": is_whole(totals["sellers"], 1, _LARGEST_MARKET),
        "totals": counted and sum(counts) <= totals["sellers"] and all(0.0 <= one <= LARGEST for one in sums),
        "bought_from": (totals["bought_from"] == 0.0) == (totals["total_epsilon"] == 0.0),
        "root": is_hash(body["root"]),
    }
    return [name for name, good in tests.items() if not good]


def _delta_check(delta: float, totals: Mapping[str, Any]) -> list[Check]:
    """Check that a delta fails a tenth of a person at most.

    The root covers the number of sellers; how many of them were bought from only the openings show.
    """
    if delta == 0.0:
        return []
    shown = number_text(delta)
    if delta > 1.0 / (10.0 * max(totals["bought_from"], 1.0)):
        return [Check("delta", FAILS, f"{shown} is too large for {int(totals['bought_from'])} people")]
    if delta <= 1.0 / (10.0 * totals["sellers"]):
        return [
            Check("delta", HOLDS, f"{shown}, at most a tenth of a person, however many of the sellers sold")
        ]
    few = f"a tenth of a person if {int(totals['bought_from'])} sold, as stated"
    told = f"{shown}, {few}: only the openings count them"
    return [Check("delta", SKIPPED, told)]
