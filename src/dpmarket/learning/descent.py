r"""Training by noisy gradient descent: the steps, and the whole gradients of linear models with any loss.

The privacy is that of :class:`~dpmarket.privacy.descent.Descent`; :func:`noisy_descent` steps for any model
whose gradients are whole. A person's gradient in whole cells must be a function of that person's records and
of earlier releases **only**, also in its last bit: outputs are summed column by column, every operation acts
on one record at a time, and a person's records are added in their order. (A matrix product of a library may
round a row differently when other rows are added or removed.) A gradient that is not a number counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.privacy.descent import CELLS, Descent
from dpmarket.privacy.loss import Loss
from dpmarket.privacy.noise import Bits
from dpmarket.progress import Progress

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

    def whole_gradient(self, loss: Loss, w: FloatArray, clip: float) -> FloatArray:
        """Return ``sum_i A_i q_i``, exactly: whole numbers in float64, shape (outputs, n)."""
        total = np.zeros(w.size)
        for columns, labels, starts, weights in self.blocks(loss.outputs):
            cells = cells_of(columns, labels, starts, loss, w, clip)
            # Whole numbers whose sums stay below 2^53: exact in any order.
            total += weights @ cells
        return total.reshape(w.shape)

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


@dataclass(frozen=True)
class Pace:
    """How a descent moves: public constants, each a function of no record."""

    clip: float  # length to which a person's gradient is shortened
    step: float
    ridge: float  # pulls every coefficient towards 0
    momentum: float = _MOMENTUM


def noisy_descent(
    gradient: Callable[[FloatArray], FloatArray], start: FloatArray, total: int, pace: Pace, descent: Descent,
    *, stream: Bits, progress: Progress | None = None,
) -> FloatArray:  # fmt: skip
    """Return the mean coefficients of the second half of the steps; ``total`` is the sum of all weights."""
    unit = pace.clip / (CELLS * float(total))
    w, velocity, mean = start, np.zeros(start.shape), np.zeros(start.shape)
    for turn in range(descent.steps):
        noise = descent.noise(stream, w.size)
        sums = gradient(w)
        noisy = np.array([float(int(a) + b) for a, b in zip(sums.ravel().tolist(), noise, strict=True)])
        velocity = pace.momentum * velocity + (noisy.reshape(w.shape) * unit + pace.ridge * w)
        w = w - pace.step * velocity
        if turn >= descent.steps // 2:
            mean += w
        if progress is not None:
            progress(turn + 1, descent.steps)
    return np.asarray(mean / (descent.steps - descent.steps // 2))


def descend(
    people: People, loss: Loss, descent: Descent, stream: Bits, progress: Progress | None = None
) -> FloatArray:
    """Return coefficients, shape (outputs, n); clip, step, momentum and ridge are public constants."""
    start = np.zeros((loss.outputs, people.n_coefficients))
    pace = Pace(gradient_clip(loss), _step(loss), _RIDGE * loss.curvature)
    gradient = partial(people.whole_gradient, loss, clip=pace.clip)
    return noisy_descent(gradient, start, people.total, pace, descent, stream=stream, progress=progress)


def gradient_clip(loss: Loss) -> float:
    """Return the length to which a person's gradient is shortened: half of the loss's reach."""
    return _CLIP * loss.reach_2


def _step(loss: Loss) -> float:
    return 1.0 / (4.0 * loss.curvature)


def responses(descent: Descent, loss: Loss, curvatures: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, by curvature, how errors of 1 in all steps move the result: equal ones and independent ones."""
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


def scores_of(columns: FloatArray, w: FloatArray) -> FloatArray:
    """Return the outputs of records, column by column, shape (records, outputs)."""
    outputs = np.zeros((columns.shape[1], w.shape[0]))
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            outputs[:, k] += columns[j] * w[k, j]
    return outputs


def cells_of(
    columns: FloatArray, labels: FloatArray, starts: IntArray, loss: Loss, w: FloatArray, clip: float
) -> FloatArray:
    """Return each person's mean gradient, clipped, in whole cells, shape (people, outputs * n)."""
    slopes = loss.derivatives(scores_of(columns, w), labels)
    products = (slopes[:, k] * column for k in range(loss.outputs) for column in columns)
    return whole_means(products, starts, w.size, clip)


def whole_means(entries: Iterable[FloatArray], starts: IntArray, size: int, longest: float) -> FloatArray:
    """Return people's means of each entry of their records, shortened to ``longest``, in whole cells."""
    means, squares = np.empty((starts.size, size)), np.zeros(starts.size)
    for place, values in enumerate(entries):
        if starts.size < values.size:
            values = np.add.reduceat(values, starts) / np.diff(starts, append=values.size)
        means[:, place] = np.where(np.isfinite(values), values, 0.0)
        squares += means[:, place] ** 2
    return shortened(means, squares, longest)


def shortened(gradients: FloatArray, squares: FloatArray, clip: float) -> FloatArray:
    """Return rows, whose squared lengths are given, shortened to ``clip`` and truncated to whole cells."""
    factors = CELLS / np.maximum(np.sqrt(squares), clip) * (1.0 - 1e-9)
    cells = np.trunc(gradients * factors[:, None])
    # Whole squares add up exactly: what is too long in spite of the 1e-9 counts as nothing.
    cells[(cells * cells).sum(axis=1) > float(CELLS**2)] = 0.0
    return np.asarray(cells)
