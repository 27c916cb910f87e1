"""Compare a certificate with the rules that sellers agreed to, and with those that were published.

The certificate has the text of the rules; its SHA-256 is what sellers agreed to. Where the text is a JSON
object with a part ``announced``, each part of it must be the certificate's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .market import bound_salt
from .reading import MOST_BODY, canonical, loaded, only_line
from .verdicts import FAILS, SKIPPED, Broken, Check, judged


def digest_of_rules(body: Mapping[str, Any]) -> str | None:
    """Return the digest of the rules that a certificate states; None if it states none."""
    return None if body["rules"] is None else hashlib.sha256(body["rules"]["text"].encode()).hexdigest()


def rules_checks(body: Mapping[str, Any], published: bytes | None) -> list[Check]:
    """Compare a certificate with its announced rules, its salt with them, and published rules if given."""
    return [_announced(body), *_salt(body), _published(body, published)]


def _announced(body: Mapping[str, Any]) -> Check:
    name, digest = "announced rules", digest_of_rules(body)
    if digest is None:
        return Check(name, SKIPPED, "no rules were announced: that prices were fixed is the buyer's word")
    try:
        announced = loaded(body["rules"]["text"].encode(), "the rules", MOST_BODY).get("announced")
    except Broken:
        announced = None
    if not isinstance(announced, dict) or not announced:
        return Check(name, SKIPPED, f"the rules with the digest {digest} announce no tables to compare")
    other = _differing(announced, body, "")
    return judged(name, other is None, f"are kept; their digest is {digest}", f"say otherwise about {other}")


def _differing(announced: Any, stated: Any, where: str) -> str | None:
    """Return the first announced part that is not stated alike; None if all are."""
    if isinstance(announced, dict) and isinstance(stated, dict):
        for name, value in announced.items():
            if name not in stated:
                return f"{where}{name}"
            found = _differing(value, stated[name], f"{where}{name}.")
            if found is not None:
                return found
        return None
    return None if canonical(announced) == canonical(stated) else where.removesuffix(".")


def _salt(body: Mapping[str, Any]) -> list[Check]:
    split, rules, name = body["market"]["split"], digest_of_rules(body), "salt"
    if split is None:
        return []
    if split["reports"] is None:
        return [
            Check(
                name,
                SKIPPED,
                "nothing binds the salt to the reports: that it was drawn once is the buyer's word",
            )
        ]
    if rules is None:
        return [Check(name, FAILS, "is bound to rules that the certificate does not state")]
    same = split["salt"] == bound_salt(rules, split["reports"])
    return [judged(name, same, "follows from the rules and the frozen reports", "was chosen otherwise")]


def _published(body: Mapping[str, Any], published: bytes | None) -> Check:
    name, rules = "published rules", body["rules"]
    if published is None:
        return Check(name, SKIPPED, "needs the rules as they were published before the reports")
    if rules is None or only_line(published) != rules["text"].encode():
        return Check(name, FAILS, "the certificate has other rules, or none")
    time = loaded(only_line(published), "the published rules", MOST_BODY).get("committed_at")
    before = _is_before(time, rules["quoted_at"])
    return judged(name, before, f"are the certificate's, of {time}", "were not fixed before the quotes")


def _is_before(first: Any, second: Any) -> bool:
    """Whether the first of two times, each with its distance from UTC, is not the later one."""
    try:
        times = [datetime.fromisoformat(text) for text in (first, second)]
        return all(time.tzinfo is not None for time in times) and times[0] <= times[1]
    except (TypeError, ValueError):
        return False
