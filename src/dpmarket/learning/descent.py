r"""Training by noisy gradient descent, for linear models with any loss.

The privacy is that of :class:`~dpmarket.privacy.descent.Descent`; this module computes each person's gradient
in whole cells. It must be a function of that person's records and of earlier releases **only**, also in its
last bit: outputs are summed column by column, every operation acts on one record at a time, and a person's
records are added in their order. (A matrix product of a library may round a row differently when other rows
are added or removed.) A gradient that is not a number counts as 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.privacy.descent import CELLS, Descent
from dpmarket.privacy.loss import Loss
from dpmarket.privacy.noise import Bits

_MOMENTUM = 0.9
_CLIP = 0.5
_RIDGE = 1e-3
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class People:
    """Records of people who take part, sorted by person."""

    features: Any  # dense or CSR, shape (records, features)
    labels: FloatArray  # as the loss takes them
    starts: IntArray  # where each person's records start; every person has at least one
    weights: IntArray  # whole weight of each person, above 0
    total: int  # the sum of all weights, those of people without a record included: public
    constant: float | None  # the number in the constant column

    @property
    def n_coefficients(self) -> int:
        """Coefficients of one output."""
        return int(self.features.shape[1]) + (self.constant is not None)

    def blocks(self, outputs: int) -> Iterator[tuple[FloatArray, FloatArray, IntArray, FloatArray]]:
        """Yield columns of rows, labels, starts and weights of some people at a time."""
        ends = np.append(self.starts[1:], len(self.labels))
        first = 0
        most = max(1, _BLOCK // (outputs * self.n_coefficients))
        while first < self.starts.size:
            last = int(np.searchsorted(ends, self.starts[first] + most, side="right"))
            last = max(last, first + 1)
            begin, end = int(self.starts[first]), int(ends[last - 1])
            x: Any = self.features[begin:end]
            x = np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)
            columns = np.empty((self.n_coefficients, end - begin))
            columns[: x.shape[1]] = x.T
            if self.constant is not None:
                columns[-1] = self.constant
            weights = self.weights[first:last].astype(np.float64)
            yield columns, self.labels[begin:end], self.starts[first:last] - begin, weights
            first = last


def descend(people: People, loss: Loss, descent: Descent, stream: Bits) -> FloatArray:
    """Return coefficients of shape (outputs, n): the mean over the second half of the steps.

    Clip, step, momentum and ridge are public constants: a gradient is clipped at half of the loss's reach,
    steps are a quarter of the curvature's inverse, and a small ridge keeps coefficients bounded.
    """
    shape = (loss.outputs, people.n_coefficients)
    clip = gradient_clip(loss)
    step = _step(loss)
    unit = clip / (CELLS * float(people.total))
    w, velocity, mean = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for turn in range(descent.steps):
        noise = descent.noise(stream, w.size)
        sums = whole_gradient(people, loss, w, clip)
        noisy = np.array([float(int(a) + b) for a, b in zip(sums.ravel().tolist(), noise, strict=True)])
        velocity = _MOMENTUM * velocity + (noisy.reshape(shape) * unit + _RIDGE * loss.curvature * w)
        w = w - step * velocity
        if turn >= descent.steps // 2:
            mean += w
    return np.asarray(mean / (descent.steps - descent.steps // 2))


def gradient_clip(loss: Loss) -> float:
    """Return the length to which a person's gradient is shortened: half of the loss's reach."""
    return _CLIP * loss.reach_2


def _step(loss: Loss) -> float:
    return 1.0 / (4.0 * loss.curvature)


def responses(descent: Descent, loss: Loss, curvatures: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how an error of the gradient moves the result of a descent on a quadratic.

    Parameters
    ----------
    descent
        The public noise.
    loss
        The loss.
    curvatures
        Eigenvalues of the Hessian, shape (d,).

    Returns
    -------
    tuple
        For each eigenvalue: the effect of an error of 1 in every step, and the root of the sum of squares of
        the effects of errors in single steps.
    """
    slope = np.maximum(curvatures, 0.0) + _RIDGE * loss.curvature
    # What an error in one step has done to the coefficients j steps later.
    w, velocity = np.zeros(slope.size), np.ones(slope.size)
    later = np.empty((descent.steps, slope.size))
    for turn in range(descent.steps):
        w = w - _step(loss) * velocity
        later[turn] = w
        velocity = _MOMENTUM * velocity + slope * w
    sums = np.vstack([np.zeros(slope.size), np.cumsum(later, axis=0)])
    start = descent.steps // 2
    turns = np.arange(descent.steps)
    effects = (sums[descent.steps - turns] - sums[np.maximum(start - turns, 0)]) / (descent.steps - start)
    return effects.sum(axis=0), np.sqrt((effects**2).sum(axis=0))


def whole_gradient(people: People, loss: Loss, w: FloatArray, clip: float) -> FloatArray:
    """Return ``sum_i A_i q_i``, exactly: whole numbers in float64, shape (outputs, n)."""
    total = np.zeros(w.size)
    for columns, labels, starts, weights in people.blocks(loss.outputs):
        cells = cells_of(columns, labels, starts, loss, w, clip)
        # Whole numbers whose sums stay below 2^53: exact in any order.
        total += weights @ cells
    return total.reshape(w.shape)


def cells_of(
    columns: FloatArray, labels: FloatArray, starts: IntArray, loss: Loss, w: FloatArray, clip: float
) -> FloatArray:
    """Return each person's mean gradient, clipped, in whole cells, shape (people, outputs * n)."""
    outputs = np.zeros((columns.shape[1], w.shape[0]))
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            outputs[:, k] += columns[j] * w[k, j]
    derivatives = loss.derivatives(outputs, labels)
    counts = np.diff(np.append(starts, columns.shape[1])).astype(np.float64)
    gradients = np.empty((starts.size, w.size))
    squares = np.zeros(starts.size)
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            products = derivatives[:, k] * columns[j]
            if starts.size < products.size:
                products = np.add.reduceat(products, starts) / counts
            products = np.where(np.isfinite(products), products, 0.0)
            gradients[:, k * w.shape[1] + j] = products
            squares += products * products
    norms = np.sqrt(squares)
    factors = CELLS / np.maximum(norms, clip) * (1.0 - 1e-9)
    # Truncation shortens, and 1e-9 is more than rounding adds to a norm of up to a million coefficients.
    return np.asarray(np.trunc(gradients * factors[:, None]))
