"""Sellers' lines: from a line to its leaf, from a leaf to the root, and what must hold of each line.

A leaf of the Merkle tree (RFC 9162) is the SHA-256 of a byte 0, the salt, the line's numbers as big-endian
doubles, whether the seller withdrew (one byte), part and group (two bytes each), the digest of the agreed
rules (zeros: none), and the id. A node is that of a byte 1 and its two children; a node without a sibling
moves up as it is.
"""

from __future__ import annotations

import hashlib
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from .public import Public
from .reading import MOST_RECEIPT, number_text, only_line, parsed
from .release import is_covered
from .verdicts import Check, failed, judged, skipped

VALUES = ("epsilon", "payment", "used", "weight")
Line = Mapping[str, Any]


def leaf_of(line: Line, salt: str) -> bytes:
    """Return the commitment to a line."""
    places = int(line["part"]), int(line["group"])
    state = struct.pack(">4dBHH", *(line[value] for value in VALUES), line["withdrew"], *places)
    rules = bytes(32) if line["rules"] is None else bytes.fromhex(line["rules"])
    return hashlib.sha256(b"\x00" + bytes.fromhex(salt) + state + rules + line["id"].encode()).digest()


def commitments_check(body: Mapping[str, Any], leaves: bytes | None) -> Check:
    """Check that the commitments are as many as sellers, in order, and lead to the root."""
    name = "commitments"
    if leaves is None:
        return skipped(name)
    count = len(leaves) // 32
    if count != body["totals"]["sellers"]:
        return failed(name, "not one commitment for each seller")
    rows = [row for (row,) in struct.iter_unpack("32s", leaves)]
    if any(map(operator.ge, rows, rows[1:])):
        return failed(name, "not in increasing order, all different")
    level, node = leaves, hashlib.sha256(b"\x01").copy
    while len(level) > 32:
        even, found = len(level) - len(level) % 64, []
        for (pair,) in struct.iter_unpack("64s", level[:even]):
            state = node()
            state.update(pair)
            found.append(state.digest())
        level = b"".join(found) + level[even:]
    same = level.hex() == body["root"]
    return judged(name, same, str(count) if same else "do not lead to the root")


def is_agreed(public: Public, line: Line) -> bool | None:
    """Whether the seller agreed to the certificate's rules; None: there are none."""
    if public.rules is None and line["rules"] is None:
        return None
    return bool(line["rules"] == public.rules)


def is_within(public: Public, line: Line) -> bool:
    """Whether no more was used than the epsilon that was sold, and nothing of sellers who withdrew."""
    if line["withdrew"]:
        return bool(line["used"] == line["weight"] == 0.0)
    return bool(line["used"] <= line["epsilon"])


LINE_CHECKS: dict[str, Callable[[Public, Line], bool | None]] = {
    "epsilon used": lambda public, line: is_covered(public.release, public.body["release"], line),
    "privacy budget": is_within,
    "agreed rules": is_agreed,
    "part": lambda public, line: public.market.is_placed(line),
    "payment": lambda public, line: public.market.has_prices(line) and public.market.is_paid(line),
}
"""What must hold of every line; None: does not apply."""


def receipt_checks(public: Public, digest: str, data: bytes, cost: float | None) -> list[Check]:
    """Return every check of a receipt; with the reported cost, that the quote is the one for it."""
    receipt = parsed(only_line(data), "receipt", MOST_RECEIPT)
    line, delta = receipt["line"], public.release.delta
    inside = _climbs(public.body, leaf_of(line, receipt["salt"]), receipt["index"], receipt["path"])
    checks = [
        judged("receipt's digest", receipt["certificate"] == digest),
        judged("receipt's line", inside, _shown(public, line)),
        judged("receipt's totals", _fits_totals(public, line)),
    ]
    for name, check in LINE_CHECKS.items():
        good, more = check(public, line), ""
        if name == "epsilon used" and "intervals" in public.body["release"]:
            more = ", and the share of the noisy Hessian"
        if delta and name == "privacy budget":
            more = f"; the epsilon comes with a delta of {number_text(delta)}"
        checks.append(skipped(name, "receipt's ") if good is None else judged(name, good, more, "receipt's "))
    left = [skipped("withdrawal", "receipt's ")] if line["withdrew"] else []
    return [*checks, *left, _quote(public, line, cost)]


def _climbs(body: Mapping[str, Any], leaf: bytes, index: float, path: Sequence[str]) -> bool:
    """Whether an inclusion proof leads from this leaf at this index to the certificate's root."""
    place, last, node = int(index), int(body["totals"]["sellers"]) - 1, leaf
    siblings = list(map(bytes.fromhex, path))
    if place > last:
        return False
    while last > 0:
        if place % 2 == 1 or place < last:  # else the node has no sibling
            if not siblings:
                return False
            other = siblings.pop(0)
            node = hashlib.sha256(b"\x01" + (other + node if place % 2 else node + other)).digest()
        place, last = place // 2, last // 2
    return not siblings and node.hex() == body["root"]


def _shown(public: Public, line: Line) -> str:
    """Return a line as its seller reads it."""
    groups, money = public.body["market"]["groups"], public.body["money"]
    units, payment = public.market.units, int(line["payment"])
    digits, amount = len(str(units)) - 1, f"{payment}/{units}"
    if units == 10**digits:
        amount = f"{Decimal(payment).scaleb(-digits):f}"
    text = f"id {line['id']!r}, epsilon {number_text(line['epsilon'])}, payment {amount}"
    text += f" {money['currency']}" * bool(money["currency"])
    if len(groups) > 1 and line["group"] < len(groups):
        text += f", group {groups[int(line['group'])]['name']!r}"
    return text + (", withdrawn: nothing of it is owed" if line["withdrew"] else "")


def _fits_totals(public: Public, line: Line) -> bool:
    totals = public.totals
    if line["withdrew"]:
        return bool(totals["withdrawn"] >= 1)
    bought = line["epsilon"] == 0.0 or totals["bought_from"] >= 1
    within = all(line[name] <= totals[f"total_{name}"] for name in VALUES[:3])
    return bought and within and bool(line["weight"] <= public.body["release"]["weight_total"])


def _quote(public: Public, line: Line, cost: float | None) -> Check:
    name = "quote at your cost"
    if cost is None:
        return skipped(name)
    if not 0.0 <= cost < math.inf:
        return failed(name, "the cost given is none: expected a number of at least 0")
    if not public.market.has_prices(line):
        return failed(name, "the line names prices that do not exist")
    problem = public.market.quote_problem(line, cost)
    return judged(name, not problem, problem)
