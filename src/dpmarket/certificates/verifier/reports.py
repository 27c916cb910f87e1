"""Check the frozen reports: every quote, the parts' histograms, and the digest that binds the salt."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import math
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .lines import Line, Parts
from .reading import canonical, hash_of
from .verdicts import FAILS, SKIPPED, Broken, Check, judged

_MOST = 1 << 30
_CELLS = 2048  # of the public grid of costs


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
        *_histograms(parts, lines, secrets, costs),
    ]


def opened_histograms_check(parts: Parts, secrets: Mapping[str, Any]) -> list[Check]:
    """Check that the histograms by which parts were priced are those that were committed to."""
    split, name = parts.body["market"]["split"], "histograms"
    if split is None:
        return []
    if split["histograms"] is None or secrets["histograms"] is None:
        return [Check(name, SKIPPED, "no histograms of the parts are committed to and opened")]
    content = canonical(secrets["histograms"]).encode()
    found = hashlib.sha256(b"dpmarket-histograms-3" + hash_of(secrets["salt"]) + content).hexdigest()
    yes, no = "of the parts open their commitment", "of the parts do not open their commitment"
    return [judged(name, found == split["histograms"], yes, no)]


def _histograms(
    parts: Parts, lines: Sequence[Line], secrets: Mapping[str, Any], costs: Mapping[str, float]
) -> list[Check]:
    """Check that the opened histograms count the reports in each cell of the public grid of costs."""
    split, opened = parts.body["market"]["split"], secrets["histograms"]
    if split is None or opened is None:
        return []
    groups = parts.body["market"]["groups"]
    grids = [_grid(group["virtual_cost"]["knots"]) for group in groups]
    counts = [[Counter[int]() for _ in groups] for _ in range(int(split["parts"]))]
    for line in lines:
        part, group = int(line["part"]), int(line["group"])
        counts[part][group][bisect_left(grids[group], costs[line["id"]])] += 1
    stated = [
        [dict(zip(map(int, one["cells"]), map(int, one["counts"]), strict=True)) for one in part]
        for part in opened
    ]
    same = stated == [[dict(one) for one in part] for part in counts]
    return [judged("reports' histograms", same, "are those that prices follow from", "are others")]


def _grid(knots: Sequence[float]) -> list[float]:
    """Return the public grid of costs: half evenly spaced, half in proportion to the table's own knots."""
    half, pieces, low, high = _CELLS // 2, len(knots) - 1, knots[0], knots[-1]
    even = [low + k * ((high - low) / half) for k in range(half)]
    own = [_at(k * (pieces / half), knots) for k in range(half)]
    merged = sorted({*even, *own, high})
    return [_at(k * ((len(merged) - 1) / _CELLS), merged) for k in range(_CELLS)] + [high]


def _at(place: float, values: Sequence[float]) -> float:
    """Return the value at a place between positions, by linear interpolation."""
    k = min(int(place), len(values) - 2)
    return values[k] + (place - k) * (values[k + 1] - values[k])


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
