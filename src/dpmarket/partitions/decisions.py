"""What was decided for all sellers, as a small value by which any worker quotes any of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.costs import virtual_costs
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.mechanisms.curves import Curve
from dpmarket.partitions import kernels
from dpmarket.partitions.premiums import Neighbourhood, PremiumTable, single_premiums
from dpmarket.payments.exact import round_up
from dpmarket.payments.kernels.integrals import Asked
from dpmarket.payments.zones import inside


@dataclass(frozen=True, eq=False)
class Quoted:
    """Promises, payments in money and estimates of their errors, seller by seller."""

    epsilons: FloatArray
    payments: FloatArray
    errors: FloatArray


@dataclass(frozen=True, eq=False)
class ByCost:
    """A list of all costs that somebody reported, with what they get."""

    costs: FloatArray
    quoted: Quoted

    def quote(self, costs: FloatArray) -> Quoted:
        """Return what sellers with these costs get.

        Raises
        ------
        InvalidInput
            A cost that nobody had when the list was made.
        """
        where = np.minimum(np.searchsorted(self.costs, costs), self.costs.size - 1)
        if not np.array_equal(self.costs[where], costs):
            raise InvalidInput("expected the reports that were read before, found others: quote again.")
        found = self.quoted
        return Quoted(found.epsilons[where], found.payments[where], found.errors[where])


@dataclass(frozen=True, eq=False)
class ByRule:
    """A rule: promises by three numbers of the best allocation, premiums by a table.

    Attributes
    ----------
    around
        The market, with the rule for promises.
    premiums
        What sellers get above their cost per unit of epsilon, by cost.
    """

    around: Neighbourhood
    premiums: PremiumTable

    def quote(self, costs: FloatArray) -> Quoted:
        """Return what sellers with these costs get."""
        dist = self.around.dist
        psi = np.ascontiguousarray(virtual_costs(costs, dist))
        epsilons, payments, errors = np.empty(costs.size), np.empty(costs.size), np.empty(costs.size)
        kernels.write_promises(psi, self.around.rule, epsilons)
        rule = self.premiums.series, self.premiums.error, dist.support[0]
        if not kernels.write_payments(costs, epsilons, rule, payments, errors):
            raise _beyond_floats()
        # For the few next to where the cap begins the table does not hold.
        near = np.flatnonzero(inside(psi, self.premiums.zone))
        if near.size:
            values, which = np.unique(costs[near], return_inverse=True)
            single = quote_each(self.around, values)
            payments[near], errors[near] = single.payments[which], single.errors[which]
        return Quoted(epsilons, payments, errors)


@dataclass(frozen=True, eq=False)
class ByIntegrals:
    """A rule for promises; every premium is integrated on its own, where no table is good enough."""

    around: Neighbourhood

    def quote(self, costs: FloatArray) -> Quoted:
        """Return what sellers with these costs get."""
        values, which = np.unique(costs, return_inverse=True)
        found = quote_each(self.around, values)
        return Quoted(found.epsilons[which], found.payments[which], found.errors[which])


@dataclass(frozen=True, eq=False)
class ByCurve:
    """A curve that was fixed before any report."""

    curve: Curve

    def quote(self, costs: FloatArray) -> Quoted:
        """Return what sellers with these costs get."""
        return Quoted(*self.curve.offers(costs))


Decision = ByCost | ByRule | ByIntegrals | ByCurve


def quote_each(around: Neighbourhood, costs: FloatArray) -> Quoted:
    """Return what sellers get, with each payment integrated on its own."""
    psi = np.ascontiguousarray(virtual_costs(costs, around.dist))
    epsilons = np.empty(costs.size)
    kernels.write_promises(psi, around.rule, epsilons)
    bought = np.flatnonzero(epsilons > 0.0)
    own = np.maximum(costs[bought], around.dist.support[0])
    premiums, errors = single_premiums(around, Asked(own, psi[bought], epsilons[bought]))
    return paid(epsilons, bought, own, premiums, errors)


def paid(
    epsilons: FloatArray,
    bought: np.ndarray[tuple[int], np.dtype[np.intp]],
    own: FloatArray,
    premiums: FloatArray,
    errors: FloatArray,
) -> Quoted:
    """Return quotes with payments, as :func:`dpmarket.payments.exact_payments` computes them.

    ``own``, ``premiums`` and their ``errors`` are of those who are bought from.
    """
    given = epsilons[bought]
    payments = given * (own + premiums)
    if not (np.isfinite(given).all() and np.isfinite(payments).all()):
        raise _beyond_floats()
    full, full_errors = np.zeros(epsilons.size), np.zeros(epsilons.size)
    full[bought] = round_up(payments)
    full_errors[bought] = given * errors + 1e-15 * payments
    return Quoted(epsilons, full, full_errors)


def _beyond_floats() -> NotConverged:
    return NotConverged(
        "expected promises and payments within the range of floats, found that a cost lies too close to 0 "
        "for that: set max_mean_epsilon."
    )
