r"""All sellers at once, promises with a delta: reports in, promises and truthful payments out.

The promise :math:`e_i` is the one of :mod:`dpmarket.mechanisms.gaussian_objective`, and the payment is that
of every non-increasing rule, :math:`t_i = c\,e_i(c) + \int_c^{top} e_i(z)\, dz`. With J the minimum of the
objective, :math:`\partial J / \partial \psi_i = \gamma e_i`. Uniform costs have :math:`\psi' = 2`, so that
the integral is :math:`(J(\psi(top)) - J(\psi(c))) / (2 \gamma)`, exactly, whatever basin of the grid the
minimum moves to on the way. For other costs it is the sum over pieces of the support on which virtual costs
are nearly straight (:mod:`dpmarket.mechanisms.gaussian_rents`), with a stated error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.costs import CostDistribution, distribution_from_dict, virtual_costs
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.gaussian_objective import FixedRate, GaussianObjective, Supply
from dpmarket.mechanisms.gaussian_rents import CostPieces
from dpmarket.mechanisms.inputs import check_distribution, one_cost, position, settings_of
from dpmarket.mechanisms.offline import ResponseCurve
from dpmarket.mechanisms.outcome import Outcome, checked_ids
from dpmarket.mechanisms.protocol import Response

_HALVINGS = 62
_RELATIVE_ERROR = 4e-15
_ROOM = 1e-9


@dataclass(frozen=True)
class GaussianMechanism:
    """Buy promises with a delta from all sellers at once, trading model error against payments.

    Truth is every seller's best report whatever the others report, and nobody loses by taking part: payment
    >= reported cost * epsilon.

    Parameters
    ----------
    dist
        The distribution of costs per unit of epsilon at the stated delta, common knowledge, with an upper
        end.
    objective
        The buyer's objective. Choose it before the reports are in: an objective that depends on reports makes
        lying pay.

    Notes
    -----
    Reports below the support count as its lower end; reports above it get epsilon 0 and payment 0. No seller
    gains more than the payments' stated errors by any misreport.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> wanted = GaussianObjective(0.2, 400.0, 1e-3, delta=1e-5, ratio=2.0, expected_sellers=50)
    >>> mechanism = GaussianMechanism(Uniform(1, 5), wanted)
    >>> costs = np.linspace(1.0, 5.0, 50)
    >>> outcome = mechanism.run(costs)
    >>> bool((outcome.payments >= outcome.epsilons * costs).all()), outcome.parameters["objective"]["delta"]
    (True, 1e-05)
    """

    name: ClassVar[str] = "offline with a delta"
    dist: CostDistribution
    objective: GaussianObjective

    def __post_init__(self) -> None:
        check_distribution(self.dist)
        if not np.isfinite(self.dist.support[1]):
            raise Infeasible("expected costs with an upper end for promises with a delta.")
        if not isinstance(self.objective, GaussianObjective):
            raise InvalidInput(f"expected a GaussianObjective, got {type(self.objective).__name__}.")

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Decide every seller's promise and payment.

        Parameters
        ----------
        reported_costs
            Money per unit of epsilon, finite, at least 0, shape (m,).
        seller_ids
            Texts or whole numbers, all different, in the same order; None: 0, 1, 2, ...

        Raises
        ------
        InvalidInput
            Reports that are no costs, ids that do not match; too few sellers for the grid of noise rates.
        """
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        ids = checked_ids(seller_ids, costs.size)
        psi = virtual_costs(costs, self.dist)
        bought = self.objective.best(psi)
        some = bought.epsilons > 0.0
        who = np.flatnonzero(some)
        rents, errors = np.zeros(costs.size), np.zeros(costs.size)
        rents[who], errors[who], _ = self._rents(psi, who, costs[who], psi[who], bought.values)
        paid = np.maximum(costs, self.dist.support[0]) * bought.epsilons
        errors = np.where(some, errors + _RELATIVE_ERROR * paid, 0.0)
        return Outcome(
            mechanism=self.name,
            seller_ids=ids,
            epsilons=bought.epsilons,
            payments=np.where(some, paid + np.maximum(rents, 0.0) + errors, 0.0),
            payment_errors=errors,
            planned_weights=bought.mu / bought.noise_rate,
            planned_noise_rate=bought.noise_rate,
            parameters={"distribution": self.dist.to_dict(), "objective": self.objective.to_dict()},
        )

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        curve = self.response_curve(reported_costs, i, one_cost("report", report))
        return Response(float(curve.epsilons[0]), float(curve.payments[0]))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits."""
        costs = checks.non_negative_vector("reported_costs", reported_costs).copy()
        i = position(costs, i)
        asked = checks.non_negative_vector("reports", reports)
        low, high = self.dist.support
        possible = asked <= high
        inside = np.clip(asked, low, high)
        costs[i] = low
        psi = virtual_costs(costs, self.dist)
        values = self.objective.best(psi).values
        own = np.minimum(virtual_costs(inside, self.dist), self._pieces.psi[-1])
        who = np.full(asked.size, i)
        rents, errors, epsilons = self._rents(psi, who, inside, own, values)
        payments = inside * epsilons
        payments += np.maximum(rents, 0.0) + errors + _RELATIVE_ERROR * payments
        bought = possible & (epsilons > 0.0)
        return ResponseCurve(
            read_only(asked.copy()),
            read_only(np.where(bought, epsilons, 0.0)),
            read_only(np.where(bought, payments, 0.0)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same mechanism."""
        return {
            "mechanism": self.name,
            "distribution": self.dist.to_dict(),
            "objective": self.objective.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GaussianMechanism:
        """Make the mechanism whose ``to_dict()`` gave this data."""
        dist, objective = settings_of(data, cls.name, "distribution", "objective")
        return cls(distribution_from_dict(dist), GaussianObjective.from_dict(objective))

    @cached_property
    def _pieces(self) -> CostPieces:
        return CostPieces.of(self.dist)

    def _rents(
        self, psi: FloatArray, who: IntArray, costs: FloatArray, own: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return everybody's integral of epsilon from the own report to the top, its error, and epsilon."""
        if not who.size:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        largest = 0.0

        def minima(sellers: IntArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
            nonlocal largest
            found, mu = self._least(psi, sellers, at, values)
            largest = float(np.abs(found).max())
            return found, self.objective.price.promise(mu)

        gamma = self.objective.payment_weight
        inside = np.clip(costs, *self.dist.support)
        rents, errors, epsilons = self._pieces.rents(who, inside, own, gamma, minima)
        return rents, errors + _RELATIVE_ERROR * largest / gamma, epsilons

    def _least(
        self, psi: FloatArray, who: IntArray, own: FloatArray, values: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return J and mu of seller ``who[k]`` with the virtual cost ``own[k]``, the others as given.

        A noise rate at which even these virtual costs have a larger value than some noise rate has for every
        k is not looked at: ``own`` never lies below ``psi``, and so no value falls.
        """
        order = np.argsort(values, kind="stable")
        best, mu = np.full(own.shape, np.inf), np.zeros(own.shape)
        for k in order[np.isfinite(values[order])].tolist():
            if values[k] > float(best.max()) * (1.0 + _ROOM):
                break
            fixed = self.objective.fixed(float(self.objective.noise_rates[k]))
            value, at = _replaced(fixed, psi, who, own)
            # Of equal values the first on the grid, as in the market itself.
            better = value < best
            best, mu = np.where(better, value, best), np.where(better, at, mu)
        return best, mu


def _replaced(
    fixed: FixedRate, psi: FloatArray, who: IntArray, own: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the minimum, and the seller's mu, for each seller ``who[k]`` moved to ``own[k]``."""
    finite = np.isfinite(psi)
    supply = Supply.of(fixed, psi[finite])
    theirs = np.where(finite, psi, np.inf)[who]
    # Where the others suffice, a seller of however large a virtual cost moves r no further than theirs do.
    without = np.full(own.shape, 1.001 * float(supply.points[-1]))
    suffice = supply.total(without) - fixed.distances(without, theirs) >= fixed.eta
    low, high = np.zeros(own.shape), np.where(suffice, without, supply.enough(own))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        total = supply.total(middle) - fixed.distances(middle, theirs) + fixed.distances(middle, own)
        short = total < fixed.eta
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    mu, before = fixed.distances(high, own), fixed.distances(high, theirs)
    others = supply.cheapest(high) - fixed.cheapest(before, high, theirs)
    value = fixed.dual(high, others + fixed.cheapest(mu, high, own))
    reachable = supply.total(high) - before + mu >= fixed.eta * (1.0 - 1e-12)
    return np.where(reachable, value, np.inf), mu
