"""What a fitted model claims about its training, which its privacy losses follow from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.grid import ReleasePlan
from dpmarket.privacy.release import Release


@dataclass(frozen=True, eq=False)
class Claim:
    """A release, everybody's weight in it, and how it was rounded. Stated, not checked: audits do that.

    Parameters
    ----------
    release
        The description of the release.
    loss_weights
        Weight of each person, shape (people,): shares, or whole numbers for a descent.
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
        """Return the claim that a description (``description_`` of an estimator) and shares make.

        Raises
        ------
        InvalidInput
            The description is not one of a release.
        """
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


def claim_of(model: Any) -> Claim | None:
    """Return the claim of a fitted model: its ``description_`` and ``loss_weights_``.

    Parameters
    ----------
    model
        Anything, fitted.

    Returns
    -------
    Claim or None
        None for a model that states nothing.

    Raises
    ------
    InvalidInput
        These are not a description and weights.
    """
    if not hasattr(model, "description_") or not hasattr(model, "loss_weights_"):
        return None
    return Claim.of(model.description_, model.loss_weights_)
