"""What a model file says: the released integers, and every public parameter that was used for them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpmarket.arrays import FloatArray
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import read_json, to_json
from dpmarket.version import __version__

if TYPE_CHECKING:
    from dpmarket.learning import PrivateLogisticRegression, PublicEncoder, PublicScaler

SCHEMA: Literal["dpmarket.model/2"] = "dpmarket.model/2"
ENCODED: Literal["dpmarket.model/3"] = "dpmarket.model/3"  # with an encoder of its features
_BEFORE = "dpmarket.model/1"  # which called the noise rate total_epsilon
_LARGEST = 64 << 20  # bytes


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
        Names of columns, and the two labels, the negative one first.
    features, radius
        The public scaling, see :class:`~dpmarket.learning.PublicScaler`.
    outside_bounds
        Whether features outside their bounds were clipped or refused.
    records
        Number of records trained on.
    rows_per_person
        The bound on the rows of a seller that was charged.
    coef_grid, grid
        The release: whole numbers, the constant's last, and the width of their grid.
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
    """

    schema_version: Literal["dpmarket.model/2", "dpmarket.model/3"] = Field(SCHEMA, alias="schema")
    dpmarket: str
    id_column: str
    label_column: str
    labels: list[str] | list[int] = Field(min_length=2, max_length=2)
    features: list[FeatureBounds] = Field(min_length=1)
    radius: float
    outside_bounds: Literal["clip", "refuse"]
    records: int = Field(ge=1)
    rows_per_person: int = Field(ge=1)
    coef_grid: list[Annotated[int, Field(ge=-(2**63), le=2**63)]]
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        later = ("encoder", "noise_shape", "euclidean_bound")
        return self.model_dump(by_alias=True, exclude=set(later) if self.encoder is None else None)

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
    def coefficients(self) -> FloatArray:
        """The coefficients for scaled features, and last what is added to every margin."""
        values = np.array(self.coef_grid, dtype=np.float64) * self.grid * self.stretch
        values[-1] *= self.intercept_scaling
        return values

    def scaler(self) -> PublicScaler:
        """Return the public scaling of the features."""
        from dpmarket.learning import (
            PublicScaler,
        )  # takes scikit-learn along, which most commands do not need

        return PublicScaler([f.low for f in self.features], [f.high for f in self.features], self.radius)

    def probabilities(self, features: Any) -> FloatArray:
        """Return the probability of the second label for raw features.

        Shape (rows, features); for a model with an encoder, a table with the columns that it declares.
        """
        from scipy.special import expit

        encode = self.scaler() if self.encoder is None else self.public_encoder()
        scaled = encode.fit_transform(features)
        return np.asarray(expit(scaled @ self.coefficients[:-1] + self.coefficients[-1]))


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
        schema=SCHEMA if encoder is None else ENCODED,
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
    )


def read_model(source: str | os.PathLike[str]) -> ModelFile:
    """Read a model file that ``train`` wrote.

    Raises
    ------
    FileProblem
        No JSON, not a model, or parts missing or wrong, each by its name.
    """
    data = read_json(source, _LARGEST)
    if not isinstance(data, dict) or data.get("schema") not in (SCHEMA, ENCODED, _BEFORE):
        raise FileProblem(
            f"expected a model with schema {SCHEMA!r} in {source}, as 'dpmarket train' writes it."
        )
    return _checked(data, str(source))


def model_from_json(text: str) -> ModelFile:
    """Make the model whose ``to_json`` gave this text."""
    return _checked(json.loads(text), "the ledger's model")


def _checked(data: dict[str, Any], source: str) -> ModelFile:
    if data.get("schema") == _BEFORE:
        data = {"noise_rate" if name == "total_epsilon" else name: value for name, value in data.items()}
        data["schema"] = SCHEMA
    try:
        model = ModelFile.model_validate(data)
    except ValidationError as problem:
        parts = sorted({".".join(map(str, found["loc"][:1])) for found in problem.errors()})
        raise FileProblem(
            f"cannot use {source}: expected a whole model, wrong are {', '.join(parts)}."
        ) from None
    if model.encoder is not None:
        _refuse_other_columns(model, source)
    if len(model.coef_grid) != len(model.features) + 1:
        raise FileProblem(
            f"cannot use {source}: expected {len(model.features) + 1} coefficients, "
            f"got {len(model.coef_grid)}."
        )
    return model


def _refuse_other_columns(model: ModelFile, source: str) -> None:
    """Refuse a model whose encoder makes other columns than the model has, or rows of another shape."""
    encoder = model.public_encoder()
    shape = encoder.noise_shape()
    told = None if shape is None else shape.to_dict()
    if [feature.name for feature in model.features] != encoder.get_feature_names_out().tolist():
        raise FileProblem(f"cannot use {source}: expected the features that its encoder makes.")
    if told != model.noise_shape:
        raise FileProblem(f"cannot use {source}: expected the noise shape of its encoder.")
