r"""Other learners that keep everybody's epsilon, to compare with.

:class:`LargeEpsilonsOnly` trains any learner with one epsilon for all, :class:`PersonalisedSampling` is
Jorgensen's sampling, :class:`OutputPerturbation` adds noise to the coefficients (PDP-OP).

**Sampling.**
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

**Output perturbation.**
With weights :math:`a_i` that add up to 1, rows of norm at most R and penalty :math:`\Lambda` the objective is
:math:`\Lambda`-strongly convex, and replacing record i changes its gradient anywhere by at most
:math:`2 a_i R`. So the minimiser moves by at most :math:`2 a_i R / \Lambda`, and noise of density
proportional to :math:`e^{-\kappa |b|}` costs person i :math:`2 a_i R \kappa / \Lambda`. With
:math:`a_i = \epsilon_i / \sum_j \epsilon_j` and :math:`\kappa = \Lambda \sum_j \epsilon_j / (2 R)` that is
:math:`\epsilon_i`: the sensitivity is each person's own, and so is the epsilon.

*What a computer releases.* The computed minimiser is within :math:`\rho` of the exact one, the drawn noise
within :math:`\beta` of an ideal sample, and their sum is rounded, in exact arithmetic, to a public grid of
width g. By the argument of :mod:`dpmarket.privacy.grid` this costs at most

.. math:: n \log \frac{g + 2 \beta}{g - 2 \beta} + 2 \kappa (\rho + \sqrt n\, \beta)

more, which is set aside from every epsilon beforehand.

Chaudhuri, Monteleoni and Sarwate, Differentially private empirical risk minimization, JMLR 2011, Algorithm 1,
with a weight for every record.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils.validation import check_array  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, read_only
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning.labels import numbers_of, read_classes
from dpmarket.learning.linear import PrivateLogisticRegression
from dpmarket.learning.messages import without_values
from dpmarket.learning.minimiser import minimise
from dpmarket.learning.rows import Rows, rounding_scales
from dpmarket.learning.sums import LocalSums
from dpmarket.numerics import exact_sum
from dpmarket.privacy.loss import logistic_loss
from dpmarket.privacy.noise import NoiseSource, SecureNoise
from dpmarket.privacy.noise_norm import NoiseNorm, suggested_constant
from dpmarket.privacy.release import Release, default_l2, shrinkage_correction, usable_epsilons

__all__ = ["LargeEpsilonsOnly", "OutputPerturbation", "PersonalisedSampling"]
_RESERVE = 1e-6
_LARGEST = 500.0
_ROUND_DOWN = 1.0 - 1e-9
_PENALTY_PER_COEFFICIENT = 2.0
_LOWEST_RATE = 1e-290


@runtime_checkable
class Learner(Protocol):
    """A way to train a classifier with two classes that keeps every person's epsilon.

    A protocol: any object with these methods is one, and works with every audit and reference learner.
    """

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one epsilon per record."""

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""


@dataclass(eq=False)
class LargeEpsilonsOnly:
    """Train only on people with an epsilon of at least ``threshold``, each of them at exactly that.

    Parameters
    ----------
    learner
        What trains; it is copied, and itself left as it is. Records with epsilon 0 must not influence it.
    threshold
        The smallest epsilon that takes part, > 0. Public: it must not depend on the records. None means the
        smallest epsilon above 0: everybody takes part, at that.

    Attributes
    ----------
    model_
        The trained copy.
    epsilons_
        What was spent on each person: the threshold or 0. Read-only.

    Notes
    -----
    Guaranteed: Those of ``learner``, for epsilons that are nowhere above the given ones.

    Examples
    --------
    >>> from dpmarket.learning import PrivateLogisticRegression
    >>> learner = PrivateLogisticRegression(classes=(0, 1))
    >>> X, y, epsilons = [[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 1.0]
    >>> LargeEpsilonsOnly(learner, threshold=1.0).fit(X, y, epsilons).epsilons_.tolist()
    [0.0, 1.0, 1.0]
    >>> LargeEpsilonsOnly(learner).fit(X, y, epsilons).epsilons_.tolist()
    [0.5, 0.5, 0.5]
    """

    learner: Learner
    threshold: float | None = None

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` and labels ``y``, one epsilon per record."""
        given = checks.non_negative_vector("epsilons", epsilons)
        threshold = self.threshold
        if threshold is None and bool((given > 0.0).any()):
            threshold = float(given[given > 0.0].min())
        threshold = math.inf if threshold is None else checks.positive("threshold", threshold)
        if not float(given.max()) >= threshold:
            raise InvalidInput("expected an epsilon of at least threshold, and above 0, got none.")
        spent = np.where(given >= threshold, threshold, 0.0)
        self.model_ = copy.deepcopy(self.learner).fit(X, y, epsilons=spent)
        self.epsilons_ = read_only(spent)
        return self

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        return self.model_.predict_proba(X)


@dataclass(eq=False)
class PersonalisedSampling:
    """Keep each record with a probability that its epsilon allows, then train at one threshold.

    Parameters
    ----------
    threshold
        What those kept are trained at (epsilon), > 0 and at most 500. People with as much or more are
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
        What was spent on each person, the smaller of epsilon and threshold. Read-only.

    Notes
    -----
    Guaranteed: Replacing one person's record changes the probability of no set of released models by more
    than the factor ``exp(epsilon)`` of that person, for the numbers really computed: probabilities are
    rounded down, and the model is released on a grid. The choice of records is not stored.

    Z. Jorgensen, T. Yu, G. Cormode: Conservative or liberal? Personalized differential privacy. ICDE 2015.

    Examples
    --------
    >>> learner = PersonalisedSampling(threshold=1.0, classes=(0, 1))
    >>> learner.fit([[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 1.0]).epsilons_.tolist()
    [0.5, 1.0, 1.0]
    """

    threshold: float
    classes: Sequence[Any] | None = None
    noise_source: NoiseSource | None = None
    random_bytes: Callable[[int], bytes] | None = None

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one epsilon per record."""
        threshold = checks.positive("threshold", self.threshold)
        if threshold > _LARGEST:
            raise InvalidInput(f"expected threshold to be at most {_LARGEST:g}, got {threshold!r}.")
        given = checks.non_negative_vector("epsilons", epsilons)
        if not bool((given > 0.0).any()):
            raise InvalidInput("expected an epsilon > 0 for somebody, got only zeros.")
        x = checked_records(X, y, given)
        probabilities = keep_probabilities(given, threshold)
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
        self.epsilons_ = read_only(np.minimum(given, threshold))
        return self

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""
        return self.model_.predict(self._with_constant(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        return self.model_.predict_proba(self._with_constant(X))

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
    given = checks.non_negative_vector("epsilons", epsilons)
    half = (threshold + _reserve(threshold)) / 2.0
    low = np.minimum(given, threshold)
    kept = np.expm1(low) / (np.expm1(half) - np.exp(low) * np.expm1(-half)) * (1.0 - 1e-13)
    return np.where(given >= threshold, 1.0, np.minimum(kept, 1.0))


def _reserve(threshold: float) -> float:
    """Return what is set aside for releasing rounded numbers."""
    return min(_RESERVE, threshold / 2.0)


def chosen(probabilities: FloatArray, random_bytes: Callable[[int], bytes]) -> BoolArray:
    """Draw who is kept: each with its probability, rounded down to a multiple of 2^-53."""
    count = len(probabilities)
    draws = np.frombuffer(random_bytes(8 * count), dtype="<u8") >> np.uint64(11)
    return np.asarray(draws < np.floor(probabilities * 2.0**53).astype(np.uint64))


@dataclass(eq=False)
class OutputPerturbation:
    """Logistic regression with weights by epsilon and noise added to the coefficients.

    Parameters
    ----------
    l2
        The ridge penalty Lambda, > 0. None means twice the number of coefficients, divided by the sum of the
        epsilons: noise on the coefficients needs a larger penalty than noise inside the objective.
    classes
        The two labels, negative class first. None reads them from ``y`` and so treats them as public.
    noise_source
        Where the noise comes from; None means secure noise.

    Attributes
    ----------
    coef_, intercept_, classes_, l2_
        Coefficients, shape (1, features), and what is added to every margin, shape (1,): on a public grid.
        The two labels, and the penalty.
    epsilons_
        What was spent on each person, never above the epsilon. Read-only.

    Notes
    -----
    Guaranteed: Replacing one person's record changes the probability of no set of released models by more
    than the factor ``exp(epsilon)`` of that person, for the numbers really computed. People with at
    most 1e-6 have no influence.

    Examples
    --------
    >>> learner = OutputPerturbation(classes=(0, 1)).fit([[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 0.0])
    >>> learner.epsilons_.round(9).tolist()
    [0.5, 2.0, 0.0]
    """

    l2: float | None = None
    classes: Sequence[Any] | None = None
    noise_source: NoiseSource | None = None

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one epsilon per record."""
        given = checks.non_negative_vector("epsilons", epsilons)
        x = checked_records(X, y, given)
        classes = read_classes(self.classes, np.asarray(y))
        labels = numbers_of(classes, np.asarray(y))
        constant = suggested_constant([False] * x.shape[1])
        bound = NoiseNorm.euclidean(x.shape[1], constant).row_bound
        n = x.shape[1] + 1
        usable = usable_epsilons(given, _RESERVE)
        total = exact_sum(usable)
        l2 = _PENALTY_PER_COEFFICIENT * n / total if self.l2 is None else checks.positive("l2", self.l2)
        rate = l2 * total / (2.0 * bound) * _ROUND_DOWN
        if not _LOWEST_RATE <= rate <= 1.0 / _LOWEST_RATE:
            raise Infeasible(
                f"expected an l2 with which the size of the noise is within the range of floats, got {l2!r} "
                f"for epsilons that add up to {total:.3g}."
            )
        sums = LocalSums(Rows(x, labels, usable / total, constant=constant).active(), logistic_loss(), bound)
        # Half of the reserve for the minimiser, a hundredth for the noise; the rest pays for rounding here.
        gradient_bound = _RESERVE / 4.0 / rate * l2
        grid = 2.0 ** math.floor(math.log2(math.sqrt(n + 1.0) / rate / 4.0))
        accuracy = _RESERVE / 100.0 / (8.0 * n / grid + 4.0 * rate * math.sqrt(n))
        none = np.zeros((1, n))
        minimum = minimise(sums, l2, none, none, gradient_bound)
        draw = (self.noise_source or SecureNoise()).draw(n, 2.0 * rate, accuracy)
        parts = zip(minimum.high[0].tolist(), minimum.low[0].tolist(), draw.numerators, strict=True)
        values = grid * np.array(
            [
                round((Fraction(high) + Fraction(low) + Fraction(noise, 2**draw.bits)) / Fraction(grid))
                for high, low, noise in parts
            ]
        )
        self.classes_ = classes
        self.coef_ = values[:-1].reshape(1, -1)
        self.intercept_ = values[-1:] * constant
        self.l2_ = l2
        self.epsilons_ = read_only(np.where(usable > 0.0, given, 0.0))
        return self

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the likelier class of each row."""
        return np.asarray(self.classes_[(self._margins(X) > 0.0).astype(np.intp)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        margins = self._margins(X)
        return np.column_stack([expit(-margins), expit(margins)])

    def _margins(self, X: Any) -> FloatArray:
        return np.asarray(checked_rows(X) @ self.coef_[0] + self.intercept_[0])


def checked_rows(X: Any) -> FloatArray:
    """Return features as a dense float64 matrix of finite numbers; a refusal quotes no value of a record."""
    try:
        return np.ascontiguousarray(check_array(X, dtype=np.float64))
    except (ValueError, TypeError, OverflowError) as error:
        safe = without_values(error)
    raise safe from None


def checked_records(X: Any, y: Any, epsilons: FloatArray) -> FloatArray:
    """Return features of as many records as there are labels and epsilons, all rows at most 1 long.

    Raises
    ------
    InvalidInput
        Also if a record with an epsilon above 0 has a longer row. Whether it would take part later does not
        matter, so that no random choice shows in a refusal.
    """
    x = checked_rows(X)
    if np.ndim(y) != 1 or len(y) != len(x) or len(epsilons) != len(x):
        raise InvalidInput(
            f"expected one label and one epsilon per record, {len(x)}, got shape {np.shape(y)} and "
            f"{len(epsilons)}."
        )
    scales = rounding_scales(Rows(x, np.ones(len(x)), epsilons))
    return x * scales[:, None] if scales.size else x
