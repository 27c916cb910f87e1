"""Check the buyer's openings: every line, and that all totals follow from the lines."""

from __future__ import annotations

import math
from fractions import Fraction
from secrets import SystemRandom
from typing import Any

import numpy as np

from .commitments import hashed_line, state_of
from .constants import LARGEST_NUMBER, MOST_QUOTES
from .gaussian import gaussian_short
from .layout import Body, Lines, Release, Totals, lines_of
from .losses import losses, release_up
from .menus import Menu
from .numbers_released import StatisticRelease, adds_up
from .reading import hash_of, most_openings, only_line, parsed
from .receipts import is_covered
from .verdicts import Broken, Check, judged

_EXACT = 2_000
"""How many lines' spent epsilons are compared by exact arithmetic; of more lines, so many drawn at random."""


def read_openings(body: Body, data: bytes) -> tuple[Lines, str]:
    """Return the lines of the openings, and the digest of the certificate that they name."""
    most = most_openings(body.totals.sellers)
    found = parsed(only_line(data), "what opens the certificate", most)
    lines = lines_of(found)
    numbers = np.array([lines.promises, lines.payments, lines.spent, lines.weights])
    if not bool(((numbers >= 0.0) & (numbers <= LARGEST_NUMBER)).all()):
        raise Broken("a line's numbers must be at least 0, and not beyond all bounds")
    if not 1 <= min(lines.quotes) <= max(lines.quotes) <= MOST_QUOTES:
        raise Broken("a line adds up at least one quote, and not beyond all bounds")
    return lines, found["certificate"]


def openings_checks(
    body: Body, digest: str, leaves: bytes | None, lines: Lines, named: str, menu: Menu | None
) -> list[Check]:
    """Return every check that needs all lines and no report."""
    rows = zip(
        lines.salts,
        zip(lines.promises, lines.payments, lines.spent, lines.weights, strict=True),
        map(state_of, lines.withdrew, lines.quotes),
        lines.ids,
        strict=True,
    )
    hashes = sorted(hashed_line(hash_of(salt), *row) for salt, *row in rows)
    promises, spent, weights = (np.array(x) for x in (lines.promises, lines.spent, lines.weights))
    gone = np.array(lines.withdrew)
    kept = bool((np.where(gone, (spent == 0.0) & (weights == 0.0), spent <= promises)).all())
    names = {(type(name), name) for name in lines.ids}
    few, detail = _covered(spent, weights, body)
    checks = [
        judged("openings' digest", named == digest, "this certificate", "another certificate"),
        judged(
            "openings", b"".join(hashes) == leaves, "open every commitment", "do not open the commitments"
        ),
        judged("ids", len(names) == len(lines.ids), "all different", "some are repeated"),
        judged(
            "salts",
            len(set(lines.salts)) == len(lines.salts),
            "all different",
            "some are repeated: who knows one can try out another's line",
        ),
        judged("spent epsilons", few == 0, detail, f"{few} are less than the weight costs"),
        judged("promises", kept, "all kept", "some exceeded"),
        judged(
            "weights",
            math.fsum(lines.weights) <= body.release.weight_total,
            "add up",
            "add up to more than stated",
        ),
        judged("totals", _follow(lines, body), "follow from the lines", "do not follow from the lines"),
    ]
    if isinstance(body.release, StatisticRelease):
        whole = adds_up(lines.weights, body.release)
        checks.append(
            judged("whole weights", whole, "are exactly what the statistics used", "are not what was used")
        )
    if body.menu is None:
        single = max(lines.quotes) == 1
        checks.append(judged("quotes", single, "one for each seller", "several for one, without a menu"))
    if body.minor_units is not None:
        whole = all(payment.is_integer() for payment in lines.payments)
        checks.append(judged("money", whole, "in whole units", "some payments are no whole number of units"))
    if body.menu is not None:
        payments = np.array(lines.payments)
        quotes = np.array(lines.quotes)
        wrong = len(names) if menu is None else menu.lacks(promises, payments, quotes, body.minor_units)
        checks.append(
            judged("offers", wrong == 0, "all on the public menu", f"{wrong} are not what the menu offers")
        )
    return checks


def _covered(spent: Any, weights: Any, body: Body) -> tuple[int, str]:
    """Return how many spent epsilons are too small, and how they were compared.

    All are compared in floats, to twelve digits; up to so many also exactly, drawn by the verifier itself.
    """
    release = release_up(body.release)
    charged = math.inf if release is None else float(release)
    told = body.release
    digits = "twelve digits"
    if isinstance(told, Release) and told.is_gaussian:
        digits = "six digits of delta"
        short = np.flatnonzero(gaussian_short(spent, weights, charged, told))
    else:
        with np.errstate(over="ignore"):
            needed = losses(weights, body.release) + np.where(weights > 0.0, charged, 0.0)
        short = np.flatnonzero(~(spent >= needed * (1.0 - 1e-12)))
    used = np.flatnonzero(weights > 0.0).tolist()
    chosen = used if len(used) <= _EXACT else SystemRandom().sample(used, _EXACT)
    exactly = {k for k in chosen if not is_covered(float(weights[k]), float(spent[k]), body)}
    detail = "each covers the weight used, exactly"
    if len(chosen) < len(used):
        detail = f"each covers the weight used to {digits}, and {len(chosen):,} drawn at random exactly"
    return len(exactly | set(short.tolist())), detail


def _follow(lines: Lines, body: Body) -> bool:
    """Whether every total is what the lines give."""
    here = [not gone for gone in lines.withdrew]
    sums = [
        [value for value, kept in zip(column, here, strict=True) if kept]
        for column in (lines.promises, lines.payments, lines.spent)
    ]
    count = len(lines.ids)
    bought = sum(value > 0.0 for value in sums[0])
    totals = Totals(count, bought, count - sum(here), *(_rounded_up(values) for values in sums))
    return totals == body.totals


def _rounded_up(values: list[float]) -> float:
    """Return the smallest number with three decimal digits that is not below the sum.

    Totals are public, and whoever knows all other lines could take them off an exact one.
    """
    total = _sum(values)
    if total == 0:
        return 0.0
    step, digits = Fraction(1), 3
    while total > step * 10**digits:
        step *= 10
    while total * 10 <= step * 10**digits:
        step /= 10
    return float(-(-total // step) * step)


def _sum(values: list[float]) -> Fraction:
    """Return the exact sum: fsum's error is a float again, found by adding the negative sum."""
    high = math.fsum(values)
    return Fraction(high) + Fraction(math.fsum([*values, -high]))
