r"""Sums over records of a loss's derivatives: all that training asks of the data.

:class:`Sums` is the contract, :class:`LocalSums` the implementation for one matrix in memory. Another one
(records in many files, on many machines) adds up the same quantities part by part: pairs of floats are added
without loss (:func:`~dpmarket.learning.rounding.add_pairs`), so that the released grid point is the same.

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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from dpmarket.arrays import FloatArray, read_only_view
from dpmarket.errors import InvalidInput
from dpmarket.learning.rounding import CHUNK, UNIT, gamma, sum_pairs
from dpmarket.learning.rows import Block, Rows, block_height
from dpmarket.privacy.loss import Loss, SigmoidLoss, Softmax

_MANY_ELEMENTS = 200_000


class Sums(Protocol):
    """Weighted sums over records, at coefficients of shape (outputs, n), the constant's last.

    Formal guarantees: ``errors`` bounds, in the Euclidean norm over all coefficients, what rounding does to
    gradients at coefficients of a given norm. The accurate gradient does not depend on threads.
    """

    @property
    def errors(self) -> Errors:
        """The public sizes of these sums, and bounds on what rounding does to them."""

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient as pairs of floats, shape (2, outputs, n)."""

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient at ``w + rest``, in pairs of floats throughout."""

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        """Return the Hessian at ``w`` times ``v``."""

    def hessian(self, w: FloatArray) -> FloatArray:
        """Return the Hessian, shape (outputs n, outputs n), to rounding; only its lower triangle is read."""

    def partial_traces(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Hessian's traces over coefficients, (outputs, outputs), and over outputs, (n, n)."""

    def sample(self, count: int) -> Sums:
        """Return the sums over about ``count`` evenly spaced records, with weights that keep their total."""


@dataclass(frozen=True)
class Errors:
    """The rounding bounds of this module, from public sizes."""

    loss: Loss
    count: int  # of records that take part
    n_coefficients: int  # of one output, the constant's included
    total: float  # A: the sum of the weights, rounded up
    row_bound: float  # R: no row with its constant has a larger Euclidean norm

    def __post_init__(self) -> None:
        # The kernel of accurate gradients has these two and takes any other, also a derived one, for one of
        # them: the model would be of a loss that was not charged for.
        if type(self.loss) not in (SigmoidLoss, Softmax):
            raise InvalidInput(
                f"expected a SigmoidLoss or Softmax, got {type(self.loss).__name__}: rounding is bounded for "
                "these two families only. Set delta, or add the family to dpmarket.learning.sums."
            )

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

    @property
    def _block(self) -> int:
        """Rows whose sum is taken in float64, in any order."""
        return min(self.count, block_height(self.n_coefficients - 1))

    def gradient(self, norm: float) -> float:
        """Bound the error of ``gradient`` at a point of this norm."""
        outputs = self._steepness * self._inner(norm) * gamma(self.n_coefficients + 10)
        rest = (self.loss.outputs + 20.0) * UNIT + gamma(self._block + 8) + self._chunks
        return self.total * self.row_bound * self._constants[1] * (outputs + rest)

    def accurate_gradient(self, norm: float) -> float:
        """Bound the error of ``accurate_gradient`` at a pair of this norm."""
        each = 2.0 * gamma(self.n_coefficients + 8) ** 2 + (2.0**-98 if self.loss.outputs == 1 else 2.0**-96)
        outputs = self._steepness * self._inner(norm) * each
        sums = gamma(4 * CHUNK + 16) ** 2 + self._chunks
        rest = 2.0**-86 + self.loss.outputs * 2.0**-99 + sums
        return self.total * self.row_bound * self._constants[1] * (outputs + rest)


@dataclass(frozen=True, eq=False)
class LocalSums:
    """Sums over records in memory that take part; see :class:`Sums`."""

    rows: Rows
    loss: Loss
    row_bound: float  # R: no row with its constant has a larger Euclidean norm

    @cached_property
    def errors(self) -> Errors:
        """The public sizes of these sums, and bounds on what rounding does to them."""
        rows = self.rows
        return Errors(self.loss, len(rows), rows.n_coefficients, rows.total_weight(), self.row_bound)

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient as pairs of floats."""

        def part(block: Block) -> FloatArray:
            return self._sum(block, self.loss.derivatives(self._outputs(block, w), block.labels))

        return self._over_blocks(part, w.size)

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient at ``w + rest``, in pairs of floats throughout."""
        from dpmarket.learning import kernels  # takes 100 MB, and small sets of records do without

        family = self.loss.family if isinstance(self.loss, SigmoidLoss) else None
        # A constant column c is one of ones with coefficients times c, exactly: c is a power of two.
        points = [read_only_view(self._times_constant(point)) for point in (w, rest)]

        def part(block: Block) -> FloatArray:
            labels = block.labels
            if isinstance(self.loss, SigmoidLoss):
                labels = read_only_view(np.clip(labels, *self.loss.labels))
            return kernels.accurate_gradient(block.x, points[0], points[1], family, labels, *block[2:])

        return self._times_constant(self._over_blocks(part, w.size))

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        """Return the Hessian at ``w`` times ``v``."""

        def part(block: Block) -> FloatArray:
            diagonal, vector = self.loss.curvatures(self._outputs(block, w), block.labels)
            moves = self._outputs(block, v)
            return self._sum(block, diagonal * moves - vector * (vector * moves).sum(axis=1)[:, None])

        return np.asarray(self._over_blocks(part, w.size).sum(axis=0))

    def hessian(self, w: FloatArray) -> FloatArray:
        """Return the lower triangle of the Hessian."""
        outputs, n = w.shape
        found = np.zeros((outputs, n, outputs, n))
        for x, diagonal, vector in self._curvatures(w):
            for k in range(outputs):
                for m in range(k + 1):
                    factors = diagonal[:, k] * float(k == m) - vector[1][:, k] * vector[0][:, m]
                    found[k, :, m, :] += (x * factors[:, None]).T @ x
        return found.reshape(w.size, w.size)

    def partial_traces(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Hessian's partial traces."""
        outputs, n = w.shape
        between, among = np.zeros((outputs, outputs)), np.zeros((n, n))
        for x, diagonal, (vector, weighted) in self._curvatures(w):
            squares = np.einsum("ij,ij->i", x, x)
            between += np.diag(squares @ diagonal) - (weighted * squares[:, None]).T @ vector
            spread = diagonal.sum(axis=1) - np.einsum("ik,ik->i", weighted, vector)
            among += (x * spread[:, None]).T @ x
        return between, among

    def sample(self, count: int) -> LocalSums:
        """Return the sums over about ``count`` evenly spaced records."""
        return LocalSums(self.rows.sample(count), self.loss, self.row_bound)

    def _over_blocks(self, part: Callable[[Block], FloatArray], size: int) -> FloatArray:
        """Return the sum of pairs over all blocks, in their order, whatever the number of threads."""
        if len(self.rows) * size < _MANY_ELEMENTS:
            return sum_pairs(map(part, self.rows.blocks()))
        from dpmarket.learning import kernels  # takes 100 MB, and small sets of records do without

        count = kernels.thread_count()
        if count == 1:
            return sum_pairs(map(part, self.rows.blocks()))
        with ThreadPoolExecutor(count) as pool:
            return sum_pairs(pool.map(lambda start: part(self.rows.block(start)), self.rows.starts))

    def _outputs(self, block: Block, w: FloatArray) -> FloatArray:
        found = (w[:, : block.x.shape[1]] @ block.x.T).T
        if block.scales.size:
            found *= block.scales[:, None]
        if self.rows.constant is not None:
            found += w[:, -1] * self.rows.constant
        return np.asarray(found)

    def _sum(self, block: Block, factors: FloatArray) -> FloatArray:
        """Return ``sum weight * factor * row`` over a block as pairs, shape (2, outputs, n)."""
        factors = factors * block.weights[:, None]
        found = np.zeros((2, factors.shape[1], self.rows.n_coefficients))
        if self.rows.constant is not None:
            found[0, :, -1] = factors.sum(axis=0) * self.rows.constant
        if block.scales.size:
            factors *= block.scales[:, None]
        found[0, :, : block.x.shape[1]] = factors.T @ block.x
        return found

    def _times_constant(self, coefficients: FloatArray) -> FloatArray:
        if self.rows.constant is None:
            return coefficients
        scaled = coefficients.copy()
        scaled[..., -1] *= self.rows.constant
        return scaled

    def _curvatures(
        self, w: FloatArray
    ) -> Iterator[tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]]:
        """Yield rows with their constant, the weighted d of second derivatives, and v plain and weighted."""
        for block in self.rows.blocks():
            x = block.x * block.scales[:, None] if block.scales.size else block.x
            if self.rows.constant is not None:
                x = np.column_stack([x, np.full(len(x), self.rows.constant)])
            weights = block.weights[:, None]
            diagonal, vector = self.loss.curvatures(x @ w.T, block.labels)
            yield x, weights * diagonal, (vector, weights * vector)


def largest_noise(outputs: int, n_coefficients: int, noise_rate: float) -> float:
    """Return a norm of the noise of all outputs together that is exceeded practically never."""
    return math.sqrt(outputs) * 20.0 * (n_coefficients + 50.0) / noise_rate
