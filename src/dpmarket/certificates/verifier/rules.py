"""Check that a certificate's rules are those that were published before anybody reported.

The published file is one line of canonical JSON: when it was made, the distribution of costs, the market's
rules, and the parameters that mechanisms would use, as far as the rules alone fix them. Its digest, as
``sha256sum`` tells it, stands in the certificate. When it was really published only the place of publication
can tell; that the rules did not change afterwards is checked here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .constants import priced_delta
from .layout import Body, Release, refuse_other_parts
from .numbers_released import StatisticRelease, asked_alike
from .prices import shows_prices
from .reading import MOST_BODY, only_line, parsed
from .shapes import declared_alike
from .verdicts import FAILS, HOLDS, NOT_MADE, Broken, Check, judged

_NAME = "rules fixed beforehand"
PRICES = "prices fixed beforehand"
MENU = "menu's prices"
_SHAPE = {"committed_at": str, "distribution": dict, "market": dict, "mechanisms": dict, "schema": str}


def rules_checks(body: Body, published: bytes | None) -> list[Check]:
    """Compare a certificate with the published rules, if they are given."""
    named = body.commitment
    if published is None:
        missing = "needs the rules as they were published"
        if named is None:
            missing = "no rules were published before the reports: that prices were fixed is the buyer's word"
        return [Check(_NAME, NOT_MADE, missing)]
    found = parsed(only_line(published), "the published rules", MOST_BODY)
    refuse_other_parts(found, _SHAPE, "the published rules")
    if found["schema"] != "dpmarket.commitment/1":
        raise Broken("the published rules are of a kind that this program does not know")
    digest = hashlib.sha256(published).hexdigest()
    if named is None or named["digest"] != digest:
        return [Check(_NAME, FAILS, "the certificate does not name these rules")]
    if named["committed_at"] != found["committed_at"] or not _before(
        named["committed_at"], named["quoted_at"]
    ):
        return [Check(_NAME, FAILS, "not fixed before the quotes")]
    same = found["distribution"] == body.market.get("distribution") and _same_release(found["market"], body)
    same = same and body.release.delta <= _published_delta(found, body)
    time = datetime.fromisoformat(named["committed_at"]).isoformat()
    told = f"these, of {time}, with the digest {digest}"
    return [
        judged(
            _NAME, same, told, "the certificate's costs, features, labels, rows, delta or money are others"
        ),
        *_prices(found["mechanisms"], body),
    ]


def _prices(mechanisms: Mapping[str, Any], body: Body) -> list[Check]:
    # A salt is drawn after the reports: it is the one thing that rules cannot fix beforehand.
    stated = {name: value for name, value in body.market.items() if name != "salt"}
    if mechanisms.get(body.mechanism) == stated:
        return _menu_checks(body)
    if body.mechanism != "offline" or "objective" not in body.market:
        return [Check(PRICES, FAILS, "not the published ones")]
    # The payment weight of the exact mechanism is planned for as many sellers as report.
    return [Check(PRICES, NOT_MADE, "planned from the rules for so many sellers: dpmarket plans them again")]


def _menu_checks(body: Body) -> list[Check]:
    """Compare the menu, with which sellers compare their receipts, with the published prices."""
    if body.menu is None:
        return [Check(PRICES, HOLDS, "the published ones")]
    shown = shows_prices(body)
    if shown is None:
        unknown = "whether the menu shows the published prices is not known here"
        return [Check(PRICES, HOLDS, "the published ones"), Check(MENU, NOT_MADE, unknown)]
    return [judged(PRICES, shown, "the published ones, as in the menu", "not those of the menu")]


def _typed(values: Any) -> list[tuple[type, Any]]:
    return [(type(value), value) for value in values]


def _before(first: str, second: str) -> bool:
    """Whether the first of two times, each with its distance from UTC, is not the later one."""
    try:
        times = [datetime.fromisoformat(text) for text in (first, second)]
        return all(time.tzinfo is not None for time in times) and times[0] <= times[1]
    except (TypeError, ValueError):
        return False


def _published_delta(found: Mapping[str, Any], body: Body) -> float:
    """Return the delta at which the published rules have people price an epsilon; 0 where they have none."""
    stated = priced_delta(found["mechanisms"].get(body.mechanism))
    if stated is None:
        stated = priced_delta(found["market"].get("objective"))
    return 0.0 if stated is None else stated


def _counts_rows(market: Mapping[str, Any], release: Release | StatisticRelease) -> bool:
    """Whether a release is accounted for as many records of one person as the rules allow.

    With two classes and no delta more rows than coefficients cost no more than so many.
    """
    allowed = market.get("sellers", {}).get("rows_per_person", 1)
    if type(allowed) is not int:
        return False
    if isinstance(release, Release) and not release.has_many_classes and not release.is_gaussian:
        allowed = min(allowed, release.n_coefficients)
    return release.rows_per_person >= allowed


def _same_release(market: Mapping[str, Any], body: Body) -> bool:
    """Whether the published features, labels, rows and money, or statistics, are the certified ones."""
    try:
        if not _counts_rows(market, body.release):
            return False
        if isinstance(body.release, StatisticRelease):
            asked = asked_alike(market, body.release)
            return asked and market["money"] == {"currency": body.currency, "minor_units": body.minor_units}
        return bool(
            _same_features(market["features"], body.release)
            and _typed(market["label"]["values"]) == _typed(body.release.classes)
            and market["money"] == {"currency": body.currency, "minor_units": body.minor_units}
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return False


def _same_features(parts: Mapping[str, Any], release: Release) -> bool:
    """Whether the published features are those of a release: its encoder's, or bounds that it names."""
    if release.encoder is not None:
        return declared_alike(parts, release.encoder)
    told = release.features
    certified = {name: ends for name, *ends in zip(told["name"], told["low"], told["high"], strict=True)}
    plain = all(set(part) == {"low", "high"} for part in parts.values())
    return plain and certified == {
        name: [float(part["low"]), float(part["high"])] for name, part in parts.items()
    }
