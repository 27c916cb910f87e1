r"""One private fit of a linear model: debit first, then noise, then the release.

What every estimator of :mod:`dpmarket.learning.linear` does, whatever its loss: weights from epsilons, exact
noise, a minimiser with a proof, the grid (:func:`train`); or, with a delta, a noisy descent in whole numbers
(:func:`train_by_descent`). Both are functions of checked values; estimators add what scikit-learn expects.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.descent import Gradients, People
from dpmarket.learning.minimiser import check_attainable, minimise
from dpmarket.learning.people import Holding
from dpmarket.learning.rows import Rows, clipping_scales, rounding_scales
from dpmarket.learning.sums import LocalSums, Sums, largest_noise
from dpmarket.numerics import exact_sum
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.grid import ReleasePlan, round_to_grid
from dpmarket.privacy.loss import Loss
from dpmarket.privacy.noise import Bits, NoiseSource
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release

Charge = Callable[[FloatArray], None]
"""Charges these epsilons, or distances mu of a descent, person by person, before noise is drawn."""


class AnyRecords(Protocol):
    """Checked records of people who take part, in memory or on many machines: all that training asks."""

    @property
    def n_features(self) -> int:
        """Number of features, without the constant."""

    def sums(self, release: Release, person_weights: FloatArray, *, clip: bool) -> Sums:
        """Return the loss's sums over these records; rows longer than 1 are shortened with ``clip``."""

    def people(self, whole: IntArray, constant: float | None) -> Gradients:
        """Return the records of people with a whole weight above 0, by person."""


@dataclass(frozen=True, eq=False)
class Records:
    """Checked records of people who take part, their positions among all given, and the owners of these."""

    features: Any
    labels: FloatArray
    kept: IntArray
    holding: Holding

    def owners(self) -> IntArray:
        """Return the position of each record's owner among the people."""
        owners = self.holding.owners
        return self.kept if owners is None else np.asarray(owners[self.kept])

    @property
    def n_features(self) -> int:
        """Number of features, without the constant."""
        return int(self.features.shape[1])

    def sums(self, release: Release, person_weights: FloatArray, *, clip: bool) -> Sums:
        """Return the loss's sums over these records; rows longer than 1 are shortened with ``clip``."""
        norm, weights = release.norm, record_weights(self, person_weights)
        rows = Rows(self.features, self.labels, weights, constant=norm.constant)
        shorten = clipping_scales if clip else rounding_scales
        return LocalSums(replace(rows, scales=shorten(rows, norm)).active(), release.loss, norm.row_bound_2)

    def people(self, whole: IntArray, constant: float | None) -> People:
        """Return the records of people with a whole weight above 0, sorted by person."""
        owners = self.owners()
        order = np.argsort(owners, kind="stable")
        order = order[whole[owners[order]] > 0]
        present, starts = np.unique(owners[order], return_index=True)
        features, labels = self.features[order], self.labels[order]
        return People(features, labels, starts, whole[present], int(whole.sum()), constant)


@dataclass(frozen=True, eq=False)
class Trained:
    """A released model of a fit without delta: integers of shape (outputs, n), and all that is public."""

    cells: IntArray
    release: Release
    noise_rate: float
    plan: ReleasePlan
    loss_weights: FloatArray
    epsilons: FloatArray

    @property
    def coefficients(self) -> FloatArray:
        """The released coefficients; of several outputs with sum 0 in each column.

        What all outputs of a softmax have in common changes no probability and is noise only. It is taken out
        of the released integers, not before: they have the law that was accounted for.
        """
        values = np.asarray(self.cells * self.plan.grid)
        return values if len(values) == 1 else np.asarray(values - values.mean(axis=0))

    def to_dict(self) -> dict[str, Any]:
        """Return what is public about the release as plain data, ready for JSON."""
        return {
            "release": self.release.to_dict(),
            "noise_rate": self.noise_rate,
            "weight_total": _total(self.loss_weights),
            "grid": self.plan.grid,
            "gradient_bound": self.plan.gradient_bound,
            "noise_accuracy": self.plan.noise_accuracy,
            "numerical_epsilon": self.plan.numerical_epsilon,
            "cells": self.cells.tolist(),
        }


def train(
    records: AnyRecords,
    release: Release,
    epsilons: FloatArray,
    numerical_epsilon: float,
    source: NoiseSource,
    charge: Charge,
    *,
    clip: bool,
) -> Trained:
    """Fit and release a model by objective perturbation.

    ``numerical_epsilon`` is set aside of every epsilon for the grid; ``charge`` is called with what is spent
    on each person, before noise is drawn; rows longer than 1 are shortened with ``clip``, else refused.
    """
    loss, norm = release.loss, release.norm
    weights = release.weights(epsilons, numerical_epsilon)
    total = _total(weights.loss_weights)
    plan = release.grid_plan(numerical_epsilon, weights.noise_rate, total)
    sums = records.sums(release, weights.loss_weights, clip=clip)
    noise_norm = largest_noise(loss.outputs, norm.n_coefficients, weights.noise_rate)
    check_attainable(sums.errors, release.l2, noise_norm, plan.gradient_bound, 2.0**52 * plan.grid)
    spent = release.epsilons(weights.loss_weights, weights.noise_rate)
    spent = np.where(weights.loss_weights > 0.0, spent + plan.numerical_epsilon, 0.0)
    # The plan keeps one per cent of the reserve back, far more than this sum can be off by rounding.
    spent = np.minimum(spent, epsilons)
    _check_source(source, loss, norm)
    charge(spent)
    high, low = norm.draw(source, loss.outputs, weights.noise_rate, plan.noise_accuracy)
    minimum = minimise(sums, release.l2, high, low, plan.gradient_bound)
    cells = round_to_grid(minimum.high.ravel(), minimum.low.ravel(), plan.grid).reshape(high.shape)
    return Trained(cells, release, weights.noise_rate, plan, weights.loss_weights, read_only(spent))


@dataclass(frozen=True, eq=False)
class Descended:
    """A released model of a fit with a delta: coefficients of shape (outputs, n), and all that is public."""

    coefficients: FloatArray
    descent: Descent
    whole_weights: IntArray
    epsilons: FloatArray

    @property
    def loss_weights(self) -> FloatArray:
        """The weight of each person as a share of all."""
        return read_only(self.whole_weights / float(self.whole_weights.sum()))

    def to_dict(self, loss: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is public about the release and its loss as plain data, ready for JSON."""
        return {
            "release": self.descent.to_dict(),
            "loss": dict(loss),
            "weight_total": int(self.whole_weights.sum()),
            "coefficients": self.coefficients.tolist(),
        }


def train_by_descent(
    descend: Callable[[Bits], FloatArray], plan: tuple[Descent, IntArray], source: NoiseSource, charge: Charge
) -> Descended:
    """Fit and release a model by noisy descent.

    ``descend`` computes coefficients with a stream of noise; ``plan`` has the descent and whole weights of
    all people, from :meth:`~dpmarket.privacy.descent.Descent.for_epsilons`.
    """
    bits = getattr(source, "bits", None)
    if not callable(bits):
        raise InvalidInput("expected a noise_source with a method bits, which a delta needs.")
    descent, whole = plan
    spent = descent.epsilons(whole)
    charge(descent.mu(whole))
    return Descended(descend(bits()), descent, whole, spent)


def record_weights(records: Records, person_weights: FloatArray) -> FloatArray:
    """Split each person's weight evenly over the person's records; the shares never exceed the whole."""
    return np.asarray(records.holding.record_weights(person_weights)[records.kept])


def _check_source(source: NoiseSource, loss: Loss, norm: NoiseNorm) -> None:
    """Refuse a noise source whose ``draw`` lacks an argument that is needed, before anybody is charged."""
    try:
        known = inspect.signature(source.draw).parameters
    except (TypeError, ValueError):  # of compiled code nothing is known beforehand
        return
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return
    for argument, needed in (("blocks", loss.outputs > 1), ("independent", not norm.is_euclidean)):
        if needed and argument not in known:
            raise InvalidInput(
                f"expected a noise_source whose draw takes {argument!r}; {type(source).__name__}'s does not."
            )


def _total(loss_weights: FloatArray) -> float:
    return exact_sum(loss_weights) * (1.0 + 1e-9)
