"""What a model file says: the released integers, and every public parameter that was used for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import read_json, to_json
from dpmarket.version import __version__

if TYPE_CHECKING:
    from dpmarket.learning import PrivateLogisticRegression, PublicEncoder, PublicScaler

SCHEMA: Literal["dpmarket.model/6"] = "dpmarket.model/6"
_LARGEST = 64 << 20  # bytes


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class FeatureBounds(_Part):
    """A feature and the public bounds that it was scaled with."""

    name: str
    low: float
    high: float


class ModelFile(_Part):
    """A released model. Nothing in it is private beyond what the budgets allow: no record, cost or seller.

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
    description
        Everything public about the release, as the estimator's ``description_`` has it: with the released
        whole numbers (``cells``) or, with a delta, coefficients, the constant's last.
    shrinkage_correction
        The public factor between the released numbers and the coefficients.
    secure_noise
        Whether the noise came from the operating system's entropy.
    encoder
        What was declared about the columns of the table, see :class:`~dpmarket.learning.PublicEncoder`; then
        ``features`` are the encoded columns. None for features that are scaled only.
    """

    schema_version: Literal["dpmarket.model/6"] = Field(SCHEMA, alias="schema")
    dpmarket: str
    id_column: str
    label_column: str
    labels: list[str] | list[int] = Field(min_length=2)
    features: list[FeatureBounds] = Field(min_length=1)
    radius: float
    outside_bounds: Literal["clip", "refuse"]
    records: int = Field(ge=1)
    description: dict[str, Any]
    intercept_scaling: float = Field(gt=0)
    shrinkage_correction: float = Field(gt=0)
    secure_noise: bool
    encoder: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return self.model_dump(by_alias=True)

    @property
    def delta(self) -> float:
        """The delta of every guarantee; 0 without one."""
        return float(self.description["release"].get("delta", 0.0))

    def noise(self) -> dict[str, float]:
        """Return the public numbers that say how much noise there is, by name."""
        if self.delta:
            return {"steps of the descent": self.description["release"]["steps"]}
        return {"noise rate": self.description["noise_rate"], "l2": self.description["release"]["l2"]}

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
        if self.delta:
            values = np.array(self.description["coefficients"], dtype=np.float64)
        else:
            values = np.array(self.description["cells"], dtype=np.float64) * self.description["grid"]
        if self.has_many_labels:
            values -= values.mean(axis=0)  # what all have in common is noise, and changes no probability
        values *= self.shrinkage_correction
        values[:, -1] *= self.intercept_scaling
        return values if self.has_many_labels else values[0]

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
    return ModelFile(
        schema=SCHEMA,
        dpmarket=__version__,
        id_column=id_column,
        label_column=label_column,
        labels=labels,
        features=features,
        radius=radius,
        outside_bounds=outside_bounds,
        records=records,
        description=model.description_,
        intercept_scaling=model.intercept_scaling_,
        shrinkage_correction=1.0 if model.delta_ else model.shrinkage_correction_,
        secure_noise=model.certifiable_,
        encoder=encoder,
    )


def read_model(source: str | os.PathLike[str]) -> ModelFile:
    """Read a model file that ``train`` wrote.

    Raises
    ------
    FileProblem
        No JSON, not a model, or parts missing or wrong, each by its name.
    """
    data = read_json(source, _LARGEST)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
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
    _refuse_other_coefficients(model, source)
    if model.encoder is not None:
        _refuse_other_columns(model, source)
    return model


def _refuse_other_coefficients(model: ModelFile, source: str) -> None:
    """Refuse a description that is none, or does not have a coefficient for every feature and output."""
    from dpmarket.audit import Claim

    if len(set(model.labels)) < len(model.labels):
        raise FileProblem(f"cannot use {source}: expected different labels.")
    try:
        claim = Claim.of(model.description, [1.0])
    except InvalidInput as problem:
        raise FileProblem(f"cannot use {source}: {problem}") from None
    found = model.description["coefficients" if claim.delta else "cells"]
    outputs = len(model.labels) if model.has_many_labels else 1
    expected = len(model.features) + 1
    kinds = (int, float) if claim.delta else (int,)
    if not isinstance(found, list) or len(found) != outputs:
        raise FileProblem(f"cannot use {source}: expected coefficients of {outputs} labels.")
    for row in found:
        if not isinstance(row, list) or len(row) != expected:
            raise FileProblem(f"cannot use {source}: expected {expected} coefficients.")
        if not all(type(cell) in kinds and abs(cell) <= 2**63 for cell in row):
            raise FileProblem(f"cannot use {source}: expected coefficients that are numbers, and no others.")


def _refuse_other_columns(model: ModelFile, source: str) -> None:
    """Refuse a model whose encoder makes other columns than the model has, or rows of another norm."""
    encoder = model.public_encoder()
    if [feature.name for feature in model.features] != encoder.get_feature_names_out().tolist():
        raise FileProblem(f"cannot use {source}: expected the features that its encoder makes.")
    norm = encoder.noise_norm().to_dict() | {"constant": model.intercept_scaling}
    if not model.delta and model.description["release"].get("norm") != norm:
        raise FileProblem(f"cannot use {source}: expected the noise norm of its encoder.")
