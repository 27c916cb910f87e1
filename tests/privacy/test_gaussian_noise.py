"""Gaussian noise: exact normals from random bits, and what they promise, counted."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import beta, kstest

from dpmarket.errors import EntropyUnavailable, InvalidInput
from dpmarket.privacy import SecureNoise, SeededNoise, gaussian_delta
from dpmarket.privacy.gaussian_noise import GaussianSource

FALSE_ALARM = 1e-6
THRESHOLDS = np.linspace(-2.0, 2.0, 41)  # of the noise's standard deviation, divided by the penalty


def normals(count, rate, seed):
    return SeededNoise(seed).draw_normal(count, rate, 1e-12).high_low()[0]


def test_both_sources_give_gaussian_noise():
    assert isinstance(SecureNoise(), GaussianSource)
    assert isinstance(SeededNoise(0), GaussianSource)


def test_coordinates_are_normal_and_another_scale_is_noticed():
    # The seed is fixed, so the test cannot flicker; 1e-6 is what a new seed would risk.
    sample = normals(20_000, rate=0.5, seed=1)
    assert kstest(sample / 4.0, "norm").pvalue > FALSE_ALARM
    assert kstest(sample / 4.0 * 1.1, "norm").pvalue < FALSE_ALARM
    assert kstest(sample / 4.0 / 1.1, "norm").pvalue < FALSE_ALARM


def test_coordinates_are_independent_of_each_other():
    sample = normals(40_000, rate=2.0, seed=2).reshape(2, -1)
    # A correlation of independent samples is within 5 standard errors at the rate 6e-7.
    for first, second in (sample, np.abs(sample)):
        assert abs(np.corrcoef(first, second)[0, 1]) < 5.0 / math.sqrt(20_000)


@pytest.mark.parametrize("n", [1, 7, 60])
def test_a_draw_is_within_its_accuracy_of_a_much_better_one(n):
    for accuracy in (1e-3, 1e-15, 1e-40):
        draw = SeededNoise(n).draw_normal(n, 0.37, accuracy)
        better = SeededNoise(n).draw_normal(n, 0.37, accuracy * 1e-12)
        off = [
            p / 2**draw.bits - q / 2**better.bits if accuracy > 1e-10 else
            (p * 2 ** (better.bits - draw.bits) - q) / 2**better.bits
            for p, q in zip(draw.numerators, better.numerators, strict=True)
        ]  # fmt: skip
        assert math.sqrt(sum(value * value for value in off)) <= accuracy / 2.0 * (1.0 + 1e-9)


def test_a_coarse_accuracy_is_used_and_not_only_promised():
    assert SeededNoise(0).draw_normal(3, 1.0, 1e-3).bits < SeededNoise(0).draw_normal(3, 1.0, 1e-60).bits


def test_secure_draws_differ():
    draws = {SecureNoise().draw_normal(2, 1.0, 1e-9).numerators for _ in range(20)}
    assert len(draws) == 20


def test_without_entropy_there_is_no_noise(monkeypatch):
    def unavailable(count):
        raise OSError("none")

    monkeypatch.setattr("os.urandom", unavailable)
    with pytest.raises(EntropyUnavailable):
        SecureNoise().draw_normal(1, 1.0, 1e-9)


@pytest.mark.parametrize("arguments", [(0, 1.0, 1e-9), (1, 0.0, 1e-9), (1, 1.0, 0.0), (1, math.nan, 1e-9)])
def test_senseless_requests_are_refused(arguments):
    with pytest.raises(InvalidInput):
        SeededNoise(0).draw_normal(*arguments)


# ---------------------------------------------------------------- delta, counted


def outputs(own, rate, l2, seed, count):
    """Return exact minimisers of one coefficient for ``count`` draws: one person with all of the weight."""
    b = normals(count, rate, seed)
    w = np.zeros(count)
    for _ in range(80):
        s = expit(-w * own)
        w -= (-own * s + b + l2 * w) / (l2 + own**2 * s * (1.0 - s))
    assert np.abs(-own * expit(-w * own) + b + l2 * w).max() < 1e-9
    return w


def least_delta(epsilon, before, after, threshold):
    """Return a delta that the set above ``threshold`` needs, wrong at the rate of 1e-6 at most."""
    m, rate = before.size, FALSE_ALARM / len(THRESHOLDS) / 2.0
    inside, other = int((before > threshold).sum()), int((after > threshold).sum())
    low = beta.ppf(rate, inside, m - inside + 1) if inside else 0.0
    high = beta.ppf(1.0 - rate, other + 1, m - other) if other < m else 1.0
    return float(low - math.exp(epsilon) * high)


def largest_found(epsilon, rate, l2, seed):
    before, after = (outputs(own, rate, l2, seed + own, 40_000) for own in (1, -1))
    return max(least_delta(epsilon, before, after, t) for t in THRESHOLDS * 2.0 / (rate * l2))


def test_counted_outputs_keep_a_large_delta_and_too_little_noise_is_caught():
    # One person with the record +1 or -1 and all of the weight. P(w > t) is compared at thresholds that were
    # fixed before, each at the rate of 1e-6 divided by their number: false alarms have the rate 1e-6 in all.
    epsilon, rate, l2 = 0.5, 0.8, 20.0
    promised = float(gaussian_delta([epsilon], [1.0], rate, l2)[0])
    assert 0.1 < promised < 0.3
    assert 0.0 < largest_found(epsilon, rate, l2, seed=11) <= promised
    # A third of the noise with the same promise is found out.
    assert largest_found(epsilon, 3.0 * rate, l2, seed=21) > promised
