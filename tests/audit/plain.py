"""A second, small implementation of the private estimator: fast, with ordinary float noise."""

import numpy as np
from scipy.special import expit

from dpmarket.privacy import NoiseNorm, Release, logistic_loss


def release_of(l2):
    """Return the release of two coefficients without a constant."""
    return Release(logistic_loss(), NoiseNorm.euclidean(2), l2)


class PlainLearner:
    """Objective perturbation without intercept; what differs in broken learners are its two methods."""

    def __init__(self, l2, seed):
        self.l2, self.rng = l2, np.random.default_rng(seed)

    def weights(self, x, signs, epsilons):
        return release_of(self.l2).weights(epsilons)

    def noise_rate(self, noise_rate):
        return noise_rate

    def fit(self, X, y, epsilons):
        signs = 2.0 * np.asarray(y) - 1.0
        weights, eta = self.weights(X, signs, np.asarray(epsilons, dtype=float))
        n = X.shape[1]
        direction = self.rng.standard_normal(n)
        length = 2.0 / self.noise_rate(eta) * self.rng.gamma(n)
        self.coef_ = minimum(
            X * signs[:, None], weights, length * direction / np.linalg.norm(direction), self.l2
        )
        return self


def minimum(signed, weights, noise, l2):
    """Minimise the noisy objective by damped Newton steps."""

    def value(w):
        return weights @ np.logaddexp(0.0, -signed @ w) + noise @ w + 0.5 * l2 * w @ w

    w = np.zeros(signed.shape[1])
    current = value(w)
    for _ in range(100):
        s = expit(-signed @ w)
        gradient = noise + l2 * w - (weights * s) @ signed
        if gradient @ gradient < 1e-20 * (1.0 + noise @ noise):
            break
        hessian = l2 * np.eye(w.size) + (signed * (weights * s * (1.0 - s))[:, None]).T @ signed
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while (moved := value(w - size * step)) > current and size > 1e-6:
            size /= 2.0
        w, current = w - size * step, moved
    return w
