"""Check a certificate's first line: release, totals, money, the market's tables, rules, salt and signature.

The certificate has the text of the rules; its SHA-256 is what sellers agreed to. Where the text is a JSON
object with a part ``announced``, each part of it must be the certificate's. ``by_sellers`` announces a
choice: a list of ``[least number of sellers, part]``, of which the last that so many sellers reach holds.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any
from unicodedata import category

from .market import Market, market_problems
from .reading import MOST_BODY, canonical, is_canonical, loaded, number_text, only_line
from .release import FAMILIES
from .verdicts import LIMITS, Broken, Check, Part, failed, judged, skipped

_LONGEST_CURRENCY = 12
_FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)


class Public:
    """A certificate's public part, against which lines are checked."""

    def __init__(self, body: Part) -> None:
        self.body, rules = body, body["rules"]
        self.market, self.totals = Market(body), body["totals"]
        self.release = FAMILIES[body["release"]["family"]](body["release"])
        self.rules = None if rules is None else hashlib.sha256(rules["text"].encode()).hexdigest()

    def checks(self, published: bytes | None) -> list[Check]:
        """Return what can be said of the public part; lines are checked if the first two hold."""
        release, totals = self.release, self.totals
        tests = {
            "currency": _is_currency(self.body["money"]["currency"]),
            "withdrawn": totals["bought_from"] + totals["withdrawn"] <= totals["sellers"],
            "bought_from": (totals["bought_from"] == 0.0) == (totals["total_epsilon"] == 0.0),
        }
        wrong = release.problems() + [name for name, good in tests.items() if not good]
        unsound = market_problems(self.body, release.delta)
        checks = [
            judged("public numbers", not wrong, ", ".join(wrong)),
            judged("market tables", not unsound, ", ".join(unsound) or self.body["market"]["mechanism"]),
        ]
        if not wrong and not unsound:
            cost = release.cost
            covered = cost is not None and cost <= release.charged
            checks.append(judged("release", covered, "" if cost is None else f"{float(cost):.4g}"))
            checks.append(judged("total used", totals["total_used"] <= totals["total_epsilon"]))
            checks += [*self._delta(), *self._trusted()]
        missing = sum(sentence not in self.body["limits"] for sentence in LIMITS)
        more = len(self.body["limits"]) - len(LIMITS) + missing
        checks += [self._announced(), *self._salt(), self._published(published)]
        return [*checks, judged("limits", missing == 0, str(missing or more))]

    def _delta(self) -> list[Check]:
        """Check that a delta fails a tenth of a person at most; the root covers the number of all sellers."""
        delta, totals = self.release.delta, self.totals
        if delta == 0.0:
            return []
        kept = delta <= 1.0 / (10.0 * max(totals["bought_from"], 1.0))
        if kept and delta > 1.0 / (10.0 * totals["sellers"]):
            return [skipped("delta")]
        return [judged("delta", kept, number_text(delta))]

    def _trusted(self) -> list[Check]:
        """Say whether rows are as short as declared, and what is trusted of code that computes a model."""
        release, found = self.body["release"], []
        terms = release.get("terms", {})
        if any(terms.get("norm", {}).get("separate", ())):  # rows must be short in two norms
            declared = release["model"]["encoder"] is not None
            found.append(judged("row lengths", good=True) if declared else skipped("row lengths"))
        if terms.get("private") == "labels":
            found.append(skipped("public features"))
        if release.get("loss", {}).get("kind") == "torch":
            found.append(skipped("model code"))
        return found

    def _announced(self) -> Check:
        name, text = "announced rules", "" if self.rules is None else self.body["rules"]["text"]
        if not text.startswith("{"):
            return skipped(name)
        try:
            rules = loaded(text.encode(), "rules", MOST_BODY)
        except Broken:
            rules = {}
        if not is_canonical(rules, text.encode()):
            return failed(name, "are not written in the one canonical way")
        tables = rules.get("announced")
        if not isinstance(tables, dict) or not tables:
            return skipped(name)
        other = self._differing(tables, self.body, "")
        same = other is None
        return judged(name, same, self.rules or "" if same else f"say otherwise about {other}")

    def _differing(self, announced: Any, stated: Any, where: str) -> str | None:
        """Return the first announced part that is not stated alike; None if all are."""
        if isinstance(announced, dict) and announced.keys() == {"by_sellers"}:
            options = announced["by_sellers"]
            whole = type(options) is list and all(type(option) is list for option in options)
            if not whole or not all(len(one) == 2 and type(one[0]) is float for one in options):
                return where
            reached = [part for least, part in options if least <= self.totals["sellers"]]
            return self._differing(reached[-1], stated, where) if reached else where
        if not isinstance(announced, dict) or not isinstance(stated, dict):
            return None if canonical(announced) == canonical(stated) else where
        for name, value in announced.items():
            place = f"{where}.{name}".lstrip(".")
            if name not in stated:
                return place
            found = self._differing(value, stated[name], place)
            if found is not None:
                return found
        return None

    def _salt(self) -> list[Check]:
        split = self.body["market"]["split"]
        if split is None:
            return []
        if split["sellers"] is None and split["nonce"] is None:
            return [skipped("salt")]
        if self.rules is None or split["sellers"] is None:
            return [failed("salt", "is bound to rules and sellers that the certificate does not state")]
        bound = b"dpmarket-salt-1" + bytes.fromhex(self.rules) + bytes.fromhex(split["sellers"])
        same = split["salt"] == hashlib.sha256(bound).hexdigest()
        return [judged("salt", same, "was chosen otherwise")]

    def _published(self, published: bytes | None) -> Check:
        name, rules = "published rules", self.body["rules"]
        if published is None:
            return skipped(name)
        if rules is None or only_line(published) != rules["text"].encode():
            return failed(name, "the certificate has other rules, or none")
        time = loaded(only_line(published), "published rules", MOST_BODY).get("committed_at")
        try:  # times without a distance from UTC cannot be compared with one that has it
            first, second = map(datetime.fromisoformat, (time, rules["quoted_at"]))
            before = _FIRST_DAY <= first <= second
        except (TypeError, ValueError):
            before = False
        return judged(name, before, str(time) if before else "were not fixed before the quotes")


def _is_currency(name: str) -> bool:
    """Whether a text is up to 12 letters and currency signs: nothing that could be read as an amount."""
    signs = [category(sign) for sign in name]
    return len(signs) <= _LONGEST_CURRENCY and all(sign[0] == "L" or sign == "Sc" for sign in signs)


def signature_check(body: bytes, signature: bytes | None, public_key: bytes | None) -> Check:
    """Check that the holder of an Ed25519 key stands behind a certificate's body."""
    name = "signature"
    if signature is None or public_key is None:
        return skipped(name)
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return failed(name, "cannot be checked: the cryptography package is missing")
    if _is_small(public_key):
        return failed(name, "this is no key of anybody: one signature would fit many texts")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, body)
    except (InvalidSignature, ValueError):
        return failed(name, "not made with this key over this certificate")
    return judged(name, good=True)


def _is_small(public_key: bytes) -> bool:
    """Whether a key is one of the points of order 1, 2, 4 or 8, for which signatures prove nothing.

    Their second coordinates y are 1, -1, 0 and four more: twice such a point has the coordinate 0, which
    says, for the curve -x^2 + y^2 = 1 + d x^2 y^2, that x^2 = -y^2 and so d y^4 + 2 y^2 - 1 = 0.
    """
    p = 2**255 - 19
    y = (int.from_bytes(public_key, "little") & (2**255 - 1)) % p
    d = -121665 * pow(121666, -1, p)
    return y in (0, 1, p - 1) or (d * y**4 + 2 * y**2 - 1) % p == 0
