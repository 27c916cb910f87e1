"""Check lines against the frozen reports: every quote, and the digest that binds the salt."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from .lines import Line, Parts
from .verdicts import FAILS, SKIPPED, Broken, Check, judged

_MOST = 1 << 30


def reports_checks(
    parts: Parts, lines: Sequence[Line], secrets: Mapping[str, Any], data: bytes
) -> list[Check]:
    """Return every check that needs the reported costs, a CSV file of id and cost with a header."""
    costs = _costs(data)
    missing = sum(line["id"] not in costs for line in lines)
    if missing or len(costs) != len(lines):
        return [Check("reports", FAILS, "are not one for every line")]
    market = parts.market
    wrong = sum(
        not (market.is_quote(line, costs[line["id"]]) and market.is_worth_it(line, costs[line["id"]]))
        for line in lines
    )
    return [
        judged("every quote", wrong == 0, "is the one for the reported cost", f"is not, of {wrong} lines"),
        *_reports_digest(parts, secrets, costs),
    ]


def _costs(data: bytes) -> dict[str, float]:
    if len(data) > _MOST:
        raise Broken("the reports are larger than any of their kind")
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
        found = {row[0]: float(row[1]) for row in rows[1:] if row}
        if len(found) != sum(bool(row) for row in rows[1:]) or not all(
            0.0 <= cost < math.inf for cost in found.values()
        ):
            raise ValueError
    except (UnicodeDecodeError, ValueError, IndexError, csv.Error):
        raise Broken(
            "the reports are not a CSV file with a header and one id and cost in every row"
        ) from None
    return found


def _reports_digest(parts: Parts, secrets: Mapping[str, Any], costs: Mapping[str, float]) -> list[Check]:
    """Check the digest that binds the salt: a keyed hash of all reports, sorted by id."""
    split = parts.body["market"]["split"]
    if split is None:
        return []
    name = "reports' digest"
    if split["reports"] is None or secrets["nonce"] is None:
        return [Check(name, SKIPPED, "the salt is not bound to the reports, or the nonce is not opened")]
    nonce = bytes.fromhex(secrets["nonce"])
    keyed = hmac.new(nonce, b"dpmarket-reports-1", hashlib.sha256)
    for seller in sorted(costs, key=str.encode):
        text = seller.encode()
        keyed.update(struct.pack(">I", len(text)) + text + struct.pack(">d", costs[seller]))
    announced = hashlib.sha256(nonce).hexdigest() == split["nonce"]
    same = announced and keyed.hexdigest() == split["reports"]
    return [judged(name, same, "is that of these reports", "is another's")]
