"""Check that a certificate's rules are those that were published before anybody reported.

The published file is one line of canonical JSON: when it was made, the market's rules, and the parameters
that each mechanism would use. Its digest, as ``sha256sum`` tells it, stands in the certificate. When it was
really published only the place of publication can tell; that the rules did not change afterwards is checked
here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .layout import Body, refuse_other_parts
from .reading import MOST_BODY, only_line, parsed
from .shapes import declared_alike
from .verdicts import NOT_MADE, Broken, Check, judged

_NAME = "rules fixed beforehand"
_SHAPE = {"committed_at": str, "market": dict, "mechanisms": dict, "schema": str}


def rules_check(body: Body, published: bytes | None) -> Check:
    """Compare a certificate with the published rules, if they are given."""
    named = body.commitment
    if published is None:
        return Check(
            _NAME,
            NOT_MADE,
            "no rules were published before the reports: that prices were fixed is the buyer's word"
            if named is None
            else "needs the rules as they were published",
        )
    found = parsed(only_line(published), "the published rules", MOST_BODY)
    refuse_other_parts(found, _SHAPE, "the published rules")
    if found["schema"] != "dpmarket.commitment/1":
        raise Broken("the published rules are of a kind that this program does not know")
    digest = hashlib.sha256(published).hexdigest()
    if named is None or named["digest"] != digest:
        return judged(_NAME, False, "", "the certificate does not name these rules")
    if named["committed_at"] != found["committed_at"] or not _before(
        named["committed_at"], named["quoted_at"]
    ):
        return judged(_NAME, False, "", "not fixed before the quotes")
    return judged(
        _NAME,
        found["mechanisms"].get(body.mechanism) == body.market and _same_release(found["market"], body),
        f"these, of {named['committed_at']}, with the digest {digest}",
        "the certificate's market is another one",
    )


def _before(first: str, second: str) -> bool:
    """Whether the first of two times, each with its distance from UTC, is not the later one."""
    try:
        times = [datetime.fromisoformat(text) for text in (first, second)]
        return times[0] <= times[1]
    except (TypeError, ValueError):
        return False


def _same_release(market: Mapping[str, Any], body: Body) -> bool:
    """Whether the published features, labels and money are the certified ones."""
    try:
        parts, encoder = market["features"], body.release.encoder
        bounds = [] if encoder else [(name, float(p["low"]), float(p["high"])) for name, p in parts.items()]
        told = body.release.features
        certified = None if told is None else list(zip(told["name"], told["low"], told["high"], strict=True))
        return bool(
            (sorted(bounds) == sorted(certified or ()) if encoder is None else declared_alike(parts, encoder))
            and market["label"]["values"] == body.release.classes
            and market["money"]["minor_units"] == body.minor_units
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return False
