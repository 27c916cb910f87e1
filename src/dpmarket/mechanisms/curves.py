"""Turn a cost that arrives alone into an epsilon and the payment that makes truth the best report.

A curve is fixed before a seller arrives: ``epsilon(c) = slope * clip(cutoff - psi(c), 0, width)``, where
``width`` is ``max_epsilon / slope``. It never rises with the cost, so that the payment identity

    payment(c) = c * epsilon(c) + integral of epsilon from c to the upper end of the support

makes truth the best report (paper, Lemma `mech design`), whoever came before and whoever will come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs import CostDistribution, distribution_from_dict, largest_cost_at, virtual_costs
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.inputs import check_dist_and_objective
from dpmarket.mechanisms.outcome import finite_or_none, minor_amounts
from dpmarket.payments.interpolation import PiecewiseSeries, tabulate_virtual_costs
from dpmarket.payments.kernels.tables import evaluate

SCHEMA = "dpmarket.curve/1"
# What adding and multiplying a handful of floats may lose, relative to the terms.
_ROUNDING = 8e-16
# Costs worked on at a time: they stay in the processor's cache between the steps.
_CHUNK = 1 << 14


class Offers(NamedTuple):
    """What a curve offers at several costs: epsilons, payments in money, and the payments' error bounds.

    Attributes
    ----------
    epsilons, payments, errors
        Shape (n,), in the order of the costs. A payment is at least the exact one, and at most twice its
        error above it.
    """

    epsilons: FloatArray
    payments: FloatArray
    errors: FloatArray


@dataclass(frozen=True)
class Curve:
    """A rule for sellers who arrive alone: epsilon and payment as functions of the reported cost.

    Make one with :func:`population_curve` or :func:`paper_curve`.

    Parameters
    ----------
    dist
        The distribution whose virtual costs psi and whose upper end the curve uses.
    objective
        What the buyer wanted when the curve was made.
    expected_sellers
        How many sellers the curve was made for.
    slope
        epsilon lost per unit of virtual cost, > 0; infinite for a step.
    cutoff
        Virtual cost from which nobody is bought from; infinite (with an infinite slope) buys from everybody
        alike.
    max_epsilon
        Nobody is offered more, > 0; may be infinite if the slope is not.
    margin_epsilon
        For a step, the epsilon of those whose virtual cost equals the cutoff. It matters only where the
        cutoff lies on an ironed interval, whose people must be treated alike.

    Notes
    -----
    Costs below the support count as its lower end: who reports less gets what the lower end gets. Costs
    above the support get epsilon 0 and payment 0. Payments are rounded up by their error bound, so that
    they are at least ``cost * epsilon`` in exact arithmetic; the bound is far below 1e-10 of the largest.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> curve = Curve(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1), 100, slope=0.5, cutoff=3.0)
    >>> epsilons, payments, _ = curve.offers([1.0, 1.5, 2.0])
    >>> epsilons.tolist(), payments.round(12).tolist()
    ([1.0, 0.5, 0.0], [1.5, 0.875, 0.0])
    """

    dist: CostDistribution
    objective: BuyerObjective
    expected_sellers: int
    slope: float
    cutoff: float
    max_epsilon: float = math.inf
    margin_epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_dist_and_objective(self.dist, self.objective)
        checks.whole("expected_sellers", self.expected_sellers, 1)
        for name in ("slope", "cutoff", "max_epsilon"):
            value = checks.real(name, getattr(self, name))
            if not value > 0.0:
                raise InvalidInput(f"expected {name} to be > 0, got {value!r}.")
            object.__setattr__(self, name, value)
        margin = checks.non_negative("margin_epsilon", self.margin_epsilon)
        if margin > self.max_epsilon or (margin > 0.0 and math.isfinite(self.slope)):
            raise InvalidInput("expected margin_epsilon only for a step, and at most max_epsilon.")
        if math.isinf(self.slope) and math.isinf(self.max_epsilon):
            raise InvalidInput("expected a finite max_epsilon where the slope is infinite.")
        if math.isinf(self.cutoff) and (math.isfinite(self.slope) or margin > 0.0):
            raise InvalidInput("expected an infinite cutoff only with an infinite slope and no margin.")
        if math.isinf(self.cutoff) and math.isinf(self.dist.support[1]):
            raise Infeasible(
                "expected a curve that buys from nobody at some cost, because costs have no upper end and "
                "payments would be infinite: cut the distribution, or raise payment_weight."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what was computed from them on the way is made again when needed."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def epsilons(self, costs: object) -> FloatArray:
        """Return the epsilon offered at each cost, shape (n,); costs finite and at least 0."""
        return self._epsilons(virtual_costs(checks.non_negative_vector("costs", costs), self.dist))

    def offers(self, costs: object) -> Offers:
        """Return epsilons, payments and the payments' error bounds at each cost, shape (n,)."""
        own = checks.non_negative_vector("costs", costs)
        if own.size <= _CHUNK:
            return self._offers(own)
        offers = Offers(np.empty(own.size), np.empty(own.size), np.empty(own.size))
        for start in range(0, own.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            for whole, piece in zip(offers, self._offers(own[part]), strict=True):
                whole[part] = piece
        return offers

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

    def largest_amount(self, scale: int) -> int:
        """Return what nobody's payment exceeds, in whole smallest units."""
        return int(minor_amounts(np.array([self.largest_payment]), np.zeros(1), scale)[0])

    @cached_property
    def largest_payment(self) -> float:
        """What a seller at the lower end of the support is paid at most: nobody's payment + error is more.

        An exact payment falls with the cost, and so does its error bound e. A computed payment lies between
        the exact one and 2e above it, so that payment + error is at most the lowest cost's payment + 3e; one
        more e is for the rounding of these sums.
        """
        offers = self.offers([self.dist.support[0]])
        return float((offers.payments[0] + 4.0 * offers.errors[0]) * (1.0 + 1e-15))

    @property
    def largest_epsilon(self) -> float:
        """What a seller at the lower end of the support is promised: nobody is ever promised more."""
        return float(self.epsilons([self.dist.support[0]])[0])

    @property
    def reach(self) -> float:
        """The cost from which nobody is bought from, or the upper end of the support."""
        return self._end

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same curve."""
        return {
            "schema": SCHEMA,
            "distribution": self.dist.to_dict(),
            "objective": self.objective.to_dict(),
            "expected_sellers": self.expected_sellers,
            "slope": finite_or_none(self.slope),
            "cutoff": finite_or_none(self.cutoff),
            "max_epsilon": finite_or_none(self.max_epsilon),
            "margin_epsilon": self.margin_epsilon,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Curve:
        """Make the curve whose ``to_dict()`` gave this data."""
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InvalidInput(f"expected the plain data of a curve with schema {SCHEMA!r}.")
        try:
            return cls(
                distribution_from_dict(data["distribution"]),
                BuyerObjective.from_dict(data["objective"]),
                data["expected_sellers"],
                *(_number(data[name]) for name in ("slope", "cutoff", "max_epsilon", "margin_epsilon")),
            )
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(
                f"expected a whole curve, found {type(problem).__name__}: a part is missing or wrong."
            ) from None

    def _offers(self, own: FloatArray) -> Offers:
        psi = virtual_costs(own, self.dist)
        epsilons = self._epsilons(psi)
        rent, errors = self._rents(np.clip(own, self.dist.support[0], self._end), psi)
        # Below the support a seller is paid as its lower end is: never by the cost they named.
        payments = np.maximum(own, self.dist.support[0]) * epsilons
        errors += _ROUNDING * (payments + rent)
        payments += rent
        payments += errors
        bought = epsilons > 0.0
        payments *= bought
        errors *= bought
        return Offers(epsilons, payments, errors)

    def _epsilons(self, psi: FloatArray) -> FloatArray:
        if math.isfinite(self.slope):
            return np.clip(self.slope * (self.cutoff - psi), 0.0, self.max_epsilon)
        inside = np.where(psi == self.cutoff, self.margin_epsilon, 0.0)
        return np.where(psi < self.cutoff, self.max_epsilon, inside)

    def _rents(self, costs: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the integral of epsilon from each cost to the end, and a bound on its error."""
        inner = np.maximum(costs, self._knee)
        rents, errors = self._rents_from_knee(inner, np.maximum(psi, self._knee_psi))
        if self._knee > self.dist.support[0]:
            rents = rents + self.max_epsilon * (inner - costs)
        return np.maximum(rents, 0.0), errors

    @cached_property
    def _end(self) -> float:
        """Cost at which the curve has come down to 0, or the upper end of the support."""
        if math.isinf(self.cutoff):
            return self.dist.support[1]
        return largest_cost_at(self.cutoff, self.dist)

    @cached_property
    def _knee(self) -> float:
        """Cost up to which everybody is offered ``max_epsilon``; the lower end if nobody is."""
        low = self.dist.support[0]
        level = math.nextafter(self.cutoff, 0.0)
        if math.isfinite(self.slope):
            level = self.cutoff - self.max_epsilon / self.slope
        if math.isinf(self.cutoff):
            return self._end
        return largest_cost_at(level, self.dist) if level >= self.dist.virtual_cost(low) else low

    @cached_property
    def _knee_psi(self) -> float:
        return self.dist.virtual_cost(self._knee)

    @cached_property
    def _rents_from_knee(self) -> Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """The integral of epsilon beyond the knee as a function of (cost, virtual cost)."""
        end, slope, cutoff = self._end, self.slope, self.cutoff
        if math.isinf(slope):

            def flat(costs: FloatArray, _: FloatArray) -> tuple[FloatArray, FloatArray]:
                return self.margin_epsilon * (end - costs), np.zeros(costs.size)

            return flat
        psi = tabulate_virtual_costs(self.dist, end) if end > self.dist.support[0] else None
        if psi is None or psi.affine:
            last = max(cutoff - self.dist.virtual_cost(end), 0.0)
            loss = slope * cutoff * _ROUNDING

            def trapezium(costs: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
                length = end - costs
                rents = np.maximum(cutoff - own, 0.0)
                rents += last
                rents *= length
                rents *= 0.5 * slope
                length *= loss
                return rents, length

            return trapezium
        table = _antiderivative(psi, slope, cutoff)
        missing = slope * cutoff * (psi.error + _ROUNDING)

        def piecewise(costs: FloatArray, _: FloatArray) -> tuple[FloatArray, FloatArray]:
            return evaluate(table, costs), missing * (end - costs)

        return piecewise


def _antiderivative(psi: PiecewiseSeries, slope: float, cutoff: float) -> PiecewiseSeries:
    """Tabulate the integral of ``slope * (cutoff - psi)`` from a cost to the table's end."""
    half = 0.5 * np.diff(psi.edges)[:, None]
    rates = -slope * psi.coefficients
    rates[:, 0] += slope * cutoff
    # From y to the piece's end: the antiderivative there less here, plus all later pieces.
    rising = chebyshev.chebint(rates, axis=1) * half
    ends = rising.sum(axis=1)
    starts = rising @ (-1.0) ** np.arange(rising.shape[1])
    later = np.append(np.cumsum((ends - starts)[::-1])[::-1], 0.0)[1:]
    falling = -rising
    falling[:, 0] += ends + later
    return PiecewiseSeries(psi.edges, np.ascontiguousarray(falling), psi.walls, False, psi.error)


def _number(value: float | None) -> float:
    return math.inf if value is None else value
