r"""Keep each record with a probability that its promise allows, then train with one epsilon (Jorgensen 2015).

A record that is left out is replaced by a row of zeros, which moves no coefficient, so that the number of
rows, the noise and the penalty stay the same and nothing but the released model depends on who was kept.

*What it costs.* Let everybody be trained on at ``t`` and call the densities of the released model
:math:`q_x`, :math:`q_{x'}` and :math:`q_0` if one person's kept record is x, x' or left out. Without slack
(:mod:`dpmarket.privacy.release`) a row changes the gradient by :math:`a s |x|`, :math:`s \le 1`, where a
replacement changes it by :math:`a (s |x| + s' |x'|)`: leaving out costs :math:`T = t / 2`, so that
:math:`q_x \le e^T q_0` and :math:`q_{x'} \ge e^{-T} q_0`. If a record is kept with probability p,

.. math:: \frac{(1 - p) q_0 + p\, q_x}{(1 - p) q_0 + p\, q_{x'}} \le
          \frac{1 + p (e^T - 1)}{1 - p (1 - e^{-T})} = e^{\epsilon}
          \quad \text{for} \quad p = \frac{e^\epsilon - 1}{e^T - 1 + e^\epsilon (1 - e^{-T})}.

The published probability, :math:`(e^\epsilon - 1) / (e^t - 1)`, is for neighbours with a record more or less;
where neighbours differ by a replacement, as everywhere here, this one is never smaller and equals it at
:math:`\epsilon = t`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.inputs import checked_records, checked_rows
from dpmarket.learning.linear import PrivateLogisticRegression
from dpmarket.privacy.loss import logistic_loss
from dpmarket.privacy.noise import NoiseSource
from dpmarket.privacy.noise_norm import NoiseNorm, suggested_constant
from dpmarket.privacy.release import Release, default_l2, shrinkage_correction

_RESERVE = 1e-6
_LARGEST = 500.0
_ROUND_DOWN = 1.0 - 1e-13


class PersonalisedSampling:
    """Keep each record with a probability that its promise allows, then train at one threshold.

    Parameters
    ----------
    threshold
        What those kept are trained at (epsilon), > 0 and at most 500. People promised as much or more are
        always kept and spend this. Public: it must not depend on the records.
    classes
        The two labels, negative class first. None reads them from ``y`` and so treats them as public.
    noise_source
        Where the noise comes from; None means secure noise.
    random_bytes
        Where the choice of records comes from: a function from a number to as many random bytes. None means
        the operating system's entropy; anything that can be repeated protects nobody.

    Attributes
    ----------
    model_
        The trained :class:`~dpmarket.learning.linear.PrivateLogisticRegression`, without a constant of its
        own: the rows have a column for it.
    epsilons_
        What was spent on each person, the smaller of promise and threshold. Read-only.

    Notes
    -----
    Guaranteed:

    * Replacing one person's record changes the probability of no set of released models by more than the
      factor ``exp(epsilon)`` of that person, for the numbers really computed: probabilities are rounded
      down, and the model is released on a grid.
    * Who was kept is not kept.

    Z. Jorgensen, T. Yu, G. Cormode: Conservative or liberal? Personalized differential privacy. ICDE 2015.

    Examples
    --------
    >>> learner = PersonalisedSampling(threshold=1.0, classes=(0, 1))
    >>> learner.fit([[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 1.0]).epsilons_.tolist()
    [0.5, 1.0, 1.0]
    """

    def __init__(
        self,
        threshold: float,
        classes: Sequence[Any] | None = None,
        noise_source: NoiseSource | None = None,
        random_bytes: Callable[[int], bytes] | None = None,
    ) -> None:
        self.threshold = threshold
        self.classes = classes
        self.noise_source = noise_source
        self.random_bytes = random_bytes

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one promise per record.

        Raises
        ------
        InvalidInput
            For promises that are not finite numbers of at least 0, all 0 or not one per record; rows longer
            than 1; and what the estimator refuses.
        """
        threshold = self._threshold()
        promised = checks.non_negative_vector("epsilons", epsilons)
        if not bool((promised > 0.0).any()):
            raise InvalidInput("expected a promise > 0 for somebody, got only zeros.")
        x = checked_records(X, y, promised)
        probabilities = keep_probabilities(promised, threshold)
        kept = chosen(probabilities, self.random_bytes or os.urandom)
        rows = self._with_constant(x)
        rows[~kept] = 0.0
        # How much is expected to be kept is public. The penalty suits that, and leaves no slack.
        share, n = float(probabilities.mean()), rows.shape[1]
        rate = len(rows) * (threshold - _reserve(threshold)) * (1.0 - 1e-9)
        loss, norm = logistic_loss(), NoiseNorm.euclidean(n)
        l2 = max(share * default_l2(loss, norm, share * rate), 2.0 / rate)
        self.model_ = PrivateLogisticRegression(
            l2=l2,
            epsilon=threshold,
            fit_intercept=False,
            classes=self.classes,
            clip=True,
            numerical_epsilon=_reserve(threshold),
            noise_source=self.noise_source,
        ).fit(rows, y)
        self.model_.coef_ *= shrinkage_correction(Release(loss, norm, l2 / share), share * rate)
        self.epsilons_ = read_only(np.minimum(promised, threshold))
        return self

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""
        return self.model_.predict(self._with_constant(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        return self.model_.predict_proba(self._with_constant(X))

    def _threshold(self) -> float:
        threshold = checks.positive("threshold", self.threshold)
        if threshold > _LARGEST:
            raise InvalidInput(f"expected threshold to be at most {_LARGEST:g}, got {threshold!r}.")
        return threshold

    @staticmethod
    def _with_constant(X: Any) -> FloatArray:
        x = checked_rows(X)
        norm = NoiseNorm.euclidean(x.shape[1], suggested_constant([False] * x.shape[1]))
        return np.column_stack([x, np.full(len(x), norm.constant)]) / norm.row_bound


def keep_probabilities(epsilons: ArrayLike, threshold: float) -> FloatArray:
    """Return with what probability each record is kept: 1 from the threshold on, rounded down below it.

    Examples
    --------
    >>> keep_probabilities([0.0, 0.1, 1.0, 2.0], threshold=1.0).round(3).tolist()
    [0.0, 0.097, 1.0, 1.0]
    """
    promised = checks.non_negative_vector("epsilons", epsilons)
    half = (threshold + _reserve(threshold)) / 2.0
    low = np.minimum(promised, threshold)
    kept = np.expm1(low) / (np.expm1(half) - np.exp(low) * np.expm1(-half)) * _ROUND_DOWN
    return np.where(promised >= threshold, 1.0, np.minimum(kept, 1.0))


def _reserve(threshold: float) -> float:
    """Return what is set aside for releasing rounded numbers."""
    return min(_RESERVE, threshold / 2.0)


def chosen(probabilities: FloatArray, random_bytes: Callable[[int], bytes]) -> BoolArray:
    """Draw who is kept: each with its probability, rounded down to a multiple of 2^-53."""
    count = len(probabilities)
    draws = np.frombuffer(random_bytes(8 * count), dtype="<u8") >> np.uint64(11)
    return np.asarray(draws < np.floor(probabilities * 2.0**53).astype(np.uint64))
