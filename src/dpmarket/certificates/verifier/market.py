r"""Check a market's public tables, and that a line was paid by them.

A schedule is a never-rising epsilon of the cost, with an amount H (the cost function of epsilon) at each knot
and linear in between. A seller with cost c is paid :math:`c H(c) + \int_c H(z) dz` up to the last knot. Where
epsilon falls it tells the cost, and where it is flat the payment does not depend on the cost: so a payment
follows from the epsilon alone. Where all reports decided together there is no schedule, and a payment lies
between the first knot's and the reserve price's cost of what is sold.

Comparisons that decide are exact; rounding is forgiven a billionth of what is compared and two millionths of
a minor unit, and a payment may be rounded up to the next minor unit.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from .verdicts import Part

MECHANISMS = {"online": 1, "posted price": 1, "cross-priced": 16, "offline": 0}  # parts with own prices
_POWERS = {"linear": 1, "quadratic": 2}
_CLOSE = Fraction(1, 10**9)
_UNIT_PART = Fraction(2, 10**6)


def interpolated(x: Any, knots: Sequence[float], values: Sequence[float]) -> Fraction:
    """Return a table's value, exactly; the first and the last value beyond its ends."""
    if x <= knots[0] or x >= knots[-1]:
        return Fraction(values[0] if x <= knots[0] else values[-1])
    k = bisect_right(knots, x)
    low, high, before, after = map(Fraction, (knots[k - 1], knots[k], values[k - 1], values[k]))
    return before + (after - before) * (Fraction(x) - low) / (high - low)


class Schedule:
    """One price schedule, with payments by the envelope theorem."""

    def __init__(self, found: Part) -> None:
        self.costs, self.epsilons, self.amounts = (found[x] for x in ("costs", "epsilons", "amounts"))

    @cached_property
    def _rents(self) -> list[Fraction]:
        """The integral of the amount from each knot to the last."""
        rents, costs, amounts = [Fraction(0)], map(Fraction, self.costs), map(Fraction, self.amounts)
        for (low, more), (high, less) in reversed([*pairwise(zip(costs, amounts, strict=True))]):
            rents.append(rents[-1] + (more + less) / 2 * (high - low))
        return rents[::-1]

    def cost_of(self, epsilon: float) -> Fraction | None:
        """Return a cost at which this epsilon is offered; None if it is not."""
        first, last = Fraction(self.epsilons[0]), Fraction(self.epsilons[-1])
        if not last * (1 - _CLOSE) <= epsilon <= first * (1 + _CLOSE):
            return None
        return interpolated(epsilon, self.epsilons[::-1], self.costs[::-1])

    def epsilon(self, cost: float) -> Fraction:
        """Return the epsilon offered at a cost, before rounding."""
        return Fraction(0) if cost > self.costs[-1] else interpolated(cost, self.costs, self.epsilons)

    def payment(self, cost: Any) -> Fraction:
        """Return the payment at a cost, before rounding."""
        if cost > self.costs[-1]:
            return Fraction(0)
        c = max(Fraction(cost), Fraction(self.costs[0]))
        k = min(bisect_right(self.costs, c), len(self.costs) - 1)
        amount = interpolated(c, self.costs, self.amounts)
        to_next = (amount + Fraction(self.amounts[k])) / 2 * (Fraction(self.costs[k]) - c)
        return c * amount + to_next + self._rents[k]


class Market:
    """A market's tables."""

    def __init__(self, body: Part) -> None:
        self.found, self.units = body["market"], int(body["money"]["minor_units"])
        self.table = self.found["epsilon_cost"]
        self.power = _POWERS[self.table["shape"]]
        self.prices = [[Schedule(one) for one in part["schedules"]] for part in self.found["prices"]]

    def is_sold(self, epsilon: float) -> bool:
        """Whether so much may be bought."""
        return bool(self.table["shares"] is None or epsilon <= self.table["epsilons"][-1] * (1.0 + 1e-9))

    def amount(self, epsilon: float, column: str = "costs") -> Fraction:
        """Return the cost function of an epsilon, or its share of the release, by the announced table."""
        if self.table["shares"] is None:
            return Fraction(epsilon)
        return interpolated(epsilon, self.table["epsilons"], self.table[column])

    def has_prices(self, line: Part) -> bool:
        """Whether a line names a part and a group that exist."""
        return bool(line["part"] < max(len(self.prices), 1) and line["group"] < len(self.found["groups"]))

    def is_placed(self, line: Part) -> bool:
        """Whether a line's part is the one of the id by the salt."""
        split = self.found["split"]
        if split is None or not self.has_prices(line):
            return self.has_prices(line)
        text = b"dpmarket-part-1" + bytes.fromhex(split["salt"]) + line["id"].encode()
        digest = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
        return bool(digest % int(split["parts"]) == line["part"])

    def is_paid(self, line: Part) -> bool:
        """Whether a line's payment is what the tables give for its epsilon: exactly, rounded up to a unit."""
        epsilon, schedule = line["epsilon"], self._schedule(line)
        if epsilon == 0.0:
            return bool(line["payment"] == 0.0)
        if schedule is not None:
            cost = schedule.cost_of(epsilon)
            return cost is not None and self._is_due(line, schedule.payment(cost), schedule.payment(cost))
        first, reserve = (end * self.amount(epsilon) for end in self._ends(line))
        unpaid = line["payment"] == 0.0 and reserve * self.units > _UNIT_PART
        return self.is_sold(epsilon) and not unpaid and self._is_due(line, first, reserve)

    def quote_problem(self, line: Part, cost: float) -> str:
        """Return why a line is not the quote at a reported cost; empty if it is, as far as tables tell."""
        loss = Fraction(cost) * Fraction(line["epsilon"]) ** self.power * self.units
        if not Fraction(line["payment"]) >= loss * (1 - _CLOSE) - _UNIT_PART:
            return "the payment does not cover your cost"
        schedule = self._schedule(line)
        if schedule is None:
            unsold = cost <= self._ends(line)[1] or line["epsilon"] == 0.0
            return "" if unsold else "the cost is above the reserve price, and something was bought"
        due, room = schedule.payment(cost), Fraction(schedule.epsilons[0]) * _CLOSE
        close = abs(schedule.epsilon(cost) - Fraction(line["epsilon"])) <= room
        return "" if close and self._is_due(line, due, due) else "the announced prices give another quote"

    def _schedule(self, line: Part) -> Schedule | None:
        """Return the schedule by which a line was quoted; None where all reports decided together."""
        return self.prices[int(line["part"])][int(line["group"])] if self.prices else None

    def _ends(self, line: Part) -> tuple[Fraction, Fraction]:
        """Return the first knot and the reserve price of a line's group."""
        knots = self.found["groups"][int(line["group"])]["virtual_cost"]["knots"]
        return Fraction(knots[0]), Fraction(knots[-1])

    def _is_due(self, line: Part, least: Fraction, most: Fraction) -> bool:
        room = _UNIT_PART + most * self.units * _CLOSE
        return least * self.units - room <= Fraction(line["payment"]) <= most * self.units + room + 1


def market_problems(body: Part, delta: float) -> list[str]:
    """Return the names of a market's parts that are missing or not sound."""
    market, mechanism = body["market"], body["market"]["mechanism"]
    groups, prices, is_split = market["groups"], market["prices"], mechanism == "cross-priced"
    needs_tables = mechanism in ("offline", "cross-priced")
    tables = [group["virtual_cost"] for group in groups]
    named = len({group["name"] for group in groups}) == len(groups) <= 1_000
    tests = {
        "groups": named and abs(math.fsum(group["share"] for group in groups) - 1.0) <= 1e-9,
        "virtual_cost": all(_is_virtual_cost(table) if table else not needs_tables for table in tables),
        "objective": market["objective"] is not None or not needs_tables,
        "epsilon_cost": _is_epsilon_cost(market["epsilon_cost"]),
        "delta": delta <= market["delta"],
        "budget": market["budget"] is not None or not is_split,
        "prices": len(prices) == MECHANISMS[mechanism]
        and all(len(part["schedules"]) == len(groups) for part in prices),
        "split": (market["split"] is not None) == is_split,
    }
    if wrong := [name for name, good in tests.items() if not good]:
        return wrong
    own = Market(body)
    bounds = [table["knots"] if is_split else None for table in tables]
    pairs = (pair for part in own.prices for pair in zip(part, bounds, strict=True))
    sound = all(_is_schedule(schedule, own, knots) for schedule, knots in pairs)
    return [] if sound else ["schedules"]


def _never_falls(numbers: Sequence[float]) -> bool:
    return all(a <= b for a, b in pairwise(numbers))


def _is_virtual_cost(table: Part) -> bool:
    return len(table["values"]) == len(table["knots"]) and _never_falls(table["values"])


def _is_epsilon_cost(table: Part) -> bool:
    """Whether shares, epsilons and costs rise from 0, convexly, and costs are the cost function's."""
    if table["shares"] is None:
        return True
    shares, power = table["shares"], _POWERS[table["shape"]]
    columns = (table["epsilons"], table["costs"])
    if shares[0] != 0.0 or any(len(x) != len(shares) or x[0] != 0.0 for x in columns):
        return False
    for values in columns:
        steps = zip(pairwise(values), pairwise(shares), strict=True)
        slopes = [(b - a) / (d - c) for (a, b), (c, d) in steps]
        if not all(a <= b * (1.0 + 1e-6) for a, b in pairwise(slopes)):
            return False
    # Tables are raised, never lowered, until they are convex.
    pairs = zip(*columns, strict=True)
    return all(e**power * (1.0 - 1e-9) <= cost <= e**power * (1.0 + 1e-3) for e, cost in pairs)


def _is_schedule(found: Schedule, market: Market, knots: Sequence[float] | None) -> bool:
    """Whether epsilons and amounts never rise with the cost, and amounts are the cost function's.

    Prices that follow from other sellers' reports stay between the announced first cost and reserve price.
    """
    epsilons, amounts = found.epsilons, found.amounts
    if knots is not None and not knots[0] <= found.costs[0] < found.costs[-1] <= knots[-1]:
        return False
    if not len(found.costs) == len(epsilons) == len(amounts) or not market.is_sold(epsilons[0]):
        return False
    if not (_never_falls(epsilons[::-1]) and _never_falls(amounts[::-1])):
        return False
    pairs = ((market.amount(e), Fraction(amount)) for e, amount in zip(epsilons, amounts, strict=True))
    return all(abs(own - stated) <= _CLOSE * own for own, stated in pairs)
