r"""Turn a person's weight into the data and the output on which the exact mechanism leaks most.

The search knows nothing of formula (*): it maximises the exact log density ratio
(:mod:`dpmarket.privacy.exact_density`) over the output, the person's rows, the rows that replace them, and
other people's rows, first on a grid, then by local refinement from the best points; no randomness.
Coordinates suited to the problem: w points along the first axis with length W, and a row is given by its
margin ``w . u`` and by the share of its norm bound that it spends across w.

Why two dimensions are enough to be tight: a long w leaves room for rows that are almost orthogonal to it,
almost opposite to each other, and yet have any margins one likes. For n = 1 that is impossible, and the loss
stays well below (*).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.exact_density import trusted_log_density

_MARGINS = (-12.0, -3.0, 0.0, 3.0)
_LENGTHS = tuple(np.geomspace(0.3, 3e5, 13).tolist())
_STARTS = 3
_minimize: Any = minimize  # its type information does not cover the options of Nelder-Mead


@dataclass(frozen=True)
class Effort:
    """When a climb ends: after so many restarts, of so many evaluations each, or once it gains too little."""

    starts: int
    evaluations: int
    gain: float
    spread: float


_EFFORT = Effort(starts=6, evaluations=400, gain=1e-4, spread=1e-9)


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Two neighbouring data sets, an output, and the log density ratio there.

    Attributes
    ----------
    log_ratio
        ``log g(w | own) - log g(w | replaced)`` (epsilon).
    output
        w, shape (n,).
    own_rows, replaced_rows
        The person's signed rows in the two data sets, shape (rows, n).
    own_weights
        Their weights.
    other_rows, other_weights
        Everybody else's signed rows, shape (groups, n): people in one group hold the same record.
    """

    log_ratio: float
    output: FloatArray
    own_rows: FloatArray
    replaced_rows: FloatArray
    own_weights: FloatArray
    other_rows: FloatArray
    other_weights: FloatArray


@dataclass(frozen=True, eq=False)
class _Setting:
    own_weights: FloatArray
    other_weights: FloatArray
    noise_rate: float
    l2: float
    row_bound: float
    n: int

    @property
    def rows(self) -> int:
        return 2 * self.own_weights.size + self.other_weights.size


def find_worst_case(
    loss_weights: ArrayLike,
    person: int,
    noise_rate: float,
    l2: float,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    *,
    n_features: int = 2,
) -> WorstCase:
    """Search for the largest log density ratio that replacing one person's record can cause.

    Parameters
    ----------
    loss_weights
        Everybody's weight, shape (people,), at least 0.
    person
        Whose record is replaced: a position in ``loss_weights``.
    noise_rate
        The noise rate eta of the mechanism, > 0.
    l2
        The ridge penalty Lambda, > 0.
    row_bound
        R, the largest norm of a row.
    rows_per_person
        How many rows of equal weight the person has in both data sets.
    n_features
        1 or 2.

    Returns
    -------
    WorstCase
        The best configuration found, to be recomputed by whoever doubts it.

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
    >>> worst = find_worst_case([0.05, 0.95], person=0, noise_rate=20.0, l2=1e-4)
    >>> bound = privacy_loss([0.05, 0.95], noise_rate=20.0, l2=1e-4)[0]
    >>> bool(0.99 * bound < worst.log_ratio <= bound)
    True
    """
    setting = _setting(
        loss_weights, person, noise_rate, l2, row_bound, rows_per_person, n_features=n_features
    )
    grid = _grid(setting)
    values = _log_ratios(grid, setting)
    starts = [grid[i] for i in _best_of_each_length(grid, values)]
    if setting.n == 2:
        starts.extend(_closed_form(setting, length) for length in _best_lengths(setting))
    best = max((_refined(start, setting) for start in starts), key=lambda found: found[0])
    return _described(best[1], setting)


def closed_form_case(
    loss_weights: ArrayLike,
    person: int,
    noise_rate: float,
    l2: float,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
) -> WorstCase:
    """Return the configuration (n = 2) that approaches formula (*) as ``l2`` falls, without refinement.

    w is long; the person's rows have the margin at which (*) attains its maximum and point across w; the
    replaced rows and everybody else's point the other way, with margins so negative that their s is almost
    1 and their curvature almost 0. Only the length of w is searched for: a fraction of
    :func:`find_worst_case`'s
    time, with its refusals and guarantees.

    Parameters
    ----------
    loss_weights, person, noise_rate, l2, row_bound, rows_per_person
        As in :func:`find_worst_case`.

    Returns
    -------
    WorstCase
        The configuration, to be recomputed by whoever doubts it.

    Examples
    --------
    >>> from dpmarket.privacy.accounting import privacy_loss
    >>> found = closed_form_case([0.05, 0.95], person=0, noise_rate=20.0, l2=1e-4)
    >>> bound = privacy_loss([0.05, 0.95], noise_rate=20.0, l2=1e-4)[0]
    >>> bool(0.95 * bound < found.log_ratio <= bound)
    True
    """
    setting = _setting(loss_weights, person, noise_rate, l2, row_bound, rows_per_person, n_features=2)
    return _described(_closed_form(setting, _best_lengths(setting)[0]), setting)


def _setting(
    loss_weights: ArrayLike,
    person: int,
    noise_rate: float,
    l2: float,
    row_bound: float,
    rows_per_person: int,
    *,
    n_features: int,
) -> _Setting:
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    who = checks.whole("person", person)
    rows = checks.whole("rows_per_person", rows_per_person, minimum=1)
    n = checks.whole("n_features", n_features, minimum=1)
    if who >= weights.size or n > 2 or weights.size < 2:
        raise InvalidInput(
            f"expected at least two people, person below their number and n_features 1 or 2, got "
            f"{weights.size} people, person = {who}, n_features = {n}."
        )
    others = np.delete(weights, who)
    # Two groups of people who hold the same record: enough to place the noise and to add curvature.
    groups = np.array([others[0::2].sum(), others[1::2].sum()])[: others.size]
    return _Setting(
        np.full(rows, weights[who] / rows),
        groups,
        checks.positive("noise_rate", noise_rate),
        checks.positive("l2", l2),
        checks.positive("row_bound", row_bound),
        n,
    )


def _split(points: FloatArray, setting: _Setting) -> tuple[FloatArray, FloatArray]:
    """Turn coordinates, shape (..., 1 + 2 rows), into outputs (..., n) and rows (..., rows, n)."""
    length = np.exp(np.clip(points[..., 0], -20.0, 40.0))
    margins = points[..., 1 : 1 + setting.rows]
    shares = np.clip(points[..., 1 + setting.rows :], -1.0, 1.0)
    bound = setting.row_bound * (1.0 - 1e-15)
    along = np.clip(margins / length[..., None], -bound, bound)
    if setting.n == 1:
        return length[..., None], along[..., None]
    across = shares * np.sqrt((bound - along) * (bound + along))
    output = np.stack([length, np.zeros_like(length)], axis=-1)
    return output, np.stack([along, across], axis=-1)


def _log_ratios(points: FloatArray, setting: _Setting) -> FloatArray:
    output, rows = _split(points, setting)
    own = setting.own_weights.size
    weights = np.concatenate([setting.own_weights, setting.other_weights])
    first = np.concatenate([rows[..., :own, :], rows[..., 2 * own :, :]], axis=-2)
    second = rows[..., own:, :]
    eta, l2 = setting.noise_rate, setting.l2
    return trusted_log_density(output, first, weights, eta, l2) - trusted_log_density(
        output, second, weights, eta, l2
    )


def _grid(setting: _Setting) -> FloatArray:
    """Return starting points: one margin and side per role (own, replaced, others), for every length."""
    margins = np.array(_MARGINS) if setting.n == 2 else np.array([-300.0, -12.0, -1.0, 0.0, 1.0, 12.0, 300.0])
    sides = (-1.0, 0.0, 1.0) if setting.n == 2 else (0.0,)
    own = setting.own_weights.size
    roles = np.repeat([0, 1, 2], [own, own, setting.other_weights.size])
    axes = np.meshgrid(np.log(_LENGTHS), *[margins] * 3, *[sides] * 3, indexing="ij")
    flat = np.stack([axis.ravel() for axis in axes], axis=-1)
    grid = np.concatenate([flat[:, :1], flat[:, 1:4][:, roles], flat[:, 4:][:, roles]], axis=1)
    if own == 1:
        return grid
    # Rows of one person add most curvature when they are orthogonal: every second one along w.
    orthogonal = grid.copy()
    orthogonal[:, 2 : 1 + own : 2] = 1e6
    return np.concatenate([grid, orthogonal])


def _best_of_each_length(grid: FloatArray, values: FloatArray) -> list[int]:
    """Return the best grid points, at most one for each length of w."""
    chosen: list[int] = []
    for i in np.argsort(-values, kind="stable"):
        if all(grid[i, 0] != grid[j, 0] for j in chosen):
            chosen.append(int(i))
        if len(chosen) == _STARTS:
            break
    return chosen


def _closed_form(setting: _Setting, length: float) -> FloatArray:
    """Return the coordinates of the configuration described in :func:`closed_form_case`."""
    own = setting.own_weights.size
    bound = setting.row_bound
    c = 0.5 * float(setting.own_weights[0]) * setting.noise_rate * bound
    beta = 0.5 * setting.noise_rate * setting.l2 / bound
    t = max(2.0 * (1.0 - beta) / (c + 2.0 + math.sqrt(c * c + 4.0 + 4.0 * c * beta)), 1e-5)
    # s = 1 - t = 1 / (1 + exp(margin)); far means a curvature well below the penalty's.
    far = -max(12.0, math.log(1e3 * bound * bound / setting.l2))
    margins = np.repeat([math.log(t) - math.log1p(-t), far, far], [own, own, setting.other_weights.size])
    sides = np.repeat([1.0, -1.0, -1.0], [own, own, setting.other_weights.size])
    return np.concatenate([[math.log(length)], margins, sides])


def _best_lengths(setting: _Setting) -> list[float]:
    lengths = np.geomspace(1.0, 1e8, 161)
    points = np.stack([_closed_form(setting, float(length)) for length in lengths])
    values = _log_ratios(points, setting)
    return [float(lengths[int(values.argmax())])]


def _refined(start: FloatArray, setting: _Setting) -> tuple[float, FloatArray]:
    inside = 1 + setting.rows

    def simplex_at(point: FloatArray) -> FloatArray:
        simplex = np.vstack([point, point + np.diag(np.where(np.arange(point.size) == 0, 0.5, 0.7))])
        simplex[1 + inside :, inside:] = point[inside:] - np.diag(np.sign(point[inside:]) * 0.2 + 1e-3)
        return simplex

    return climbed(lambda point: float(_log_ratios(point, setting)), start, simplex_at, _EFFORT)


def climbed(
    log_ratio: Callable[[FloatArray], float],
    start: FloatArray,
    simplex_at: Callable[[FloatArray], FloatArray],
    effort: Effort,
) -> tuple[float, FloatArray]:
    """Climb from ``start``; the simplex is restarted until it no longer gains."""
    point, value = start, log_ratio(start)
    for _ in range(effort.starts):
        found = _minimize(
            lambda p: -log_ratio(p),
            point,
            method="Nelder-Mead",
            options={
                "maxfev": effort.evaluations,
                "adaptive": True,
                "initial_simplex": simplex_at(point),
                "fatol": effort.spread,
            },
        )
        gained = -float(found.fun) - value
        if gained > 0.0:
            value, point = -float(found.fun), found.x
        if gained <= effort.gain * abs(value):
            break
    return value, point


def _described(point: FloatArray, setting: _Setting) -> WorstCase:
    output, rows = _split(point, setting)
    own = setting.own_weights.size
    return WorstCase(
        log_ratio=float(_log_ratios(point, setting)),
        output=read_only(output),
        own_rows=read_only(rows[:own].copy()),
        replaced_rows=read_only(rows[own : 2 * own].copy()),
        own_weights=setting.own_weights,
        other_rows=read_only(rows[2 * own :].copy()),
        other_weights=setting.other_weights,
    )
