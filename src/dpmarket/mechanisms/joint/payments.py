r"""Turn the joint optimum into payments: by the envelope formula, by quadrature, or in expectation only.

With J the minimum of the buyer's objective, :math:`\partial J/\partial \psi_i = \gamma \epsilon_i` (envelope
theorem, at the global minimum). A truthful payment is
:math:`c_i \epsilon_i + \int_{c_i}^{top} \epsilon_i(z)\,dz`; where the virtual cost is affine with slope q the
integral is :math:`(J(\psi(top)) - J(\psi(c_i)))/(q \gamma)`: one more solve.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs import CostDistribution, Uniform, largest_cost_at
from dpmarket.errors import Infeasible, InvalidInput, NotConverged
from dpmarket.mechanisms.joint.optimum import Moved, Solved
from dpmarket.payments.exact import round_up
from dpmarket.progress import Progress

_MAX_PIECES = 500
_MAX_DOUBLINGS = 100
_INSIDE = 1e-9
# Of the median virtual cost: the search for a last report begins no lower, as doubling 0 leads nowhere.
_LEAST = 1e-6
# Lobatto's rule with five nodes on [-1, 1]; its ends are shared by neighbouring pieces.
_NODES = np.array([-1.0, -math.sqrt(3.0 / 7.0), 0.0, math.sqrt(3.0 / 7.0), 1.0])
_WEIGHTS = np.array([0.1, 49.0 / 90.0, 32.0 / 45.0, 49.0 / 90.0, 0.1])


@dataclass(frozen=True, eq=False)
class Paid:
    """Payments in money and estimates of their absolute errors, one per seller asked about."""

    payments: FloatArray
    errors: FloatArray


@runtime_checkable
class PaymentRule(Protocol):
    """A way to pay the sellers of a joint optimum.

    A protocol: :class:`EnvelopePayments`, :class:`QuadraturePayments` and :class:`ExpectedPayments` obey it.
    """

    def check(self, dist: CostDistribution) -> None:
        """Refuse a distribution of costs that this rule cannot pay for."""
        ...

    def pay(
        self,
        solved: Solved,
        dist: CostDistribution,
        costs: FloatArray,
        sellers: IntArray,
        progress: Progress | None = None,
    ) -> Paid:
        """Return the payments of ``sellers``, all of whom are bought from; ``costs`` are everybody's."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which rule this is."""
        ...


@dataclass(frozen=True)
class EnvelopePayments:
    """Exact payments for affine virtual costs (uniform costs): one warm-started re-solve per seller.

    Truth is every seller's best report, and nobody loses by taking part. The default for uniform costs.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> mechanism = JointMechanism(Uniform(1, 5), objective, l2=1.0, payments=EnvelopePayments())
    >>> market = mechanism.with_records(X, y)
    >>> truth, lie = market.respond(costs, 0, 1.5), market.respond(costs, 0, 2.0)
    >>> truth.payment - 1.5 * truth.epsilon > lie.payment - 1.5 * lie.epsilon
    True
    """

    def check(self, dist: CostDistribution) -> None:
        """Refuse any distribution but the uniform one."""
        if not isinstance(dist, Uniform):
            raise InvalidInput(
                "expected uniform costs for EnvelopePayments, whose formula needs affine virtual costs; pass "
                "payments=QuadraturePayments()."
            )

    def pay(
        self,
        solved: Solved,
        dist: CostDistribution,
        costs: FloatArray,
        sellers: IntArray,
        progress: Progress | None = None,
    ) -> Paid:
        """Return ``c*eps + (J(psi(top)) - J)/(slope*gamma)`` for each seller, rounded up."""
        low, top = dist.support
        slope = float(dist.virtual_cost_slope(top)) * solved.setting.objective.payment_weight
        highest = float(dist.virtual_cost(top))
        error = solved.setting.value_error(solved.best)
        payments, errors = np.empty(sellers.size), np.empty(sellers.size)
        for k, seller in enumerate(sellers.tolist()):
            moved = solved.moved(seller, highest)
            integral = max(moved.value - solved.best.value, 0.0) / slope
            payments[k] = _own(solved, seller, costs, low) + integral
            errors[k] = (error + solved.setting.value_error(moved.trial)) / slope
            _tell(progress, k + 1, sellers.size)
        return Paid(round_up(payments), errors)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which rule this is."""
        return {"kind": "envelope"}


@dataclass(frozen=True)
class QuadraturePayments:
    r"""Exact payments for any distribution of costs: the envelope formula on short pieces of the reports.

    On a piece of reports z the objective rises by :math:`\gamma \int \epsilon\,\psi'\,dz`, known without
    quadrature. Wanted is :math:`\int \epsilon\,dz`: Lobatto's rule gives the ratio of the two integrals, in
    which most of its error cancels, the kinks of epsilon included; nothing is left of it where the virtual
    cost is affine. Pieces are halved until both results agree.

    Parameters
    ----------
    tolerance
        Relative error of the integral at which to stop.

    Examples
    --------
    For uniform costs it pays what :class:`EnvelopePayments` pays.

    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> by_pieces, at_once = (
    ...     JointMechanism(Uniform(1, 5), objective, l2=1.0, payments=rule).run(costs, X, y).payments
    ...     for rule in (QuadraturePayments(), EnvelopePayments())
    ... )
    >>> bool((abs(by_pieces - at_once) < 1e-6).all())
    True
    """

    tolerance: float = 1e-7

    def __post_init__(self) -> None:
        checks.positive("tolerance", self.tolerance)

    def check(self, dist: CostDistribution) -> None:
        """Accept every distribution."""

    def pay(
        self,
        solved: Solved,
        dist: CostDistribution,
        costs: FloatArray,
        sellers: IntArray,
        progress: Progress | None = None,
    ) -> Paid:
        """Return ``c*eps`` plus the integral of epsilon up to the top, for each seller, rounded up.

        Raises
        ------
        Infeasible
            Costs have no upper end and the seller is needed at every price.
        NotConverged
            The tolerance cannot be reached.
        """
        low = dist.support[0]
        payments, errors = np.empty(sellers.size), np.empty(sellers.size)
        for k, seller in enumerate(sellers.tolist()):
            start = max(float(costs[seller]), low)
            integral, errors[k] = self._integral(solved, dist, seller, start)
            payments[k] = _own(solved, seller, costs, low) + integral
            _tell(progress, k + 1, sellers.size)
        return Paid(round_up(payments), errors)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which rule this is."""
        return {"kind": "quadrature", "tolerance": self.tolerance}

    def _integral(
        self, solved: Solved, dist: CostDistribution, seller: int, start: float
    ) -> tuple[float, float]:
        end = _last_report(solved, dist, seller)
        if not start < end:
            return 0.0, 0.0
        gamma = solved.setting.objective.payment_weight
        walls = [wall for part in dist.ironed_intervals for wall in (part.low, part.high)]
        walls = sorted({wall for wall in (*walls, *dist.breakpoints) if start < wall < end})

        @cache
        def at(report: float) -> Moved:
            return solved.moved(seller, float(dist.virtual_cost(report)))

        def piece(a: float, b: float) -> float:
            reports = 0.5 * (a + b) + 0.5 * (b - a) * _NODES
            reports[0], reports[-1] = a, b
            epsilons = np.array([at(report).epsilon for report in reports.tolist()])
            area = float(_WEIGHTS @ epsilons)
            rise = float(_WEIGHTS @ (epsilons * dist.virtual_cost_slope(reports)))
            if not rise > 0.0:  # ironed, or nothing is bought
                return 0.5 * (b - a) * area
            return max(at(b).value - at(a).value, 0.0) / gamma * area / rise

        # Just inside the walls, where the virtual cost may jump and its slope does.
        ends = [
            (a + _INSIDE * (b - a), b - _INSIDE * (b - a))
            for a, b in itertools.pairwise([start, *walls, end])
        ]
        stack = [(a, b, piece(a, b)) for a, b in ends]
        scale = sum(value for *_, value in stack) + start * at(start).epsilon
        enough = 0.1 * self.tolerance * scale + 2.0 * solved.setting.value_error(solved.best) / gamma
        total = error = 0.0
        for _ in range(_MAX_PIECES):
            if not stack:
                return total, error
            a, b, whole = stack.pop()
            middle = 0.5 * (a + b)
            halves = [(a, middle, piece(a, middle)), (middle, b, piece(middle, b))]
            value = halves[0][2] + halves[1][2]
            if abs(value - whole) <= enough:
                total, error = total + value, error + abs(value - whole) + 2e-8 * value
            else:
                stack += halves
        raise NotConverged(
            f"expected the payment's integral to a relative error of {self.tolerance:.1e}, it needs more "
            f"than {_MAX_PIECES} pieces: raise the tolerance."
        )


@dataclass(frozen=True)
class ExpectedPayments:
    """Virtual cost times epsilon: what is paid in expectation (paper, Lemma `mech design`).

    The cheap figure that plots of totals need. Paid to a seller it would make lying worthwhile.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> mechanism = JointMechanism(Uniform(1, 5), objective, l2=1.0, payments=ExpectedPayments())
    >>> outcome = mechanism.run(costs, X, y)
    >>> virtual_costs = 2.0 * np.array(costs) - 1.0
    >>> bool(np.allclose(outcome.payments, virtual_costs * outcome.epsilons))
    True
    """

    def check(self, dist: CostDistribution) -> None:
        """Accept every distribution."""

    def pay(
        self,
        solved: Solved,
        dist: CostDistribution,
        costs: FloatArray,
        sellers: IntArray,
        progress: Progress | None = None,
    ) -> Paid:
        """Return ``psi*eps`` for each seller."""
        own = np.searchsorted(solved.buyable.positions, sellers)
        epsilons = solved.best.inner.weights[own] * solved.best.noise_rate
        payments = solved.buyable.psi[own] * epsilons
        return Paid(payments, 2.0**-51 * payments)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that says which rule this is."""
        return {"kind": "expected"}


def exact_rule_for(dist: CostDistribution) -> PaymentRule:
    """Return the exact rule that suits a distribution of costs."""
    return EnvelopePayments() if isinstance(dist, Uniform) else QuadraturePayments()


def _last_report(solved: Solved, dist: CostDistribution, seller: int) -> float:
    """Return a report from which on the seller is not bought from, or the top of the support."""
    top = dist.support[1]
    highest = math.inf if math.isinf(top) else float(dist.virtual_cost(top))
    try:
        leaving = solved.without(seller)
    except Infeasible:
        if math.isfinite(highest):
            return top
        raise Infeasible(
            "expected the others to suffice when one seller leaves, because costs have no upper end; "
            "found that a seller is needed at every price: raise weight_cap, or cut the distribution."
        ) from None
    # The objective rises with the virtual cost as long as the seller is bought from, and no further.
    error = 4.0 * solved.setting.value_error(solved.best)
    own = float(solved.buyable.psi[np.searchsorted(solved.buyable.positions, seller)])
    virtual = max(leaving.virtual_cost, own, _LEAST * float(dist.virtual_cost(dist.quantile(0.5))))
    for _ in range(_MAX_DOUBLINGS):
        if not virtual < highest:
            return top
        if solved.moved(seller, virtual).value >= leaving.value - error:
            return float(largest_cost_at(virtual, dist))
        virtual *= 2.0
    raise NotConverged(
        f"expected a virtual cost at which the seller is not bought from, found none after {_MAX_DOUBLINGS} "
        "doublings: cut the distribution."
    )


def _own(solved: Solved, seller: int, costs: FloatArray, low: float) -> float:
    weight = float(solved.best.inner.weights[np.searchsorted(solved.buyable.positions, seller)])
    return max(float(costs[seller]), low) * (weight * solved.best.noise_rate)


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
