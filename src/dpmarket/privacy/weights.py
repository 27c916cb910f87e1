r"""Turn promises into weights that use every promise fully and exceed none.

The weight of a person with promise ``epsilon`` is the ``a`` with ``privacy_loss(a) = epsilon``; it falls as
the noise rate ``eta`` grows, so that exactly one ``eta`` makes the weights add up to 1. Without slack
(``l2 * sum(epsilons) >= 2 * row_bound**2``) it is ``eta = sum(epsilons) / row_bound`` and
``a = epsilons / sum(epsilons)``. Otherwise it is the root of one equation (:mod:`dpmarket.privacy.charge`),
which exists if and only if ``4 r l2 sum(exp(epsilon_i / r) - 1) > row_bound**2``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.numerics import exact_sum
from dpmarket.privacy.accounting import binary_accounting, checked_euclidean, privacy_loss
from dpmarket.privacy.charge import Accounting

_SMALLEST = 1e-100


def keep_checked(weights: Any) -> None:
    """Check what weights of every kind state, and keep it in its one form: vectors and floats."""
    stated: dict[str, Any] = {}
    stated["loss_weights"] = checks.non_negative_vector("loss_weights", weights.loss_weights)
    for name in ("noise_rate", "l2", "row_bound"):
        stated[name] = checks.positive(name, getattr(weights, name))
    checks.whole("rows_per_person", weights.rows_per_person, minimum=1)
    checks.non_negative("numerical_epsilon", weights.numerical_epsilon)
    for name, value in stated.items():
        object.__setattr__(weights, name, value)


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights and a noise rate that keep given promises. Unpacks as ``loss_weights, noise_rate``.

    Attributes
    ----------
    loss_weights
        Weight of each person, shape (people,), read-only; they add up to 1 within 1e-12.
    noise_rate
        The noise rate eta that goes with them.
    l2, row_bound, rows_per_person
        The public constants for which the promises are kept.
    numerical_epsilon
        What was set aside of every promise for the release of rounded numbers.
    euclidean_bound
        R2, where the noise is shaped by another norm than the Euclidean one; otherwise None.

    Examples
    --------
    >>> weights = weights_for([0.5, 1.0, 2.5], l2=1.0)
    >>> loss_weights, noise_rate = weights
    >>> loss_weights.round(6).tolist(), noise_rate
    ([0.125, 0.25, 0.625], 4.0)
    >>> bool((weights.privacy_losses() <= [0.5, 1.0, 2.5]).all())
    True
    """

    loss_weights: FloatArray
    noise_rate: float
    l2: float
    row_bound: float = 1.0
    rows_per_person: int = 1
    numerical_epsilon: float = 0.0
    euclidean_bound: float | None = None

    def __post_init__(self) -> None:
        keep_checked(self)
        if self.euclidean_bound is not None:
            object.__setattr__(self, "euclidean_bound", checked_euclidean(self.euclidean_bound))

    def __iter__(self) -> Iterator[Any]:
        yield self.loss_weights
        yield self.noise_rate

    def privacy_losses(self) -> FloatArray:
        """Return what these weights cost each person (epsilon), rounded up, without ``numerical_epsilon``."""
        return privacy_loss(
            self.loss_weights,
            self.noise_rate,
            self.l2,
            self.row_bound,
            self.rows_per_person,
            self.euclidean_bound,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {
            "schema": "dpmarket.weights/3",
            "loss_weights": self.loss_weights.tolist(),
            "noise_rate": self.noise_rate,
            "l2": self.l2,
            "row_bound": self.row_bound,
            "rows_per_person": self.rows_per_person,
            "numerical_epsilon": self.numerical_epsilon,
            "euclidean_bound": self.euclidean_bound,
        }


def weights_for(
    epsilons: ArrayLike,
    l2: float,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    numerical_epsilon: float = 0.0,
    euclidean_bound: float | None = None,
) -> Weights:
    """Return the weights that use everybody's promise fully and exceed nobody's.

    The inverse of :func:`~dpmarket.privacy.accounting.privacy_loss`, formula (*), with weights that add up
    to 1. It uses public quantities only: promises are no function of the records.

    Parameters
    ----------
    epsilons
        The promise to each person (epsilon), shape (people,), at least 0.
    l2
        The ridge penalty Lambda, > 0.
    row_bound
        R: every row, with its constant column, has at most this norm, that of the noise. Public.
    rows_per_person
        A public bound on the number of rows of one person; ``min(rows_per_person, n_features)`` is valid.
    numerical_epsilon
        Set aside from every promise for the release of rounded numbers; who was promised no more than this
        gets weight 0.
    euclidean_bound
        R2, as for :func:`~dpmarket.privacy.accounting.privacy_loss`; None means ``row_bound``.

    Returns
    -------
    Weights
        Also unpacks as ``loss_weights, noise_rate``.

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

    * ``privacy_loss(weights) <= max(epsilon - numerical_epsilon, 0)`` for everybody, as computed.
    * The difference is at most 1e-12 of it: promises are used fully.
    * Nothing promised (or less than 1e-100), no weight: exactly 0.
    * The weights add up to 1 within 1e-12; ``noise_rate`` is ``sum(epsilons) / row_bound`` if there is
      no slack and nothing is set aside.

    Examples
    --------
    >>> loss_weights, noise_rate = weights_for([0.5, 1.0, 0.0, 2.5], l2=1.0)
    >>> loss_weights.round(12).tolist(), noise_rate
    ([0.125, 0.25, 0.0, 0.625], 4.0)
    >>> weights_for([0.1, 0.2, 0.5], l2=0.2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    dpmarket.errors.Infeasible: expected 4 * r * l2 * sum(exp(epsilon / r) - 1) > row_bound**2, got ...
    """
    promises = checks.non_negative_vector("epsilons", epsilons)
    accounting = binary_accounting(l2, row_bound, rows_per_person, euclidean_bound)
    reserve = checks.non_negative("numerical_epsilon", numerical_epsilon)
    usable = usable_promises(promises, reserve)
    total = finite_total(usable)
    found = accounting.weights(usable)
    euclidean = None if euclidean_bound is None else accounting.row_bound_2
    if found is None:
        raise _infeasible(accounting, rows_per_person, euclidean, total)
    weights, eta = found
    penalty, bound = accounting.l2, accounting.row_bound
    return Weights(read_only(weights), eta, penalty, bound, rows_per_person, reserve, euclidean)


def usable_promises(promises: FloatArray, reserve: float) -> FloatArray:
    """Return ``max(promise - reserve, 0)``, or refuse if that leaves nothing to anybody.

    What is left below 1e-100 counts as nothing: the loss of so small a weight could not be computed.
    """
    if not float(promises.max()) > reserve:
        raise InvalidInput(
            f"expected at least one promise above {reserve!r}, which is set aside; found none."
        )
    if reserve > 0.0:
        promises = np.maximum(promises - reserve, 0.0)
    if float(promises.min()) < _SMALLEST:
        promises = np.where(promises < _SMALLEST, 0.0, promises)
    return promises


def finite_total(usable: FloatArray) -> float:
    """Return the sum of the promises, rounded once, or refuse a sum that no float can hold."""
    largest = float(usable.max())
    if largest > 1e90 or not largest * usable.size < 1e90 or largest < 1e-90:
        raise InvalidInput("expected promises whose largest lies between 1e-90 and 1e90 / people.")
    return exact_sum(usable)


def _infeasible(
    accounting: Accounting, rows_per_person: int, euclidean_bound: float | None, total: float
) -> Infeasible:
    """Return the error for promises that a penalty cannot keep, with one that can."""
    name = "row_bound" if euclidean_bound is None else "euclidean_bound"
    works = _rounded_up(2.0 * accounting.row_bound_2**2 / total)
    bounds = f"row_bound = {accounting.row_bound!r}"
    if euclidean_bound is not None:
        bounds += f", euclidean_bound = {euclidean_bound!r}"
    return Infeasible(
        f"expected 4 * r * l2 * sum(exp(epsilon / r) - 1) > {name}**2, got l2 = {accounting.l2!r}, {bounds}, "
        f"r = {rows_per_person}: no amount of noise keeps these promises at so small a penalty. "
        f"l2 = {works!r} works."
    )


def _rounded_up(value: float) -> float:
    """Round up to three digits, for a message that can be copied."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit * (1.0 + 1e-9)) * unit:.6g}")
