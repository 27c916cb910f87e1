"""What a delta asks of a campaign: keys that it excludes or needs, and how many people it allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmarket.errors import LedgerRefusal

if TYPE_CHECKING:
    from dpmarket.campaign.market_file import Market


def delta_problems(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Find what contradicts a delta in a market file, or what it lacks beside it; ill-typed keys are skipped.

    Returns
    -------
    list of (str, str)
        The path of a key, and the sentence for it.
    """
    objective, sellers = (_table(data, name) for name in ("objective", "sellers"))
    found = []
    if "lifetime_delta" in sellers and "lifetime_epsilon" not in sellers:
        line = "sellers.lifetime_delta: expected sellers.lifetime_epsilon beside it, found none."
        found.append(("sellers.lifetime_delta", line))
    delta = objective.get("delta")
    if not isinstance(delta, int | float) or isinstance(delta, bool) or not 0.0 < delta < 1.0:
        return found
    if data.get("statistic") or data.get("statistics"):
        line = "objective.delta: expected none with statistics, whose noise needs no delta."
        found.append(("objective.delta", line))
    expected = sellers.get("expected")
    if "expected" not in sellers:
        line = "sellers.expected: missing; expected a whole number >= 1, because objective.delta is set."
        found.append(("sellers.expected", line))
    elif isinstance(expected, int) and expected >= 1 and delta > 1.0 / (10.0 * expected):
        found.append(
            (
                "objective.delta",
                f"objective.delta: expected at most 1 / (10 * sellers.expected) = {0.1 / expected:.3g}, got "
                f"{delta!r}: publishing the records of a few people at random would keep such promises.",
            )
        )
    if "lifetime_epsilon" in sellers:
        limit = sellers.get("lifetime_delta")
        if limit is None:
            line = (
                "sellers.lifetime_delta: missing; expected a number >= objective.delta, because "
                "sellers.lifetime_epsilon is set: over a lifetime epsilons and deltas add up, each by itself."
            )
            found.append(("sellers.lifetime_delta", line))
        elif isinstance(limit, int | float) and limit < delta:
            line = f"sellers.lifetime_delta: expected at least objective.delta = {delta!r}, got {limit!r}."
            found.append(("sellers.lifetime_delta", line))
    return found


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def delta_of(market: Market) -> float:
    """Return the delta of a campaign's guarantees, 0 without one."""
    return market.objective.delta or 0.0


def most_people(delta: float) -> int:
    """Return how many people may have guarantees with a delta together: a tenth of one may fail."""
    most = max(math.floor(0.1 / delta) - 1, 0)
    while 1.0 / (10.0 * (most + 1)) >= delta:
        most += 1
    return most


def refuse_too_many(market: Market, people: int) -> None:
    """Refuse more people than a campaign's delta allows.

    Raises
    ------
    LedgerRefusal
        Says how many it allows, and why.
    """
    delta = delta_of(market)
    if delta and people > most_people(delta):
        raise LedgerRefusal(
            f"objective.delta = {delta:g} allows promises to at most {most_people(delta):,} people, a tenth "
            f"of one of whom may fail, and these would be {people:,}: publishing the records of a few people "
            "drawn at random would keep such promises. Nothing was promised."
        )
