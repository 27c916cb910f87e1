r"""Turn what is public about rows and K classes into the bounds and constants that training uses.

What :class:`~dpmarket.learning.geometry.Geometry` is for two classes: the same questions, answered by the
accounting of :mod:`dpmarket.privacy.softmax`, with a row of coefficients for every class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.geometry import Charge, Geometry, refuse_other_source
from dpmarket.learning.labels import numbers_of
from dpmarket.learning.problem import Problem
from dpmarket.learning.rows import Rows
from dpmarket.numerics import exact_sum
from dpmarket.privacy import SoftmaxWeights, softmax_plan_release, softmax_weights_for
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.grid import ReleasePlan
from dpmarket.privacy.loss import Softmax
from dpmarket.privacy.noise import NoiseSource
from dpmarket.privacy.softmax_penalty import softmax_suggest_l2, softmax_suggest_stretch
from dpmarket.privacy.weights import finite_total


@dataclass(frozen=True)
class SoftmaxGeometry:
    """What is public about rows, noise and classes; noise in the Euclidean norm only.

    Attributes
    ----------
    rows
        The geometry of rows.
    classes
        K, at least 3.
    """

    rows: Geometry
    classes: int

    def __post_init__(self) -> None:
        if self.rows.shape is not None:
            raise InvalidInput(
                "expected no noise_shape with more than two classes: only the Euclidean norm has a proof "
                "there. Pass rows that carry no shape, of Euclidean norm at most 1."
            )

    @property
    def features(self) -> int:
        """Number of columns, the constant's not counted."""
        return self.rows.features

    @property
    def constant(self) -> float | None:
        """The number in the constant column; None without such a column."""
        return self.rows.constant

    @property
    def shape(self) -> None:
        """None: the Euclidean norm."""
        return

    @property
    def row_bound(self) -> float:
        """R: no row with its constant is longer; rounded up."""
        return self.rows.row_bound

    @property
    def n_coefficients(self) -> int:
        """n, coefficients of one class, the constant's included."""
        return self.rows.n_coefficients

    def labels(self, classes: np.ndarray[Any, Any], y: Any) -> FloatArray:
        """Return the number of each record's class."""
        return numbers_of(classes, y)

    def charging(self, account: PrivacyAccount | None, people: int) -> Charge:
        """Return what charges people, or nobody where there is no account."""
        return self.rows.charging(account, people)

    def suggested_l2(self, usable: FloatArray, rows_per_person: int = 1) -> float:
        """Return the default penalty for these promises, less what is set aside of them."""
        return softmax_suggest_l2(
            finite_total(usable), self.classes, self.n_coefficients, self.rows.row_bound
        )

    def least_l2(self, total_promise: float) -> float:
        r"""Return the least penalty that keeps promises of this sum without slack.

        :math:`\frac{K + 2}{K - 1} R^2 / total`: from there on a person's worst case is s = 1 for weights in
        proportion to promises, however small they are.
        """
        bound, classes = self.rows.row_bound, self.classes
        return (classes + 2.0) / (classes - 1.0) * bound * bound / total_promise * (1.0 + 2.0**-40)

    def weights(
        self, promises: FloatArray, l2: float, rows_per_person: int, reserve: float
    ) -> SoftmaxWeights:
        """Return the weights that keep these promises."""
        return softmax_weights_for(
            promises,
            l2,
            self.classes,
            self.n_coefficients,
            self.rows.row_bound,
            rows_per_person,
            numerical_epsilon=reserve,
        )

    def check_prepared(self, weights: object, rows_per_person: int) -> None:
        """Refuse prepared weights that were not made for this model.

        Raises
        ------
        InvalidInput
            With what was expected.
        """
        if not isinstance(weights, SoftmaxWeights):
            raise InvalidInput(
                "expected prepared weights from softmax_weights_for, for more than two classes."
            )
        if weights.n_classes != self.classes:
            raise InvalidInput(
                f"expected prepared weights of {self.classes} classes, got {weights.n_classes}."
            )
        for name, least in (
            ("row_bound", self.rows.row_bound),
            ("rows_per_person", rows_per_person),
            ("n_coefficients", self.n_coefficients),
        ):
            if getattr(weights, name) < least:
                raise InvalidInput(
                    f"expected prepared weights with {name} >= {least!r}, got {getattr(weights, name)!r}."
                )

    def suggested_stretch(self, weights: SoftmaxWeights) -> float:
        """Return the default stretch."""
        return softmax_suggest_stretch(
            weights.noise_rate, weights.l2, self.classes, self.n_coefficients, weights.row_bound
        )

    def plan(self, weights: SoftmaxWeights) -> ReleasePlan:
        """Return how a model with these weights is rounded and released."""
        total = exact_sum(weights.loss_weights) * (1.0 + 1e-9)
        return softmax_plan_release(
            weights.numerical_epsilon,
            self.classes,
            self.n_coefficients,
            weights.noise_rate,
            weights.l2,
            weights.row_bound,
            weight_total=total,
        )

    def problem(self, rows: Rows, weights: SoftmaxWeights, plan: ReleasePlan) -> Problem:
        """Return the training problem."""
        loss = Softmax(self.classes)
        return Problem(rows, loss, self.constant or 1.0, weights.l2, weights.row_bound, plan)

    def largest_noise(self, noise_rate: float) -> float:
        """Return a norm of all noise together that is exceeded practically never."""
        return math.sqrt(self.classes) * self.rows.largest_noise(noise_rate)

    def check_source(self, source: NoiseSource) -> None:
        """Refuse a noise source that cannot draw independent blocks, before anybody is charged."""
        refuse_other_source(source, "blocks", "a model of more than two classes")

    def noise(self, source: NoiseSource, noise_rate: float, accuracy: float) -> tuple[FloatArray, FloatArray]:
        """Draw the noise of every coefficient, class after class, as the exact sum of two vectors."""
        return source.draw(self.n_coefficients, noise_rate, accuracy, blocks=self.classes).high_low()

    def arranged(self, cells: IntArray) -> IntArray:
        """Return released integers with a row for every class."""
        return cells.reshape(self.classes, -1)

    def coefficients(self, cells: IntArray, grid: float) -> FloatArray:
        """Return coefficients that add up to 0 over the classes.

        What all classes have in common changes no probability and is noise only. It is taken out of the
        released integers, not before: what is released has the law that was accounted for.
        """
        values = self.arranged(cells) * grid
        return np.asarray(values - values.mean(axis=0))

    def standard_error(self, weights: SoftmaxWeights) -> float:
        """Return the root mean square over coefficients of what the noise causes in them, at most."""
        share = math.sqrt(1.0 - 1.0 / self.classes)
        return share * self.rows.euclidean_standard_error(weights.noise_rate, weights.l2)
