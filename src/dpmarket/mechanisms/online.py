"""Sellers one by one: each reports a cost and is quoted at once (the paper's Algorithm 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmarket import checks
from dpmarket.arrays import read_only
from dpmarket.costs import CostDistribution, distribution_from_dict, virtual_costs
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.books import Books
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import check_distribution, one_cost, position, settings_of
from dpmarket.mechanisms.offline import ResponseCurve
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.protocol import Response
from dpmarket.mechanisms.quotes import Menu, Quote, Quotes, menu_of
from dpmarket.mechanisms.settlement import settle

SCHEMA = "dpmarket.online-market/1"


class OnlineMechanism:
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

    @property
    def quoted(self) -> int:
        """How many sellers have been quoted."""
        return len(self._books)

    @property
    def money_left(self) -> float:
        """What is left of the budget if every open quote is accepted; infinite without a budget."""
        return self._books.money_left

    @property
    def is_buying(self) -> bool:
        """Whether the next seller will be offered the curve: not closed, and money left for any of it."""
        return self._books.is_open_to(self.curve)

    def quote(self, cost: float, seller_id: str | int | None = None) -> Quote:
        """Offer one seller an epsilon and a payment for their reported cost.

        Parameters
        ----------
        cost
            The report, money per unit of epsilon, finite, at least 0. Below the support it counts as the
            lower end, above it the offer is epsilon 0 and payment 0.
        seller_id
            Text or whole number; give one to all sellers of a market or to none.

        Raises
        ------
        InvalidInput
            No cost; a seller who has been quoted; a closed market. Nothing has changed then.
        """
        return self.quote_many(one_cost("cost", cost), None if seller_id is None else [seller_id])[0]

    def quote_many(self, costs: object, seller_ids: object = None) -> Quotes:
        """Quote sellers in the order given: the same as one :meth:`quote` after the other."""
        return self._books.issue(self.curve, checks.non_negative_vector("costs", costs), seller_ids)

    def menu(self, points: int = 50) -> Menu:
        """Return a seller's choices of epsilon and payment, for sellers who would rather pick."""
        return menu_of(self.curve, points)

    def accept(self, quotes: Quote | Quotes) -> None:
        """Note that the seller, or all of several, accepted; a quote can be accepted once."""
        self._books.accept(quotes)

    def decline(self, quotes: Quote | Quotes) -> None:
        """Note that the seller, or all of several, declined; the money reserved is free again."""
        self._books.decline(quotes)

    def close(self, delivered: object = None, l2: float | None = None) -> Outcome:
        """End the market and return what was bought, in the order of the quotes.

        Parameters
        ----------
        delivered
            The sellers whose data really came, as quotes or as seller ids (without ids, quote numbers); they
            must have accepted. None: everybody who accepted. Others are left out of the outcome, and nothing
            is owed to them. Quotes still open lapse.
        l2
            The ridge penalty that training will use: weights then come from
            :func:`dpmarket.privacy.weights_for`, which keeps every promise whatever sum has come. None:
            ``loss_weights = epsilons / sum(epsilons)``, right where ``l2 * sum(epsilons) >= 2``.

        Raises
        ------
        Infeasible
            Nobody was bought from, or the promises cannot be kept at this ``l2``. The market stays open then.
        InvalidInput
            A seller named who did not accept; a market that is already closed.

        Notes
        -----
        Promises are those quoted, whatever their sum; only weights depend on it. The sum differs from the
        planned one, so that ``weight_cap`` and ``max_mean_epsilon`` hold as planned, not for certain.
        """
        numbers = self._books.delivered(delivered)
        self._books.refuse_closed()
        objective = self.curve.objective
        outcome = settle(
            self._books,
            numbers,
            virtual_costs(self._books.column("cost")[numbers], self.dist),
            objective,
            cutoff=self.curve.cutoff,
            mechanism=self.name,
            parameters={
                "distribution": self.dist.to_dict(),
                "objective": objective.to_dict(),
                "curve": self.curve.to_dict(),
                "budget": self._books.budget,
            },
            l2=l2,
        )
        self._books.closed = True
        return outcome

    def run(self, reported_costs: object, seller_ids: object = None, l2: float | None = None) -> Outcome:
        """Quote these sellers, in their order and all accepting, in a market of their own."""
        budget, minor_units = self._books.budget, self._books.minor_units
        fresh = OnlineMechanism(self.dist, self.curve, budget=budget, minor_units=minor_units)
        fresh.accept(fresh.quote_many(reported_costs, seller_ids))
        return fresh.close(l2=l2)

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given.

        All arrive in the order given and accept. Only the sellers before ``i`` matter.
        """
        curve = self.response_curve(reported_costs, i, one_cost("report", report))
        return Response(float(curve.epsilons[0]), float(curve.payments[0]))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits."""
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        i = position(costs, i)
        asked = checks.non_negative_vector("reports", reports)
        books = Books(self._books.budget, self._books.minor_units)
        if i > 0 and books.budget is not None:
            books.issue(self.curve, costs[:i], None)
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
