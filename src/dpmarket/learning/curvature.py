r"""A Hessian released with noise: what ``fit(..., intervals=share)`` spends a share of every epsilon on.

Each person's mean Hessian :math:`h\,xx^T` at the released coefficients (and the mean squared length of
gradients, where labels move the curvature or gradients are clipped) becomes whole cells no longer than 2^16:
a triangle, with the square root of 2 beside the diagonal. The weighted sum of these vectors is released with
exact radial noise in whole numbers. A replaced person moves it by at most :math:`2 w 2^{16}`, which costs w
times ``unit`` of pure epsilon, besides the model's charge. A vector is a function of that person's records
and released coefficients only, also in its last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning.descent import People, scores_of, whole_means
from dpmarket.privacy.descent import CELLS
from dpmarket.privacy.loss import Loss
from dpmarket.privacy.noise import Bits, rounded_radial
from dpmarket.privacy.noise_norm import NoiseNorm

_TOTAL_BITS = 36
_MOST_COEFFICIENTS = 100
_MOST_NOISE = 8.0
_USUAL_SQUARE = 0.25  # squared length of a usual row, as a share of the longest's


@dataclass(frozen=True)
class HessianPlan:
    """What is public about the release of a Hessian, before a record is read."""

    loss: Loss
    norm: NoiseNorm
    share: float  # of every epsilon, strictly between 0 and 1
    total: int  # the sum of the whole weights
    unit: Fraction  # epsilon of a weight of one, a power of two
    clip: float | None  # the length to which gradients are shortened; None if they are not

    @property
    def coefficients(self) -> int:
        """D: all coefficients of the model."""
        return self.loss.outputs * self.norm.n_coefficients

    @property
    def scales(self) -> tuple[float, ...]:
        """The largest Hessian and, where it is released, the largest squared length of a gradient."""
        square = self.norm.row_bound_2**2
        hessian = self.loss.curvature * square
        if self.clip is not None:
            return hessian, self.clip**2
        return (hessian,) if self.loss.span is not None else (hessian, self.loss.reach_2**2 * square)

    @property
    def size(self) -> int:
        """Numbers that are released."""
        return self.coefficients * (self.coefficients + 1) // 2 + (len(self.scales) - 1)

    @property
    def cell(self) -> float:
        """What one cell of weight one is, as a share of the largest value."""
        return math.sqrt(len(self.scales)) / (CELLS * self.total)

    def check(self) -> None:
        """Refuse a noise whose largest eigenvalue may exceed eight times the mean one of a usual Hessian."""
        if self.coefficients > _MOST_COEFFICIENTS:
            raise InvalidInput(
                f"expected at most {_MOST_COEFFICIENTS} coefficients with intervals=, the model has "
                f"{self.coefficients}; pass public_rows to coef_interval instead."
            )
        deviation = 2.0 * math.sqrt(self.size + 1.0) * CELLS / float(self.unit) * self.cell
        times = deviation * math.sqrt(2.0 * self.coefficients) * self.coefficients / _USUAL_SQUARE
        if times > _MOST_NOISE:
            raise Infeasible(
                f"The epsilons are too small for a noisy Hessian: with intervals={self.share:g} its noise is "
                f"{times:.2g} times the Hessian of usual rows, more than {_MOST_NOISE:g}. "
                "Leave intervals= out, and pass public_rows to coef_interval."
            )


@dataclass(frozen=True, eq=False)
class NoisyHessian:
    """A released Hessian: whole numbers, and everything public about their noise."""

    plan: HessianPlan
    cells: tuple[int, ...]

    def plausible(self, count: int) -> tuple[FloatArray, FloatArray]:
        """Return Hessians and second moments of gradients that may be the right ones, each (count, D, D).

        Each is the release less a simulated draw of its noise, without negative eigenvalues. Second moments
        are in proportion to the Hessian, with the released squared length of gradients, or equal to it.
        Clipped gradients have no curvature and count once more, alike in all directions.
        """
        plan, d = self.plan, self.plan.coefficients
        rng = np.random.default_rng(0)  # always the same draws: what follows is public
        noise = rng.normal(size=(count, plan.size))
        lengths = rng.gamma(plan.size, 2.0 * CELLS / float(plan.unit), size=(count, 1))
        noise *= lengths / np.linalg.norm(noise, axis=1, keepdims=True)
        possible = (np.array([float(cell) for cell in self.cells]) - noise) * plan.cell
        matrices = np.zeros((count, d, d))
        rows, columns = np.tril_indices(d)
        matrices[:, rows, columns] = possible[:, : rows.size] * plan.scales[0]
        matrices = (matrices + np.swapaxes(matrices, 1, 2)) / math.sqrt(2.0)
        matrices[:, range(d), range(d)] /= math.sqrt(2.0)
        values, vectors = np.linalg.eigh(matrices)
        kept = np.maximum(values, 0.0)
        hessians = (vectors * kept[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        if len(plan.scales) == 1:
            return hessians, hessians
        traces = np.maximum(values.sum(axis=1), 1e-3 * kept.max(axis=1) + 1e-300)
        squares = np.maximum(possible[:, -1], 0.0) * plan.scales[1]
        gradients = hessians * (squares / traces)[:, None, None]
        if plan.clip is not None:
            gradients = gradients + np.eye(d) * (squares / d)[:, None, None]
        return hessians, gradients

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], loss: Loss, norm: NoiseNorm) -> NoisyHessian:
        """Return the release of a model with this loss and norm that :meth:`to_dict` described."""
        clip = None if data["clip"] is None else float(data["clip"])
        share, total, unit = float(data["share"]), int(data["weight_total"]), Fraction(data["unit"])
        plan = HessianPlan(loss, norm, share, total, unit, clip)
        if plan.coefficients > _MOST_COEFFICIENTS or plan.size != len(data["cells"]) or not total * unit > 0:
            raise InvalidInput("expected a noisy Hessian of this model.")
        return cls(plan, tuple(int(cell) for cell in data["cells"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the release as plain data, ready for JSON."""
        return {
            "share": self.plan.share,
            "weight_total": self.plan.total,
            "unit": float(self.plan.unit),
            "clip": self.plan.clip,
            "cells": [str(cell) for cell in self.cells],
        }


@dataclass(frozen=True, eq=False)
class Split:
    """How epsilons are divided between a Hessian and a model."""

    plan: HessianPlan
    weights: IntArray  # whole weight of each person in the Hessian
    left: FloatArray  # the epsilon of each person that is left for the model
    epsilons: FloatArray  # what both together may cost each person

    @property
    def spent(self) -> FloatArray:
        """What the Hessian costs each person, exactly."""
        return read_only(self.weights * float(self.plan.unit))

    def total(self, spent: FloatArray) -> FloatArray:
        """Return what both cost each person, rounded up, if the model costs ``spent``, at most ``left``."""
        both = spent + self.spent
        return read_only(np.where(both > 0.0, np.minimum(np.nextafter(both, np.inf), self.epsilons), 0.0))


def split_epsilons(
    loss: Loss, norm: NoiseNorm, share: float, epsilons: FloatArray, *, clip: float | None
) -> Split:
    """Divide epsilons: a weight w costs its owner exactly ``w * plan.unit``; the rest stays, rounded down."""
    share = checks.strictly_between("intervals", share, 0.0, 1.0)
    total = float(epsilons.sum())
    if not 1e-90 < total < 1e90:
        raise InvalidInput("expected epsilons whose sum is between 1e-90 and 1e90.")
    exponent = math.frexp(total)[1] - _TOTAL_BITS
    weights = np.floor(np.ldexp(epsilons * share, -exponent)).astype(np.int64)
    left = np.maximum(epsilons - np.ldexp(weights.astype(np.float64), exponent), 0.0) * (1.0 - 2.0**-50)
    plan = HessianPlan(loss, norm, share, max(int(weights.sum()), 1), Fraction(2) ** exponent, clip)
    plan.check()
    return Split(plan, read_only(weights), read_only(left), epsilons)


def release_hessian(plan: HessianPlan, people: People, w: FloatArray, stream: Bits) -> NoisyHessian:
    """Release the weighted Hessian at coefficients of shape (outputs, n); people are charged already."""
    sums = np.zeros(plan.size)
    for columns, labels, starts, weights in people.blocks(plan.size):
        # Whole numbers whose sums stay below 2^53: exact in any order.
        sums += weights @ whole_hessians(plan, columns, labels, starts, w)
    noise = rounded_radial(stream, plan.size, plan.unit / CELLS)
    return NoisyHessian(plan, tuple(int(a) + b for a, b in zip(sums.tolist(), noise, strict=True)))


def whole_hessians(
    plan: HessianPlan, columns: FloatArray, labels: FloatArray, starts: IntArray, w: FloatArray
) -> FloatArray:
    """Return each person's numbers in whole cells, shape (people, size)."""
    loss = plan.loss
    if plan.clip is None:
        features = len(plan.norm.separate)
        shortened = columns[:features] / np.maximum(plan.norm.lengths(columns[:features].T), 1.0)
        columns = np.vstack([shortened, columns[features:]])
    scores = scores_of(columns, w)
    first = loss.derivatives(scores, labels)
    diagonal, vector = loss.curvatures(scores, labels)
    if plan.clip is not None:
        lengths = np.sqrt((columns**2).sum(axis=0)) * np.sqrt((first**2).sum(axis=1))
        diagonal, vector = (part * (lengths <= plan.clip)[:, None] for part in (diagonal, vector))
        first = first * np.minimum(1.0, plan.clip / np.maximum(lengths, 1e-300))[:, None]
    entries = _entries(plan, columns, first, diagonal, vector)
    return whole_means(entries, starts, plan.size, math.sqrt(len(plan.scales)))


def _entries(
    plan: HessianPlan, columns: FloatArray, first: FloatArray, diagonal: FloatArray, vector: FloatArray
) -> Iterator[FloatArray]:
    """Yield what each record adds to each released number, as a share of the largest."""
    n = len(columns)
    for a in range(plan.coefficients):
        for b in range(a + 1):
            (k, j), (m, i) = divmod(a, n), divmod(b, n)
            curved = diagonal[:, k] * float(k == m) - vector[:, k] * vector[:, m]
            beside = 1.0 if a == b else math.sqrt(2.0)
            yield curved * columns[j] * columns[i] * (beside / plan.scales[0])
    if len(plan.scales) > 1:
        yield (first**2).sum(axis=1) * (columns**2).sum(axis=0) / plan.scales[1]
