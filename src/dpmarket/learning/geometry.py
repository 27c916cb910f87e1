r"""Turn a noise shape and a constant column into the bounds and constants that training uses.

Rows of features have :math:`N(x) \le 1`; the constant column c, where there is one, is one more separate
column, so that :math:`R_1 = 1 + c` and :math:`R_2 = \sqrt{E^2 + c^2}` with E the shape's Euclidean bound.
Without a shape everything is the Euclidean norm's: :math:`R = \sqrt{1 + c^2}`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.labels import numbers_of
from dpmarket.learning.problem import Problem, bound_with_constant, check_constant, suggest_constant
from dpmarket.learning.rows import Rows
from dpmarket.numerics import exact_sum
from dpmarket.privacy import NoiseShape, Weights, noise_power, suggest_l2, suggest_stretch, weights_for
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.grid import ReleasePlan, plan_release
from dpmarket.privacy.loss import logistic_loss
from dpmarket.privacy.noise import NoiseSource
from dpmarket.privacy.weights import finite_total

Charge = Callable[[Sequence[Any], FloatArray], None]
"""Charges these people these epsilons, or nobody."""


@dataclass(frozen=True)
class Geometry:
    """What is public about rows and noise.

    Attributes
    ----------
    features
        Number of columns, the constant's not counted.
    constant
        The number in the constant column; None without such a column.
    shape
        The norm of the noise; None for the Euclidean one.
    """

    features: int
    constant: float | None
    shape: NoiseShape | None

    @property
    def n_coefficients(self) -> int:
        """n, the constant's coefficient included."""
        return self.features + (self.constant is not None)

    @property
    def row_bound(self) -> float:
        """R1: no row with its constant is longer in the norm of the noise; rounded up."""
        if self.constant is None:
            return 1.0
        # A constant is a power of two between 2^-20 and 2^20: the sum is exact.
        return bound_with_constant(self.constant) if self.shape is None else 1.0 + self.constant

    @property
    def euclidean_bound(self) -> float | None:
        """R2: no row with its constant is longer in the Euclidean norm; None where that is R1."""
        if self.shape is None:
            return None
        c = self.constant or 0.0
        bound = math.nextafter(math.hypot(self.shape.euclidean_bound, c) * (1.0 + 2.0**-50), math.inf)
        return min(bound, self.row_bound)  # no row is longer in the Euclidean norm than in another one

    @property
    def joint_columns(self) -> int | None:
        """m: how many coefficients have radial noise together; None for all."""
        return None if self.shape is None else self.shape.joint_columns

    def labels(self, classes: np.ndarray[Any, Any], y: Any) -> FloatArray:
        """Return 1.0 for records of the second class and 0.0 for those of the first."""
        return numbers_of(classes, y)

    def charging(self, account: PrivacyAccount | None, people: int) -> Charge:
        """Return what charges people, or nobody where there is no account."""
        return (lambda names, epsilons: None) if account is None else account.charge

    def suggested_l2(self, usable: FloatArray, rows_per_person: int = 1) -> float:
        """Return the default penalty for these promises, less what is set aside of them."""
        bound = self.row_bound
        return suggest_l2(
            finite_total(usable) / bound, self.n_coefficients, bound, self.euclidean_bound, self.joint_columns
        )

    def least_l2(self, total_promise: float) -> float:
        r"""Return the least penalty that keeps promises of this sum without slack, :math:`2 R^2 / total`."""
        bound = self.euclidean_bound or self.row_bound
        return 2.0 * bound * bound / total_promise * (1.0 + 2.0**-40)

    def weights(self, promises: FloatArray, l2: float, rows_per_person: int, reserve: float) -> Weights:
        """Return the weights that keep these promises."""
        rows = min(rows_per_person, self.n_coefficients)
        return weights_for(promises, l2, self.row_bound, rows, reserve, self.euclidean_bound)

    def check_prepared(self, weights: object, rows_per_person: int) -> None:
        """Refuse prepared weights that were not made for this model.

        Raises
        ------
        InvalidInput
            With what was expected.
        """
        if not isinstance(weights, Weights):
            raise InvalidInput("expected prepared weights from weights_for, for two classes.")
        euclidean = weights.euclidean_bound or weights.row_bound
        for name, found, least in (
            ("row_bound", weights.row_bound, self.row_bound),
            ("rows_per_person", weights.rows_per_person, min(rows_per_person, self.n_coefficients)),
            ("euclidean_bound", euclidean, self.euclidean_bound or self.row_bound),
        ):
            if found < least:
                raise InvalidInput(f"expected prepared weights with {name} >= {least!r}, got {found!r}.")

    def suggested_stretch(self, weights: Weights) -> float:
        """Return the default stretch."""
        return suggest_stretch(
            weights.noise_rate,
            weights.l2,
            self.n_coefficients,
            weights.row_bound,
            weights.euclidean_bound,
            self.joint_columns,
        )

    def plan(self, weights: Weights) -> ReleasePlan:
        """Return how a model with these weights is rounded and released."""
        total = exact_sum(weights.loss_weights) * (1.0 + 1e-9)
        return plan_release(
            weights.numerical_epsilon,
            self.n_coefficients,
            weights.noise_rate,
            weights.l2,
            weights.row_bound,
            total,
            euclidean_bound=weights.euclidean_bound,
            joint_columns=self.joint_columns,
        )

    def problem(self, rows: Rows, weights: Weights, plan: ReleasePlan) -> Problem:
        """Return the training problem."""
        euclidean = weights.euclidean_bound or weights.row_bound
        return Problem(rows, logistic_loss(), self.constant or 1.0, weights.l2, euclidean, plan)

    def largest_noise(self, noise_rate: float) -> float:
        """Return a norm of the noise that is exceeded practically never."""
        return 20.0 * (self.n_coefficients + 50.0) / noise_rate

    def check_source(self, source: NoiseSource) -> None:
        """Refuse a noise source that cannot draw what this model needs, before anybody is charged.

        Raises
        ------
        InvalidInput
            Its ``draw`` lacks an argument.
        """
        if self.shape is not None:
            refuse_other_source(source, "independent", "noise of another shape than the Euclidean norm's")

    def noise(self, source: NoiseSource, noise_rate: float, accuracy: float) -> tuple[FloatArray, FloatArray]:
        """Draw the noise of every coefficient, as the exact sum of two vectors."""
        n = self.n_coefficients
        if self.shape is None:
            return source.draw(n, noise_rate, accuracy).high_low()
        joint = self.shape.joint_columns
        drawn = source.draw(n, noise_rate, accuracy, independent=n - joint).high_low()
        # Drawn are the joint columns first, then the separate ones, the constant's last.
        order = np.argsort(np.append(self.shape.mask, [True] * (n - self.features)), kind="stable")
        high, low = (np.empty(n) for _ in drawn)
        high[order], low[order] = drawn
        return high, low

    def arranged(self, cells: IntArray) -> IntArray:
        """Return released integers as they are: one for every coefficient."""
        return cells

    def coefficients(self, cells: IntArray, grid: float) -> FloatArray:
        """Return the coefficients in a row, the constant's last."""
        return np.asarray((cells * grid).reshape(1, -1))

    def euclidean_standard_error(self, noise_rate: float, l2: float) -> float:
        """Return :meth:`standard_error` for noise in the Euclidean norm."""
        return 2.0 * math.sqrt(self.n_coefficients + 1.0) / (noise_rate * l2)

    def standard_error(self, weights: Weights) -> float:
        """Return the root mean square over coefficients of what the noise causes in them, at most."""
        n = self.n_coefficients
        if self.shape is None:
            return self.euclidean_standard_error(weights.noise_rate, weights.l2)
        return math.sqrt(noise_power(n, self.joint_columns) / n) / (weights.noise_rate * weights.l2)


def geometry_of(features: int, constant: float | None, shape: NoiseShape | None, *, wanted: bool) -> Geometry:
    """Return the geometry of a model: ``constant`` None means a suggested one, ``wanted`` whether any.

    Raises
    ------
    InvalidInput
        If the shape describes another number of features.
    """
    if shape is not None:
        if shape.n_features != features:
            raise InvalidInput(
                f"expected a noise_shape of {features} features, as X has, got one of {shape.n_features}."
            )
        if shape.is_euclidean:
            shape = None
    if not wanted:
        return Geometry(features, None, shape)
    if constant is not None:
        return Geometry(features, check_constant("intercept_scaling", constant), shape)
    return Geometry(features, _suggested(features, shape), shape)


def _suggested(features: int, shape: NoiseShape | None) -> float:
    """Return a constant half as large as an entry of a usual row: E^2 where 1 / E^2 entries are equal."""
    if shape is None:
        return suggest_constant(features)
    return 2.0 ** round(2.0 * math.log2(shape.euclidean_bound) - 1.0)


def carried_shape(features: Any) -> NoiseShape | None:
    """Return the shape that rows carry; a table's column of that name is none."""
    carried = getattr(features, "noise_shape", None)
    return carried if isinstance(carried, NoiseShape) else None


def refuse_other_source(source: NoiseSource, argument: str, purpose: str) -> None:
    """Refuse a noise source of one's own whose ``draw`` does not take an argument.

    Raises
    ------
    InvalidInput
        Names the argument and what it is for.
    """
    try:
        known = inspect.signature(source.draw).parameters
    except (TypeError, ValueError):  # of compiled code nothing is known beforehand
        return
    if argument not in known and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
        raise InvalidInput(
            f"expected a noise_source whose draw takes {argument!r}, which {purpose} needs; "
            f"{type(source).__name__} does not."
        )


def shape_of(declared: Any, features: Any) -> NoiseShape | None:
    """Return the declared shape, or else the one that encoded rows carry, or else none: the Euclidean norm.

    What rows carry was put there by :class:`~dpmarket.learning.encoder.PublicEncoder`, from declarations.

    Raises
    ------
    InvalidInput
        If what is declared is no shape, or another one than the rows were scaled for.
    """
    carried = carried_shape(features)
    if declared is None:
        return carried
    if not isinstance(declared, NoiseShape):
        raise InvalidInput(f"expected noise_shape to be a NoiseShape or None, got {type(declared).__name__}.")
    if carried is not None and carried != declared:
        raise InvalidInput("expected noise_shape to be None or the one that X was encoded for.")
    return declared
