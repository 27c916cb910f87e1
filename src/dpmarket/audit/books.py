"""Books of a fitted model: its weights, and the public constants that its privacy losses follow from."""

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
class Books:
    """What a model states about its training. Believed, not checked: audits do that.

    Parameters
    ----------
    release
        The description of the release.
    loss_weights
        Weight of each person, shape (people,): shares, or whole numbers for a descent.
    noise_rate
        The rate of the noise; not used for a descent.
    numerical_epsilon
        What releasing on a grid is said to cost everybody with a weight.
    plan, weight_total
        How a model was rounded, and the bound on the sum of weights that this was planned with; None charges
        ``numerical_epsilon`` as stated.
    """

    release: Release | Descent
    loss_weights: FloatArray
    noise_rate: float = 1.0
    numerical_epsilon: float = 0.0
    plan: ReleasePlan | None = None
    weight_total: float | None = None

    def __post_init__(self) -> None:
        weights = checks.non_negative_vector("loss_weights", self.loss_weights)
        object.__setattr__(self, "loss_weights", read_only(weights.copy()))
        checks.positive("noise_rate", self.noise_rate)
        if self.plan is not None:
            checks.positive("grid", self.plan.grid)
        checks.non_negative("numerical_epsilon", self.numerical_epsilon)

    @classmethod
    def of(cls, description: Mapping[str, Any], loss_weights: ArrayLike) -> Books:
        """Return the books that a description (``description_`` of an estimator) and shares make.

        Raises
        ------
        InvalidInput
            The description is none of a release.
        """
        try:
            if "coefficients" in description:
                whole = np.rint(np.asarray(loss_weights, dtype=np.float64) * description["weight_total"])
                return cls(Descent.from_dict(description["release"]), whole)
            names = ("grid", "gradient_bound", "noise_accuracy", "numerical_epsilon")
            plan = ReleasePlan(*(float(description[name]) for name in names))
            return cls(
                Release.from_dict(description["release"]),
                np.asarray(loss_weights, dtype=np.float64),
                float(description["noise_rate"]),
                plan.numerical_epsilon,
                plan,
                float(description["weight_total"]),
            )
        except (KeyError, TypeError, ValueError):
            raise InvalidInput("expected the description of a release, as estimators give it.") from None

    @property
    def delta(self) -> float:
        """The delta of every guarantee; 0.0 without one."""
        return self.release.delta if isinstance(self.release, Descent) else 0.0


def books_of(model: Any) -> Books | None:
    """Return the books of a fitted model: its ``description_`` and ``loss_weights_``; None without them.

    Parameters
    ----------
    model
        Anything, fitted.

    Returns
    -------
    Books or None

    Raises
    ------
    InvalidInput
        What the model states are no weights or no description.
    """
    if not hasattr(model, "description_") or not hasattr(model, "loss_weights_"):
        return None
    return Books.of(model.description_, model.loss_weights_)
