"""Check the public constants: each within what makes sense, and all of them together.

Formulas are exact for every fraction, but a constant that no honest market has is a forger's, or a mistake.
The table says what is accepted; dpmarket certifies nothing outside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from .layout import GAUSSIAN_ENCODED, SHAPED, Body, Release, Totals
from .losses import release_up
from .money import is_currency
from .numbers_released import StatisticRelease, wrong_parts
from .shapes import misshapen
from .verdicts import HOLDS, NOT_MADE, Check, judged

RANGES = {
    "l2": (1e-15, 1e9),
    "noise_rate": (1e-9, 1e12),
    "row_bound": (1.0, 1e6),
    "rows_per_person": (1, 10**6),
    "weight_total": (1e-9, 1e3),
    "gradient_bound": (1e-100, 1.0),
    "noise_accuracy": (1e-100, 1.0),
    "numerical_epsilon": (1e-100, 10.0),
    "intercept_scaling": (0.0, 1e6),
    "stretch": (1e-9, 1e9),
    "grid": (2.0**-300, 2.0**100),
    "n_coefficients": (1, 10**6),
}
LARGEST_CELL = 2**63
LARGEST_UNITS = 2**53
LARGEST_MARKET = 10**10
MOST_QUOTES = 10**6
MOST_CLASSES = 10**4
LARGEST_NUMBER = 1e15
"""No promise, payment, spent epsilon or total is larger."""


def public_checks(body: Body) -> list[Check]:
    """Return what can be said of a certificate's public numbers by themselves."""
    release, totals, units = body.release, body.totals, body.minor_units
    wrong = _out_of_range(release, totals)
    if not (units is None or 1 <= units <= LARGEST_UNITS):
        wrong.append("minor_units")
    if not is_currency(body.currency):
        wrong.append("currency")
    if not _counted(totals):
        wrong.append("totals")
    if release.delta > 0.0 and not _is_priced(body):
        wrong.append("delta")
    checks = [
        judged(
            "public numbers",
            not wrong,
            f"within their ranges, and consistent{with_delta(release.delta)}",
            f"of a wrong kind, out of range, or not fitting together: {', '.join(wrong)}",
        )
    ]
    if wrong:
        return checks
    cost = release_up(release)
    charged = 0.0 if isinstance(release, StatisticRelease) else release.numerical_epsilon
    covered = cost is not None and cost <= Fraction(charged)
    sums = (totals.promise, totals.payment, totals.spent)
    kept = all(0.0 <= total <= LARGEST_NUMBER for total in sums) and totals.spent <= totals.promise
    shown = "" if cost is None else f"{float(cost):.4g}"
    return [
        *checks,
        judged("release", covered, f"costs {shown}, as charged", "costs more than charged"),
        judged("total spent", kept, "at most the total promised", "more than promised, or not a number"),
        *_row_lengths(release),
    ]


def delta_check(body: Body) -> list[Check]:
    """Return what can be said of a delta by whoever cannot count the lines that were bought from.

    The root covers the number of sellers, but that so few of them were bought from is the buyer's word.
    """
    delta, totals = body.release.delta, body.totals
    if delta == 0.0:
        return []
    if delta <= 1.0 / (10 * totals.sellers):
        return [Check("delta", HOLDS, "at most a tenth of a person, however many of the sellers sold")]
    told = (
        f"a tenth of a person at most if {totals.bought_from} sold, as stated: only the openings count them"
    )
    return [Check("delta", NOT_MADE, told)]


def _row_lengths(release: Release | StatisticRelease) -> list[Check]:
    """Say that a bound which nothing declared implies was not checked."""
    if isinstance(release, StatisticRelease) or release.kind != SHAPED or release.encoder is not None:
        return []
    told = "that no row is longer than the Euclidean bound is the buyer's word: no encoder is stated"
    return [Check("row lengths", NOT_MADE, told)]


def with_delta(delta: float) -> str:
    """Return what must stand wherever epsilons do: the delta that each of them comes with."""
    if not delta > 0.0:
        return ""
    return f"; each epsilon comes with a delta of {delta!r}"


def priced_delta(market: Any) -> float | None:
    """Return the delta at which a market has people price an epsilon; None where it states none.

    One that is no number counts as 0, which no release with a delta keeps.
    """
    if not isinstance(market, dict) or "delta" not in market:
        return None
    stated = market["delta"]
    return stated if type(stated) is float else 0.0


def has_quadratic_costs(market: Any) -> bool:
    """Whether a reported cost multiplies the square of epsilon: by the market's table of epsilon costs."""
    table = market.get("epsilon_cost") if isinstance(market, dict) else None
    return isinstance(table, dict) and table.get("shape") == "quadratic"


def _is_priced(body: Body) -> bool:
    stated = priced_delta(body.market)
    return stated is None or body.release.delta <= stated


def _out_of_range(release: Release | StatisticRelease, totals: Totals) -> list[str]:
    if isinstance(release, StatisticRelease):
        return wrong_parts(release, totals.promise)
    ranges = ranges_of(release.kind)
    return [
        name for name, (low, high) in ranges.items() if not low <= getattr(release, name) <= high
    ] + _inconsistent(release, totals)


def ranges_of(kind: str) -> dict[str, tuple[float, float]]:
    """Return what is accepted of a kind of release: encoded rows are shorter in the Euclidean norm."""
    return {**RANGES, "row_bound": (1e-3, 1e6)} if kind == GAUSSIAN_ENCODED else dict(RANGES)


def _counted(totals: Totals) -> bool:
    counts = (totals.bought_from, totals.withdrawn)
    return 1 <= totals.sellers <= LARGEST_MARKET and min(counts) >= 0 and sum(counts) <= totals.sellers


def _inconsistent(release: Release, totals: Totals) -> list[str]:
    constant = Fraction(release.intercept_scaling) if release.fit_intercept else Fraction(0)
    wrong = misshapen(release, constant)
    if not _whole_grid(release):
        wrong.append("coef_grid")
    if math.frexp(release.grid)[0] != 0.5:
        wrong.append("grid")
    if not _different(release.classes, many=release.has_many_classes):
        wrong.append("classes")
    # A tenth of a person at most, as a float, so that who asks for just that is not refused by rounding;
    # noise of other kinds needs none.
    most = 1.0 / (10 * max(totals.bought_from, 1))
    if not (0.0 < release.delta <= most if release.is_gaussian else release.delta == 0.0):
        wrong.append("delta")
    if not _bounded(release.features, release.n_coefficients - release.fit_intercept):
        wrong.append("features")
    return wrong


def _whole_grid(release: Release) -> bool:
    """Whether there is a whole number for every coefficient, of every class if there are many."""
    rows = release.coef_grid if release.has_many_classes else [release.coef_grid]
    if release.has_many_classes and len(rows) != len(release.classes):
        return False
    return all(
        type(row) is list
        and len(row) == release.n_coefficients
        and all(type(cell) is int and abs(cell) <= LARGEST_CELL for cell in row)
        for row in rows
    )


def _different(classes: Sequence[Any], *, many: bool) -> bool:
    plain = all(isinstance(label, str | int | float) for label in classes)
    counted = 2 < len(classes) <= MOST_CLASSES if many else len(classes) == 2
    return plain and counted and len(set(classes)) == len(classes)


def _bounded(features: Any, count: int) -> bool:
    """Whether there are so many features, all with different names and with bounds."""
    names, low, high = features["name"], features["low"], features["high"]
    return (
        len(names) == len(low) == len(high) == count
        and all(type(name) is str for name in names)
        and len(set(names)) == count
        and all(type(a) is float and type(b) is float and a < b for a, b in zip(low, high, strict=True))
    )
