r"""Turn promises into weights of a softmax regression that use every promise fully and exceed none.

As :mod:`dpmarket.privacy.weights` does for two classes: the weight of a person is the ``a`` with
``softmax_privacy_loss(a) = epsilon``, it falls as the noise rate grows, and exactly one noise rate makes the
weights add up to 1. A solution exists if and only if
:math:`K \rho \frac{\Lambda}{R^2} \sum_i (e^{\epsilon_i / (\rho (K - 1))} - 1) > 1` with
:math:`\rho = \min(r, n)`: without noise the determinant is largest at equal probabilities, where both of its
bounds have this form. Where :math:`\eta \Lambda \ge R K / (K - 1)` the maximum is at s = 1 and a weight costs
:math:`2 a \eta R + (K - 2) \log(1 + c / (K - 1))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible
from dpmarket.privacy.softmax import softmax_accounting, softmax_privacy_loss
from dpmarket.privacy.weights import finite_total, keep_checked, usable_promises


@dataclass(frozen=True, eq=False)
class SoftmaxWeights:
    """Weights and a noise rate that keep given promises in a softmax regression.

    Unpacks as ``loss_weights, noise_rate``.

    Attributes
    ----------
    loss_weights
        Weight of each person, shape (people,), read-only; they add up to 1 within 1e-12.
    noise_rate
        The noise rate eta of each class's noise.
    l2, n_classes, n_coefficients, row_bound, rows_per_person
        The public constants for which the promises are kept; ``n_coefficients`` of one class.
    numerical_epsilon
        What was set aside of every promise for the release of rounded numbers.

    Examples
    --------
    >>> weights = softmax_weights_for([0.5, 1.0, 2.5], l2=1.0, n_classes=3, n_coefficients=4)
    >>> bool((weights.privacy_losses() <= [0.5, 1.0, 2.5]).all())
    True
    """

    loss_weights: FloatArray
    noise_rate: float
    l2: float
    n_classes: int
    n_coefficients: int
    row_bound: float = 1.0
    rows_per_person: int = 1
    numerical_epsilon: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(self)
        checks.whole("n_classes", self.n_classes, minimum=2)
        checks.whole("n_coefficients", self.n_coefficients, minimum=1)

    def __iter__(self) -> Iterator[Any]:
        yield self.loss_weights
        yield self.noise_rate

    @property
    def euclidean_bound(self) -> None:
        """None: the noise has the Euclidean norm's shape, whose row bound is ``row_bound``."""
        return

    def privacy_losses(self) -> FloatArray:
        """Return what these weights cost each person (epsilon), rounded up, without ``numerical_epsilon``."""
        return softmax_privacy_loss(
            self.loss_weights,
            self.noise_rate,
            self.l2,
            self.n_classes,
            self.row_bound,
            self.rows_per_person,
            n_coefficients=self.n_coefficients,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {
            "schema": "dpmarket.softmax-weights/1",
            "loss_weights": self.loss_weights.tolist(),
            "noise_rate": self.noise_rate,
            "l2": self.l2,
            "n_classes": self.n_classes,
            "n_coefficients": self.n_coefficients,
            "row_bound": self.row_bound,
            "rows_per_person": self.rows_per_person,
            "numerical_epsilon": self.numerical_epsilon,
        }


def softmax_weights_for(
    epsilons: ArrayLike,
    l2: float,
    n_classes: int,
    n_coefficients: int,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    *,
    numerical_epsilon: float = 0.0,
) -> SoftmaxWeights:
    """Return the weights that use everybody's promise fully and exceed nobody's.

    The inverse of :func:`~dpmarket.privacy.softmax.softmax_privacy_loss`, with weights that add up to 1. It
    uses public quantities only.

    Parameters
    ----------
    epsilons
        The promise to each person (epsilon), shape (people,), at least 0.
    l2
        The ridge penalty Lambda, > 0.
    n_classes
        K, at least 2.
    n_coefficients
        n, coefficients of one class, the constant's included.
    row_bound
        R: every row, with its constant column, has at most this Euclidean norm. Public.
    rows_per_person
        r, a public bound on the number of rows of one person.
    numerical_epsilon
        Set aside from every promise for the release of rounded numbers; who was promised no more than this
        gets weight 0.

    Returns
    -------
    SoftmaxWeights

    Raises
    ------
    InvalidInput
        For NaN, negative, infinite, textual or missing values, and if no promise exceeds
        ``numerical_epsilon``.
    Infeasible
        If no noise, however large, lets weights that add up to 1 keep the promises at this ``l2``. The
        message gives the condition and an ``l2`` that works.

    Notes
    -----
    Guaranteed:

    * ``softmax_privacy_loss(weights) <= max(epsilon - numerical_epsilon, 0)`` for everybody, as computed.
    * The difference is at most 1e-11 of it: promises are used fully.
    * Nothing promised (or less than 1e-100), no weight: exactly 0.

    Examples
    --------
    >>> loss_weights, noise_rate = softmax_weights_for([1.0, 0.0, 3.0], 2.0, n_classes=3, n_coefficients=5)
    >>> loss_weights.round(3).tolist(), round(noise_rate, 3)
    ([0.249, 0.0, 0.751], 1.884)
    """
    promises = checks.non_negative_vector("epsilons", epsilons)
    size = checks.whole("n_coefficients", n_coefficients, minimum=1)
    accounting = softmax_accounting(l2, n_classes, row_bound, rows_per_person, size)
    penalty, bound = accounting.l2, accounting.row_bound
    reserve = checks.non_negative("numerical_epsilon", numerical_epsilon)
    usable = usable_promises(promises, reserve)
    total = finite_total(usable)
    found = accounting.weights(usable)
    if found is None:
        raise _infeasible(penalty, bound, n_classes, min(rows_per_person, size), total)
    weights, eta = found
    return SoftmaxWeights(read_only(weights), eta, penalty, n_classes, size, bound, rows_per_person, reserve)


def _infeasible(l2: float, row_bound: float, n_classes: int, rows: int, total: float) -> Infeasible:
    # At this penalty the closed form of the linear bound, without slack, keeps the promises.
    works = row_bound**2 * (n_classes + 2.0) / ((n_classes - 1.0) * total)
    return Infeasible(
        f"expected K * r * l2 * sum(exp(epsilon / (r * (K - 1))) - 1) > row_bound**2, got l2 = {l2!r}, "
        f"row_bound = {row_bound!r}, K = {n_classes}, r = {rows}: no amount of noise keeps these promises at "
        f"so small a penalty. l2 = {works * 1.001:.4g} works."
    )
