"""What a model file says: the released integers, and every public parameter that was used for them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpmarket.arrays import FloatArray
from dpmarket.errors import FileProblem
from dpmarket.files import read_json, to_json
from dpmarket.version import __version__

if TYPE_CHECKING:
    from dpmarket.learning import PrivateLogisticRegression, PublicScaler

SCHEMA: Literal["dpmarket.model/2"] = "dpmarket.model/2"
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
    """

    schema_version: Literal["dpmarket.model/2"] = Field(SCHEMA, alias="schema")
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return self.model_dump(by_alias=True)

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

    def probabilities(self, features: FloatArray) -> FloatArray:
        """Return the probability of the second label for raw features, shape (rows, features)."""
        from scipy.special import expit

        scaled = self.scaler().fit_transform(features)
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
    )


def read_model(source: str | os.PathLike[str]) -> ModelFile:
    """Read a model file that ``train`` wrote.

    Raises
    ------
    FileProblem
        No JSON, not a model, or parts missing or wrong, each by its name.
    """
    data = read_json(source, _LARGEST)
    if not isinstance(data, dict) or data.get("schema") not in (SCHEMA, _BEFORE):
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
    if len(model.coef_grid) != len(model.features) + 1:
        raise FileProblem(
            f"cannot use {source}: expected {len(model.features) + 1} coefficients, "
            f"got {len(model.coef_grid)}."
        )
    return model
