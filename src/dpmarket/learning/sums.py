r"""Sums over records of a loss's derivatives: all that training asks of the data.

:class:`Sums` is the contract, :class:`LocalSums` the implementation for one matrix in memory. Another one
(records in many files, on many machines) adds up the same quantities part by part: pairs of floats are added
without loss (:func:`~dpmarket.learning.pairs.add_pairs`), so that the released grid point is the same.

*Rounding.* Notation: u = 2**-53, gamma(k) = k u / (1 - k u), A the sum of the weights, R the Euclidean bound
on rows. An output is off by at most :math:`\gamma(n + 10) R |W|`; a sigmoid has slope at most 1/4, and
probabilities move by at most as much as scores in the sum of absolute values (half of the size 2 below);
relative errors of exponentials and of their sum over K outputs add up. With the loss's slope and largest
shift (1 and 0 for softmax) and its size (scale; 2 for softmax) the bounds below hold for every loss. They are
generous by small factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.learning import sigmoid_kernels, softmax_kernels
from dpmarket.learning.kernels import CHUNK
from dpmarket.learning.rounding import UNIT, gamma
from dpmarket.learning.row_sums import RowSums
from dpmarket.learning.rows import Rows
from dpmarket.privacy.loss import Loss, SigmoidLoss

_PIECE = 4096


class Sums(Protocol):
    """Weighted sums over records, at coefficients of shape (outputs, n), the constant's last.

    Formal guarantees: each ``*_error`` bounds, in the Euclidean norm over all coefficients, what rounding
    does to the sum of its name at coefficients of a given norm. Results are functions of the records, their
    weights and the coefficients: threads and the order of parts do not matter.
    """

    @property
    def loss(self) -> Loss:
        """The loss whose derivatives are summed."""
        ...

    @property
    def count(self) -> int:
        """Number of records that take part."""
        ...

    @property
    def n_coefficients(self) -> int:
        """Coefficients of one output, the constant's included."""
        ...

    @property
    def total(self) -> float:
        """A: the sum of the weights, rounded up."""
        ...

    @property
    def row_bound(self) -> float:
        """R: no row with its constant has a larger Euclidean norm."""
        ...

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient as pairs of floats, shape (2, outputs, n)."""
        ...

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient at ``w + rest``, in pairs of floats throughout."""
        ...

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        """Return the Hessian at ``w`` times ``v``."""
        ...

    def hessian(self, w: FloatArray) -> FloatArray:
        """Return the Hessian, shape (outputs n, outputs n), to rounding; only its lower triangle is read."""
        ...

    def partial_traces(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Hessian's traces over coefficients, (outputs, outputs), and over outputs, (n, n)."""
        ...

    def sample(self, count: int) -> Sums:
        """Return the sums over about ``count`` evenly spaced records, with weights that keep their total."""
        ...

    def gradient_error(self, norm: float) -> float:
        """Bound the error of :meth:`gradient`."""
        ...

    def accurate_gradient_error(self, norm: float) -> float:
        """Bound the error of :meth:`accurate_gradient`, its low part below 4 u norm."""
        ...

    def product_error(self, norm: float) -> float:
        """Bound the error of :meth:`product` per unit of the vector's norm."""
        ...


@dataclass(frozen=True)
class Errors:
    """The rounding bounds of this module, from public sizes."""

    loss: Loss
    count: int
    n_coefficients: int
    total: float
    row_bound: float

    @property
    def _constants(self) -> tuple[float, float]:
        """Slope and size."""
        return (self.loss.slope, self.loss.scale) if isinstance(self.loss, SigmoidLoss) else (1.0, 2.0)

    def _inner(self, norm: float) -> float:
        """Bound what goes into the sigmoid or the softmax."""
        shift = self.loss.largest_shift if isinstance(self.loss, SigmoidLoss) else 0.0
        return self._constants[0] * self.row_bound * norm + shift

    @property
    def _steepness(self) -> float:
        """How much of an error in there comes out, as a share of the size."""
        return 0.25 if self.loss.outputs == 1 else 0.5

    @property
    def _chunks(self) -> float:
        return gamma(2 * (self.count // CHUNK + CHUNK) + 64) ** 2

    def gradient_error(self, norm: float) -> float:
        """Bound the error of ``gradient`` at a point of this norm."""
        outputs = self._steepness * self._inner(norm) * gamma(self.n_coefficients + 10)
        rest = (self.loss.outputs + 20.0) * UNIT + gamma(CHUNK + 8) + self._chunks
        return self.total * self.row_bound * self._constants[1] * (outputs + rest)

    def accurate_gradient_error(self, norm: float) -> float:
        """Bound the error of ``accurate_gradient`` at a pair of this norm."""
        each = 2.0 * gamma(self.n_coefficients + 8) ** 2 + (2.0**-98 if self.loss.outputs == 1 else 2.0**-96)
        outputs = self._steepness * self._inner(norm) * each
        sums = gamma(4 * CHUNK + 16) ** 2 + self._chunks
        rest = 2.0**-86 + self.loss.outputs * 2.0**-99 + sums
        return self.total * self.row_bound * self._constants[1] * (outputs + rest)

    def product_error(self, norm: float) -> float:
        """Bound the error of ``product`` per unit of the vector's norm."""
        slope, size = self._constants
        k = 2 * self.n_coefficients + 4 * self.loss.outputs + CHUNK + 80
        terms = 2.0 * gamma(k) * (1.0 + self._inner(norm)) + self._chunks
        return self.total * self.row_bound**2 * size * slope * terms


@dataclass(frozen=True, eq=False)
class LocalSums:
    """Sums over a matrix in memory; see :class:`Sums`.

    Attributes
    ----------
    rows
        Records that take part.
    loss
        The loss.
    constant
        The number in the constant column, a power of two; None without one.
    row_bound
        R.
    run
        A function like ``map``, from :func:`~dpmarket.learning.row_sums.threads`.
    """

    rows: Rows
    loss: Loss
    constant: float | None
    row_bound: float
    run: Callable[..., list[Any]]

    @property
    def count(self) -> int:
        """Number of records that take part."""
        return len(self.rows)

    @property
    def n_coefficients(self) -> int:
        """Coefficients of one output."""
        return self.rows.n_coefficients

    @property
    def total(self) -> float:
        """The sum of the weights, rounded up."""
        return self.rows.total_weight()

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient as pairs of floats."""
        return self._pairs("gradient", w)

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient at ``w + rest``, in pairs of floats throughout."""
        return self._pairs("accurate_gradient", w, rest)

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        """Return the Hessian at ``w`` times ``v``."""
        return np.asarray(self._pairs("hessian_product", w, v).sum(axis=0))

    def hessian(self, w: FloatArray) -> FloatArray:
        """Return the lower triangle of the Hessian."""
        outputs, n = w.shape
        found = np.zeros((outputs, n, outputs, n))
        for x, diagonal, vector in self._pieces(w):
            for k in range(outputs):
                for m in range(k + 1):
                    factors = diagonal[:, k] * float(k == m) - vector[1][:, k] * vector[0][:, m]
                    found[k, :, m, :] += (x * factors[:, None]).T @ x
        return found.reshape(w.size, w.size)

    def partial_traces(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Hessian's partial traces."""
        outputs, n = w.shape
        between, among = np.zeros((outputs, outputs)), np.zeros((n, n))
        for x, diagonal, (vector, weighted) in self._pieces(w):
            squares = np.einsum("ij,ij->i", x, x)
            between += np.diag(squares @ diagonal) - (weighted * squares[:, None]).T @ vector
            spread = diagonal.sum(axis=1) - np.einsum("ik,ik->i", weighted, vector)
            among += (x * spread[:, None]).T @ x
        return between, among

    def sample(self, count: int) -> LocalSums:
        """Return the sums over about ``count`` evenly spaced records."""
        return replace(self, rows=self.rows.sample(count))

    def gradient_error(self, norm: float) -> float:
        """Bound the error of :meth:`gradient`."""
        return self._errors.gradient_error(norm)

    def accurate_gradient_error(self, norm: float) -> float:
        """Bound the error of :meth:`accurate_gradient`."""
        return self._errors.accurate_gradient_error(norm)

    def product_error(self, norm: float) -> float:
        """Bound the error of :meth:`product` per unit of the vector's norm."""
        return self._errors.product_error(norm)

    @property
    def _errors(self) -> Errors:
        return Errors(self.loss, self.count, self.n_coefficients, self.total, self.row_bound)

    def _pairs(self, name: str, *points: FloatArray) -> FloatArray:
        """Return a kernel's sum; a constant column c is one of ones with coefficients times c, exactly."""
        scaled = [self._times_constant(point) for point in points]
        sums = RowSums(self.rows, self.run)
        if isinstance(self.loss, SigmoidLoss):
            kernel = getattr(sigmoid_kernels, name)
            found = sums.pairs(kernel, *(point[0] for point in scaled), self.loss.family)[:, None, :]
        else:
            found = sums.pairs(getattr(softmax_kernels, name), *scaled)
        return self._times_constant(found)

    def _times_constant(self, coefficients: FloatArray) -> FloatArray:
        if self.constant is None or self.constant == 1.0:
            return coefficients
        scaled = coefficients.copy()
        scaled[..., -1] *= self.constant
        return scaled

    def _pieces(
        self, w: FloatArray
    ) -> Iterator[tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]]:
        """Yield rows with their constant, the weighted d of second derivatives, and v plain and weighted."""
        for block in self.rows.blocks():
            for first in range(0, len(block.x), _PIECE):
                chosen = slice(first, first + _PIECE)
                x = block.x[chosen]
                x = x * block.scales[chosen, None] if block.scales.size else x
                if self.constant is not None:
                    x = np.column_stack([x, np.full(len(x), self.constant)])
                weights = block.weights[chosen, None]
                diagonal, vector = self.loss.curvatures(x @ w.T, block.labels[chosen])
                yield x, weights * diagonal, (vector, weights * vector)


def largest_noise(outputs: int, n_coefficients: int, noise_rate: float) -> float:
    """Return a norm of the noise of all outputs together that is exceeded practically never."""
    return math.sqrt(outputs) * 20.0 * (n_coefficients + 50.0) / noise_rate
