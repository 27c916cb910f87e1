r"""Turn a person's weight into the data and the output on which noise of another shape leaks most.

As :mod:`dpmarket.privacy.worst_case` does for Euclidean noise: the search maximises the exact log density
ratio and knows no bound. All columns have independent noise, so that the noise needed for an output is
measured by the sum of absolute values. A person's r rows use separate columns: row j is
:math:`p \hat u_j + q e`, where :math:`\hat u_j` is a unit vector on as many columns as it takes for its sum
of absolute values to be :math:`\kappa = R_1 / R_2`, and e is the column along which w points. Everybody
else's rows lie in the same directions, and then the density has a closed form: with the sums

.. math:: X = \sum_g w_g p_g^2, \quad Y = r \sum_g w_g q_g^2, \quad w_g = a_g s_g (1 - s_g) / r,

over the groups g of people, the determinant of the Hessian is, up to a power of the penalty,

.. math:: (\Lambda + X)^{r-1} \left( \Lambda^2 + \Lambda (X + Y)
          + r \sum_{g<h} w_g w_h (p_g q_h - p_h q_g)^2 \right),

and the noise has the length :math:`r \kappa |\sum_g a_g s_g p_g / r| + |\sum_g a_g s_g q_g - \Lambda W|`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.worst_case import Effort, WorstCase, climbed

_MARGINS = (-25.0, -12.0, -3.0, 0.0, 3.0)
_SIDES = (-1.0, 0.0, 1.0)
_LENGTHS = tuple(np.geomspace(0.3, 3e6, 15).tolist())
_STARTS = 5
_LONGEST = 20.0  # the logarithm: a longer w gains nothing, and could not be recomputed in floats
_EFFORT = Effort(starts=8, evaluations=500, gain=1e-5, spread=1e-10)


@dataclass(frozen=True)
class _Setting:
    own: float
    others: float
    noise_rate: float
    l2: float
    row_bound: float
    euclidean_bound: float
    rows: int

    @property
    def kappa(self) -> float:
        return self.row_bound / self.euclidean_bound


def find_shaped_worst_case(
    loss_weights: ArrayLike,
    person: int,
    noise_rate: float,
    l2: float,
    row_bound: float,
    euclidean_bound: float,
    *,
    rows_per_person: int = 1,
) -> WorstCase:
    """Search for the largest log density ratio under independent noise for every column.

    Parameters
    ----------
    loss_weights
        Everybody's weight, shape (people,), at least 0, of at least two people.
    person
        Whose record is replaced: a position in ``loss_weights``.
    noise_rate
        The noise rate eta of the mechanism, > 0.
    l2
        The ridge penalty Lambda, > 0.
    row_bound
        R1, the largest sum of absolute values of a row.
    euclidean_bound
        R2, the largest Euclidean norm of a row, at most R1.
    rows_per_person
        How many rows of equal weight everybody has.

    Returns
    -------
    WorstCase
        The best configuration found, in as many columns as it needs, to be recomputed by whoever doubts it.

    Raises
    ------
    InvalidInput
        For values outside these ranges.

    Notes
    -----
    Guaranteed: The value is attained: it is the exact ratio of a valid pair of neighbours at a valid output,
    and hence a lower bound on the true supremum. Deterministic. That nothing larger exists is not guaranteed.

    Examples
    --------
    >>> from dpmarket.privacy.accounting import privacy_loss
    >>> worst = find_shaped_worst_case([0.05, 0.95], 0, 20.0, 1e-4, row_bound=1.0, euclidean_bound=0.4)
    >>> bound = privacy_loss([0.05], 20.0, 1e-4, 1.0, euclidean_bound=0.4)[0]
    >>> bool(0.97 * bound < worst.log_ratio <= bound)
    True
    """
    setting = _setting(
        loss_weights, person, noise_rate, l2, row_bound, euclidean_bound, rows_per_person=rows_per_person
    )
    grid = _grid()
    values = _log_ratios(grid, setting)
    starts = grid[np.argsort(-values, kind="stable")[:_STARTS]]
    best = max((_refined(start, setting) for start in starts), key=lambda found: found[0])
    return _described(best[1], setting)


def _setting(
    loss_weights: ArrayLike,
    person: int,
    noise_rate: float,
    l2: float,
    row_bound: float,
    euclidean_bound: float,
    *,
    rows_per_person: int,
) -> _Setting:
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    who = checks.whole("person", person)
    if who >= weights.size or weights.size < 2:
        raise InvalidInput(
            f"expected at least two people and person below their number, got {weights.size} and {who}."
        )
    first = checks.positive("row_bound", row_bound)
    second = checks.positive("euclidean_bound", euclidean_bound)
    if second > first:
        raise InvalidInput(f"expected euclidean_bound at most row_bound = {first!r}, got {second!r}.")
    return _Setting(
        float(weights[who]),
        float(np.delete(weights, who).sum()),
        checks.positive("noise_rate", noise_rate),
        checks.positive("l2", l2),
        first,
        second,
        checks.whole("rows_per_person", rows_per_person, minimum=1),
    )


def _grid() -> FloatArray:
    """Return starting points: length of w, then a margin and a side for own, replaced and others' rows."""
    axes = np.meshgrid(np.log(_LENGTHS), *[_MARGINS] * 3, *[_SIDES] * 3, indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=-1)


def _split(points: FloatArray, setting: _Setting) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Turn coordinates into the length of w and, for each of three roles, p and q within both bounds."""
    length = np.exp(np.clip(points[..., 0], -20.0, _LONGEST))
    first, second = (bound * (1.0 - 1e-14) for bound in (setting.row_bound, setting.euclidean_bound))
    q = np.clip(points[..., 1:4] / length[..., None], -second, second)
    room = np.minimum((first - np.abs(q)) / setting.kappa, np.sqrt((second - q) * (second + q)))
    return length, np.clip(points[..., 4:], -1.0, 1.0) * room, q


def _log_ratios(points: FloatArray, setting: _Setting) -> FloatArray:
    length, p, q = _split(points, setting)
    curved, noise, along = zip(
        *(_parts(length, p[..., roles], q[..., roles], setting) for roles in ([0, 2], [1, 2])), strict=True
    )
    # |along - l2 W| of both data sets: a long w would drown their difference.
    first, second = (value - setting.l2 * length for value in along)
    same = first * second > 0.0
    moved = np.where(same, np.sign(first) * (along[0] - along[1]), np.abs(first) - np.abs(second))
    return np.asarray(curved[0] - curved[1] - 0.5 * setting.noise_rate * (noise[0] - noise[1] + moved))


def _parts(
    length: FloatArray, p: FloatArray, q: FloatArray, setting: _Setting
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the log determinant, the noise across w, and what rows add to it along w.

    The last axis has the person and the others.
    """
    r, l2 = setting.rows, setting.l2
    margins = length[..., None] * q
    pulled = np.array([setting.own, setting.others]) * expit(-margins)
    bent = pulled * expit(margins) / r
    x, y = (bent * p * p).sum(axis=-1), r * (bent * q * q).sum(axis=-1)
    crossed = p[..., 0] * q[..., 1] - p[..., 1] * q[..., 0]
    inner = l2 * l2 + l2 * (x + y) + r * bent[..., 0] * bent[..., 1] * crossed**2
    curved = (r - 1) * np.log(l2 + x) + np.log(inner)
    return curved, setting.kappa * np.abs((pulled * p).sum(axis=-1)), (pulled * q).sum(axis=-1)


def _refined(start: FloatArray, setting: _Setting) -> tuple[float, FloatArray]:
    steps = np.diag([0.5, 0.7, 0.7, 0.7, -0.2, -0.2, -0.2])
    return climbed(
        lambda point: float(_log_ratios(point, setting)),
        start,
        lambda point: np.vstack([point, point + steps]),
        _EFFORT,
    )


def _described(point: FloatArray, setting: _Setting) -> WorstCase:
    """Return a configuration in columns: some for every row of a person, and one for w."""
    length, p, q = _split(point, setting)
    direction = _unit_vector(setting.kappa)
    r, width = setting.rows, direction.size
    rows = np.zeros((3, r, r * width + 1))
    for role in range(3):
        for j in range(r):
            rows[role, j, j * width : (j + 1) * width] = p[role] * direction
            rows[role, j, -1] = q[role]
    output = np.zeros(r * width + 1)
    output[-1] = length
    return WorstCase(
        log_ratio=float(_log_ratios(point, setting)),
        output=read_only(output),
        own_rows=read_only(rows[0]),
        replaced_rows=read_only(rows[1]),
        own_weights=read_only(np.full(r, setting.own / r)),
        other_rows=read_only(rows[2]),
        other_weights=read_only(np.full(r, setting.others / r)),
    )


def _unit_vector(kappa: float) -> FloatArray:
    """Return a vector of Euclidean norm 1 whose absolute values add up to ``kappa``, at least 1."""
    count = max(math.ceil(kappa * kappa - 1e-12), 1)
    if count == 1:
        return np.ones(1)
    # count - 1 entries t and one v: (count - 1) t + v = kappa, (count - 1) t^2 + v^2 = 1.
    root = math.sqrt(max(count - kappa * kappa, 0.0) / (count - 1))
    t = (kappa - root) / count
    return np.array([t] * (count - 1) + [kappa - (count - 1) * t])
