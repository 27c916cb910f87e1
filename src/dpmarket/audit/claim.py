r"""What a fitted model claims about its training, and everybody's privacy loss that follows from it.

Losses are recomputed by other code with 40 digits (mpmath): formula (*) of :mod:`dpmarket.privacy.release`
and the cost of its grid, from nothing but the constants of :meth:`~dpmarket.privacy.release.Release.to_dict`;
the maximum over t is found by halving the interval in which the concave bracket stops rising. For a noisy
descent, the epsilon at which a Gaussian mechanism of distance :math:`\mu` has the stated delta
(:mod:`dpmarket.privacy.descent`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import lazy_loader  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.audit.findings import PrivacyFindings
from dpmarket.errors import InvalidInput
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.grid import ReleasePlan
from dpmarket.privacy.release import Release

mpmath = lazy_loader.load("mpmath")  # audits compute with it; a worker that reads a model does not

_DIGITS = 40
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Claim:
    """A release, everybody's weight in it, and how it was rounded. Stated, not checked: audits do that.

    Parameters
    ----------
    release, loss_weights
        The description of the release; and the weight of each person, shape (people,): shares, or whole
        numbers for a descent.
    noise_rate
        The rate of the noise; not used for a descent.
    plan, weight_total
        How the model was rounded, and the sum of weights that this was planned with. None: not rounded.

    Examples
    --------
    >>> from dpmarket.privacy import NoiseNorm, logistic_loss
    >>> release = Release(logistic_loss(), NoiseNorm.euclidean(2), l2=0.3)
    >>> Claim(release, *release.weights([0.5, 1.0, 2.5])).delta
    0.0
    """

    release: Release | Descent
    loss_weights: FloatArray
    noise_rate: float = 1.0
    plan: ReleasePlan | None = None
    weight_total: float | None = None

    def __post_init__(self) -> None:
        weights = checks.non_negative_vector("loss_weights", self.loss_weights)
        object.__setattr__(self, "loss_weights", read_only(weights.copy()))
        checks.positive("noise_rate", self.noise_rate)
        if self.plan is not None:
            checks.positive("grid", self.plan.grid)

    @classmethod
    def of(cls, description: Mapping[str, Any], loss_weights: ArrayLike) -> Claim:
        """Return the claim of a model, from its ``description_`` and ``loss_weights_``."""
        try:
            shares = np.asarray(loss_weights, dtype=np.float64)
            if "coefficients" in description:
                whole = np.rint(shares * description["weight_total"])
                return cls(Descent.from_dict(description["release"]), whole)
            names = ("grid", "gradient_bound", "noise_accuracy", "numerical_epsilon")
            plan = ReleasePlan(*(float(description[name]) for name in names))
            rate, total = float(description["noise_rate"]), float(description["weight_total"])
            return cls(Release.from_dict(description["release"]), shares, rate, plan, total)
        except (KeyError, TypeError, ValueError):
            raise InvalidInput("expected the description of a release, as estimators give it.") from None

    @property
    def delta(self) -> float:
        """The delta of every guarantee; 0.0 without one."""
        return self.release.delta if isinstance(self.release, Descent) else 0.0

    @property
    def stated(self) -> tuple[object, ...]:
        """Everything that is claimed, as a value to compare: no record may change it."""
        return (self.release, self.loss_weights.tobytes(), self.noise_rate, self.plan, self.weight_total)


def audit_spending(claim: Claim, epsilons: object) -> PrivacyFindings:
    """Recompute everybody's privacy loss, and compare it with everybody's budget.

    Parameters
    ----------
    claim, epsilons
        The weights and the public constants of the training, :meth:`Claim.of` a model; and the privacy budget
        of each person, shape (people,).

    Returns
    -------
    PrivacyFindings
        ``found`` is the loss, rounded up to floats: with a delta, the epsilon at that delta. It fails if any
        loss exceeds its budget by anything.

    Examples
    --------
    >>> from dpmarket.privacy import NoiseNorm, Release, logistic_loss
    >>> release = Release(logistic_loss(), NoiseNorm.euclidean(2), l2=0.3)
    >>> claim = Claim(release, *release.weights([0.5, 1.0, 2.5]))
    >>> audit_spending(claim, [0.5, 1.0, 2.5]).passed, audit_spending(claim, [0.5, 1.0, 2.4]).passed
    (True, False)
    """
    if not isinstance(claim, Claim):
        raise InvalidInput(f"expected a Claim, got {type(claim).__name__}.")
    budgets = checks.non_negative_vector("epsilons", epsilons)
    checks.same_length("epsilons", budgets, "claim.loss_weights", claim.loss_weights)
    distinct, places = np.unique(claim.loss_weights, return_inverse=True)
    with mpmath.workdps(_DIGITS):
        grid = _grid_cost(claim)
        losses = [_loss(mpmath.mpf(weight), claim) + grid if weight else mpmath.mpf(0) for weight in distinct]
        broken = sum(bool(losses[k] > mpmath.mpf(e)) for k, e in zip(places, budgets.tolist(), strict=True))
        found = np.array([_rounded_up(loss) for loss in losses])[places]
        details = {"noise_rate": claim.noise_rate, "delta": claim.delta, "grid_cost": _rounded_up(grid)}
    return PrivacyFindings("spending", np.arange(budgets.size), budgets.copy(), found, broken, 0.0, details)


def _loss(weight: Any, claim: Claim) -> Any:
    if isinstance(claim.release, Descent):
        return _gaussian_epsilon(weight, claim.release.to_dict())
    data = claim.release.to_dict()
    constants = data["constants"]
    alpha = weight * mpmath.mpf(claim.noise_rate) * constants["reach"] * constants["row_bound"] / 2
    c = weight * mpmath.mpf(constants["row_bound_2"]) ** 2 / mpmath.mpf(data["l2"])
    return alpha + min(_largest_bracket(alpha, c, terms) for terms in constants["bounds"])


def _largest_bracket(alpha: Any, c: Any, terms: Any) -> Any:
    """Return the maximum of ``alpha t + sum m log(1 + c g(t))`` over t in [0, 1]."""

    def value(t: Any) -> Any:
        logs = (m * mpmath.log1p(c * (p * (1 - t) + q * t + v * t * (1 - t))) for m, p, q, v in terms)
        return alpha * t + mpmath.fsum(logs)

    def rises(t: Any) -> bool:
        slopes = (
            m * c * (q - p + v * (1 - 2 * t)) / (1 + c * (p * (1 - t) + q * t + v * t * (1 - t)))
            for m, p, q, v in terms
        )
        return bool(alpha + mpmath.fsum(slopes) > 0)

    return value(mpmath.mpf(1) if rises(mpmath.mpf(1)) else _halved(mpmath.mpf(0), mpmath.mpf(1), rises)[0])


def _gaussian_epsilon(weight: Any, stated: dict[str, Any]) -> Any:
    """Return the epsilon at the descent's delta, from above by less than 1e-17 of it."""
    mu = 2 * weight * stated["cells"] * mpmath.sqrt(stated["steps"]) / mpmath.mpf(stated["noise_scale"])
    delta, root = mpmath.mpf(stated["delta"]), mpmath.sqrt(2)

    def above(epsilon: Any) -> bool:
        x = epsilon / mu - mu / 2
        tail = mpmath.erfc(x / root) / 2 - mpmath.exp(epsilon) * mpmath.erfc((x + mu) / root) / 2
        return bool(tail > delta)

    low, high = mpmath.mpf(0), mpmath.mpf(1)
    if not above(low):
        return low
    while above(high):
        low, high = high, 2 * high
    return _halved(low, high, above)[1]


def _halved(low: Any, high: Any, below: Callable[[Any], bool]) -> tuple[Any, Any]:
    """Narrow an interval around the point where ``below`` turns false."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


def _grid_cost(claim: Claim) -> Any:
    """Return what releasing on the grid costs everybody with a weight."""
    if claim.plan is None or isinstance(claim.release, Descent):
        return mpmath.mpf(0)
    data = claim.release.to_dict()
    constants = data["constants"]
    own = mpmath.fsum(mpmath.mpf(value) for value in claim.loss_weights.tolist())
    total = own if claim.weight_total is None else max(own, mpmath.mpf(claim.weight_total))
    l2, grid = mpmath.mpf(data["l2"]), mpmath.mpf(claim.plan.grid)
    rho = (mpmath.mpf(claim.plan.gradient_bound) + mpmath.mpf(claim.plan.noise_accuracy)) / l2
    if 2 * rho >= grid:
        return mpmath.inf
    n, outputs, row = constants["coefficients"], constants["outputs"], mpmath.mpf(constants["row_bound_2"])
    noise = outputs * l2 * constants["ones"]
    noise += total * constants["curvature_1"] * mpmath.mpf(constants["row_bound"]) * constants["largest_sum"]
    bend = min(
        constants["relative_third"] * n * constants["rank"] * row, constants["third"] * total * row**3 / l2
    )
    slope = mpmath.mpf(claim.noise_rate) / 2 * noise + mpmath.sqrt(n) * bend
    return outputs * n * mpmath.log((grid + 2 * rho) / (grid - 2 * rho)) + 2 * rho * slope


def _rounded_up(value: Any) -> float:
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if math.isfinite(nearest) and value > nearest else nearest
