"""What a certificate speaks of: what was bought from whom, and the model that was released.

:func:`~dpmarket.certificates.certificate.certify` makes both from an outcome and an estimator; whoever keeps
them in files can make them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.certificates.verifier.money import is_currency
from dpmarket.errors import InvalidInput, NotCertifiable
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import Release, Softmax, logistic_loss
from dpmarket.privacy.charge import Accounting, bounds_of


@dataclass(frozen=True, eq=False, repr=False)
class Purchase:
    """Every seller's promise, payment, spent epsilon and weight; confidential.

    Attributes
    ----------
    mechanism, parameters
        Which mechanism decided, and its public parameters as plain data.
    seller_ids
        Texts or whole numbers, all different.
    promises, spent
        Epsilons.
    payments
        Money, or whole numbers of the currency's smallest unit.
    minor_units
        How many smallest units make one unit of money; None if payments are in money.
    weights
        Weight of each seller in training.
    withdrew
        Who left before training: what they were quoted stands in their line, and nothing of it is owed.
    quotes
        How many quotes each line adds up: 1, unless somebody sold several times by the same menu.
    currency
        Its short name, up to 12 letters and currency signs; empty if it has none.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    seller_ids: npt.NDArray[Any]
    promises: FloatArray
    payments: FloatArray
    minor_units: int | None
    spent: FloatArray
    weights: FloatArray
    withdrew: BoolArray
    quotes: IntArray
    currency: str = ""

    def __post_init__(self) -> None:
        for name in ("promises", "payments", "spent", "weights"):
            values = checks.non_negative_vector(name, getattr(self, name))
            checks.same_length(name, values, "seller_ids", self.seller_ids)
            object.__setattr__(self, name, values)
        checks.all_different("seller_ids", self.seller_ids)
        checks.same_length("withdrew", self.withdrew, "seller_ids", self.seller_ids)
        if self.withdrew.dtype != np.bool_:
            raise InvalidInput("expected withdrew to be true or false for each seller.")
        checks.same_length("quotes", self.quotes, "seller_ids", self.seller_ids)
        if self.minor_units is not None:
            checks.whole("minor_units", self.minor_units, minimum=1)
        if not is_currency(self.currency):
            raise InvalidInput("expected a currency's short name: up to 12 letters and currency signs.")


@dataclass(frozen=True)
class ReleasedModel:
    """The public constants of a model: all that its accounting can be recomputed from.

    Attributes
    ----------
    coef_grid, grid, stretch
        The release: integers, the constant's last (with more than two classes a tuple for each), the width of
        their grid, and the factor by which the coefficients are multiplied.
    features
        Name and public bounds of each feature, in the order of the coefficients.
    classes
        The labels, of two the negative class first.
    fit_intercept, intercept_scaling, clip
        Whether rows got a constant, which one, and whether longer rows were shortened.
    l2, noise_rate, row_bound, rows_per_person
        Penalty, noise rate, and the bounds on rows with their constant and on the rows of a person.
    gradient_bound, noise_accuracy, numerical_epsilon
        The release plan: how accurately was computed, and what releasing on the grid costs.
    euclidean_bound, joint_columns
        The Euclidean bound on rows with their constant, and how many coefficients have radial noise together;
        None for Euclidean noise, whose bound is ``row_bound``.
    encoder
        What was declared about the columns that were encoded, as plain data; None if none were.
    delta
        The delta of every promise; 0 without one.
    """

    coef_grid: tuple[int, ...] | tuple[tuple[int, ...], ...]
    grid: float
    stretch: float
    features: tuple[tuple[str, float, float], ...]
    classes: tuple[Any, ...]
    fit_intercept: bool
    intercept_scaling: float
    clip: bool
    l2: float
    noise_rate: float
    row_bound: float
    rows_per_person: int
    gradient_bound: float
    noise_accuracy: float
    numerical_epsilon: float
    euclidean_bound: float | None = None
    joint_columns: int | None = None
    encoder: Mapping[str, Any] | None = None
    delta: float = 0.0

    @property
    def has_many_classes(self) -> bool:
        """Whether there is a row of coefficients for each of more than two classes."""
        return len(self.classes) > 2

    @classmethod
    def of(
        cls,
        model: PrivateLogisticRegression,
        features: Mapping[str, tuple[float, float]] | None = None,
    ) -> ReleasedModel:
        """Return the public constants of a fitted estimator, whose features have these bounds.

        Raises
        ------
        InvalidInput
            If there are not as many features as the model has, or bounds that are none.
        """
        return cls.described(
            model.description_,
            stretch=1.0 if model.delta_ else float(model.shrinkage_correction_),
            features=_features(model, features),
            classes=tuple(np.asarray(label).item() for label in model.classes_),
            fit_intercept=bool(model.fit_intercept),
            intercept_scaling=float(model.intercept_scaling_),
            clip=bool(model.clip),
        )

    @classmethod
    def described(cls, description: Mapping[str, Any], **stated: Any) -> ReleasedModel:
        """Return the constants of a description, as estimators give it, beside what else is stated.

        Raises
        ------
        NotCertifiable
            For releases of which there is no certificate yet.
        """
        if "coefficients" in description:
            raise NotCertifiable("expected a model without delta: descents have no certificate yet.")
        release = Release.from_dict(description["release"])
        if release.private != "records":
            raise NotCertifiable("expected private records: label-only privacy has no certificate yet.")
        norm, cells = release.norm, description["cells"]
        rows = release.rows_per_person
        if len(cells) == 1:
            rows = min(rows, norm.n_coefficients)  # no more directions than coefficients
        return cls(
            coef_grid=tuple(map(tuple, cells)) if len(cells) > 1 else tuple(cells[0]),
            grid=description["grid"],
            l2=release.l2,
            noise_rate=description["noise_rate"],
            row_bound=norm.row_bound,
            rows_per_person=rows,
            gradient_bound=description["gradient_bound"],
            noise_accuracy=description["noise_accuracy"],
            numerical_epsilon=description["numerical_epsilon"],
            euclidean_bound=None if norm.is_euclidean else norm.row_bound_2,
            joint_columns=None if norm.is_euclidean else norm.joint,
            **stated,
        )

    def charged(self, loss_weights: FloatArray) -> FloatArray:
        """Return what these weights cost each person, the grid included."""
        n = len(self.features) + self.fit_intercept
        loss = Softmax(len(self.classes)) if self.has_many_classes else logistic_loss()
        longest = self.row_bound if self.euclidean_bound is None else self.euclidean_bound
        bounds = bounds_of(loss.terms, loss.rank, self.rows_per_person, n)
        accounting = Accounting(loss.reach, self.row_bound, longest, self.l2, bounds)
        epsilons = accounting.epsilons(loss_weights, self.noise_rate)
        return np.where(loss_weights > 0.0, epsilons + self.numerical_epsilon, 0.0)


def _features(
    model: PrivateLogisticRegression, bounds: Mapping[str, tuple[float, float]] | None
) -> tuple[tuple[str, float, float], ...]:
    count = int(model.n_features_in_)
    if bounds is None:
        names = getattr(model, "feature_names_in_", [f"x{k}" for k in range(count)])
        return tuple((str(name), -1.0, 1.0) for name in names)
    found = tuple(
        (str(name), checks.finite("low", low), checks.finite("high", high))
        for name, (low, high) in bounds.items()
    )
    if len(found) != count or not all(low < high for _, low, high in found):
        raise InvalidInput(f"expected bounds low < high of {count} features, got {len(found)}.")
    return found
