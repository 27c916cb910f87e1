r"""Turn promises with a delta into weights that use every promise fully and exceed none.

The weight of a person is the largest ``a`` whose delta, by the bounds of :mod:`dpmarket.privacy.gaussian`, is
at most the one promised. With :math:`\lambda = \mu / c`, the same for everybody, each person's :math:`\mu_i`
is the root of an increasing function, and since weights add up to 1,
:math:`\sum_i \mu_i(\lambda) / \lambda = R^2 / \Lambda`, whose left side falls as :math:`\lambda` grows. Then
:math:`a_i = \mu_i / \sum_j \mu_j`. A solution exists if and only if the sum of the largest c, where promises
are used up by the Hessian alone, is above :math:`R^2 / \Lambda`: :math:`4 \Lambda \sum_i (e^{\epsilon_i} - 1)
> R^2` for two classes and one row, as without a delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, InvalidInput, NotConverged
from dpmarket.privacy.gaussian import SMALLEST, gaussian_privacy_loss, vertex_bounds
from dpmarket.privacy.gaussian_curve import VertexBound, left_of_root
from dpmarket.privacy.lowering import lowered
from dpmarket.privacy.weights import finite_total, keep_checked, usable_promises

NUMERICAL_DELTA = 2.0**-60
"""Set aside from every delta, with ``numerical_epsilon``, for the release of rounded numbers."""

_ROUND_DOWN = 2.0**-43
_MAX_DOUBLINGS = 30
_KNOTS = 769
_MANY = 2 * _KNOTS
_ROOM = 1e-9


@dataclass(frozen=True, eq=False)
class GaussianWeights:
    """Weights and a noise rate that keep given promises with a delta. Unpacks as its first two values.

    Attributes
    ----------
    loss_weights
        Weight of each person, shape (people,), read-only; they add up to 1 within 1e-12.
    noise_rate
        The noise rate eta: noise of a coefficient has the standard deviation ``2 / noise_rate``.
    l2, delta, row_bound, rows_per_person, n_classes
        The public constants for which the promises are kept.
    numerical_epsilon
        What was set aside of every epsilon for the release of rounded numbers; if it is above 0,
        ``NUMERICAL_DELTA`` was set aside of delta.

    Examples
    --------
    >>> weights = gaussian_weights_for([0.5, 1.0, 2.5], delta=1e-5, l2=5.0)
    >>> loss_weights, noise_rate = weights
    >>> loss_weights.round(4).tolist()
    [0.1391, 0.2622, 0.5987]
    >>> bool((weights.privacy_losses() <= [0.5, 1.0, 2.5]).all())
    True
    """

    loss_weights: FloatArray
    noise_rate: float
    l2: float
    delta: float
    row_bound: float = 1.0
    rows_per_person: int = 1
    n_classes: int = 2
    numerical_epsilon: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(self)
        checks.whole("n_classes", self.n_classes, minimum=2)
        checked_delta(self.delta, self.numerical_epsilon)

    def __iter__(self) -> Iterator[Any]:
        yield self.loss_weights
        yield self.noise_rate

    @property
    def euclidean_bound(self) -> None:
        """None: the noise has no shape of its own, and its row bound is ``row_bound``."""
        return

    @property
    def exact_delta(self) -> float:
        """What of delta is left for the exact output."""
        return exact_delta(self.delta, self.numerical_epsilon)

    def privacy_losses(self) -> FloatArray:
        """Return each person's epsilon at ``exact_delta``, rounded up, without ``numerical_epsilon``."""
        return gaussian_privacy_loss(
            self.loss_weights,
            self.noise_rate,
            self.l2,
            self.exact_delta,
            row_bound=self.row_bound,
            rows_per_person=self.rows_per_person,
            n_classes=self.n_classes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {
            "schema": "dpmarket.gaussian-weights/1",
            "loss_weights": self.loss_weights.tolist(),
            "noise_rate": self.noise_rate,
            "l2": self.l2,
            "delta": self.delta,
            "row_bound": self.row_bound,
            "rows_per_person": self.rows_per_person,
            "n_classes": self.n_classes,
            "numerical_epsilon": self.numerical_epsilon,
        }


def gaussian_weights_for(
    epsilons: ArrayLike,
    delta: float,
    l2: float,
    *,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    n_classes: int = 2,
    numerical_epsilon: float = 0.0,
) -> GaussianWeights:
    """Return the weights that use everybody's promise at this delta fully and exceed nobody's.

    The inverse of :func:`~dpmarket.privacy.gaussian.gaussian_privacy_loss`, with weights that add up to 1. It
    uses public quantities only.

    Parameters
    ----------
    epsilons
        The promise to each person (epsilon), shape (people,), at least 0.
    delta
        The delta of everybody's (epsilon, delta) guarantee, above 0 and below 1.
    l2
        The ridge penalty Lambda, > 0.
    row_bound
        R: every row, with its constant column, has at most this Euclidean norm. Public.
    rows_per_person
        A public bound on the number of rows of one person; all numbers above 1 cost the same.
    n_classes
        K, at least 2.
    numerical_epsilon
        Set aside from every epsilon for the release of rounded numbers, with ``NUMERICAL_DELTA`` of delta;
        who was promised no more than this gets weight 0.

    Returns
    -------
    GaussianWeights
        Also unpacks as ``loss_weights, noise_rate``.

    Raises
    ------
    InvalidInput
        For NaN, negative, infinite, textual or missing values, and if no promise exceeds
        ``numerical_epsilon``.
    Infeasible
        If no noise, however large, lets weights that add up to 1 keep the promises at this ``l2``. The
        message gives an ``l2`` that works.

    Notes
    -----
    Guaranteed:

    * ``gaussian_privacy_loss(weights) <= max(epsilon - numerical_epsilon, 0)`` for everybody, as computed,
      at what is left of delta.
    * The difference is at most 1e-8 of it: promises are used fully.
    * Nothing promised (or less than 1e-100), no weight: exactly 0.

    Examples
    --------
    >>> loss_weights, noise_rate = gaussian_weights_for([1.0, 0.0, 3.0], delta=1e-5, l2=5.0)
    >>> loss_weights.round(4).tolist(), round(noise_rate, 4)
    ([0.2715, 0.0, 0.7285], 0.9872)
    """
    promises = checks.non_negative_vector("epsilons", epsilons)
    penalty = checks.positive("l2", l2)
    bound = checks.strictly_between("row_bound", row_bound, 1e-50, 1e50)
    reserve = checks.non_negative("numerical_epsilon", numerical_epsilon)
    asked = checked_delta(delta, reserve)
    bounds = vertex_bounds(n_classes, rows_per_person)
    usable = usable_promises(promises, reserve)
    finite_total(usable)
    # Equal promises have equal weights: each is solved for once.
    distinct, place, counts = np.unique(usable, return_inverse=True, return_counts=True)
    first = int(distinct[0] == 0.0)
    people = _People(distinct[first:], counts[first:].astype(np.float64), exact_delta(asked, reserve), bounds)
    mu = people.at(_penalty_ratio(people, bound * bound / penalty, bound))
    total = float(mu @ people.counts)
    # mu = a * noise_rate * R, times the root of 2 with more than two classes.
    eta = total / bound / (1.0 if n_classes == 2 else math.sqrt(2.0))
    weights = np.zeros(distinct.size)
    found = GaussianWeights(
        read_only(mu / total), eta, penalty, asked, bound, rows_per_person, n_classes, reserve
    )
    weights[first:] = _lowered(found, people.promises)
    return GaussianWeights(
        read_only(weights[place]), eta, penalty, asked, bound, rows_per_person, n_classes, reserve
    )


def checked_delta(delta: float, numerical_epsilon: float) -> float:
    """Return a delta above 0 and below 1, with room for the release where one is planned."""
    asked = checks.strictly_between("delta", delta, 0.0, 1.0)
    if not asked >= 2.0 * NUMERICAL_DELTA:
        raise InvalidInput(f"expected delta of at least {2.0 * NUMERICAL_DELTA:.1e}, got {asked!r}.")
    if not numerical_epsilon <= 1.0:
        raise InvalidInput(
            f"expected numerical_epsilon of at most 1 with a delta, got {numerical_epsilon!r}."
        )
    return asked


def exact_delta(delta: float, numerical_epsilon: float) -> float:
    """Return what of delta may be spent on the exact output: rounding turns it into delta, at most."""
    if numerical_epsilon == 0.0:
        return delta
    return (delta - NUMERICAL_DELTA) * math.exp(-numerical_epsilon) * (1.0 - 2.0**-50)


@dataclass(frozen=True, eq=False)
class _People:
    """Distinct promises, how many people have each, and what may be charged."""

    promises: FloatArray
    counts: FloatArray
    delta: float
    bounds: tuple[VertexBound, ...]

    def at(self, ratio: float) -> FloatArray:
        """Return the largest mu of each promise where ``mu / c`` is this ratio."""
        deltas = np.full(self.promises.shape, self.delta)
        found = [bound.largest_mu(self.promises, deltas, ratio) for bound in self.bounds]
        return np.asarray(np.max(found, axis=0))

    def largest_c(self) -> float:
        """Return the sum of c that no ratio reaches."""
        each = np.max([bound.largest_c(self.promises) for bound in self.bounds], axis=0)
        return float(each @ self.counts)

    def total(self, ratio: float) -> float:
        """Return the sum of mu over all people, to rounding; of many promises, by interpolation."""
        if self.promises.size <= _MANY:
            return float(self.at(ratio) @ self.counts)
        logarithms = np.log(self.promises)
        knots = np.linspace(logarithms[0], logarithms[-1], _KNOTS)
        few = _People(np.exp(knots), np.ones(_KNOTS), self.delta, self.bounds)
        curve = PchipInterpolator(knots, np.log(few.at(ratio)))
        return float(np.exp(curve(logarithms)) @ self.counts)


def _penalty_ratio(people: _People, total_c: float, row_bound: float) -> float:
    """Return the largest ratio mu / c at which the sum of c is at least ``total_c``."""
    if not people.largest_c() > total_c * (1.0 + 1e-12):
        # There c is a hundredth of every promise, far from using it up.
        works = 100.0 * row_bound**2 / float(people.promises @ people.counts)
        raise Infeasible(
            f"expected a larger l2: no amount of noise keeps these promises at l2 = "
            f"{row_bound**2 / total_c!r}, row_bound = {row_bound!r}. l2 = {works:.4g} works."
        )

    def missing(logarithms: FloatArray, _: Any) -> FloatArray:
        ratio = math.exp(float(logarithms[0]))
        return np.array([math.log(total_c * ratio / people.total(ratio)) + room])

    room = 0.0 if people.promises.size <= _MANY else _ROOM
    high = math.log(people.total(1e50)) - math.log(total_c) + 1e-3
    low = high - 1.0
    while float(missing(np.array([low]), None)[0]) > 0.0:
        low -= 2.0 * (high - low)
        if low < -600.0:
            raise Infeasible("expected a larger l2: promises are used up by the Hessian alone.")
    for _ in range(_MAX_DOUBLINGS):
        ratio = math.exp(float(left_of_root(missing, np.array([low]), np.array([high]), 1e-13)[0]))
        if float(people.at(ratio) @ people.counts) >= total_c * ratio:
            return ratio
        room = 2.0 * room + 1e-15
    raise NotConverged("expected a noise rate at which the weights add up to 1, found none.")


def _lowered(weights: GaussianWeights, promises: FloatArray) -> FloatArray:
    """Return the weights, lowered by rounding until no computed loss exceeds its promise."""

    def losses(some: FloatArray) -> FloatArray:
        return replace(weights, loss_weights=some).privacy_losses()

    return lowered(weights.loss_weights, promises, losses, share=_ROUND_DOWN, smallest=SMALLEST)
