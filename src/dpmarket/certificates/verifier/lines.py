"""Checks of one line, and of a receipt, which is a line with its proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .commitments import climbs, leaf_of
from .layout import refuse_other
from .market import Market, part_of
from .money import amount_text
from .reading import MOST_RECEIPT, number_text, only_line, parsed
from .release import FAMILIES
from .rules import digest_of_rules
from .verdicts import FAILS, SKIPPED, Check, judged

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Parts:
    """A certificate's sound public part, ready for lines to be checked against."""

    body: Mapping[str, Any]
    market: Market
    release: Any
    rules: str | None

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Parts:
        """Return the parts of a body whose public checks hold."""
        release = FAMILIES[body["release"]["family"]](body["release"])
        return cls(body, Market(body), release, digest_of_rules(body))


def is_within(parts: Parts, line: Line) -> bool:
    """Whether no more was used than the epsilon that was sold, and nothing of sellers who withdrew."""
    if line["withdrew"]:
        return bool(line["used"] == line["weight"] == 0.0)
    return bool(line["used"] <= line["epsilon"])


def is_placed(parts: Parts, line: Line) -> bool:
    """Whether the part is the one of the seller's id by the salt."""
    split = parts.body["market"]["split"]
    if not parts.market.is_placed(line):
        return False
    return split is None or part_of(line["id"], split["salt"], int(split["parts"])) == line["part"]


def is_paid(parts: Parts, line: Line) -> bool:
    """Whether the payment follows from the epsilon."""
    return parts.market.is_placed(line) and parts.market.is_paid(line)


def is_agreed(parts: Parts, line: Line) -> bool:
    """Whether the seller agreed to the certificate's rules."""
    return bool(line["rules"] == parts.rules)


def is_covered(parts: Parts, line: Line) -> bool:
    """Whether the epsilon used covers the weight."""
    return bool(parts.release.covers(line["weight"], line["used"]))


LINE_CHECKS: tuple[tuple[str, Callable[[Parts, Line], bool], str, str], ...] = (
    ("epsilon used", is_covered, "covers the weight", "is less than the weight costs"),
    ("privacy budget", is_within, "was not exceeded", "was exceeded"),
    ("agreed rules", is_agreed, "are the certificate's", "are others than the certificate's"),
    ("part", is_placed, "follows from the id and the salt", "does not follow from the id and the salt"),
    ("payment", is_paid, "is what the announced tables give", "is not what the announced tables give"),
)
"""Of every line: the name, the check, and what it says."""


def receipt_checks(parts: Parts, digest: str, data: bytes, cost: float | None) -> list[Check]:
    """Return every check of a receipt; with the reported cost, that the quote is the one for it."""
    receipt = parsed(only_line(data), "the receipt", MOST_RECEIPT)
    refuse_other(receipt, "receipt")
    line, body = receipt["line"], parts.body
    inside = climbs(body, leaf_of(line, receipt["salt"]), receipt["index"], receipt["path"])
    paid = amount_text(line["payment"], parts.market.units, body["money"]["currency"])
    mine = (
        f"is in the certificate: id {line['id']!r}, epsilon {number_text(line['epsilon'])}, payment {paid}"
        + (f", group {_group(body, line)!r}" if len(body["market"]["groups"]) > 1 else "")
        + (", withdrawn: nothing of it is owed" if line["withdrew"] else "")
    )
    return [
        judged("receipt's digest", receipt["certificate"] == digest, "this certificate", "another's"),
        judged("receipt's line", inside, mine, "is not in the certificate"),
        judged("receipt's totals", _fits(line, body), "fit", "are less than the line's numbers"),
        *(_of_line(parts, line, *row) for row in LINE_CHECKS),
        _quote(parts, line, cost),
    ]  # fmt: skip


def _of_line(
    parts: Parts, line: Line, name: str, check: Callable[[Parts, Line], bool], yes: str, no: str
) -> Check:
    if name == "agreed rules" and parts.rules is None and line["rules"] is None:
        return Check(f"receipt's {name}", SKIPPED, "no rules were announced to sellers")
    delta = parts.release.delta
    if name == "privacy budget" and delta > 0.0:
        yes += f"; the epsilon comes with a delta of {number_text(delta)}"
    return judged(f"receipt's {name}", check(parts, line), yes, no)


def _group(body: Mapping[str, Any], line: Line) -> str:
    groups = body["market"]["groups"]
    return str(groups[int(line["group"])]["name"]) if line["group"] < len(groups) else "unknown"


def _fits(line: Line, body: Mapping[str, Any]) -> bool:
    totals = body["totals"]
    if line["withdrew"]:
        return bool(totals["withdrawn"] >= 1)
    sums = (("epsilon", "total_epsilon"), ("payment", "total_payment"), ("used", "total_used"))
    bought = line["epsilon"] == 0.0 or totals["bought_from"] >= 1
    return (
        bought and all(line[one] <= totals[all_] for one, all_ in sums)
        and line["weight"] <= body["release"]["weight_total"]
    )  # fmt: skip


def _quote(parts: Parts, line: Line, cost: float | None) -> Check:
    name = "quote at your cost"
    if cost is None:
        return Check(name, SKIPPED, "enter the cost that you reported to check it")
    if not 0.0 <= cost < math.inf:
        return Check(name, FAILS, "the cost given is none: expected a number of at least 0")
    if not parts.market.is_placed(line):
        return Check(name, FAILS, "the line names prices that do not exist")
    if not parts.market.is_worth_it(line, cost):
        return Check(name, FAILS, "the payment does not cover your cost")
    if parts.market.prices:
        yes, no = "the announced prices give this quote", "the announced prices give another quote"
    else:
        yes, no = (
            "the payment covers your cost",
            "the cost is above the reserve price, and something was bought",
        )
    return judged(name, parts.market.is_quote(line, cost), yes, no)
