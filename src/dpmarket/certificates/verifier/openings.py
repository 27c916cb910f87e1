"""Check the buyer's openings and the frozen reports: every line, every quote, and that all totals follow."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .arithmetic import exact_sum, three_digits_up
from .lines import LINE_CHECKS, VALUES, Line, leaf_of
from .market import interpolated
from .public import Public
from .reading import LINE, MOST_BODY, MOST_LINE, loaded, only_line, refuse_misfit
from .release import intervals_add_up
from .verdicts import Broken, Check, failed, judged, skipped

_MOST_REPORTS = 1 << 30
_ROOM = 1.0 + 1e-9


def openings_checks(
    public: Public, digest: str, leaves: bytes | None, data: bytes, reports: bytes | None
) -> list[Check]:
    """Return every check that needs all lines and, if given, all reports."""
    opened = loaded(only_line(data), "openings", MOST_BODY + MOST_LINE * int(public.totals["sellers"]))
    lines = _lines(opened)
    hashes = b"".join(sorted(leaf_of(line, line["salt"]) for line in lines))
    checks = [
        judged("openings' digest", opened["certificate"] == digest),
        judged("openings", hashes == leaves),
        judged("ids", len(set(opened["id"])) == len(lines)),
        judged("salts", len(set(opened["salt"])) == len(lines)),
        *(_of_lines(public, lines, name) for name in LINE_CHECKS),
        judged(
            "weights",
            public.release.adds_up(opened["weight"]) and intervals_add_up(public.body["release"], lines),
        ),
        judged("totals", _totals(lines, exact_used=not public.market.found["delta"]) == public.totals),
    ]
    if not public.market.prices:
        checks.append(judged("caps and quotas", _keeps_bounds(public, lines)))
    return checks + ([] if reports is None else _reports_checks(public, lines, opened["secrets"], reports))


def _lines(opened: Mapping[str, Any]) -> list[dict[str, Any]]:
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
    market, table, objective = public.market.found, public.market.table, public.market.found["objective"]
    shares: list[list[float]] = [[] for _ in market["groups"]]
    for line in lines:
        if line["epsilon"] > 0.0:
            known = table["shares"] is not None
            share = (
                interpolated(line["epsilon"], table["epsilons"], table["shares"])
                if known
                else line["epsilon"]
            )
            shares[int(line["group"])].append(float(share))
    sold = [(group["share"], own) for group, own in zip(market["groups"], shares, strict=True) if own]
    if market.get("coverage", "hard") != "hard":  # no quota is fixed: everybody counts as one group
        sold = [(1.0, [share for own in shares for share in own])]
    total, whole = math.fsum(math.fsum(own) for _, own in sold), math.fsum(share for share, _ in sold)
    good = (
        objective["max_mean_epsilon"] is None or total <= objective["max_mean_epsilon"] * len(lines) * _ROOM
    )
    for share, own in sold:
        quota = cap = share / whole
        if objective["weight_cap"] is not None and len(own) > 1:  # raised where a group is small
            multiple = objective["weight_cap"] / sum(len(other) for _, other in sold)
            cap = min(quota, max(multiple, 1.5 * quota / (len(own) - 1)))
        good = good and abs(math.fsum(own) / total - quota) <= 1e-6 and max(own) / total <= cap * _ROOM
    return good


def _reports_checks(
    public: Public, lines: Sequence[Line], secrets: Mapping[str, Any], data: bytes
) -> list[Check]:
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


def _sellers_digest(public: Public, secrets: Mapping[str, Any], sellers: Iterable[str]) -> list[Check]:
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
