"""What all markets share in which sellers come one by one, whatever decides the curve."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution, virtual_costs
from dpmarket.mechanisms.books import Books
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import one_cost
from dpmarket.mechanisms.offline import ResponseCurve
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.protocol import Response
from dpmarket.mechanisms.quotes import Menu, Quote, Quotes, menu_of
from dpmarket.mechanisms.settlement import settle


class QuotingMarket(ABC):
    """Quote sellers as they come, note who accepts, and settle in the end."""

    name: ClassVar[str]
    _books: Books

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
        return self._books.is_open_to(self._next_curve())

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

    @abstractmethod
    def quote_many(self, costs: object, seller_ids: object = None) -> Quotes:
        """Quote sellers in the order given: the same as one :meth:`quote` after the other."""

    def menu(self, points: int = 50) -> Menu:
        """Return the next seller's choices of epsilon and payment, for sellers who would rather pick."""
        return menu_of(self._next_curve(), points)

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
        objective, belief = self._values()
        psi = virtual_costs(self._books.column("cost")[numbers], belief)
        outcome = settle(
            self._books,
            numbers,
            psi,
            objective,
            cutoff=self._next_curve().cutoff,
            mechanism=self.name,
            parameters=self._parameters(),
            l2=l2,
        )
        self._books.closed = True
        return outcome

    def run(self, reported_costs: object, seller_ids: object = None, l2: float | None = None) -> Outcome:
        """Quote these sellers, in their order and all accepting, in a market of their own."""
        fresh = self._fresh()
        fresh.accept(fresh.quote_many(reported_costs, seller_ids))
        return fresh.close(l2=l2)

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given.

        All arrive in the order given and accept. Only the sellers before ``i`` matter.
        """
        curve = self.response_curve(reported_costs, i, one_cost("report", report))
        return Response(float(curve.epsilons[0]), float(curve.payments[0]))

    @abstractmethod
    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits."""

    @abstractmethod
    def _next_curve(self) -> Curve:
        """The curve by which the next seller will be quoted."""

    @abstractmethod
    def _values(self) -> tuple[BuyerObjective, CostDistribution]:
        """What the buyer wants, and the costs as believed now: their virtual costs value what was bought."""

    @abstractmethod
    def _fresh(self) -> Self:
        """A market with the same settings to which nobody has come yet."""

    @abstractmethod
    def _parameters(self) -> dict[str, Any]:
        """The public parameters of the outcome."""
