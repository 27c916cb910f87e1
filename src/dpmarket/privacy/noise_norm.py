r"""The norm of the noise, and how long rows are in it.

The noise of one row of coefficients has a density proportional to :math:`e^{-\eta N(b) / 2}`. The norm N is
Euclidean on the *joint* columns plus the absolute values of the others: radial noise of length
Gamma(m, 2 / eta) on m joint columns and an independent Laplace(2 / eta) on each of the others. With every
column joint it is the paper's. Rows of features have :math:`N(x) \le 1` and Euclidean norm at most E; a
constant column c (the intercept's) is part of the Euclidean block where all columns are joint, and otherwise
one more column of its own. So a row with its constant has

.. math:: N(x) \le R_1, \qquad |x|_2 \le R_2, \qquad |x|_1 \le X_1,

and with any norm the noise that leads to the same output moves by at most :math:`a\, S R_1 (t + 1)`, while
the determinant of the Hessian knows :math:`R_2` only (:mod:`dpmarket.privacy.release`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import Bits, radial_noise

_UP = 1.0 + 2.0**-50
_SMALLEST_CONSTANT, _LARGEST_CONSTANT = 2.0**-20, 2.0**20


@dataclass(frozen=True)
class NoiseNorm:
    """The norm ``|x_joint|_2 + |x_others|_1``, the length of rows in it, and the constant column.

    Parameters
    ----------
    separate
        For every feature whether its noise is independent of the others'. None separate: the Euclidean norm.
    euclidean_bound
        E: the largest Euclidean norm of a row of features, above 0, at most 1 (which always holds).
    constant
        The number in the constant column, a power of two; None without an intercept.

    Examples
    --------
    >>> norm = NoiseNorm([False, True, True], euclidean_bound=0.8, constant=0.5)
    >>> norm.n_coefficients, norm.joint, norm.row_bound, norm.power
    (4, 1, 1.5, 32.0)
    >>> NoiseNorm.euclidean(3).power
    48.0
    """

    separate: tuple[bool, ...]
    euclidean_bound: float = 1.0
    constant: float | None = None

    def __init__(
        self, separate: Iterable[bool], euclidean_bound: float = 1.0, constant: float | None = None
    ) -> None:
        mask = np.asarray(list(separate))
        if mask.ndim != 1 or mask.size == 0 or mask.dtype != np.bool_:
            raise InvalidInput("expected separate to be True or False for every feature.")
        bound = checks.positive("euclidean_bound", euclidean_bound)
        if not 1e-6 <= bound <= 1.0:
            raise InvalidInput(f"expected euclidean_bound between 1e-6 and 1, got {bound!r}.")
        object.__setattr__(self, "separate", tuple(bool(value) for value in mask))
        object.__setattr__(self, "euclidean_bound", bound)
        object.__setattr__(self, "constant", None if constant is None else checked_constant(constant))

    @classmethod
    def euclidean(cls, n_features: int, constant: float | None = None) -> NoiseNorm:
        """Return the Euclidean norm of this many features: the paper's noise."""
        return cls([False] * checks.whole("n_features", n_features, minimum=1), 1.0, constant)

    @property
    def is_euclidean(self) -> bool:
        """Whether all columns are joint."""
        return not any(self.separate)

    @property
    def mask(self) -> BoolArray:
        """``separate`` as an array."""
        return np.array(self.separate, dtype=np.bool_)

    @property
    def n_coefficients(self) -> int:
        """n: coefficients of one output, the constant's included."""
        return len(self.separate) + (self.constant is not None)

    @property
    def joint(self) -> int:
        """m: how many coefficients have radial noise together."""
        if self.is_euclidean:
            return self.n_coefficients
        return len(self.separate) - sum(self.separate)

    @property
    def row_bound(self) -> float:
        """R1: no row with its constant is longer in the norm."""
        if self.constant is None:
            return 1.0
        if self.is_euclidean:
            return math.nextafter(math.sqrt(1.0 + self.constant**2), math.inf)
        return 1.0 + self.constant  # powers of two from 2^-20 to 2^20: exact

    @property
    def row_bound_2(self) -> float:
        """R2: no row with its constant is longer in the Euclidean norm."""
        if self.is_euclidean:
            return self.row_bound
        c = self.constant or 0.0
        bound = math.nextafter(math.hypot(self.euclidean_bound, c) * _UP, math.inf)
        return min(bound, self.row_bound)  # a row is longest in N

    @property
    def largest_sum(self) -> float:
        """X1: the largest sum of absolute values of a row with its constant."""
        by_length = math.sqrt(self.n_coefficients) * self.row_bound_2
        if not self.is_euclidean:
            by_length = min(by_length, math.sqrt(max(self.joint, 1)) * self.row_bound)
        return by_length * _UP

    @property
    def ones(self) -> float:
        """N of the vector of ones."""
        return (math.sqrt(self.joint) + (self.n_coefficients - self.joint)) * _UP

    @property
    def power(self) -> float:
        r"""B in :math:`E|b|^2 = B / \eta^2`: ``4 m (m + 1) + 8 (n - m)``."""
        m = self.joint
        return 4.0 * m * (m + 1.0) + 8.0 * (self.n_coefficients - m)

    @property
    def smallest_deviation(self) -> float:
        """Root mean square of the coefficient with the least noise, times the noise rate."""
        return 2.0 * math.sqrt(self.joint + 1.0) if self.is_euclidean else 2.0 * math.sqrt(2.0)

    def lengths(self, rows: FloatArray) -> FloatArray:
        """Return N of each row of features, shape (rows,), each from that row alone."""
        squares, sums = np.zeros(len(rows)), np.zeros(len(rows))
        for column, separate in zip(rows.T, self.separate, strict=True):
            if separate:
                sums += np.abs(column)
            else:
                squares += column * column
        return np.asarray(np.sqrt(squares) + sums)

    def draw(
        self, stream: Bits, outputs: int, noise_rate: float, accuracy: float
    ) -> tuple[FloatArray, FloatArray]:
        """Draw exact noise, within ``accuracy`` of an ideal sample: the sum of two arrays (outputs, n)."""
        n = self.n_coefficients
        alone = 0 if self.is_euclidean else n - self.joint
        parts = radial_noise(stream, n, noise_rate, accuracy, alone, outputs).high_low()
        # Drawn are the joint columns first, then the others, the constant's last.
        order = np.argsort(
            np.append(self.mask, [not self.is_euclidean] * (n - self.mask.size)), kind="stable"
        )
        high, low = (np.empty((outputs, n)) for _ in parts)
        high[:, order], low[:, order] = (part.reshape(outputs, n) for part in parts)
        return high, low

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {**asdict(self), "separate": list(self.separate)}

    @classmethod
    def from_dict(cls, data: Any) -> NoiseNorm:
        """Return the norm that :meth:`to_dict` described; refuse anything else."""
        if not isinstance(data, dict) or set(data) != {"separate", "euclidean_bound", "constant"}:
            raise InvalidInput("expected a noise norm: separate, euclidean_bound and constant.")
        if not isinstance(data["separate"], list):
            raise InvalidInput("expected separate to be a list of true and false.")
        return cls(data["separate"], data["euclidean_bound"], data["constant"])


def checked_constant(value: object) -> float:
    """Return the number in the constant column, a power of two from 2^-20 to 2^20."""
    constant = checks.positive("intercept_scaling", value)
    if math.frexp(constant)[0] != 0.5 or not _SMALLEST_CONSTANT <= constant <= _LARGEST_CONSTANT:
        raise InvalidInput(
            f"expected intercept_scaling to be a power of two from 2^-20 to 2^20, got {constant!r}."
        )
    return constant


def suggested_constant(separate: Iterable[bool], euclidean_bound: float = 1.0) -> float:
    """Return a constant about as large as an entry of a usual row, half of it where columns are separate.

    The power of two nearest to ``1 / sqrt(features)`` for the Euclidean norm; ``E**2 / 2`` for others.
    """
    mask = list(separate)
    if any(mask):
        return float(2.0 ** round(2.0 * math.log2(euclidean_bound) - 1.0))
    return float(2.0 ** -math.ceil(math.log2(len(mask)) / 2.0 - 0.5))
