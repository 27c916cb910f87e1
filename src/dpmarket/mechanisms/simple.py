"""Turn reported costs into promises the simple way: one common epsilon, one price; truthful, to compare with.

Three buyers that somebody without a mechanism might be. Each promises the same epsilon to everybody it buys
from and pays them all the same, so that a seller's report decides at most whether they are bought from:

* :class:`PostedPrice` names a price and takes whoever accepts it;
* :class:`CheapestK` takes the k cheapest and pays them what the next one asked for;
* :class:`SameForAll` takes everybody and pays enough for the dearest.

All prices are money per unit of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, read_only
from dpmarket.costs import CostDistribution, distribution_from_dict
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.inputs import check_distribution, one_cost, position, settings_of
from dpmarket.mechanisms.offline import ResponseCurve
from dpmarket.mechanisms.outcome import Outcome, checked_ids
from dpmarket.mechanisms.protocol import Response

# Relative error at which the integral of the expected (k+1)-th price stops.
_ACCURACY = 1e-7
# scipy's inverse of the incomplete beta function has no answer for some shares far below this one.
_LEAST_SHARE = 1e-100


@dataclass(frozen=True)
class PostedPrice:
    """Offer everybody the same price for the same epsilon: take it or leave it.

    Truth is every seller's best report, because the report moves neither epsilon nor price: a seller is
    bought from exactly if the price covers the reported cost. Nobody who reports the truth loses.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge; only its support is used.
    epsilon
        The promise to everybody who accepts, above 0.
    price
        Money per unit of epsilon, above 0; who accepts is paid ``price * epsilon``, rounded up.

    Notes
    -----
    Reports below the support count as its lower end, reports above it get nothing, as in
    :class:`~dpmarket.mechanisms.offline.OfflineMechanism`. A simple buyer minimises nothing:
    the outcome has no ``optimality``.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0).run([1.5, 3.0, 4.9]).payments.tolist()
    [1.5, 1.5, 0.0]
    """

    name: ClassVar[str] = "posted price"
    dist: CostDistribution
    epsilon: float
    price: float

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "price", checks.positive("price", self.price))

    @classmethod
    def for_budget(cls, dist: CostDistribution, sellers: int, budget: float, share: float) -> PostedPrice:
        """Return the buyer whose price a ``share`` of people accept, with the budget as expected payments.

        Parameters
        ----------
        dist
            The distribution of costs.
        sellers
            How many will be asked.
        budget
            Expected total payment, money.
        share
            Share of people whose cost the price covers, strictly above 0 and at most 1.

        Examples
        --------
        >>> from dpmarket.costs import Uniform
        >>> PostedPrice.for_budget(Uniform(1, 5), sellers=100, budget=50.0, share=0.25)
        PostedPrice(dist=Uniform(low=1.0, high=5.0), epsilon=1.0, price=2.0)
        """
        sellers, budget = _campaign(sellers, budget)
        share = checks.positive("share", share)
        if share > 1.0:
            raise InvalidInput(f"expected share to be at most 1, got {share!r}.")
        price = _finite_top(dist) if share == 1.0 else float(dist.quantile(share))
        if not price > 0.0:
            raise InvalidInput(f"expected a share whose price is above 0, got {share!r}.")
        return cls(dist, budget / (sellers * float(dist.cdf(price)) * price), price)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same buyer."""
        return {"mechanism": self.name, **_parameters(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PostedPrice:
        """Make the buyer whose ``to_dict()`` gave this data."""
        dist, *values = settings_of(data, cls.name, "distribution", "epsilon", "price")
        return cls(distribution_from_dict(dist), *values)

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Decide every seller's promise and payment; arguments and refusals as in the offline mechanism."""
        costs, possible = _reports(self.dist, "reported_costs", reported_costs)
        bought = possible & (costs <= self.price)
        return _outcome(self, bought, self.price, seller_ids)

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        return _one(self.response_curve(reported_costs, i, one_cost("report", report)))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports."""
        _others(self.dist, reported_costs, i)
        asked, possible = _reports(self.dist, "reports", reports)
        return _curve(reports, possible & (asked <= self.price), self.epsilon, self.price)


@dataclass(frozen=True)
class CheapestK:
    """Buy one epsilon from each of the k cheapest sellers, at the (k+1)-th price.

    A seller is bought from exactly if their report is below the k-th lowest of the others, and that is their
    price: a second-price auction with k winners, truthful and never at anybody's loss.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge; only its support is used.
    k
        How many to buy from, at least 1.
    epsilon
        The promise to each of them, above 0.

    Notes
    -----
    Ghosh and Roth's auction for a given accuracy, with their epsilon left to the caller. Where no (k+1)-th
    possible report exists, the price is the upper end of the support; costs without an upper end are then
    refused. Among equal reports the seller who comes first wins; they gain nothing either way. Reports
    outside the support, and no optimality: as for :class:`PostedPrice`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> CheapestK(Uniform(1, 5), k=2, epsilon=0.5).run([1.5, 3.0, 2.0, 4.9]).payments.tolist()
    [1.5, 0.0, 1.5, 0.0]
    """

    name: ClassVar[str] = "cheapest k"
    dist: CostDistribution
    k: int
    epsilon: float

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "k", checks.whole("k", self.k, minimum=1))

    @classmethod
    def for_budget(cls, dist: CostDistribution, sellers: int, budget: float, k: int) -> CheapestK:
        """Return the buyer of ``k`` out of ``sellers`` whose expected payments are the budget.

        The expected price is that of the (k+1)-th lowest of ``sellers`` independent costs, or the upper end
        of the support if there are no more than ``k``.

        Examples
        --------
        >>> from dpmarket.costs import Uniform
        >>> round(CheapestK.for_budget(Uniform(0, 1), sellers=99, budget=10.0, k=49).epsilon, 6)
        0.408163
        """
        sellers, budget = _campaign(sellers, budget)
        k = checks.whole("k", k, minimum=1)
        return cls(dist, k, budget / (min(k, sellers) * expected_price(dist, sellers, k)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same buyer."""
        return {"mechanism": self.name, **_parameters(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheapestK:
        """Make the buyer whose ``to_dict()`` gave this data."""
        dist, *values = settings_of(data, cls.name, "distribution", "k", "epsilon")
        return cls(distribution_from_dict(dist), *values)

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Decide every seller's promise and payment; arguments and refusals as in the offline mechanism."""
        costs, possible = _reports(self.dist, "reported_costs", reported_costs)
        bought = possible
        if int(possible.sum()) > self.k:
            ranked = np.partition(costs[possible], (self.k - 1, self.k))
            last, price = float(ranked[self.k - 1]), float(ranked[self.k])
            bought = possible & (costs < last)
            ties = np.flatnonzero(possible & (costs == last))
            bought[ties[: self.k - int(bought.sum())]] = True
        else:
            price = _finite_top(self.dist)
        return _outcome(self, bought, price, seller_ids)

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        return _one(self.response_curve(reported_costs, i, one_cost("report", report)))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports."""
        before, after = _others(self.dist, reported_costs, i)
        asked, possible = _reports(self.dist, "reports", reports)
        others = np.concatenate((before, after))
        if others.size < self.k:
            return _curve(reports, possible, self.epsilon, _finite_top(self.dist))
        price = float(np.partition(others, self.k - 1)[self.k - 1])
        # At a report equal to the price, those at that price who come first go first.
        wins_ties = int((others < price).sum()) + int((before == price).sum()) < self.k
        bought = possible & ((asked < price) | ((asked == price) & wins_ties))
        return _curve(reports, bought, self.epsilon, price)


@dataclass(frozen=True)
class SameForAll:
    """Promise everybody the same epsilon and pay everybody what it costs the dearest.

    The only way to have everybody's record at one epsilon: the price is the upper end of the support, so
    that taking part is never a loss. Truthful, because within the support no report changes anything.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge, with a finite upper end.
    epsilon
        The promise to everybody, above 0.

    Notes
    -----
    Reports above the support get nothing; the outcome has no optimality, as for :class:`PostedPrice`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> SameForAll(Uniform(1, 5), epsilon=0.5).run([1.5, 3.0, 4.9]).payments.tolist()
    [2.5, 2.5, 2.5]
    """

    name: ClassVar[str] = "same for all"
    dist: CostDistribution
    epsilon: float

    def __post_init__(self) -> None:
        _check(self)
        _finite_top(self.dist)

    @classmethod
    def for_budget(cls, dist: CostDistribution, sellers: int, budget: float) -> SameForAll:
        """Return the buyer who spends the budget on ``sellers`` people, whatever their costs are.

        Examples
        --------
        >>> from dpmarket.costs import Uniform
        >>> SameForAll.for_budget(Uniform(1, 5), sellers=100, budget=50.0).epsilon
        0.1
        """
        sellers, budget = _campaign(sellers, budget)
        return cls(dist, budget / (sellers * _finite_top(dist)))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same buyer."""
        return {"mechanism": self.name, **_parameters(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SameForAll:
        """Make the buyer whose ``to_dict()`` gave this data."""
        dist, *values = settings_of(data, cls.name, "distribution", "epsilon")
        return cls(distribution_from_dict(dist), *values)

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Decide every seller's promise and payment; arguments and refusals as in the offline mechanism."""
        _, possible = _reports(self.dist, "reported_costs", reported_costs)
        top = _finite_top(self.dist)
        return _outcome(self, possible, top, seller_ids)

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        return _one(self.response_curve(reported_costs, i, one_cost("report", report)))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports."""
        _others(self.dist, reported_costs, i)
        _, possible = _reports(self.dist, "reports", reports)
        return _curve(reports, possible, self.epsilon, _finite_top(self.dist))


def expected_price(dist: CostDistribution, sellers: int, k: int) -> float:
    """Return the expected (k+1)-th lowest of ``sellers`` independent costs, or the support's upper end.

    The (k+1)-th lowest of m uniform numbers has a Beta(k+1, m-k) distribution; the cost's quantile function
    is integrated over it between the distribution's breakpoints. Relative errors are below 1e-6; what lies
    beyond the quantile at 1 - 1e-16 is not seen.
    """
    if k >= sellers:
        return _finite_top(dist)
    from scipy.integrate import tanhsinh
    from scipy.special import betainc, betaincinv

    low, high = k + 1.0, float(sellers - k)
    levels = dist.cdf(np.asarray(dist.breakpoints, dtype=np.float64))

    def price(shares: FloatArray, first: FloatArray, second: FloatArray, sign: FloatArray) -> FloatArray:
        found = betaincinv(first, second, np.maximum(shares, _LEAST_SHARE))
        probabilities = np.where(sign > 0.0, found, 1.0 - found)
        below_one = np.minimum(probabilities, math.nextafter(1.0, 0.0))
        return dist.quantile(below_one.ravel()).reshape(shares.shape)

    # The upper half by shares counted from the top, which are not rounded to 1.
    halves = [[*each, low, high, 1.0] for each in _pieces(betainc(low, high, levels))] + [
        [*each, high, low, -1.0] for each in _pieces(betainc(high, low, 1.0 - levels))
    ]
    start, end, *rest = np.array(halves).T
    return float(tanhsinh(price, start, end, args=tuple(rest), rtol=_ACCURACY).integral.sum())


def _pieces(kinks: FloatArray) -> list[tuple[float, float]]:
    """Return the pieces between kinks of the shares from 0 to 1/2."""
    return list(
        pairwise(np.unique(np.concatenate(([0.0, 0.5], kinks[(kinks > 0.0) & (kinks < 0.5)]))).tolist())
    )


def _check(buyer: PostedPrice | CheapestK | SameForAll) -> None:
    check_distribution(buyer.dist)
    object.__setattr__(buyer, "epsilon", checks.positive("epsilon", buyer.epsilon))


def _campaign(sellers: int, budget: float) -> tuple[int, float]:
    return checks.whole("sellers", sellers, minimum=1), checks.positive("budget", budget)


def _finite_top(dist: CostDistribution) -> float:
    top = dist.support[1]
    if not math.isfinite(top):
        raise Infeasible(
            "expected costs with an upper end, because somebody must be paid whatever their cost is; "
            "cut the distribution, or buy from fewer."
        )
    return top


def _reports(dist: CostDistribution, name: str, values: object) -> tuple[FloatArray, BoolArray]:
    """Return reports, raised to the support's lower end, and which of them lie within the support."""
    costs = checks.non_negative_vector(name, values)
    low, high = dist.support
    return np.maximum(costs, low), costs <= high


def _others(dist: CostDistribution, reported_costs: object, i: int) -> tuple[FloatArray, FloatArray]:
    """Return the possible reports of those who come before seller ``i``, and of those after."""
    costs, possible = _reports(dist, "reported_costs", reported_costs)
    i = position(costs, i)
    return costs[:i][possible[:i]], costs[i + 1 :][possible[i + 1 :]]


def _paid(epsilon: float, price: float) -> float:
    """Return ``price * epsilon``, rounded up: participation holds in exact arithmetic."""
    paid = price * epsilon
    if Fraction(paid) < Fraction(price) * Fraction(epsilon):
        paid = math.nextafter(paid, math.inf)
    return paid


def _parameters(buyer: PostedPrice | CheapestK | SameForAll) -> dict[str, Any]:
    values = {field.name: getattr(buyer, field.name) for field in fields(buyer) if field.name != "dist"}
    return {"distribution": buyer.dist.to_dict(), **values}


def _outcome(
    buyer: PostedPrice | CheapestK | SameForAll, bought: BoolArray, price: float, ids: object
) -> Outcome:
    checked = checked_ids(ids, bought.size)
    count = int(bought.sum())
    return Outcome(
        mechanism=buyer.name,
        seller_ids=checked,
        epsilons=np.where(bought, buyer.epsilon, 0.0),
        payments=np.where(bought, _paid(buyer.epsilon, price), 0.0),
        payment_errors=np.zeros(bought.size),
        planned_weights=np.where(bought, 1.0 / max(count, 1), 0.0),
        planned_noise_rate=count * buyer.epsilon,
        parameters=_parameters(buyer),
    )


def _curve(reports: object, bought: BoolArray, epsilon: float, price: float) -> ResponseCurve:
    return ResponseCurve(
        read_only(np.array(reports, dtype=np.float64)),
        read_only(np.where(bought, epsilon, 0.0)),
        read_only(np.where(bought, _paid(epsilon, price), 0.0)),
    )


def _one(curve: ResponseCurve) -> Response:
    return Response(float(curve.epsilons[0]), float(curve.payments[0]))
