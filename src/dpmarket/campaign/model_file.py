"""What a model file says: the released integers, and every public parameter that was used for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import read_json, to_json
from dpmarket.version import __version__

if TYPE_CHECKING:
    from dpmarket.learning import PrivateLogisticRegression, PublicEncoder, PublicScaler

SCHEMA: Literal["dpmarket.model/2"] = "dpmarket.model/2"
ENCODED: Literal["dpmarket.model/3"] = "dpmarket.model/3"  # with an encoder of its features
SOFTMAX: Literal["dpmarket.model/4"] = "dpmarket.model/4"  # with more than two labels
WITH_DELTA: Literal["dpmarket.model/5"] = "dpmarket.model/5"  # whose promises have a delta
Schema = Literal["dpmarket.model/2", "dpmarket.model/3", "dpmarket.model/4", "dpmarket.model/5"]
_KNOWN = (SCHEMA, ENCODED, SOFTMAX, WITH_DELTA)
_LARGEST = 64 << 20  # bytes

_Cell = Annotated[int, Field(ge=-(2**63), le=2**63)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FeatureBounds(_Part):
    """A feature and the public bounds that it was scaled with."""

    name: str
    low: float
    high: float


class ModelFile(_Part):
    """A released model. Nothing in it is private beyond what the promises allow: no record, cost or seller.

    Attributes
    ----------
    dpmarket
        The version that trained it.
    id_column, label_column, labels
        Names of columns, and the labels, of two the negative one first.
    features, radius
        The public scaling, see :class:`~dpmarket.learning.PublicScaler`.
    outside_bounds
        Whether features outside their bounds were clipped or refused.
    records
        Number of people trained on; how many rows they have is private.
    rows_per_person
        The bound on the rows of a seller that was charged.
    coef_grid, grid
        The release: whole numbers, the constant's last, and the width of their grid. With more than two
        labels a list for each, not yet centred.
    intercept_scaling, stretch
        The number in the constant column, and the factor of the coefficients.
    l2, noise_rate, row_bound
        Penalty, the rate of the noise that was used, and the bound on rows with their constant.
    numerical_epsilon, numerical_reserve
        What releasing rounded numbers cost, and what was set aside for it.
    gradient_bound, noise_accuracy
        The accuracies of the release plan.
    noise_standard_error
        Bound on what noise adds to a coefficient.
    secure_noise
        Whether the noise came from the operating system's entropy.
    encoder
        What was declared about the columns of the table, see :class:`~dpmarket.learning.PublicEncoder`; then
        ``features`` are the encoded columns. None for features that are scaled only.
    noise_shape, euclidean_bound
        The shape of the noise, and the Euclidean bound on rows; None for Euclidean noise.
    delta
        The delta of every promise; 0 without one. With one the noise is Gaussian, ``noise_shape`` is only the
        norm in which rows were scaled, and ``row_bound`` their Euclidean bound.
    """

    schema_version: Schema = Field(SCHEMA, alias="schema")
    dpmarket: str
    id_column: str
    label_column: str
    labels: list[str] | list[int] = Field(min_length=2)
    features: list[FeatureBounds] = Field(min_length=1)
    radius: float
    outside_bounds: Literal["clip", "refuse"]
    records: int = Field(ge=1)
    rows_per_person: int = Field(ge=1)
    coef_grid: list[_Cell] | list[list[_Cell]]
    grid: float = Field(gt=0)
    intercept_scaling: float = Field(gt=0)
    stretch: float = Field(gt=0)
    l2: float = Field(gt=0)
    noise_rate: float = Field(gt=0)
    row_bound: float = Field(gt=0)
    numerical_epsilon: float = Field(ge=0)
    numerical_reserve: float = Field(gt=0)
    gradient_bound: float = Field(gt=0)
    noise_accuracy: float = Field(gt=0)
    noise_standard_error: float = Field(gt=0)
    secure_noise: bool
    encoder: dict[str, Any] | None = None
    noise_shape: dict[str, Any] | None = None
    euclidean_bound: float | None = Field(None, gt=0)
    delta: float = Field(0.0, ge=0, lt=1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        left_out = {"encoder", "noise_shape", "euclidean_bound"} if self.encoder is None else set()
        if not self.delta:
            left_out.add("delta")
        return self.model_dump(by_alias=True, exclude=left_out or None)

    def public_encoder(self) -> PublicEncoder:
        """Return the encoder of the table's columns.

        Raises
        ------
        FileProblem
            The model has none, or not a whole one.
        """
        from dpmarket.learning import PublicEncoder

        try:
            return PublicEncoder.from_dict(self.encoder)
        except InvalidInput as problem:
            raise FileProblem(f"cannot use the model's encoder: {problem}") from None

    def to_json(self) -> str:
        """Return the file's text."""
        return to_json(self.to_dict())

    @property
    def has_many_labels(self) -> bool:
        """Whether there are coefficients for each of more than two labels."""
        return len(self.labels) > 2

    @property
    def coefficients(self) -> FloatArray:
        """The coefficients for scaled features, and last what is added to every margin.

        With more than two labels a row for each; they add up to 0 over the labels.
        """
        values = np.array(self.coef_grid, dtype=np.float64) * self.grid
        if self.has_many_labels:
            values -= values.mean(axis=0)  # what all have in common is noise, and changes no probability
        values *= self.stretch
        values[..., -1] *= self.intercept_scaling
        return values

    def by_label(self) -> list[tuple[str | int, FloatArray]]:
        """Return every label that has coefficients, with them: of two labels the second."""
        if not self.has_many_labels:
            return [(self.labels[1], self.coefficients)]
        return list(zip(self.labels, self.coefficients, strict=True))

    def scaler(self) -> PublicScaler:
        """Return the public scaling of the features."""
        from dpmarket.learning import (
            PublicScaler,
        )  # takes scikit-learn along, which most commands do not need

        return PublicScaler([f.low for f in self.features], [f.high for f in self.features], self.radius)

    def probabilities(self, features: Any) -> FloatArray:
        """Return the probability of the second of two labels for raw features, shape (rows,).

        Raises
        ------
        InvalidInput
            The model has more labels: see :meth:`label_probabilities`.
        """
        if self.has_many_labels:
            raise InvalidInput("expected a model of two labels; of more, ask for label_probabilities.")
        return self.label_probabilities(features)[:, 1]

    def label_probabilities(self, features: Any) -> FloatArray:
        """Return the probabilities of all labels for raw features, shape (rows, labels).

        Parameters
        ----------
        features
            Shape (rows, features); for a model with an encoder, a table with the columns that it declares.
        """
        from scipy.special import expit, softmax

        encode = self.scaler() if self.encoder is None else self.public_encoder()
        scaled = encode.fit_transform(features)
        margins = scaled @ self.coefficients[..., :-1].T + self.coefficients[..., -1]
        if self.has_many_labels:
            return np.asarray(softmax(margins, axis=1))
        return np.column_stack([expit(-margins), expit(margins)])

    def likeliest(self, probabilities: FloatArray) -> IntArray:
        """Return the number of each row's likeliest label, the first of those that are equally likely."""
        if self.has_many_labels:
            return np.asarray(probabilities.argmax(axis=1))
        return (probabilities[:, 1] > 0.5).astype(np.int64)


def model_file(
    model: PrivateLogisticRegression,
    *,
    records: int,
    id_column: str,
    label_column: str,
    labels: list[Any],
    features: list[FeatureBounds],
    radius: float,
    outside_bounds: Literal["clip", "refuse"],
    encoder: dict[str, Any] | None = None,
) -> ModelFile:
    """Return what a fitted estimator releases, with the public parameters around it."""
    shape = model.noise_shape_
    return ModelFile(
        schema=_schema(encoder, len(labels), model.delta_),
        dpmarket=__version__,
        id_column=id_column,
        label_column=label_column,
        labels=labels,
        features=features,
        radius=radius,
        outside_bounds=outside_bounds,
        records=records,
        rows_per_person=model.rows_per_person_,
        coef_grid=model.coef_grid_.tolist(),
        grid=model.grid_,
        intercept_scaling=model.intercept_scaling_,
        stretch=model.stretch_,
        l2=model.l2_,
        noise_rate=model.noise_rate_,
        row_bound=model.row_bound_,
        numerical_epsilon=model.numerical_epsilon_,
        numerical_reserve=model.numerical_epsilon,
        gradient_bound=model.release_plan_.gradient_bound,
        noise_accuracy=model.release_plan_.noise_accuracy,
        noise_standard_error=model.noise_standard_error_,
        secure_noise=model.certifiable_,
        encoder=encoder,
        noise_shape=None if shape is None else shape.to_dict(),
        euclidean_bound=model.euclidean_bound_,
        delta=model.delta_,
    )


def _schema(encoder: dict[str, Any] | None, labels: int, delta: float) -> Schema:
    if delta > 0.0:
        return WITH_DELTA
    if labels > 2:
        return SOFTMAX
    return SCHEMA if encoder is None else ENCODED


def read_model(source: str | os.PathLike[str]) -> ModelFile:
    """Read a model file that ``train`` wrote.

    Raises
    ------
    FileProblem
        No JSON, not a model, or parts missing or wrong, each by its name.
    """
    data = read_json(source, _LARGEST)
    if not isinstance(data, dict) or data.get("schema") not in _KNOWN:
        raise FileProblem(
            f"expected a model with schema {SCHEMA!r} in {source}, as 'dpmarket train' writes it."
        )
    return _checked(data, str(source))


def model_from_data(data: dict[str, Any]) -> ModelFile:
    """Make the model that plain data of the ledger describes."""
    return _checked(data, "the ledger's model")


def _checked(data: dict[str, Any], source: str) -> ModelFile:
    try:
        model = ModelFile.model_validate(data)
    except ValidationError as problem:
        parts = sorted({".".join(map(str, found["loc"][:1])) for found in problem.errors()})
        raise FileProblem(
            f"cannot use {source}: expected a whole model, wrong are {', '.join(parts)}."
        ) from None
    if model.encoder is not None:
        _refuse_other_columns(model, source)
    _refuse_other_coefficients(model, source)
    return model


def _refuse_other_coefficients(model: ModelFile, source: str) -> None:
    """Refuse a model that does not have a coefficient for every feature, of every label if there are many."""
    if (model.schema_version == WITH_DELTA) != (model.delta > 0.0):
        raise FileProblem(f"cannot use {source}: expected schema {WITH_DELTA!r} for a delta above 0 only.")
    if model.schema_version != WITH_DELTA and (model.schema_version == SOFTMAX) != model.has_many_labels:
        raise FileProblem(f"cannot use {source}: expected schema {SOFTMAX!r} for more than two labels only.")
    if len(set(model.labels)) < len(model.labels):
        raise FileProblem(f"cannot use {source}: expected different labels.")
    rows: list[Any] = list(model.coef_grid) if model.has_many_labels else [model.coef_grid]
    if model.has_many_labels and len(rows) != len(model.labels):
        raise FileProblem(
            f"cannot use {source}: expected coefficients of {len(model.labels)} labels, got {len(rows)}."
        )
    expected = len(model.features) + 1
    for row in rows:
        if not isinstance(row, list) or len(row) != expected or any(isinstance(cell, list) for cell in row):
            count = len(row) if isinstance(row, list) else 1
            raise FileProblem(f"cannot use {source}: expected {expected} coefficients, got {count}.")


def _refuse_other_columns(model: ModelFile, source: str) -> None:
    """Refuse a model whose encoder makes other columns than the model has, or rows of another shape."""
    encoder = model.public_encoder()
    shape = encoder.noise_shape()
    told = None if shape is None or shape.is_euclidean else shape.to_dict()
    if [feature.name for feature in model.features] != encoder.get_feature_names_out().tolist():
        raise FileProblem(f"cannot use {source}: expected the features that its encoder makes.")
    if told != model.noise_shape:
        raise FileProblem(f"cannot use {source}: expected the noise shape of its encoder.")
