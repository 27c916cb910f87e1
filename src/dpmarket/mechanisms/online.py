"""Sellers one by one: each reports a cost and is quoted at once (the paper's Algorithm 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs import CostDistribution, distribution_from_dict, virtual_costs
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.ledger import Ledger
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
    dist : the distribution of costs, common knowledge; its virtual costs value what was bought.
    curve : what to offer at which cost, from :func:`population_curve` or :func:`paper_curve`; made for the
        same support.
    budget : money that all payments together never exceed; None: no budget. Open quotes reserve money.
        When what is left is below the curve's largest payment, sellers are quoted epsilon 0 and payment 0:
        a decision that uses earlier quotes only, so that truth stays best. A declined quote frees its money.
    minor_units : smallest currency units to one unit of money: count payments against the budget as
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

    def __init__(
        self,
        dist: CostDistribution,
        curve: Curve,
        *,
        budget: float | None = None,
        minor_units: int | None = None,
    ) -> None:
        if not isinstance(dist, CostDistribution):
            raise InvalidInput(f"expected dist to be a cost distribution, got {type(dist).__name__}.")
        if not isinstance(curve, Curve):
            raise InvalidInput(f"expected a curve, got {type(curve).__name__}; make one by population_curve.")
        if curve.dist.support != dist.support:
            raise InvalidInput(
                f"expected a curve for the support {dist.support}, got one for {curve.dist.support}: the "
                "payments would not fit."
            )
        self.dist = dist
        self.curve = curve
        self._ledger = Ledger(budget, minor_units)

    def __repr__(self) -> str:
        return f"OnlineMechanism({self.dist!r}, quoted={len(self._ledger)})"

    @property
    def quoted(self) -> int:
        """How many sellers have been quoted."""
        return len(self._ledger)

    @property
    def money_left(self) -> float:
        """What is left of the budget if every open quote is accepted; infinite without a budget."""
        return self._ledger.money_left

    @property
    def is_buying(self) -> bool:
        """Whether the next seller will be offered the curve: not closed, and money left for any of it."""
        return self._ledger.is_open_to(self.curve)

    def quote(self, cost: float, seller_id: str | int | None = None) -> Quote:
        """Offer one seller an epsilon and a payment for their reported cost.

        Parameters
        ----------
        cost : the report, money per unit of epsilon, finite, at least 0. Below the support it counts as the
            lower end, above it the offer is epsilon 0 and payment 0.
        seller_id : text or whole number; give one to all sellers of a market or to none.

        Raises
        ------
        InvalidInput : no cost; a seller who has been quoted; a closed market. Nothing has changed then.
        """
        ids = None if seller_id is None else [seller_id]
        return self._ledger.issue(self.curve, one_cost("cost", cost), ids, 0)[0]

    def quote_many(self, costs: object, seller_ids: object = None) -> Quotes:
        """Quote sellers in the order given: the same as one :meth:`quote` after the other."""
        return self._ledger.issue(self.curve, checks.non_negative_vector("costs", costs), seller_ids, 0)

    def menu(self, points: int = 50) -> Menu:
        """Return the curve as choices of epsilon and payment, for sellers who would rather pick."""
        return menu_of(self.curve, points)

    def accept(self, quotes: Quote | Quotes) -> None:
        """Note that the seller, or all of several, accepted; a quote can be accepted once."""
        self._ledger.accept(quotes)

    def decline(self, quotes: Quote | Quotes) -> None:
        """Note that the seller, or all of several, declined; the money reserved is free again."""
        self._ledger.decline(quotes)

    def close(self, delivered: object = None, l2: float | None = None) -> Outcome:
        """End the market and return what was bought, in the order of the quotes.

        Parameters
        ----------
        delivered : the sellers whose data really came, as quotes or as seller ids (without ids, quote
            numbers); they must have accepted. None: everybody who accepted. Others are left out of the
            outcome, and nothing is owed to them. Quotes still open lapse.
        l2 : the ridge penalty that training will use: weights then come from
            :func:`dpmarket.privacy.weights_for`, which keeps every promise whatever sum has come. None:
            ``loss_weights = epsilons / sum(epsilons)``, right where ``l2 * sum(epsilons) >= 2``.

        Raises
        ------
        Infeasible : nobody was bought from, or the promises cannot be kept at this ``l2``. The market stays
            open then.
        InvalidInput : a seller named who did not accept; a market that is already closed.

        Notes
        -----
        Promises are those quoted, whatever their sum; only weights depend on it. The sum differs from the
        planned one, so that ``weight_cap`` and ``max_mean_epsilon`` hold as planned, not for certain.
        """
        numbers = self._ledger.delivered(delivered)
        self._ledger.refuse_closed()
        psi = virtual_costs(self._ledger.column("cost")[numbers], self.dist)
        outcome = settle(self._ledger, numbers, psi, self.curve.objective, "online", self._parameters(), l2)
        self._ledger.closed = True
        return outcome

    def run(self, reported_costs: object, seller_ids: object = None, l2: float | None = None) -> Outcome:
        """Quote these sellers, in their order and all accepting, in a market of their own."""
        fresh = OnlineMechanism(
            self.dist, self.curve, budget=self._ledger.budget, minor_units=self._ledger.minor_units
        )
        fresh.accept(fresh.quote_many(reported_costs, seller_ids))
        return fresh.close(l2=l2)

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given.

        All arrive in the order given and accept. Without a budget the others do not matter; with one, the
        sellers before ``i`` decide whether there is money left.
        """
        curve = self.response_curve(reported_costs, i, one_cost("report", report))
        return Response(float(curve.epsilons[0]), float(curve.payments[0]))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits."""
        costs, i = position(reported_costs, i)
        asked = checks.non_negative_vector("reports", reports)
        books = Ledger(self._ledger.budget, self._ledger.minor_units)
        if i > 0 and books.budget is not None:
            books.issue(self.curve, costs[:i], None, 0)
        epsilons, payments = books.alternatives(self.curve, asked)
        return ResponseCurve(read_only(asked.copy()), read_only(epsilons), read_only(payments))

    def settings(self) -> dict[str, Any]:
        """Return what decides how sellers are quoted, as plain data: nothing about who has come."""
        return {
            "mechanism": "online",
            "distribution": self.dist.to_dict(),
            "curve": self.curve.to_dict(),
            "budget": self._ledger.budget,
            "minor_units": self._ledger.minor_units,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain data. It holds reported costs: confidential."""
        return {
            "schema": SCHEMA,
            "distribution": self.dist.to_dict(),
            "curve": self.curve.to_dict(),
            "ledger": self._ledger.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OnlineMechanism:
        """Make the market whose ``to_dict()`` gave this data: the same quotes stay valid."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InvalidInput(f"expected the plain data of a market with schema {SCHEMA!r}.")
        try:
            parts = data["distribution"], data["curve"], data["ledger"]
        except KeyError as missing:
            raise InvalidInput(f"expected a whole market, found no {missing}.") from None
        market = cls(distribution_from_dict(parts[0]), Curve.from_dict(parts[1]))
        market._ledger = Ledger.from_dict(parts[2])
        return market

    def _parameters(self) -> dict[str, Any]:
        return {
            "distribution": self.dist.to_dict(),
            "objective": self.curve.objective.to_dict(),
            "curve": self.curve.to_dict(),
            "budget": self._ledger.budget,
        }


def one_cost(name: str, cost: object) -> FloatArray:
    """Check one reported cost, without showing it in the message."""
    array = checks.non_negative_numbers(name, cost)
    if array.ndim != 0:
        raise InvalidInput(f"expected {name} to be one cost, got an array.")
    return array.reshape(1)


def position(reported_costs: object, i: int) -> tuple[FloatArray, int]:
    """Check the reports of a whole market and one seller's position among them."""
    costs = checks.non_negative_vector("reported_costs", reported_costs)
    i = checks.whole("i", i)
    if i >= costs.size:
        raise InvalidInput(f"expected i to be a seller's position below {costs.size}, got {i}.")
    return costs, i
