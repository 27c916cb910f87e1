r"""A release: one loss, one noise, a penalty and public bounds, and everything that follows from them.

Released is the minimiser of :math:`\sum_i a_i \ell(W x_i, y_i) + \langle b, W \rangle + \frac{\Lambda}{2}
|W|^2` with noise b of rate :math:`\eta`, rounded to a public grid (objective perturbation; paper,
Algorithm 1). Neighbours differ in all records of one person. The output has the density
:math:`h(b_D(W)) \det H_D(W)`, where :math:`b_D` is the noise that leads to W; replacing a person's records
moves that noise by at most :math:`a\,S R_1 (1 + t)` in the norm N and changes the log determinant by the
loss's terms (the replaced record's only helps), so that with :math:`c = a R_2^2 / \Lambda`

.. math:: \epsilon = \alpha + \max_{0 \le t \le 1} \Big[ \alpha t + \sum_k m_k \log(1 + c\,g_k(t)) \Big],
          \qquad \alpha = \tfrac{1}{2} a \eta S R_1. \qquad (*)

*Several rows.* However a weight is split over at most r rows, equal shares are the worst case: r times each
term, with c / r. For more rows than the n coefficients of an output the trace over the n rank directions
that a person can change is the better bound, and the smaller is charged.

*Label-only privacy.* Where neighbours differ in labels alone and a label moves the first derivative only, by
at most the loss's span, determinants cancel: :math:`\epsilon = \frac{1}{2} a \eta\, span\, R_1`, for any
penalty.

*The grid* costs everybody who takes part :math:`2 K n\, \mathrm{artanh}(q) + q\, g\, slope` for the share
:math:`q = 2 \rho / g` (:mod:`dpmarket.privacy.grid`), with

.. math:: slope = \tfrac{\eta}{2} (K \Lambda N(1) + A\, curvature_1 R_1 X_1)
          + \sqrt n \min(M n\, rank\, R_2,\; third\, A R_2^3 / \Lambda).

Weights must not depend on the records. If they do, nothing here holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.numerics import exact_sum
from dpmarket.privacy import charge
from dpmarket.privacy.grid import ReleasePlan, plan_cost, plan_on
from dpmarket.privacy.loss import Loss, SigmoidLoss, Softmax, loss_from
from dpmarket.privacy.noise_norm import NoiseNorm

_SCHEMA = "dpmarket.release/1"
_SMALLEST_EPSILON = 1e-100


class Weights(NamedTuple):
    """Weights of people, which add up to 1 within 1e-12, and the noise rate that goes with them."""

    loss_weights: FloatArray
    noise_rate: float


@dataclass(frozen=True)
class Release:
    """What is public about one release, before a record is read.

    Parameters
    ----------
    loss, norm
        The loss; and the norm of the noise, with the bounds on rows.
    l2
        The ridge penalty Lambda, > 0.
    rows_per_person
        A public bound on the number of records of one person.
    private
        "records" or, with features that are public, "labels".

    Notes
    -----
    Guaranteed:

    * :meth:`epsilons` bounds the log density ratio of the exact output between neighbours, in exact
      arithmetic on the given floats, and is above its formula by less than 1e-13, relatively, for charges
      below a billion.
    * ``epsilons(*weights(budgets)) <= budgets`` as computed, and at least ``1 - 1e-9`` times it.

    Examples
    --------
    >>> from dpmarket.privacy.loss import logistic_loss
    >>> release = Release(logistic_loss(), NoiseNorm.euclidean(2), l2=1.0)
    >>> loss_weights, noise_rate = release.weights([0.5, 1.0, 0.0, 2.5])
    >>> loss_weights.round(9).tolist(), round(noise_rate, 9)
    ([0.125, 0.25, 0.0, 0.625], 4.0)
    >>> release.epsilons(loss_weights, noise_rate).round(9).tolist()
    [0.5, 1.0, 0.0, 2.5]
    """

    loss: Loss
    norm: NoiseNorm
    l2: float
    rows_per_person: int = 1
    private: Literal["records", "labels"] = "records"

    def __post_init__(self) -> None:
        object.__setattr__(self, "l2", checks.strictly_between("l2", self.l2, 1e-50, 1e50))
        rows = checks.whole("rows_per_person", self.rows_per_person, minimum=1)
        object.__setattr__(self, "rows_per_person", rows)
        reach_of(self.loss, self.private)

    @property
    def reach(self) -> float:
        """S, or half of what another label moves where features are public."""
        return reach_of(self.loss, self.private)

    @property
    def bounds(self) -> tuple[charge.Terms, ...]:
        """Every valid bound on the log determinant worth a look."""
        if self.private == "labels":
            return ((),)
        loss = self.loss
        return charge.bounds_of(loss.terms, loss.rank, self.rows_per_person, self.norm.n_coefficients)

    @property
    def _accounting(self) -> charge.Accounting:
        return charge.Accounting(self.reach, self.norm.row_bound, self.norm.row_bound_2, self.l2, self.bounds)

    def epsilons(self, loss_weights: ArrayLike, noise_rate: float) -> FloatArray:
        """Return each person's privacy loss (epsilon), rounded up, without the cost of the grid.

        Weights, shape (people,), at least 0, need not add up to 1: what is charged is what is used. Charges
        above 1e100 are refused.
        """
        given = checks.non_negative_vector("loss_weights", loss_weights)
        return read_only(self._accounting.epsilons(given, checks.positive("noise_rate", noise_rate)))

    def weights(self, epsilons: ArrayLike, numerical_epsilon: float = 0.0) -> Weights:
        """Return weights that spend everybody's epsilon and exceed nobody's, shape (people,), and the rate.

        ``numerical_epsilon`` of each is set aside for the grid; people with no more than this get weight 0.
        Infeasible if no noise, however large, lets weights that add up to 1 keep these epsilons at this
        ``l2``.
        """
        budgets = checks.non_negative_vector("epsilons", epsilons)
        usable = usable_epsilons(budgets, checks.non_negative("numerical_epsilon", numerical_epsilon))
        found = self._accounting.weights(usable)
        if found is None:
            least = self.least_l2(exact_sum(usable)) * 1.001
            raise Infeasible(
                f"no amount of noise keeps these epsilons at l2 = {self.l2!r}. l2 = {least:.4g} works."
            )
        return Weights(read_only(found[0]), found[1])

    def least_l2(self, total_epsilon: float) -> float:
        """Return the penalty from which epsilons of this sum need no log-determinant term at t < 1."""
        return least_l2(self.loss, self.norm, total_epsilon, self.private)

    def grid_plan(
        self, numerical_epsilon: float, noise_rate: float, weight_total: float = 1.0
    ) -> ReleasePlan:
        """Return grid, gradient bound and noise accuracy that cost at most this, or refuse."""
        asked = checks.positive("numerical_epsilon", numerical_epsilon)
        eta = checks.positive("noise_rate", noise_rate)
        total = checks.positive("weight_total", weight_total)
        n, rank = self.norm.n_coefficients, self.loss.rank
        # In the mean over the directions that decide outputs the Hessian has at most this curvature.
        largest = self.loss.curvature if self.loss.outputs == 1 else 1.0 - 1.0 / self.loss.outputs
        trace = largest * total * self.norm.row_bound_2**2 / (n * rank)
        spread = self.norm.smallest_deviation / (eta * (self.l2 + trace))
        return plan_on(spread, asked, self.l2, self.loss.outputs * n, self._grid_slope(eta, total))

    def grid_cost(self, plan: ReleasePlan, noise_rate: float, weight_total: float = 1.0) -> float:
        """Return what a plan costs in epsilon, rounded up: for an outsider to check; infinite if too fine."""
        size = self.loss.outputs * self.norm.n_coefficients
        return plan_cost(plan, self.l2, size, self._grid_slope(noise_rate, weight_total))

    def error_constants(self) -> tuple[float, float]:
        """Return A and B of the gradient's expected squared error ``A |a|^2 + B / (sum of epsilons)^2``."""
        sampling = self.loss.variance * self.norm.row_bound_2**2
        noise = self.loss.rank * self.norm.power * (2.0 * self.reach * self.norm.row_bound) ** 2 / 4.0
        return sampling, noise

    def to_dict(self) -> dict[str, Any]:
        """Return plain data with formula (*)'s constants: all that an outsider needs to charge again."""
        return {
            "schema": _SCHEMA,
            "loss": self.loss.to_dict(),
            "norm": self.norm.to_dict(),
            "l2": self.l2,
            "rows_per_person": self.rows_per_person,
            "private": self.private,
            "constants": self._constants(),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Release:
        """Return the release that :meth:`to_dict` described; refuse others, and other constants."""
        keys = {"schema", "loss", "norm", "l2", "rows_per_person", "private", "constants"}
        if not isinstance(data, dict) or set(data) != keys or data["schema"] != _SCHEMA:
            raise InvalidInput(f"expected a release of the schema {_SCHEMA}.")
        described = (loss_from(data["loss"]), NoiseNorm.from_dict(data["norm"]))
        found = cls(*described, data["l2"], data["rows_per_person"], data["private"])
        if data["constants"] != found._constants():
            raise InvalidInput("expected the constants that follow from the loss and the norm, got others.")
        return found

    def _constants(self) -> dict[str, Any]:
        of_loss = ("outputs", "rank", "curvature_1", "third", "relative_third")
        of_norm = ("joint", "row_bound", "row_bound_2", "largest_sum", "ones")
        return {
            **{name: getattr(self.loss, name) for name in of_loss},
            **{name: getattr(self.norm, name) for name in of_norm},
            "coefficients": self.norm.n_coefficients,
            "reach": self.reach,
            "bounds": [[list(term) for term in terms] for terms in self.bounds],
        }

    def _grid_slope(self, eta: float, total: float) -> float:
        """Return how steep the log density is where every coordinate moves by at most 1."""
        loss, norm = self.loss, self.norm
        noise = loss.outputs * self.l2 * norm.ones
        noise += total * loss.curvature_1 * norm.row_bound * norm.largest_sum
        by_rank = loss.relative_third * norm.n_coefficients * loss.rank * norm.row_bound_2
        by_size = loss.third * total * norm.row_bound_2**3 / self.l2
        return eta / 2.0 * noise + math.sqrt(norm.n_coefficients) * min(by_rank, by_size)


def reach_of(loss: Loss, private: Literal["records", "labels"]) -> float:
    """Return S; where features are public half of what a label moves, which must move the target alone."""
    if private == "records":
        return loss.reach
    if private != "labels":
        raise InvalidInput("expected private to be 'records' or 'labels'.")
    if loss.span is None:
        raise InvalidInput(
            "expected private='records' for this loss: its curvature depends on the label, so that public "
            "features would not make it cheaper. Logistic, binomial and softmax losses offer "
            "private='labels'."
        )
    return 0.5 * loss.span


def usable_epsilons(epsilons: FloatArray, reserve: float) -> FloatArray:
    """Return ``max(epsilon - reserve, 0)``, 0 below 1e-100, or refuse if that leaves nothing to anybody."""
    largest = float(epsilons.max())
    if not largest > reserve:
        raise InvalidInput(
            f"expected at least one epsilon above {reserve!r}, which is set aside; found none."
        )
    if not 1e-90 < largest - reserve < 1e90 / epsilons.size:
        raise InvalidInput("expected epsilons whose largest lies between 1e-90 and 1e90 / people.")
    left = np.maximum(epsilons - reserve, 0.0) if reserve else epsilons
    return left if float(left.min()) >= _SMALLEST_EPSILON else np.where(left < _SMALLEST_EPSILON, 0.0, left)


def least_l2(
    loss: Loss, norm: NoiseNorm, total_epsilon: float, private: Literal["records", "labels"] = "records"
) -> float:
    r"""Return the penalty from which t = 1 is the maximiser for small weights, given the sum of epsilons.

    There :math:`\lambda \ge \sum_k m_k (p_k + v_k - q_k)` and the charges add up to
    :math:`(2 \lambda + \sum_k m_k q_k) R_2^2 / \Lambda`. 0 where only labels are private.
    """
    if private == "labels":
        return 0.0
    needed = sum(m * (2.0 * max(p + v - q, 0.0) + q) for m, p, q, v in loss.terms)
    return needed * norm.row_bound_2**2 / total_epsilon * (1.0 + 2.0**-40)


def default_l2(
    loss: Loss,
    norm: NoiseNorm,
    total_epsilon: float,
    private: Literal["records", "labels"] = "records",
    *,
    share: float | None = None,
) -> float:
    r"""Return a ridge penalty that wastes no privacy and suits most data, from public quantities only.

    With :math:`\eta = \sum \epsilon / (S R_1)` the noise has the length :math:`Z = \sqrt B / \eta`, in units
    of the first derivative :math:`Z / scale`. A penalty in proportion to it keeps noise from dominating the
    model, less where the noise is small:

    .. math:: \Lambda = \max\left(\Lambda_{least},\; 4\, curvature \cdot share \cdot
              \frac{R_2 Z / 4}{1 + R_2 / (50 Z)}\right).

    A ``share`` of None means 1, 2 for softmax, half of that where columns have noise of their own.
    """
    total = checks.positive("total_epsilon", total_epsilon)
    reach = reach_of(loss, private)
    scale = loss.scale if isinstance(loss, SigmoidLoss) else 1.0
    length = math.sqrt(norm.power) * reach * norm.row_bound / total / scale
    steepness = 1.0 if loss.outputs > 1 else 4.0 * loss.curvature
    if share is None:
        share = (2.0 if isinstance(loss, Softmax) else 1.0) * (1.0 if norm.is_euclidean else 0.5)
    wanted = steepness * share * norm.row_bound_2 * length / 4.0 / (1.0 + norm.row_bound_2 / (50.0 * length))
    found = max(least_l2(loss, norm, total, private), wanted)
    if not 1e-50 < found < 1e50:
        raise InvalidInput(f"expected epsilons and bounds within the range of floats, got l2 = {found!r}.")
    return found


def shrinkage_correction(release: Release, noise_rate: float) -> float:
    r"""Return a public factor, at least 1, for released coefficients that undoes part of the shrinkage.

    In a direction of curvature h the penalty shrinks a coefficient by :math:`h / (h + \Lambda)`; h is at most
    :math:`R_2^2 / n` times the loss's curvature in the mean. Shrinking helps against noise, so only the share
    :math:`v = g / (g + Z)` of the penalty is undone, near 1 where the noise, of length Z, is small beside a
    usual gradient g: a fifth of its reach, 0.4 for softmax. It moves no predicted class.
    """
    loss, norm = release.loss, release.norm
    usual = 0.4 if isinstance(loss, Softmax) else 0.2 * loss.reach_2
    length = math.sqrt(norm.power) / noise_rate
    kept = 1.0 / (1.0 + usual * (1.0 if norm.is_euclidean else norm.row_bound_2) / length)
    steepness = 1.0 / loss.outputs if loss.outputs > 1 else loss.curvature
    curvature = steepness * norm.row_bound_2**2 / norm.n_coefficients
    excess = (1.0 - kept) / (curvature / release.l2 + kept)
    return 1.0 + (excess if norm.is_euclidean else 0.25 * excess)


def paper_privacy_loss(
    loss_weights: ArrayLike, noise_rate: float, l2: float, weight_cap: float | None = None
) -> FloatArray:
    """Return the privacy loss as the paper prints it: ``a_i * eta + 2 * log(1 + k / (m * Lambda))``.

    Proposition II.2, literally, for rows of norm at most 1 and one row per person; for comparison. It charges
    everybody for the largest weight that anybody could have.

    Parameters
    ----------
    loss_weights, noise_rate, l2
        Weights of m people, shape (people,), each at most ``weight_cap / m``; eta and Lambda, > 0.
    weight_cap
        k; None means no cap, k = m.

    Returns
    -------
    FloatArray
        Epsilons, shape (people,), read-only; rounded to nearest.

    Examples
    --------
    >>> paper_privacy_loss([0.25, 0.75], noise_rate=2.0, l2=1.0).round(3).tolist()
    [1.886, 2.886]
    """
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    cap = 1.0 if weight_cap is None else checks.positive("weight_cap", weight_cap) / weights.size
    if float(weights.max()) > cap * (1.0 + 1e-9):
        raise InvalidInput(
            f"expected every loss weight to be at most weight_cap / people = {cap!r}, found a larger one."
        )
    eta, penalty = checks.positive("noise_rate", noise_rate), checks.positive("l2", l2)
    return read_only(weights * eta + 2.0 * math.log1p(cap / penalty))
