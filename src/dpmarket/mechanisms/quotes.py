"""What sellers who arrive alone are shown: a quote, many quotes, or the whole menu."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.gaussian_online import OnlineGaussianMechanism
from dpmarket.mechanisms.protocol import Response


@dataclass(frozen=True)
class Quote:
    """An offer to one seller: this much money for this much epsilon. It stays valid as given.

    Attributes
    ----------
    number
        The quote's position in its market, from 0.
    epsilon
        The promise.
    payment
        In money.
    epoch
        Which curve of the market made it: 0, because a market has one curve.
    market
        Which market made it.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OnlineMechanism
    >>> dist = Uniform(1, 5)
    >>> market = OnlineMechanism(dist, Curve(dist, BuyerObjective(1.0, 1.0, 0.1), 100, slope=0.5, cutoff=3.0))
    >>> quote = market.quote(1.5)
    >>> quote.number, quote.epsilon, round(quote.payment, 9)
    (0, 0.5, 0.875)
    >>> market.accept(quote)
    """

    number: int
    epsilon: float
    payment: float
    epoch: int
    market: str = field(repr=False)


@dataclass(frozen=True, eq=False)
class Quotes:
    """Offers to several sellers, in their order; arrays are read-only. ``quotes[k]`` is one of them.

    Attributes
    ----------
    first
        Number of the first of them; the others follow.
    epsilons, payments, epochs
        As in :class:`Quote`, shape (n,).
    market
        Which market made them.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OnlineMechanism
    >>> dist = Uniform(1, 5)
    >>> market = OnlineMechanism(dist, Curve(dist, BuyerObjective(1.0, 1.0, 0.1), 100, slope=0.5, cutoff=3.0))
    >>> quotes = market.quote_many([1.0, 1.5, 4.0])
    >>> quotes.epsilons.tolist(), quotes.payments.round(9).tolist()
    ([1.0, 0.5, 0.0], [1.5, 0.875, 0.0])
    >>> market.accept(quotes[0])
    >>> len(quotes), quotes[1].number
    (3, 1)
    """

    first: int
    epsilons: FloatArray
    payments: FloatArray
    epochs: IntArray
    market: str = field(repr=False)

    def __len__(self) -> int:
        return len(self.epsilons)

    def __getitem__(self, position: int) -> Quote:
        k = range(len(self))[position]
        return Quote(
            self.first + k,
            float(self.epsilons[k]),
            float(self.payments[k]),
            int(self.epochs[k]),
            self.market,
        )

    def __iter__(self) -> Iterator[Quote]:
        return (self[k] for k in range(len(self)))


@dataclass(frozen=True, eq=False)
class Menu:
    """A curve as choices: the same for everybody, shown before anybody reports anything.

    A seller who picks the choice that is worth most to them gets what a truthful report would get. The
    payments are an increasing concave function of epsilon whose slope at a choice is the cost of those who
    pick it. Arrays are read-only, by rising epsilon; the first choice is to sell nothing.

    Attributes
    ----------
    epsilons, payments
        The choices.
    costs
        For each choice a cost at which it is the best one of the whole curve; for the first choice the lowest
        such cost.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OnlineMechanism
    >>> dist = Uniform(1, 5)
    >>> market = OnlineMechanism(dist, Curve(dist, BuyerObjective(1.0, 1.0, 0.1), 100, slope=0.5, cutoff=3.0))
    >>> menu = market.menu(points=3)
    >>> menu.epsilons.round(9).tolist(), menu.payments.round(9).tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.875, 1.5])
    >>> round(menu.best(cost=1.5).epsilon, 9)
    0.5
    """

    epsilons: FloatArray
    payments: FloatArray
    costs: FloatArray

    def best(self, cost: float) -> Response:
        """Return the choice that a seller with this cost gains most by; of equal ones the least epsilon."""
        worth = self.payments - checks.non_negative("cost", cost) * self.epsilons
        k = int(worth.argmax())
        return Response(float(self.epsilons[k]), float(self.payments[k]))


def menu_of(curve: Curve | OnlineGaussianMechanism, points: int) -> Menu:
    """Return a curve as a menu of at most ``points`` choices besides the first, which is (0, 0)."""
    points = checks.whole("points", points, 2)
    low, end = curve.dist.support[0], curve.reach
    costs = np.linspace(np.nextafter(end, low), low, points)  # at the end itself a step has come down
    epsilons, payments, _ = curve.offers(costs)
    # Choices that differ by rounding only would make slopes between them meaningless.
    rise = np.diff(epsilons, prepend=0.0)
    keep = rise > 1e-9 * epsilons[-1]
    return Menu(
        read_only(np.append(0.0, epsilons[keep])),
        read_only(np.append(0.0, payments[keep])),
        read_only(np.append(end, costs[keep])),
    )
