"""Sellers one by one: each reports a cost and is quoted at once (the paper's Algorithm 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import read_only
from dpmarket.costs import CostDistribution, distribution_from_dict
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.books import Books
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import check_distribution, position, settings_of
from dpmarket.mechanisms.offline import ResponseCurve
from dpmarket.mechanisms.quotes import Quotes
from dpmarket.mechanisms.quoting import QuotingMarket

SCHEMA = "dpmarket.online-market/1"


class OnlineMechanism(QuotingMarket):
    """Quote sellers as they come, all by one curve that was fixed before the first of them.

    Whoever came before and whenever a seller comes, truth is their best report, and nobody loses by taking
    part: payment >= reported cost * epsilon, in exact arithmetic.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge; its virtual costs value what was bought.
    curve
        What to offer at which cost, from :func:`population_curve` or :func:`paper_curve`; made
        for the same support.
    budget
        Money that all payments together never exceed; None: no budget. Open quotes reserve money. When what
        is left is below the curve's largest payment, sellers are quoted epsilon 0 and payment 0: a decision
        that uses earlier quotes only, so that truth stays best. A declined quote frees its money.
    minor_units
        Smallest currency units to one unit of money: count payments against the budget as
        ``outcome.in_minor_units`` will round them. None: count the payments themselves.

    Notes
    -----
    A seller reports once; with ``seller_id`` the market itself refuses a second quote. Reported costs are
    kept in memory for the books, and shown nowhere.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import population_curve
    >>> dist = Uniform(1, 5)
    >>> market = OnlineMechanism(dist, population_curve(dist, BuyerObjective(1.0, 1.0, 1e-3), 100))
    >>> quote = market.quote(2.0)
    >>> quote.payment > 2.0 * quote.epsilon
    True
    >>> market.accept(quote)
    >>> market.close().epsilons.tolist() == [quote.epsilon]
    True
    """

    name = "online"

    def __init__(
        self,
        dist: CostDistribution,
        curve: Curve,
        *,
        budget: float | None = None,
        minor_units: int | None = None,
    ) -> None:
        check_distribution(dist)
        if not isinstance(curve, Curve):
            raise InvalidInput(f"expected a curve, got {type(curve).__name__}; make one by population_curve.")
        if curve.dist.support != dist.support:
            raise InvalidInput(
                f"expected a curve for the support {dist.support}, got one for {curve.dist.support}: the "
                "payments would not fit."
            )
        self.dist = dist
        self.curve = curve
        self._books = Books(budget, minor_units)

    def __repr__(self) -> str:
        return f"OnlineMechanism({self.dist!r}, quoted={self.quoted})"

    def quote_many(self, costs: object, seller_ids: object = None) -> Quotes:
        """Quote sellers in the order given: the same as one :meth:`quote` after the other."""
        return self._books.issue(self.curve, checks.non_negative_vector("costs", costs), seller_ids, 0)

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits."""
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        i = position(costs, i)
        asked = checks.non_negative_vector("reports", reports)
        books = Books(self._books.budget, self._books.minor_units)
        if i > 0 and books.budget is not None:
            books.issue(self.curve, costs[:i], None, 0)
        epsilons, payments = books.alternatives(self.curve, asked)
        return ResponseCurve(read_only(asked.copy()), read_only(epsilons), read_only(payments))

    def settings(self) -> dict[str, Any]:
        """Return what decides how sellers are quoted, as plain data: nothing about who has come."""
        return {
            "mechanism": self.name,
            "distribution": self.dist.to_dict(),
            "curve": self.curve.to_dict(),
            "budget": self._books.budget,
            "minor_units": self._books.minor_units,
        }

    @classmethod
    def from_settings(cls, data: Mapping[str, Any]) -> OnlineMechanism:
        """Make a market with these :meth:`settings`, to which nobody has come yet."""
        dist, curve, budget = settings_of(data, cls.name, "distribution", "curve", "budget")
        return cls(
            distribution_from_dict(dist),
            Curve.from_dict(curve),
            budget=budget,
            minor_units=data.get("minor_units"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain data. It holds reported costs: confidential."""
        return {
            "schema": SCHEMA,
            "distribution": self.dist.to_dict(),
            "curve": self.curve.to_dict(),
            "books": self._books.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OnlineMechanism:
        """Make the market whose ``to_dict()`` gave this data: the same quotes stay valid."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InvalidInput(f"expected the plain data of a market with schema {SCHEMA!r}.")
        try:
            parts = data["distribution"], data["curve"], data["books"]
        except KeyError as missing:
            raise InvalidInput(f"expected a whole market, found no {missing}.") from None
        market = cls(distribution_from_dict(parts[0]), Curve.from_dict(parts[1]))
        market._books = Books.from_dict(parts[2])
        return market

    def _next_curve(self) -> Curve:
        return self.curve

    def _values(self) -> tuple[BuyerObjective, CostDistribution]:
        return self.curve.objective, self.dist

    def _fresh(self) -> OnlineMechanism:
        budget, minor_units = self._books.budget, self._books.minor_units
        return OnlineMechanism(self.dist, self.curve, budget=budget, minor_units=minor_units)

    def _parameters(self) -> dict[str, Any]:
        return {
            "distribution": self.dist.to_dict(),
            "objective": self.curve.objective.to_dict(),
            "curve": self.curve.to_dict(),
            "budget": self._books.budget,
        }
