r"""Sellers one by one, promises with a delta: a cost in, a promise and its truthful payment out.

The rule is fixed before the first seller comes: the best purchase of the population (sellers at evenly spaced
quantiles of the cost distribution) has a noise rate and a multiplier r, and a seller with the virtual cost
psi is promised :math:`e(\mu)` with :math:`r \in s \mu + \gamma \psi\, \partial e(\mu)`
(:mod:`dpmarket.mechanisms.gaussian_objective`). That is a piecewise linear, non-increasing function of psi;
the payment is :math:`c\,e(c) + \int_c^{top} e(z)\, dz`, integrated between the costs at which it bends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.costs import CostDistribution, distribution_from_dict, largest_cost_at, virtual_costs
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.curves import Offers
from dpmarket.mechanisms.gaussian_objective import FixedRate, GaussianObjective, GaussianPurchase
from dpmarket.mechanisms.inputs import check_distribution, one_cost, position, settings_of
from dpmarket.mechanisms.offline import ResponseCurve
from dpmarket.mechanisms.outcome import Outcome, checked_ids, minor_amounts
from dpmarket.mechanisms.protocol import Response
from dpmarket.payments.interpolation import tabulate_virtual_costs

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_COARSE_NODES, _COARSE_WEIGHTS = np.polynomial.legendre.leggauss(8)
_RELATIVE_ERROR = 1e-14


@dataclass(frozen=True)
class OnlineGaussianMechanism:
    """Quote sellers as they come promises with a delta, all by one curve fixed before the first of them.

    Whoever came before and whenever a seller comes, truth is their best report, and nobody loses by taking
    part.

    Parameters
    ----------
    dist
        The distribution of costs per unit of epsilon at the stated delta, common knowledge, with an upper
        end.
    objective
        The buyer's objective, chosen before the first report.
    noise_rate, multiplier
        The noise rate and r of the population's best purchase, where they are known already; None: they are
        computed when they are needed.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> wanted = GaussianObjective(0.2, 400.0, 1e-3, delta=1e-5, ratio=2.0, expected_sellers=50)
    >>> market = OnlineGaussianMechanism(Uniform(1, 5), wanted)
    >>> epsilons, payments, _ = market.offers([1.0, 2.0, 4.0])
    >>> bool((np.diff(epsilons) <= 0.0).all()), bool((payments >= epsilons * [1.0, 2.0, 4.0]).all())
    (True, True)
    """

    name: ClassVar[str] = "online with a delta"
    dist: CostDistribution
    objective: GaussianObjective
    noise_rate: float | None = None
    multiplier: float | None = None

    def __post_init__(self) -> None:
        check_distribution(self.dist)
        if (self.noise_rate is None) != (self.multiplier is None):
            raise InvalidInput("expected both noise_rate and multiplier, or neither.")
        for name in ("noise_rate", "multiplier"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checks.positive(name, getattr(self, name)))
        if not isinstance(self.objective, GaussianObjective):
            raise InvalidInput(f"expected a GaussianObjective, got {type(self.objective).__name__}.")
        if not np.isfinite(self.dist.support[1]):
            raise Infeasible("expected costs with an upper end for promises with a delta.")

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what was computed from them on the way is made again when needed."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def planned(self) -> GaussianPurchase:
        """The best purchase of the population, from which the curve is."""
        m = self.objective.expected_sellers
        costs = np.asarray(self.dist.quantile((np.arange(m) + 0.5) / m))
        return self.objective.best(virtual_costs(costs, self.dist))

    @property
    def expected_sellers(self) -> int:
        """How many sellers the curve was made for."""
        return self.objective.expected_sellers

    @property
    def cutoff(self) -> float:
        """The virtual cost from which nobody is bought from."""
        _, multiplier = self._chosen
        return multiplier / (self.objective.payment_weight * float(self.objective.price.slopes[0]))

    @property
    def reach(self) -> float:
        """The cost from which nobody is bought from, or the upper end of the support."""
        if self.cutoff < self.dist.virtual_cost(self.dist.support[0]):
            return self.dist.support[0]
        return largest_cost_at(self.cutoff, self.dist)

    @property
    def largest_epsilon(self) -> float:
        """What a seller at the lower end of the support is promised: nobody is ever promised more."""
        return float(self.epsilons([self.dist.support[0]])[0])

    @cached_property
    def largest_payment(self) -> float:
        """What nobody's payment and its error exceed: those of the lower end of the support, with room."""
        offers = self.offers([self.dist.support[0]])
        return float((offers.payments[0] + 4.0 * offers.errors[0]) * (1.0 + 1e-12))

    def largest_amount(self, scale: int) -> int:
        """Return what nobody's payment exceeds, in whole smallest units."""
        return int(minor_amounts(np.array([self.largest_payment]), np.zeros(1), scale)[0])

    def offers_in_minor_units(self, costs: object, scale: int) -> tuple[FloatArray, IntArray]:
        """Return epsilons, and payments rounded up to whole numbers of the currency's smallest unit.

        Parameters
        ----------
        costs
            Shape (n,), money per unit of epsilon.
        scale
            How many smallest units make one unit of money.
        """
        epsilons, payments, errors = self.offers(costs)
        return epsilons, minor_amounts(payments, errors, scale)

    def epsilons(self, costs: object) -> FloatArray:
        """Return the epsilon offered at each cost, shape (n,); costs finite and at least 0."""
        psi = virtual_costs(checks.non_negative_vector("costs", costs), self.dist)
        noise_rate, multiplier = self._chosen
        fixed: FixedRate = self.objective.fixed(noise_rate)
        return self.objective.price.promise(fixed.distances(multiplier, psi))

    def offers(self, costs: object) -> Offers:
        """Return epsilons, payments and the payments' error bounds at each cost, shape (n,)."""
        own = checks.non_negative_vector("costs", costs)
        low, high = self.dist.support
        inside = np.clip(own, low, high)
        epsilons = np.where(own <= high, self.epsilons(inside), 0.0)
        edges, later, missing = self._integrals
        k = np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, edges.size - 2)
        part, off = self._integrate(inside, edges[k + 1])
        payments = inside * epsilons + np.maximum(part, 0.0) + later[k + 1]
        errors = off + missing[k + 1] + _RELATIVE_ERROR * payments
        bought = epsilons > 0.0
        return Offers(epsilons, np.where(bought, payments + errors, 0.0), np.where(bought, errors, 0.0))

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Quote everybody; all accept.

        Parameters
        ----------
        reported_costs
            Money per unit of epsilon, finite, at least 0, shape (m,).
        seller_ids
            Texts or whole numbers, all different, in the same order; None: 0, 1, 2, ...

        Raises
        ------
        InvalidInput
            Reports that are no costs, ids that do not match.
        """
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        ids = checked_ids(seller_ids, costs.size)
        epsilons, payments, errors = self.offers(costs)
        mu = np.interp(epsilons, self.objective.price.epsilons, self.objective.price.knots)
        total = float(mu.sum())
        return Outcome(
            mechanism=self.name,
            seller_ids=ids,
            epsilons=epsilons,
            payments=payments,
            payment_errors=errors,
            planned_weights=mu / total if total > 0.0 else mu,
            planned_noise_rate=total,
            parameters=self._settings(),
        )

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets for a report; what the others report does not matter."""
        curve = self.response_curve(reported_costs, i, one_cost("report", report))
        return Response(float(curve.epsilons[0]), float(curve.payments[0]))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits."""
        position(checks.non_negative_vector("reported_costs", reported_costs), i)
        asked = checks.non_negative_vector("reports", reports)
        epsilons, payments, _ = self.offers(asked)
        return ResponseCurve(read_only(asked.copy()), read_only(epsilons), read_only(payments))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same mechanism."""
        return {"mechanism": self.name, **self._settings()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OnlineGaussianMechanism:
        """Make the mechanism whose ``to_dict()`` gave this data."""
        dist, objective = settings_of(data, cls.name, "distribution", "objective")
        chosen = data.get("noise_rate"), data.get("multiplier")
        return cls(distribution_from_dict(dist), GaussianObjective.from_dict(objective), *chosen)

    def _settings(self) -> dict[str, Any]:
        noise_rate, multiplier = self._chosen
        return {
            "distribution": self.dist.to_dict(),
            "objective": self.objective.to_dict(),
            "noise_rate": noise_rate,
            "multiplier": multiplier,
        }

    @cached_property
    def _chosen(self) -> tuple[float, float]:
        """The noise rate and the multiplier that make the curve."""
        if self.noise_rate is not None and self.multiplier is not None:
            return self.noise_rate, self.multiplier
        return self.planned.noise_rate, self.planned.multiplier

    @cached_property
    def _integrals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The costs at which the curve bends, the integral from each to the top, and its error."""
        noise_rate, multiplier = self._chosen
        price, fixed = self.objective.price, self.objective.fixed(noise_rate)
        low, high = self.dist.support
        levels = (multiplier - fixed.spread * np.stack([price.knots[:-1], price.knots[1:]])) / (
            self.objective.payment_weight * price.slopes
        )
        lowest = self.dist.virtual_cost(low)
        bends = [largest_cost_at(level, self.dist) for level in levels.ravel().tolist() if level >= lowest]
        smooth = tabulate_virtual_costs(self.dist, high).edges
        edges = np.unique(np.clip(np.concatenate([[low, high], bends, smooth]), low, high))
        parts, missing = self._integrate(edges[:-1], edges[1:])
        later, off = (np.append(np.cumsum(values[::-1])[::-1], 0.0) for values in (parts, missing))
        return edges, later, off

    def _integrate(self, start: FloatArray, stop: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Integrate epsilon over smooth pieces; return the integrals and by how much they may be off."""
        middle, half = 0.5 * (start + stop), 0.5 * (stop - start)
        found = []
        for nodes, weights in ((_NODES, _WEIGHTS), (_COARSE_NODES, _COARSE_WEIGHTS)):
            at = middle[:, None] + half[:, None] * nodes
            found.append(half * (self.epsilons(at.ravel()).reshape(at.shape) @ weights))
        return found[0], np.abs(found[0] - found[1])
