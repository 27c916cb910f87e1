"""Sellers' lines, by a receipt or by the buyer's openings: each is in the certificate, covered and paid.

A leaf of the Merkle tree (RFC 9162) is the SHA-256 of a byte 0, the salt, the line's numbers as big-endian
doubles, whether the seller withdrew (one byte), part and group (two bytes each), the digest of the agreed
rules (zeros: none), and the id. A node is that of a byte 1 and its two children; a node without a sibling
moves up as it is.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import math
import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from .arithmetic import exact_sum, three_digits_up
from .public import Public
from .reading import LINE, MOST_BODY, MOST_RECEIPT, loaded, number_text, only_line, parsed, refuse_misfit
from .release import add_up, is_covered
from .verdicts import Broken, Check, Part, failed, judged, skipped

VALUES = ("epsilon", "payment", "used", "weight")
Line = Part
_MOST_REPORTS = 1 << 30
_MOST_LINE = 4 << 10  # bytes of the openings for one seller
_ROOM = 1.0 + 1e-9


def leaf_of(line: Line, salt: str) -> bytes:
    """Return the commitment to a line."""
    places = int(line["part"]), int(line["group"])
    state = struct.pack(">4dBHH", *(line[value] for value in VALUES), line["withdrew"], *places)
    rules = bytes(32) if line["rules"] is None else bytes.fromhex(line["rules"])
    return hashlib.sha256(b"\x00" + bytes.fromhex(salt) + state + rules + line["id"].encode()).digest()


def commitments_check(body: Part, leaves: bytes | None) -> Check:
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
    while len(rows) > 1:
        pairs = zip(rows[::2], rows[1::2], strict=False)
        above = [hashlib.sha256(b"\x01" + a + b).digest() for a, b in pairs]
        rows = above + rows[2 * len(above) :]
    same = rows[0].hex() == body["root"]
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
    "epsilon used": lambda public, line: is_covered(public.release, line),
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


def _climbs(body: Part, leaf: bytes, index: float, path: Sequence[str]) -> bool:
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


def openings_checks(
    public: Public, digest: str, leaves: bytes | None, data: bytes, reports: bytes | None
) -> list[Check]:
    """Return every check that needs all lines and, if given, all reports."""
    opened = loaded(only_line(data), "openings", MOST_BODY + _MOST_LINE * int(public.totals["sellers"]))
    lines = _lines(opened)
    hashes = b"".join(sorted(leaf_of(line, line["salt"]) for line in lines))
    checks = [
        judged("openings' digest", opened["certificate"] == digest),
        judged("openings", hashes == leaves),
        judged("ids", len(set(opened["id"])) == len(lines)),
        judged("salts", len(set(opened["salt"])) == len(lines)),
        *(_of_lines(public, lines, name) for name in LINE_CHECKS),
        judged("weights", add_up(public.release, lines)),
        judged("totals", _totals(lines, exact_used=not public.market.found["delta"]) == public.totals),
    ]
    if not public.market.prices:
        checks.append(judged("caps and quotas", _keeps_bounds(public, lines)))
    return checks + ([] if reports is None else _reports_checks(public, lines, opened["secrets"], reports))


def _lines(opened: Part) -> list[dict[str, Any]]:
    refuse_misfit(opened, "openings")
    names = (*LINE, "salt")
    if not opened["id"] or len({len(opened[name]) for name in names}) > 1:
        raise Broken("the openings do not have one value of every kind for every line")
    return [dict(zip(names, row, strict=True)) for row in zip(*map(opened.get, names), strict=True)]


def _of_lines(public: Public, lines: Sequence[Line], name: str) -> Check:
    parts = {
        "epsilon used": ("epsilon", "weight", "used"), "payment": ("epsilon", "payment", "part", "group"),
    }.get(name)  # fmt: skip
    if parts is not None:  # of lines that are alike one is enough
        lines = list({tuple(line[part] for part in parts): line for line in lines}.values())
    found = [LINE_CHECKS[name](public, line) for line in lines]
    if all(good is None for good in found):
        return skipped(name, "every ")
    return judged(name, False not in found, of="every ")


def _totals(lines: Sequence[Line], *, exact_used: bool) -> dict[str, float]:
    stayed = [line for line in lines if not line["withdrew"]]
    epsilon, payment, used = (exact_sum([line[name] for line in stayed]) for name in VALUES[:3])
    return {
        "sellers": float(len(lines)),
        "bought_from": float(sum(line["epsilon"] > 0.0 for line in stayed)),
        "withdrawn": float(len(lines) - len(stayed)),
        "total_epsilon": three_digits_up(epsilon),
        "total_payment": three_digits_up(payment),
        # The noise tells the sum of pure epsilons anyway: it is exact.
        "total_used": float(used) if exact_used else three_digits_up(used),
    }


def _keeps_bounds(public: Public, lines: Sequence[Line]) -> bool:
    """Whether a market that all reports decided together keeps its total, caps and quotas."""
    groups, objective = public.market.found["groups"], public.market.found["objective"]
    shares: list[list[float]] = [[] for _ in groups]
    for line in lines:
        if line["epsilon"] > 0.0:
            shares[int(line["group"])].append(float(public.market.amount(line["epsilon"], "shares")))
    sold = [(group["share"], own) for group, own in zip(groups, shares, strict=True) if own]
    if public.market.found.get("coverage", "hard") != "hard":  # no quota is fixed: all count as one group
        sold = [(1.0, [share for own in shares for share in own])]
    total, whole = math.fsum(math.fsum(own) for _, own in sold), math.fsum(share for share, _ in sold)
    most = objective["max_mean_epsilon"]
    good = most is None or total <= most * len(lines) * _ROOM
    for share, own in sold:
        quota = cap = share / whole
        if objective["weight_cap"] is not None and len(own) > 1:  # raised where a group is small
            multiple = objective["weight_cap"] / sum(len(other) for _, other in sold)
            cap = min(quota, max(multiple, 1.5 * quota / (len(own) - 1)))
        good = good and abs(math.fsum(own) / total - quota) <= 1e-6 and max(own) / total <= cap * _ROOM
    return good


def _reports_checks(public: Public, lines: Sequence[Line], secrets: Part, data: bytes) -> list[Check]:
    """Return every check that needs the reported costs, a CSV file of id and cost with a header."""
    costs = _costs(data)
    if costs.keys() != {line["id"] for line in lines}:
        return [failed("reports")]
    good = not any(public.market.quote_problem(line, costs[line["id"]]) for line in lines)
    return [judged("every quote", good), *_sellers_digest(public, secrets, costs)]


def _costs(data: bytes) -> dict[str, float]:
    try:
        if len(data) > _MOST_REPORTS:
            raise ValueError
        rows = [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")) if row][1:]
        found = {row[0]: float(row[1]) for row in rows}
        if len(found) < len(rows) or not all(0.0 <= cost < math.inf for cost in found.values()):
            raise ValueError
    except (ValueError, IndexError, csv.Error):
        raise Broken("the reports are not a CSV of one id and one cost in every row, with a header") from None
    return found


def _sellers_digest(public: Public, secrets: Part, sellers: Iterable[str]) -> list[Check]:
    """Check the digest that binds the salt: a keyed hash of all ids, sorted."""
    split, name = public.market.found["split"], "sellers' digest"
    if split is None:
        return []
    if split["sellers"] is None or secrets["nonce"] is None:
        return [skipped(name)]
    nonce = bytes.fromhex(secrets["nonce"])
    keyed = hmac.new(nonce, b"dpmarket-sellers-1", hashlib.sha256)
    for text in sorted(seller.encode() for seller in sellers):
        keyed.update(struct.pack(">I", len(text)) + text)
    announced = hashlib.sha256(nonce).hexdigest() == split["nonce"]
    return [judged(name, announced and keyed.hexdigest() == split["sellers"])]
