"""Other ways to use personal epsilons: a threshold, sampling of records, noise on the coefficients.

For comparison with the package's estimators; not certified, and no release by themselves. Every one spends no
more than each epsilon (``epsilons_``) and offers ``fit``, ``predict`` and ``predict_proba`` for two classes.
"""

import copy
import math
from fractions import Fraction

import numpy as np
from scipy.special import expit

from dpmarket.learning import PrivateLogisticRegression
from dpmarket.learning.minimiser import minimise
from dpmarket.learning.rows import Rows
from dpmarket.learning.sums import LocalSums
from dpmarket.privacy import NoiseNorm, Release, logistic_loss
from dpmarket.privacy.noise import radial_noise
from dpmarket.privacy.noise_norm import suggested_constant
from dpmarket.privacy.release import default_l2, shrinkage_correction

RESERVE = 1e-6  # of every epsilon, for releasing rounded numbers


class LargeEpsilonsOnly:
    """Train on people with an epsilon of at least ``threshold``, all at exactly that; None: the smallest."""

    def __init__(self, learner, threshold=None):
        self.learner, self.threshold = learner, threshold

    def fit(self, X, y, epsilons):
        threshold = epsilons[epsilons > 0.0].min() if self.threshold is None else self.threshold
        self.epsilons_ = np.where(epsilons >= threshold, threshold, 0.0)
        self.model_ = copy.deepcopy(self.learner).fit(X, y, epsilons=self.epsilons_)
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class PersonalisedSampling:
    """Keep each record with a probability that its epsilon allows, then train at one threshold.

    Z. Jorgensen, T. Yu, G. Cormode: Conservative or liberal? Personalized differential privacy. ICDE 2015.
    """

    def __init__(self, threshold, classes, noise_source, random_bytes):
        self.threshold, self.classes = threshold, classes
        self.noise_source, self.random_bytes = noise_source, random_bytes

    def fit(self, X, y, epsilons):
        probabilities = keep_probabilities(epsilons, self.threshold)
        draws = np.frombuffer(self.random_bytes(8 * len(epsilons)), dtype="<u8") >> np.uint64(11)
        rows = with_constant(X)
        rows[draws >= np.floor(probabilities * 2.0**53).astype(np.uint64)] = 0.0
        # How much is expected to be kept is public. The penalty suits that, without a log-determinant term.
        share, reserve = float(probabilities.mean()), min(RESERVE, self.threshold / 2.0)
        rate = len(rows) * (self.threshold - reserve) * (1.0 - 1e-9)
        loss, norm = logistic_loss(), NoiseNorm.euclidean(rows.shape[1])
        l2 = max(share * default_l2(loss, norm, share * rate), 2.0 / rate)
        self.model_ = PrivateLogisticRegression(
            self.classes, l2=l2, epsilon=self.threshold, fit_intercept=False, clip=True,
            numerical_epsilon=reserve, noise_source=self.noise_source,
        ).fit(rows, y)  # fmt: skip
        self.model_.coef_ *= shrinkage_correction(Release(loss, norm, l2 / share), share * rate)
        self.epsilons_ = np.minimum(epsilons, self.threshold)
        return self

    def predict(self, X):
        return self.model_.predict(with_constant(X))

    def predict_proba(self, X):
        return self.model_.predict_proba(with_constant(X))


def with_constant(X):
    norm = NoiseNorm.euclidean(np.shape(X)[1], suggested_constant([False] * np.shape(X)[1]))
    return np.column_stack([X, np.full(len(X), norm.constant)]) / norm.row_bound


def keep_probabilities(epsilons, threshold):
    """Return with what probability each record is kept: 1 from the threshold on, rounded down below it.

    Leaving a record out costs half of replacing it, which allows more than the published probability.
    """
    half = (threshold + min(RESERVE, threshold / 2.0)) / 2.0
    low = np.minimum(epsilons, threshold)
    kept = np.expm1(low) / (np.expm1(half) - np.exp(low) * np.expm1(-half)) * (1.0 - 1e-13)
    return np.where(np.asarray(epsilons) >= threshold, 1.0, np.minimum(kept, 1.0))


class OutputPerturbation:
    """Logistic regression with weights by epsilon and noise on the coefficients (PDP-OP)."""

    def __init__(self, classes, noise_source, l2=None):
        self.classes, self.noise_source, self.l2 = np.asarray(classes), noise_source, l2

    def fit(self, X, y, epsilons):
        usable = np.maximum(epsilons - RESERVE, 0.0)
        norm = NoiseNorm.euclidean(X.shape[1], suggested_constant([False] * X.shape[1]))
        n, bound, total = norm.n_coefficients, norm.row_bound, math.fsum(usable)
        # Noise on the coefficients needs a larger penalty than noise inside the objective.
        l2 = 2.0 * n / total if self.l2 is None else self.l2
        rate = l2 * total / (2.0 * bound) * (1.0 - 1e-9)
        labels = (np.asarray(y) == self.classes[1]).astype(float)
        rows = Rows(X, labels, usable / total, constant=norm.constant).active()
        none = np.zeros((1, n))
        minimum = minimise(LocalSums(rows, logistic_loss(), bound), l2, none, none, RESERVE / 4.0 / rate * l2)
        grid = 2.0 ** math.floor(math.log2(math.sqrt(n + 1.0) / rate / 4.0))
        accuracy = RESERVE / 100.0 / (8.0 * n / grid + 4.0 * rate * math.sqrt(n))
        draw = radial_noise(self.noise_source.bits(), n, 2.0 * rate, accuracy)
        exact = (
            Fraction(high) + Fraction(low) + Fraction(noise, 2**draw.bits)
            for high, low, noise in zip(
                *minimum.high.tolist(), *minimum.low.tolist(), draw.numerators, strict=True
            )
        )
        values = grid * np.array([round(value / Fraction(grid)) for value in exact])
        self.coef_, self.intercept_ = values[None, :-1], values[-1:] * norm.constant
        self.epsilons_ = np.where(usable > 0.0, epsilons, 0.0)
        return self

    def predict(self, X):
        return self.classes[(self.margins(X) > 0.0).astype(int)]

    def predict_proba(self, X):
        return np.column_stack([expit(-self.margins(X)), expit(self.margins(X))])

    def margins(self, X):
        return X @ self.coef_[0] + self.intercept_[0]
