"""What a campaign publishes: a model or statistics, as a file that holds all public settings with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpmarket.arrays import FloatArray
from dpmarket.campaign.rules.rules_file import Label, Target
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import parse_json, read_json, to_json

if TYPE_CHECKING:
    from dpmarket.learning import Interval, PublicEncoder
    from dpmarket.statistics import ReleasedStatistic

MODEL: Literal["dpmarket.model/8"] = "dpmarket.model/8"
STATISTICS: Literal["dpmarket.statistics/2"] = "dpmarket.statistics/2"
LARGEST_FILE = 64 << 20  # bytes of a released document


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return self.model_dump(by_alias=True, exclude_none=True)

    def to_json(self) -> str:
        """Return the file's text."""
        return to_json(self.to_dict())


class ModelFile(_Part):
    """A released model, of a label or a target as in the rules.

    ``records`` is the number of people trained on; how many rows they have is private. ``description`` is
    everything public about the release, as the estimator's ``description_`` has it: with the released whole
    numbers (``cells``) or, with a delta, coefficients, the constant's last. ``intercept_scaling`` is the
    number in the constant column, ``shrinkage_correction`` the public factor between released numbers and
    coefficients; ``effective_people`` is how many with equal weights would have the same sampling error;
    ``secure_noise`` says whether the noise came from the operating system's entropy.
    """

    schema_version: Literal["dpmarket.model/8"] = Field(MODEL, alias="schema")
    dpmarket: str
    id_column: str
    predicts: Label | Target
    encoder: dict[str, Any]
    outside_bounds: Literal["clip", "refuse"]
    records: int = Field(ge=1)
    effective_people: float = Field(gt=0)
    description: dict[str, Any]
    intercept_scaling: float = Field(gt=0)
    shrinkage_correction: float = Field(gt=0)
    secure_noise: bool

    @property
    def delta(self) -> float:
        """The delta of every guarantee; 0 without one."""
        return float(self.description["release"].get("delta", 0.0))

    @property
    def labels(self) -> list[Any]:
        """The labels of a classifier; none of a regression."""
        return list(self.predicts.values) if isinstance(self.predicts, Label) else []

    def noise(self) -> dict[str, float]:
        """Return the public numbers that say how much noise there is, by name."""
        if self.delta:
            return {"steps of the descent": self.description["release"]["steps"]}
        return {"noise rate": self.description["noise_rate"], "l2": self.description["release"]["l2"]}

    @cached_property
    def public_encoder(self) -> PublicEncoder:
        """The encoder of the features; refuses one that is not whole."""
        from dpmarket.learning import PublicEncoder  # takes scikit-learn along

        try:
            return PublicEncoder.from_dict(self.encoder)
        except InvalidInput as problem:
            raise FileProblem(f"cannot use the model's encoder: {problem}") from None

    @property
    def features(self) -> list[str]:
        """Names of the encoded columns."""
        return [str(name) for name in self.public_encoder.get_feature_names_out()]

    @property
    def coefficients(self) -> FloatArray:
        """The coefficients for encoded features, and last what is added to every output, shape (outputs, n).

        With more than two labels they add up to 0 over the labels; a regression's are in the target's units.
        """
        if self.delta:
            values = np.array(self.description["coefficients"], dtype=np.float64)
        else:
            values = np.array(self.description["cells"], dtype=np.float64) * self.description["grid"]
        if len(values) > 1:
            values -= values.mean(axis=0)  # what all have in common is noise, and changes no probability
        values *= self.shrinkage_correction
        values[:, -1] *= self.intercept_scaling
        if isinstance(self.predicts, Target):
            values *= self.predicts.spread
            values[:, -1] += self.predicts.center
        return values

    @property
    def is_network(self) -> bool:
        """Whether it is a torch model, which has weights in place of coefficients."""
        loss = self.description.get("loss")
        return isinstance(loss, dict) and loss.get("kind") == "torch"

    def numbers(self, features: Any) -> FloatArray:
        """Return a regression's predictions within the public bounds, shape (rows,)."""
        assert isinstance(self.predicts, Target)
        found = self.estimator.predict(self.public_encoder.fit_transform(features))
        return np.asarray(np.clip(found, self.predicts.low, self.predicts.high))

    def probabilities(self, features: Any) -> FloatArray:
        """Return the probabilities of all labels, shape (rows, labels)."""
        return np.asarray(self.estimator.predict_proba(self.public_encoder.fit_transform(features)))

    def interval(self, features: Any, level: float) -> Interval:
        """Return intervals for what :meth:`probabilities` or :meth:`numbers` return."""
        if self.is_network:
            raise FileProblem("expected a linear model for intervals; this one is a network.")
        found = self.estimator.predict_interval(self.public_encoder.fit_transform(features), level)
        if not isinstance(self.predicts, Target):
            return found  # type: ignore[no-any-return]
        low, high = (np.clip(end, self.predicts.low, self.predicts.high) for end in (found.low, found.high))
        return found._replace(low=low, high=high)  # type: ignore[no-any-return]

    @cached_property
    def estimator(self) -> Any:
        """The model as a fitted estimator that was published, whose classes are the numbers of labels."""
        try:
            model = self._network() if self.is_network else self._linear_model()
        except (KeyError, TypeError, ValueError, OverflowError) as problem:
            raise FileProblem(f"cannot use the model's release: {problem}") from None
        if self.labels:
            model.classes_ = np.arange(len(self.labels))
        return model

    def _network(self) -> Any:
        """Return the network with its weights; refuses code that is not here, or another."""
        from dpmarket.learning.torch_factory import made_by
        from dpmarket.learning.torch_gradients import Network

        loss, weights = self.description["loss"], np.array(self.description["coefficients"][0], dtype=float)
        made = made_by(loss["model"], loss["code"], len(self.features), max(len(self.labels), 1))
        model = estimator_for(self.predicts, module=made.get("module"))
        model.module_ = Network(model.module).loaded(weights).module
        model.n_features_in_ = len(self.features)
        return model

    def _linear_model(self) -> Any:
        from dpmarket.learning.curvature import NoisyHessian
        from dpmarket.learning.spread import norm_and_loss
        from dpmarket.privacy import Descent, Release

        stated, values = self.description, self.coefficients
        norm = self.public_encoder.noise_norm()
        model = estimator_for(self.predicts, delta=self.delta or None, noise_norm=norm)
        model.coef_, model.intercept_ = values[:, :-1], values[:, -1]
        if isinstance(self.predicts, Target):
            model.coef_, model.intercept_ = values[0, :-1], float(values[0, -1])
        model.n_features_in_ = len(self.features)
        model.description_, model.effective_people_ = stated, self.effective_people
        model.intercept_scaling_ = self.intercept_scaling
        model.shrinkage_correction_ = self.shrinkage_correction
        if self.delta:
            model.descent_ = Descent.from_dict(stated["release"])
        else:
            model.release_ = Release.from_dict(stated["release"])
            model.noise_rate_, model.l2_ = float(stated["noise_rate"]), model.release_.l2
            model.grid_ = float(stated["grid"])
        norm, loss = norm_and_loss(model)
        if "intervals" in stated:
            model.hessian_ = NoisyHessian.from_dict(stated["intervals"], loss, norm)
        if values.shape != (loss.outputs, norm.n_coefficients):
            raise InvalidInput("expected as many coefficients as the release has.")
        return model


def estimator_for(predicts: Label | Target, **settings: Any) -> Any:
    """Return an estimator, a torch model's with a ``module``; a classifier takes the numbers of labels."""
    from dpmarket import learning  # takes scikit-learn along, which most commands do not need

    is_network = "module" in settings
    if isinstance(predicts, Label):
        kind: Any = learning.PrivateTorchClassifier if is_network else learning.PrivateLogisticRegression
        return kind(classes=tuple(range(len(predicts.values))), **settings)
    if predicts.quantile is not None:
        kind, settings["quantile"] = learning.PrivateQuantileRegressor, predicts.quantile
    else:
        kind = learning.PrivateTorchRegressor if is_network else learning.PrivateLinearRegression
    return kind(center=predicts.center, scale=predicts.spread, **settings)


class AskedStatistic(_Part):
    """One statistic: the columns it was asked of, its share of every epsilon, and what was released."""

    columns: list[str] = Field(min_length=1)
    share: float = Field(gt=0, le=1)
    release: dict[str, Any]

    def released(self) -> ReleasedStatistic:
        """Return the release; refuses one with parts missing or wrong."""
        from dpmarket.statistics import ReleasedStatistic

        try:
            return ReleasedStatistic.from_dict(self.release)
        except InvalidInput as problem:
            raise FileProblem(f"cannot use a statistic of the file: {problem}") from None


class StatisticsFile(_Part):
    """Released statistics: the number of people asked, public settings, and each statistic by its name."""

    schema_version: Literal["dpmarket.statistics/2"] = Field(STATISTICS, alias="schema")
    dpmarket: str
    records: int = Field(ge=1)
    rows_per_person: int = Field(ge=1)
    outside_bounds: Literal["clip", "refuse"]
    secure_noise: bool
    statistics: dict[str, AskedStatistic] = Field(min_length=1)

    def releases(self) -> dict[str, ReleasedStatistic]:
        """Return the releases by name."""
        return {name: asked.released() for name, asked in self.statistics.items()}


Released = ModelFile | StatisticsFile


def read_released(source: str | os.PathLike[str]) -> Released:
    """Read what ``dpmarket train`` wrote, or say which parts are missing or wrong."""
    return released_from(read_json(source, LARGEST_FILE), str(source))


def read_model(source: str | os.PathLike[str]) -> ModelFile:
    """Read a model; statistics are refused."""
    found = read_released(source)
    if not isinstance(found, ModelFile):
        raise FileProblem(f"expected a model in {source}, found statistics.")
    return found


def released_from_bytes(document: bytes) -> Released:
    """Return what a campaign's released document says."""
    return released_from(parse_json(document), "the released document")


def released_from(data: Any, source: str) -> Released:
    """Return the model or the statistics that plain data describes."""
    kinds: Mapping[Any, type[Released]] = {MODEL: ModelFile, STATISTICS: StatisticsFile}
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or schema not in kinds:
        raise FileProblem(
            f"expected a model or statistics in {source}, as 'dpmarket train' writes them: a JSON object "
            f"with schema {MODEL!r} or {STATISTICS!r}."
        )
    try:
        found = kinds[schema].model_validate(data)
    except ValidationError as problem:
        parts = sorted({str(error["loc"][0]) for error in problem.errors() if error["loc"]})
        raise FileProblem(f"cannot use {source}: missing or wrong are {', '.join(parts)}.") from None
    if isinstance(found, StatisticsFile):
        found.releases()
    else:
        _refuse_other_coefficients(found, source)
    return found


def _refuse_other_coefficients(model: ModelFile, source: str) -> None:
    """Refuse a description that is none, or does not have a coefficient for every feature and output."""
    from dpmarket.audit import Claim

    try:
        claim = Claim.of(model.description, [1.0])
    except InvalidInput as problem:
        raise FileProblem(f"cannot use {source}: {problem}") from None
    labels, kinds = model.labels, (int, float) if claim.delta else (int,)
    rows: Any = model.description.get("coefficients" if claim.delta else "cells")
    shape = (len(labels) if len(labels) > 2 else 1, len(model.features) + 1)
    if model.is_network:  # its weights are compared with the network where it is used
        loss, many = model.description["loss"], rows[0] if isinstance(rows, list) and rows else None
        shape = (1, len(many) if isinstance(many, list) else 0)
        if not all(isinstance(loss.get(name), str) for name in ("model", "code")):
            raise FileProblem(f"cannot use {source}: expected the name of its factory, and its digest.")
    is_table = isinstance(rows, list) and len(rows) == shape[0]
    is_table = is_table and all(isinstance(row, list) and len(row) == shape[1] for row in rows)
    if not (is_table and all(type(cell) in kinds and abs(cell) <= 2**63 for row in rows for cell in row)):
        raise FileProblem(
            f"cannot use {source}: expected coefficients of {shape[0]} outputs, {shape[1]} numbers for each."
        )
    norm = model.public_encoder.noise_norm().to_dict() | {"constant": model.intercept_scaling}
    if not model.delta and model.description["release"].get("norm") != norm:
        raise FileProblem(f"cannot use {source}: expected the noise norm of its encoder.")
