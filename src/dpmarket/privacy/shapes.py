r"""Turn what is public about columns into the norm that shapes the noise.

Any norm N will do: with noise of density proportional to :math:`e^{-\eta N(b') / 2}`, rows with
:math:`N(x) \le R_1` and :math:`|x|_2 \le R_2`, the argument of :mod:`dpmarket.privacy.accounting` gives

.. math:: \epsilon_i = \frac{a_i \eta R_1}{2} + \max_{0 \le s \le 1} \left[ \frac{a_i \eta R_1 s}{2}
          + \log\left(1 + \frac{a_i R_2^2 s (1 - s)}{\Lambda}\right) \right],

because the noise that leads to the same output moves by at most :math:`a R_1 (s + s')` in the norm N, while
the Hessian's determinant knows the Euclidean norm only. Offered are the norms that can be sampled exactly and
suit tables: the Euclidean norm of some columns (numbers) plus the absolute values of the others (zeros and
ones of categories). The noise is then radial, of length Gamma(m, 2 / eta), on the m joint columns, and an
independent Laplace(2 / eta) on every other one: a variance of :math:`8 / \eta^2` per column instead of
:math:`4 (n + 1) / \eta^2`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray
from dpmarket.errors import InvalidInput

_SCHEMA = "dpmarket.noise-shape/1"


@dataclass(frozen=True)
class NoiseShape:
    """The norm ``N(x) = |x_joint|_2 + |x_separate|_1`` of a row of features, and how long rows are in it.

    Rows have ``N(x) <= 1`` and Euclidean norm at most ``euclidean_bound``. No separate column is the
    Euclidean norm, every column separate is the sum of absolute values.

    Parameters
    ----------
    separate
        For every feature whether its noise is independent of the others'.
    euclidean_bound
        The largest Euclidean norm of a row with ``N(x) <= 1`` that is declared possible, above 0, at most 1
        (which always holds). Smaller is cheaper: rows with k equal entries have ``1 / sqrt(k)``.

    Notes
    -----
    Guaranteed: a value; equal shapes describe the same noise.

    Examples
    --------
    >>> shape = NoiseShape([False, True, True], euclidean_bound=0.8)
    >>> shape.norm([0.3, 0.0, -0.5]), shape.joint_columns, shape.is_euclidean
    (0.8, 1, False)
    """

    separate: tuple[bool, ...]
    euclidean_bound: float = 1.0

    def __init__(self, separate: Iterable[bool], euclidean_bound: float = 1.0) -> None:
        mask = np.asarray(list(separate))
        if mask.ndim != 1 or mask.size == 0 or mask.dtype != np.bool_:
            raise InvalidInput("expected separate to be True or False for every feature.")
        bound = checks.positive("euclidean_bound", euclidean_bound)
        if not 1e-6 <= bound <= 1.0:
            raise InvalidInput(f"expected euclidean_bound between 1e-6 and 1, got {bound!r}.")
        object.__setattr__(self, "separate", tuple(bool(value) for value in mask))
        object.__setattr__(self, "euclidean_bound", bound)

    @property
    def n_features(self) -> int:
        """Number of features, the constant column not counted."""
        return len(self.separate)

    @property
    def joint_columns(self) -> int:
        """m: how many features have radial noise together."""
        return len(self.separate) - sum(self.separate)

    @property
    def is_euclidean(self) -> bool:
        """Whether no column is separate: the paper's noise."""
        return not any(self.separate)

    @property
    def mask(self) -> BoolArray:
        """``separate`` as an array."""
        return np.array(self.separate, dtype=np.bool_)

    def norm(self, row: Any) -> float:
        """Return N of one row of features, to rounding."""
        values = checks.finite_numbers("row", row)
        if values.shape != (self.n_features,):
            raise InvalidInput(f"expected {self.n_features} features, got shape {values.shape}.")
        mask = self.mask
        return float(np.linalg.norm(values[~mask]) + np.abs(values[mask]).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {
            "schema": _SCHEMA,
            "separate": list(self.separate),
            "euclidean_bound": self.euclidean_bound,
        }

    @classmethod
    def from_dict(cls, data: Any) -> NoiseShape:
        """Return the shape that :meth:`to_dict` described.

        Raises
        ------
        InvalidInput
            For anything else.
        """
        if not isinstance(data, dict) or data.get("schema") != _SCHEMA or set(data) != _KEYS:
            raise InvalidInput(f"expected a noise shape of the schema {_SCHEMA}.")
        separate = data["separate"]
        if not isinstance(separate, list):
            raise InvalidInput("expected separate to be a list of true and false.")
        return cls(separate, data["euclidean_bound"])


_KEYS = {"schema", "separate", "euclidean_bound"}


def noise_power(n_coefficients: int, joint_columns: int | None = None) -> float:
    r"""Return B in :math:`E|b'|^2 = B / \eta^2`: how much noise a shape has over all coefficients.

    Parameters
    ----------
    n_coefficients
        n, the constant's coefficient included.
    joint_columns
        m, how many of them have radial noise together; the others have independent noise. None means all.

    Returns
    -------
    float
        ``4 m (m + 1) + 8 (n - m)``.

    Examples
    --------
    >>> noise_power(109), noise_power(109, joint_columns=6)
    (47960.0, 992.0)
    """
    m = n_coefficients if joint_columns is None else joint_columns
    return 4.0 * m * (m + 1.0) + 8.0 * (n_coefficients - m)


def l2_against_noise(l2: float, row_bound: float, euclidean_bound: float | None) -> float:
    r"""Return the penalty at which Euclidean rows of the bound R1 would cost what shaped rows cost.

    Formula (*) of :mod:`dpmarket.privacy.accounting` with :math:`\Lambda R_1^2 / R_2^2` in the place of
    :math:`\Lambda` is the formula of this module; rounded down, so that losses come out higher. Exactly
    ``l2`` where there is no Euclidean bound of its own.
    """
    if euclidean_bound is None or euclidean_bound == row_bound:
        return l2
    ratio = row_bound / euclidean_bound
    return l2 * (ratio * ratio) * (1.0 - 2.0**-49)


def ones_norm(n_coefficients: int, joint_columns: int | None) -> float:
    """Return N of the vector of ones, rounded up: how much N a box of half-width 1 can hold."""
    m = n_coefficients if joint_columns is None else joint_columns
    return (math.sqrt(m) + (n_coefficients - m)) * (1.0 + 2.0**-50)


def largest_sum(n_coefficients: int, row_bound: float, euclidean: float, joint_columns: int | None) -> float:
    """Return the largest sum of absolute values that a row of these bounds can have, rounded up."""
    by_length = math.sqrt(n_coefficients) * euclidean
    if joint_columns is not None:
        by_length = min(by_length, math.sqrt(max(joint_columns, 1)) * row_bound)
    return by_length * (1.0 + 2.0**-50)
