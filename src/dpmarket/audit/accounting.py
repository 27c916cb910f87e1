r"""Everybody's spending, recomputed by other code with many digits (mpmath).

Formula (*) of :mod:`dpmarket.privacy.release` and the cost of its grid, from nothing but the constants of
:meth:`~dpmarket.privacy.release.Release.to_dict`; the maximum over t is found by halving the interval in
which the concave bracket stops rising. For a noisy descent, the epsilon at which a Gaussian mechanism of
distance :math:`\mu` has the stated delta (:mod:`dpmarket.privacy.descent`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.audit.books import Books
from dpmarket.audit.findings import PrivacyFindings
from dpmarket.errors import InvalidInput
from dpmarket.privacy.descent import Descent
from dpmarket.progress import Progress

_DIGITS = 40
_HALVINGS = 60


def audit_accounting(books: Books, promises: object, *, progress: Progress | None = None) -> PrivacyFindings:
    """Recompute what everybody spent, and compare it with everybody's privacy budget.

    Parameters
    ----------
    books
        The weights and the public constants of the training; :func:`~dpmarket.audit.books.books_of` reads
        them off a model.
    promises
        The budget of each person (epsilon), shape (people,).
    progress
        Called with the different weights done and all of them.

    Returns
    -------
    PrivacyFindings
        ``found`` is what was spent, rounded up to floats: with a delta, the epsilon at that delta. It fails
        if anybody's exceeds the budget by anything.

    Raises
    ------
    InvalidInput
        Budgets that are none, or not as many as weights.

    Examples
    --------
    >>> from dpmarket.privacy import NoiseNorm, Release, logistic_loss
    >>> release = Release(logistic_loss(), NoiseNorm.euclidean(2), l2=0.3)
    >>> books = Books(release, *release.weights([0.5, 1.0, 2.5]))
    >>> audit_accounting(books, [0.5, 1.0, 2.5]).passed, audit_accounting(books, [0.5, 1.0, 2.4]).passed
    (True, False)
    """
    if not isinstance(books, Books):
        raise InvalidInput(f"expected Books, got {type(books).__name__}.")
    promised = checks.non_negative_vector("promises", promises)
    checks.same_length("promises", promised, "books.loss_weights", books.loss_weights)
    with mpmath.workdps(_DIGITS):
        extra = mpmath.mpf(books.numerical_epsilon)
        if books.plan is not None:
            extra = _grid_cost(books)
        spent, broken = _spent(books, promised, extra, progress)
        shown = _rounded_up(extra)
    return PrivacyFindings(
        method="accounting",
        people=read_only(np.arange(promised.size)),
        promises=read_only(promised.copy()),
        found=read_only(spent),
        broken=broken,
        false_alarm=0.0,
        details={
            "weight_total": float(books.loss_weights.sum()),
            "noise_rate": books.noise_rate,
            "delta": books.delta,
            "release_cost": shown,
        },
    )


def _spent(
    books: Books, promised: FloatArray, extra: Any, progress: Progress | None
) -> tuple[FloatArray, int]:
    """Return everybody's spending, and how many spent more than their budget (compared with all digits)."""
    different, places = np.unique(books.loss_weights, return_inverse=True)
    losses = []
    for k, weight in enumerate(different.tolist()):
        losses.append(_loss(mpmath.mpf(weight), books, extra) if weight > 0.0 else mpmath.mpf(0))
        if progress is not None:
            progress(k + 1, different.size)
    broken = sum(
        bool(losses[place] > mpmath.mpf(promise))
        for place, promise in zip(places.tolist(), promised.tolist(), strict=True)
    )
    rounded = np.array([_rounded_up(loss) for loss in losses])
    return rounded[places], broken


def _loss(weight: Any, books: Books, extra: Any) -> Any:
    if isinstance(books.release, Descent):
        return _gaussian_epsilon(weight, books.release)
    data = books.release.to_dict()
    constants = data["constants"]
    alpha = weight * mpmath.mpf(books.noise_rate) * constants["reach"] * constants["row_bound"] / 2
    c = weight * mpmath.mpf(constants["row_bound_2"]) ** 2 / mpmath.mpf(data["l2"])
    return alpha + min(_largest_bracket(alpha, c, terms) for terms in constants["bounds"]) + extra


def _largest_bracket(alpha: Any, c: Any, terms: Any) -> Any:
    """Return the maximum of ``alpha t + sum m log(1 + c g(t))`` over t in [0, 1]."""

    def value(t: Any) -> Any:
        logs = (m * mpmath.log1p(c * (p * (1 - t) + q * t + v * t * (1 - t))) for m, p, q, v in terms)
        return alpha * t + mpmath.fsum(logs)

    def rising(t: Any) -> bool:
        slopes = (
            m * c * (q - p + v * (1 - 2 * t)) / (1 + c * (p * (1 - t) + q * t + v * t * (1 - t)))
            for m, p, q, v in terms
        )
        return bool(alpha + mpmath.fsum(slopes) > 0)

    return value(_where(rising))


def _where(rising: Callable[[Any], bool]) -> Any:
    """Return the end of the part of [0, 1] where a function rises."""
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    if rising(high):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) else (low, middle)
    return low


def _gaussian_epsilon(weight: Any, descent: Descent) -> Any:
    """Return the epsilon at the descent's delta, from above by less than 1e-17 of it."""
    stated: Mapping[str, Any] = descent.to_dict()
    mu = 2 * weight * stated["cells"] * mpmath.sqrt(stated["steps"]) / mpmath.mpf(stated["noise_scale"])
    delta, root = mpmath.mpf(stated["delta"]), mpmath.sqrt(2)

    def found(epsilon: Any) -> Any:
        x = epsilon / mu - mu / 2
        return mpmath.erfc(x / root) / 2 - mpmath.exp(epsilon) * mpmath.erfc((x + mu) / root) / 2

    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while found(high) > delta:
        low, high = high, 2 * high
    if found(low) <= delta:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) > delta else (low, middle)
    return high


def _grid_cost(books: Books) -> Any:
    """Return what releasing on the grid costs everybody with a weight."""
    assert books.plan is not None
    assert not isinstance(books.release, Descent)
    data = books.release.to_dict()
    constants = data["constants"]
    own = mpmath.fsum(mpmath.mpf(value) for value in books.loss_weights.tolist())
    total = own if books.weight_total is None else max(own, mpmath.mpf(books.weight_total))
    l2, grid = mpmath.mpf(data["l2"]), mpmath.mpf(books.plan.grid)
    rho = (mpmath.mpf(books.plan.gradient_bound) + mpmath.mpf(books.plan.noise_accuracy)) / l2
    if 2 * rho >= grid:
        return mpmath.inf
    n, outputs, longest = (
        constants["coefficients"],
        constants["outputs"],
        mpmath.mpf(constants["row_bound_2"]),
    )
    noise = outputs * l2 * constants["ones"]
    noise += total * constants["curvature_1"] * mpmath.mpf(constants["row_bound"]) * constants["largest_sum"]
    bend = min(
        constants["relative_third"] * n * constants["rank"] * longest,
        constants["third"] * total * longest**3 / l2,
    )
    slope = mpmath.mpf(books.noise_rate) / 2 * noise + mpmath.sqrt(n) * bend
    return outputs * n * mpmath.log((grid + 2 * rho) / (grid - 2 * rho)) + 2 * rho * slope


def _rounded_up(value: Any) -> float:
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if math.isfinite(nearest) and value > nearest else nearest
