"""Check the buyer's openings: every line, and that all totals follow from the lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from secrets import SystemRandom
from typing import Any

from .commitments import leaf_of
from .layout import VALUES, lines_of
from .lines import LINE_CHECKS, Line, Parts
from .reading import loaded, most_openings, only_line
from .verdicts import SKIPPED, Check, judged

_EXACT = 2_000
"""Of more lines, the epsilon used is compared exactly for so many drawn at random, in floats for the rest."""


def read_openings(parts: Parts, data: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the lines of the openings, and all that they have."""
    most = most_openings(int(parts.body["totals"]["sellers"]))
    found = loaded(only_line(data), "the file of openings", most)
    return lines_of(found), found


def openings_checks(
    parts: Parts, digest: str, leaves: bytes | None, lines: Sequence[Line], opened: Mapping[str, Any]
) -> list[Check]:
    """Return every check that needs all lines and no report."""
    hashes = b"".join(sorted(leaf_of(line, line["salt"]) for line in lines))
    salts = len({line["salt"] for line in lines}) == len(lines)
    return [
        judged("openings' digest", opened["certificate"] == digest, "this certificate", "another's"),
        judged("openings", hashes == leaves, "open every commitment", "do not open the commitments"),
        judged("ids", len({line["id"] for line in lines}) == len(lines), "all different", "some repeated"),
        judged("salts", salts, "all different", "some are repeated: one seller can try out another's line"),
        *(_of_lines(parts, lines, *row) for row in LINE_CHECKS),
        judged("weights", parts.release.adds_up([line["weight"] for line in lines]), "add up",
               "do not add up to what is stated"),
        judged("totals", _totals(lines, parts) == parts.body["totals"],
               "follow from the lines" + ("" if parts.release.delta else "; the epsilon used is exact"),
               "do not follow from the lines"),
        *_shares(parts, lines),
    ]  # fmt: skip


def _of_lines(parts: Parts, lines: Sequence[Line], name: str, check: Any, yes: str, no: str) -> Check:
    if name == "agreed rules" and parts.rules is None and all(line["rules"] is None for line in lines):
        return Check(f"every {name}", SKIPPED, "no rules were announced to sellers")
    if name == "epsilon used" and len(lines) > _EXACT:
        chosen = SystemRandom().sample(lines, _EXACT)
        wrong = sum(parts.release.clearly_short(line["weight"], line["used"]) for line in lines)
        wrong += sum(not check(parts, line) for line in chosen)
        yes += f" in floats, and {_EXACT:,} drawn at random exactly"
    elif name == "payment":
        quotes = {(line["epsilon"], line["payment"], line["part"], line["group"]): line for line in lines}
        wrong = sum(not check(parts, line) for line in quotes.values())
    else:
        wrong = sum(not check(parts, line) for line in lines)
    return judged(f"every {name}", wrong == 0, yes, f"{no}, of {wrong} lines")


def _totals(lines: Sequence[Line], parts: Parts) -> dict[str, float]:
    stayed = [line for line in lines if not line["withdrew"]]
    epsilon, payment, used = (_sum([line[name] for line in stayed]) for name in VALUES[:3])
    return {
        "sellers": float(len(lines)),
        "bought_from": float(sum(line["epsilon"] > 0.0 for line in stayed)),
        "withdrawn": float(len(lines) - len(stayed)),
        "total_epsilon": _rounded_up(epsilon),
        "total_payment": _rounded_up(payment),
        # The noise tells the sum of pure epsilons anyway: it is exact.
        "total_used": _rounded_up(used) if parts.body["market"]["delta"] else float(used),
    }


def _rounded_up(total: Fraction) -> float:
    """Return the smallest number with three decimal digits that is not below a total."""
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


def _shares(parts: Parts, lines: Sequence[Line]) -> list[Check]:
    """Check the bounds of a market that all reports decided together: its total, caps and quotas."""
    market = parts.market
    if market.prices:
        return []
    table, objective = market.table, market.found["objective"]
    known = table["shares"] is not None
    shares = [float(_share(line["epsilon"], table)) if known else line["epsilon"] for line in lines]
    total, sold = math.fsum(shares), sum(share > 0.0 for share in shares)
    if not total > 0.0:
        return [judged("caps and quotas", sold == 0, "nothing was bought", "are broken")]
    groups = market.found["groups"]
    present = [
        any(line["group"] == g and line["epsilon"] > 0.0 for line in lines) for g in range(len(groups))
    ]
    whole = math.fsum(group["share"] for group, there in zip(groups, present, strict=True) if there)
    mean = objective["max_mean_epsilon"]
    good = mean is None or total <= mean * len(lines) * (1.0 + 1e-9)
    for g, group in enumerate(groups):
        own = [share for share, line in zip(shares, lines, strict=True) if line["group"] == g and share > 0.0]
        if own:
            quota = group["share"] / whole
            good = good and abs(math.fsum(own) / total - quota) <= 1e-6
            cap = _weight_cap(quota, len(own), sold, objective["weight_cap"])
            good = good and max(own) / total <= cap * (1.0 + 1e-9)
    return [judged("caps and quotas", good, "are kept", "are broken")]


def _share(epsilon: float, table: Mapping[str, Any]) -> Fraction:
    from .market import interpolated

    return interpolated(epsilon, table["epsilons"], table["shares"])


def _weight_cap(quota: float, size: int, sellers: int, multiple: float | None) -> float:
    """Return the largest weight of one seller, raised where a group is small; fewer sellers raise it."""
    if multiple is None or size < 2:
        return quota
    return min(quota, max(multiple / sellers, 1.5 * quota / (size - 1)))
