"""Turn what is public about rows, classes and a delta into the bounds and constants that training uses.

What :class:`~dpmarket.learning.geometry.Geometry` and
:class:`~dpmarket.learning.softmax_geometry.SoftmaxGeometry` are without a delta: the same questions, answered
by the accounting of :mod:`dpmarket.privacy.gaussian`. Gaussian noise knows the Euclidean norm only; rows that
were scaled for another norm keep that norm's Euclidean bound, which is what counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.geometry import Charge, Geometry
from dpmarket.learning.problem import Problem
from dpmarket.learning.rows import Rows
from dpmarket.learning.softmax_geometry import SoftmaxGeometry
from dpmarket.numerics import exact_sum
from dpmarket.privacy import GaussianWeights, NoiseShape, gaussian_plan_release, gaussian_weights_for
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.gaussian_noise import GaussianSource
from dpmarket.privacy.gaussian_penalty import gaussian_suggest_l2, gaussian_suggest_stretch
from dpmarket.privacy.grid import ReleasePlan
from dpmarket.privacy.loss import Softmax, logistic_loss

_PEOPLE_PER_FAILURE = 10.0


def refuse_large_delta(delta: float, people: int) -> None:
    """Refuse a delta that publishing everything about one person in ten cases would keep.

    Raises
    ------
    InvalidInput
        If delta is above ``1 / (10 * people)``.
    """
    most = 1.0 / (_PEOPLE_PER_FAILURE * people)
    if delta > most:
        raise InvalidInput(
            f"expected delta of at most 1 / (10 * people) = {most:.3g} for {people} people, got {delta!r}: "
            "publishing the records of a few people drawn at random would keep such a promise."
        )


@dataclass(frozen=True)
class GaussianGeometry:
    """What is public about rows, classes and Gaussian noise.

    Attributes
    ----------
    model
        The geometry of two classes, or of more, in the Euclidean norm.
    shape
        The norm in which rows were scaled, whose two bounds they keep; None for the Euclidean one.
    delta
        The delta of every promise.
    """

    model: Geometry | SoftmaxGeometry
    shape: NoiseShape | None
    delta: float

    @classmethod
    def of(cls, rows: Geometry, classes: int, delta: float) -> GaussianGeometry:
        """Return the geometry of a model with Gaussian noise for rows that are public this far."""
        euclidean = Geometry(rows.features, rows.constant, None)
        return cls(euclidean if classes == 2 else SoftmaxGeometry(euclidean, classes), rows.shape, delta)

    @property
    def classes(self) -> int:
        """K."""
        return self.model.classes if isinstance(self.model, SoftmaxGeometry) else 2

    @property
    def features(self) -> int:
        """Number of columns, the constant's not counted."""
        return self.model.features

    @property
    def constant(self) -> float | None:
        """The number in the constant column; None without such a column."""
        return self.model.constant

    @property
    def n_coefficients(self) -> int:
        """n, coefficients of one class, the constant's included."""
        return self.model.n_coefficients

    @property
    def row_bound(self) -> float:
        """R: no row with its constant is longer in the Euclidean norm; rounded up."""
        rows = Geometry(self.features, self.constant, self.shape)
        return rows.euclidean_bound or rows.row_bound

    def labels(self, classes: np.ndarray[Any, Any], y: Any) -> FloatArray:
        """Return labels as the model's solver takes them."""
        return self.model.labels(classes, y)

    def charging(self, account: PrivacyAccount | None, people: int) -> Charge:
        """Return what charges people, or nobody, after a look at delta.

        Raises
        ------
        InvalidInput
            If delta is too large for so many people, or the account cannot count it.
        """
        refuse_large_delta(self.delta, people)
        if account is None:
            return lambda names, epsilons: None
        return lambda names, epsilons: account.charge(names, epsilons, delta=self.delta)

    def suggested_l2(self, usable: FloatArray, rows_per_person: int) -> float:
        """Return the default penalty for these promises, less what is set aside of them."""
        return gaussian_suggest_l2(
            usable,
            self.delta,
            self.n_coefficients,
            row_bound=self.row_bound,
            rows_per_person=rows_per_person,
            n_classes=self.classes,
        )

    def weights(
        self, promises: FloatArray, l2: float, rows_per_person: int, reserve: float
    ) -> GaussianWeights:
        """Return the weights that keep these promises."""
        return gaussian_weights_for(
            promises,
            self.delta,
            l2,
            row_bound=self.row_bound,
            rows_per_person=rows_per_person,
            n_classes=self.classes,
            numerical_epsilon=reserve,
        )

    def check_prepared(self, weights: object, rows_per_person: int) -> None:
        """Refuse prepared weights that were not made for this model.

        Raises
        ------
        InvalidInput
            With what was expected.
        """
        if not isinstance(weights, GaussianWeights):
            raise InvalidInput("expected prepared weights from gaussian_weights_for, for a model with delta.")
        for name, expected in (("n_classes", self.classes), ("delta", self.delta)):
            if getattr(weights, name) != expected:
                raise InvalidInput(
                    f"expected prepared weights with {name} = {expected!r}, got {getattr(weights, name)!r}."
                )
        for name, least in (("row_bound", self.row_bound), ("rows_per_person", rows_per_person)):
            if getattr(weights, name) < least:
                raise InvalidInput(
                    f"expected prepared weights with {name} >= {least!r}, got {getattr(weights, name)!r}."
                )

    def suggested_stretch(self, weights: GaussianWeights) -> float:
        """Return the default stretch."""
        return gaussian_suggest_stretch(
            weights.noise_rate,
            weights.l2,
            self.n_coefficients,
            row_bound=weights.row_bound,
            n_classes=self.classes,
        )

    def plan(self, weights: GaussianWeights) -> ReleasePlan:
        """Return how a model with these weights is rounded and released."""
        return gaussian_plan_release(
            weights.numerical_epsilon,
            self.n_coefficients,
            weights.noise_rate,
            weights.l2,
            n_classes=self.classes,
            row_bound=weights.row_bound,
            weight_total=exact_sum(weights.loss_weights) * (1.0 + 1e-9),
        )

    def problem(self, rows: Rows, weights: GaussianWeights, plan: ReleasePlan) -> Problem:
        """Return the training problem."""
        loss = logistic_loss() if self.classes == 2 else Softmax(self.classes)
        return Problem(rows, loss, self.constant or 1.0, weights.l2, weights.row_bound, plan)

    def largest_noise(self, noise_rate: float) -> float:
        """Return a norm of all noise together that is exceeded practically never."""
        blocks = 1 if self.classes == 2 else self.classes
        return 4.0 * (math.sqrt(blocks * self.n_coefficients) + 20.0) / noise_rate

    def check_source(self, source: object) -> None:
        """Refuse a noise source that gives no Gaussian noise, before anybody is charged.

        Raises
        ------
        InvalidInput
            It has no method ``draw_normal``.
        """
        if not isinstance(source, GaussianSource):
            raise InvalidInput("expected a noise_source with a method draw_normal, which a delta needs.")

    def noise(
        self, source: GaussianSource, noise_rate: float, accuracy: float
    ) -> tuple[FloatArray, FloatArray]:
        """Draw the noise of every coefficient, class after class, as the exact sum of two vectors."""
        blocks = 1 if self.classes == 2 else self.classes
        return source.draw_normal(blocks * self.n_coefficients, noise_rate, accuracy).high_low()

    def arranged(self, cells: IntArray) -> IntArray:
        """Return released integers, with a row for every class if there are more than two."""
        return self.model.arranged(cells)

    def coefficients(self, cells: IntArray, grid: float) -> FloatArray:
        """Return the coefficients in rows, the constant's last."""
        return self.model.coefficients(cells, grid)

    def standard_error(self, weights: GaussianWeights) -> float:
        """Return the root mean square over coefficients of what the noise causes in them, at most."""
        share = 1.0 if self.classes == 2 else math.sqrt(1.0 - 1.0 / self.classes)
        return share * 2.0 / (weights.noise_rate * weights.l2)
