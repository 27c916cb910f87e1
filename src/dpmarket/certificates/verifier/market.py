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
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from .layout import is_whole
from .reading import is_hash

LARGEST = 1e15
"""No epsilon, payment, weight or total is larger."""
MECHANISMS = {"online": 1, "posted price": 1, "cross-priced": 16, "offline": 0}
"""Into how many parts with prices of their own each mechanism splits sellers."""
_MOST_KNOTS = 5_000
_CLOSE = Fraction(1, 10**9)
_UNIT_PART = Fraction(2, 10**6)
_POWERS = {"linear": 1, "quadratic": 2}
_OBJECTIVES = {
    "squared error": ("sampling_error", "noise_error", "payment_weight"),
    "paper": ("mu", "sigma", "gamma"),
}
_BOUNDS = {"weight_cap": 1.0, "max_mean_epsilon": 0.0}


class Schedule:
    """One price schedule, with payments by the envelope theorem."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.costs, self.epsilons, self.amounts = (found[x] for x in ("costs", "epsilons", "amounts"))
        self._negated = [-epsilon for epsilon in self.epsilons]

    @cached_property
    def _rents(self) -> list[Fraction]:
        """The integral of the amount from each knot to the last."""
        rents = [Fraction(0)]
        for k in range(len(self.costs) - 1, 0, -1):
            low, high, more, less = (
                Fraction(x) for x in (*self.costs[k - 1 : k + 1], *self.amounts[k - 1 : k + 1])
            )
            rents.append(rents[-1] + (more + less) / 2 * (high - low))
        return rents[::-1]

    def payment(self, epsilon: float) -> Fraction | None:
        """Return what an epsilon is paid, before rounding; None if the schedule does not offer it."""
        e, first, last = (Fraction(x) for x in (epsilon, self.epsilons[0], self.epsilons[-1]))
        if e > first * (1 + _CLOSE) or e < last * (1 - _CLOSE):
            return None
        e = min(max(e, last), first)
        k = min(max(bisect_right(self._negated, -float(e)), 1), len(self.costs) - 1)
        above, below = Fraction(self.epsilons[k - 1]), Fraction(self.epsilons[k])
        share = (
            min(max((above - e) / (above - below), Fraction(0)), Fraction(1))
            if above > below
            else Fraction(0)
        )
        return self._paid(k, share)

    def quote(self, cost: float) -> tuple[Fraction, Fraction, Fraction]:
        """Return epsilon and payment at a cost, before rounding, and what rounding epsilon may move it by."""
        if cost > self.costs[-1]:
            return Fraction(0), Fraction(0), Fraction(0)
        c = max(Fraction(cost), Fraction(self.costs[0]))
        k = min(max(bisect_right(self.costs, float(c)), 1), len(self.costs) - 1)
        low, high = Fraction(self.costs[k - 1]), Fraction(self.costs[k])
        share = (c - low) / (high - low)
        above, below = Fraction(self.epsilons[k - 1]), Fraction(self.epsilons[k])
        return above * (1 - share) + below * share, self._paid(k, share), above * _CLOSE

    def _paid(self, k: int, share: Fraction) -> Fraction:
        """Return the payment at a share of the way from one knot to the next."""
        low, high = Fraction(self.costs[k - 1]), Fraction(self.costs[k])
        more, less = Fraction(self.amounts[k - 1]), Fraction(self.amounts[k])
        cost, amount = low + share * (high - low), more + share * (less - more)
        return cost * amount + self._rents[k] + (amount + less) / 2 * (high - cost)


class Market:
    """A market's tables, as far as they are sound."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.found, self.units = body["market"], int(body["money"]["minor_units"])
        self.table = self.found["epsilon_cost"]
        self.power = _POWERS.get(self.table["shape"], 1)
        self.prices = [[Schedule(one) for one in part["schedules"]] for part in self.found["prices"]]

    @property
    def max_epsilon(self) -> float:
        """The largest epsilon that may be bought."""
        return math.inf if self.table["shares"] is None else float(self.table["epsilons"][-1])

    def amount(self, epsilon: float) -> Fraction:
        """Return the cost function of an epsilon, by the announced table."""
        if self.table["shares"] is None:
            return Fraction(epsilon)
        return interpolated(epsilon, self.table["epsilons"], self.table["costs"])

    def schedule(self, line: Mapping[str, Any]) -> Schedule | None:
        """Return the schedule by which a line was quoted; None where all reports decided together."""
        return self.prices[int(line["part"])][int(line["group"])] if self.prices else None

    def is_placed(self, line: Mapping[str, Any]) -> bool:
        """Whether a line names a part and a group that exist."""
        return is_whole(line["part"], 0, max(len(self.prices) - 1, 0)) and is_whole(
            line["group"], 0, len(self.found["groups"]) - 1
        )

    def is_paid(self, line: Mapping[str, Any]) -> bool:
        """Whether a line's payment is what the tables give for its epsilon: exactly, rounded up to a unit."""
        epsilon, payment = line["epsilon"], line["payment"]
        if not payment.is_integer() or not epsilon <= self.max_epsilon * (1.0 + float(_CLOSE)):
            return False
        if epsilon == 0.0:
            return bool(payment == 0.0)
        paid, schedule = Fraction(payment), self.schedule(line)
        if schedule is not None:
            due = schedule.payment(epsilon)
            return due is not None and self._is_rounded(paid, due * self.units, due * self.units)
        knots = self.found["groups"][int(line["group"])]["virtual_cost"]["knots"]
        sold = self.amount(epsilon) * self.units
        return self._is_rounded(paid, Fraction(knots[0]) * sold, Fraction(knots[-1]) * sold)

    def is_quote(self, line: Mapping[str, Any], cost: float) -> bool:
        """Whether a line is what its schedule, or the reserve price, gives at a reported cost."""
        schedule = self.schedule(line)
        if schedule is None:
            knots = self.found["groups"][int(line["group"])]["virtual_cost"]["knots"]
            return bool(cost <= knots[-1] or line["epsilon"] == 0.0)
        epsilon, due, room = schedule.quote(cost)
        close = abs(epsilon - Fraction(line["epsilon"])) <= room
        return close and self._is_rounded(Fraction(line["payment"]), due * self.units, due * self.units)

    def is_worth_it(self, line: Mapping[str, Any], cost: float) -> bool:
        """Whether a payment covers what an epsilon costs its seller: by exact comparison."""
        loss = Fraction(cost) * Fraction(line["epsilon"]) ** self.power * self.units
        return Fraction(line["payment"]) >= loss * (1 - _CLOSE) - _UNIT_PART

    def _is_rounded(self, paid: Fraction, least: Fraction, most: Fraction) -> bool:
        room = _UNIT_PART + most * _CLOSE
        return least - room <= paid <= most + room + 1


def market_problems(body: Mapping[str, Any], delta: float) -> list[str]:
    """Return the names of a market's parts that are missing, out of range or not sound."""
    market, mechanism = body["market"], body["market"]["mechanism"]
    if mechanism not in MECHANISMS:
        return ["mechanism"]
    parts = MECHANISMS[mechanism]
    needs_tables = mechanism in ("offline", "cross-priced")
    groups, budget, split = market["groups"], market["budget"], market["split"]
    names = [group["name"] for group in groups]
    total = math.fsum(group["share"] for group in groups)
    tests = {
        "groups": 1 <= len(groups) <= 1_000 and len(set(names)) == len(names) and abs(total - 1.0) <= 1e-9
        and all(0.0 < group["share"] <= 1.0 for group in groups),
        "virtual_cost": all(_is_virtual_cost(group["virtual_cost"], needed=needs_tables) for group in groups),
        "objective": _is_objective(market["objective"], needed=needs_tables),
        "epsilon_cost": _is_epsilon_cost(market["epsilon_cost"]),
        "delta": 0.0 <= market["delta"] < 1.0 and delta <= market["delta"],
        "budget": (mechanism != "cross-priced") if budget is None else 0.0 < budget <= LARGEST,
        "prices": len(market["prices"]) == parts,
        "split": (mechanism != "cross-priced") if split is None else parts > 1 and _is_split(split, parts),
    }  # fmt: skip
    wrong = [name for name, good in tests.items() if not good]
    if wrong:
        return wrong
    own = Market(body)
    for part in market["prices"]:
        weight = part["payment_weight"]
        if not (weight is None or 0.0 < weight <= 1e100) or len(part["schedules"]) != len(groups):
            return ["prices"]
        if not all(_is_schedule(schedule, own) for schedule in part["schedules"]):
            return ["schedules"]
    return []


def part_of(seller: str, salt: str, parts: int) -> int:
    """Return the part of an id."""
    digest = hashlib.sha256(b"dpmarket-part-1" + bytes.fromhex(salt) + seller.encode()).digest()
    return int.from_bytes(digest[:8], "big") % parts


def bound_salt(rules: str, sellers: str) -> str:
    """Return the salt that follows from the digests of the rules and of the list of sellers."""
    return hashlib.sha256(b"dpmarket-salt-1" + bytes.fromhex(rules) + bytes.fromhex(sellers)).hexdigest()


def interpolated(x: float, knots: Sequence[float], values: Sequence[float]) -> Fraction:
    """Return a table's value, exactly; the first and the last value beyond its ends."""
    if x <= knots[0] or x >= knots[-1]:
        return Fraction(values[0] if x <= knots[0] else values[-1])
    k = bisect_right(knots, x)
    low, high, before, after = (Fraction(y) for y in (knots[k - 1], knots[k], values[k - 1], values[k]))
    return before + (after - before) * (Fraction(x) - low) / (high - low)


def _is_table(numbers: Sequence[float], size: int) -> bool:
    return len(numbers) == size and all(0.0 <= number <= LARGEST for number in numbers)


def _rises(numbers: Sequence[float]) -> bool:
    return 2 <= len(numbers) <= _MOST_KNOTS and all(a < b for a, b in pairwise(numbers))


def _is_virtual_cost(table: Mapping[str, Any] | None, *, needed: bool) -> bool:
    if table is None:
        return not needed
    knots, values = table["knots"], table["values"]
    sizes = _is_table(knots, len(knots)) and _is_table(values, len(knots))
    return sizes and _rises(knots) and all(a <= b for a, b in pairwise(values))


def _is_objective(found: Mapping[str, Any] | None, *, needed: bool) -> bool:
    if found is None:
        return not needed
    kind = found.get("kind")
    names = _OBJECTIVES.get(kind) if isinstance(kind, str) else None
    if names is None or found.keys() != {"kind", *names, *_BOUNDS}:
        return False
    bounds = all(
        found[name] is None
        or (type(found[name]) is float and least <= found[name] <= LARGEST and found[name] > 0.0)
        for name, least in _BOUNDS.items()
    )
    return bounds and all(type(found[name]) is float and 0.0 < found[name] <= 1e100 for name in names)


def _is_epsilon_cost(table: Mapping[str, Any]) -> bool:
    """Whether shares, epsilons and costs rise from 0, convexly, and costs are the cost function's."""
    power = _POWERS.get(table["shape"])
    if table["shares"] is None or power is None:
        return power == 1
    shares, epsilons, costs = (table[name] for name in ("shares", "epsilons", "costs"))
    columns = (shares, epsilons, costs)
    if not all(_is_table(x, len(shares)) and _rises(x) and x[0] == 0.0 for x in columns):
        return False
    for values in (epsilons, costs):
        slopes = [
            (b - a) / (d - c) for (a, b), (c, d) in zip(pairwise(values), pairwise(shares), strict=True)
        ]
        if not all(a <= b * (1.0 + 1e-6) for a, b in pairwise(slopes)):
            return False
    # Tables are raised, never lowered, until they are convex.
    return all(
        e**power * (1.0 - 1e-9) <= cost <= e**power * (1.0 + 1e-3)
        for e, cost in zip(epsilons, costs, strict=True)
    )


def _is_split(split: Mapping[str, Any], parts: int) -> bool:
    digests = all(split[name] is None or is_hash(split[name]) for name in ("histograms", "nonce", "sellers"))
    return digests and is_hash(split["salt"]) and split["parts"] == parts


def _is_schedule(found: Mapping[str, Any], market: Market) -> bool:
    """Whether epsilons and amounts never rise with the cost, and amounts are the cost function's."""
    costs, epsilons, amounts = (found[name] for name in ("costs", "epsilons", "amounts"))
    if not all(_is_table(x, len(costs)) for x in (costs, epsilons, amounts)) or not _rises(costs):
        return False
    falling = all(a >= b for x in (epsilons, amounts) for a, b in pairwise(x))
    within = epsilons[0] <= market.max_epsilon * (1.0 + float(_CLOSE))
    return falling and within and all(
        abs(market.amount(e) - Fraction(amount)) <= _CLOSE * market.amount(e)
        for e, amount in zip(epsilons, amounts, strict=True)
    )  # fmt: skip
