"""Sampled models against exact probabilities, and the attack on floating-point noise.

Fixed seeds, false-alarm rate 1e-6: a failure is a fact about the code. A released coefficient is a grid
point, so the exact probability of a grid point is the integral of the exact density over its cell.
"""

import functools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from dpmarket.learning import PrivateLogisticRegression, Rows, minimise
from dpmarket.privacy import NoiseShape, log_density, weights_for
from dpmarket.privacy.noise import SeededNoise

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

FALSE_ALARM = 1e-6


class Scaled:
    """Seeded noise of a wrong rate."""

    certifiable = False

    def __init__(self, seed, factor):
        self.source, self.factor = SeededNoise(seed), factor

    def draw(self, n_coefficients, noise_rate, accuracy, independent=0):
        return self.source.draw(n_coefficients, noise_rate * self.factor, accuracy, independent)


def fits(x, y, promises, l2, count, factor=1.0, shape=None):
    for seed in range(count):
        yield PrivateLogisticRegression(
            l2=l2, fit_intercept=False, classes=(0, 1), noise_source=Scaled(seed, factor), noise_shape=shape
        ).fit(x, y, epsilons=promises)


def p_value(observed, expected):
    """Chi-square over bins of at least ten expected, everything else in one bin."""
    good = expected >= 10.0
    counts = np.append(observed[good], observed[~good].sum())
    means = np.append(expected[good], observed.sum() - expected[good].sum())
    assert means[-1] > 0.0
    assert good.sum() > 10
    return chisquare(counts, means).pvalue


X_1, Y_1 = np.array([[0.9], [-0.4], [0.1]]), np.array([1, 1, 0])
PROMISES = np.array([1.0, 0.6, 0.4])
SIGNED_1 = X_1 * np.array([1.0, 1.0, -1.0])[:, None]


def cell_counts_of_one_coefficient(factor, count):
    models = list(fits(X_1, Y_1, PROMISES, 1.1, count, factor))
    cells = np.array([model.coef_grid_[0] for model in models])
    low, high = -400, 400
    weights = weights_for(PROMISES, 1.1, 1.0, 1, 1e-6)
    edges = (np.arange(low, high + 2) - 0.5) * models[0].grid_
    inner = edges[:-1, None] + np.linspace(0.0, 1.0, 33) * models[0].grid_
    density = np.exp(log_density(inner[..., None], SIGNED_1, weights.loss_weights, weights.noise_rate, 1.1))
    expected = count * np.trapezoid(density, inner, axis=1)
    assert expected.sum() == pytest.approx(count, rel=1e-4)
    return np.bincount(np.clip(cells, low, high) - low, minlength=high - low + 1), expected


few_or_many = pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])


@few_or_many
def test_one_coefficient_follows_the_exact_density(count):
    assert p_value(*cell_counts_of_one_coefficient(1.0, count)) > FALSE_ALARM


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_one_coefficient_with_two_thirds_or_three_halves_of_the_noise_is_noticed(factor):
    assert p_value(*cell_counts_of_one_coefficient(factor, 600)) < FALSE_ALARM


X_2, Y_2 = np.array([[0.6, -0.7], [-0.2, 0.5], [0.9, 0.3]]), np.array([1, 0, 1])
SIGNED_2 = X_2 * np.array([1.0, -1.0, 1.0])[:, None]


HALF, SIDE, POINTS = 240, 8, 2


SUM = NoiseShape([True, True], 0.8)


@functools.cache
def square_probabilities(grid, shape=None):
    """Return the probability of every square of cells; two points per cell and axis (midpoints)."""
    side = SIDE if shape is None else SIDE // 2
    euclidean = None if shape is None else 0.8 * (1.0 + 2.0**-40)
    weights = weights_for(PROMISES, 1.1, 1.0, 1, 1e-6, euclidean)
    signed = SIGNED_2 if shape is None else 0.6 * SIGNED_2
    points = (np.arange(-POINTS * HALF, POINTS * HALF) + 0.5) / POINTS * grid - grid / 2.0
    totals = np.zeros((2 * HALF // side, 2 * HALF // side))
    for k in range(len(totals)):
        part = points[k * side * POINTS : (k + 1) * side * POINTS]
        w = np.stack(np.meshgrid(part, points, indexing="ij"), axis=-1)
        separate = 0 if shape is None else 2
        density = np.exp(
            log_density(w, signed, weights.loss_weights, weights.noise_rate, 1.1, separate=separate)
        )
        totals[k] = density.reshape(len(part), -1, side * POINTS).sum(axis=(0, 2)) * (grid / POINTS) ** 2
    assert totals.sum() == pytest.approx(1.0, rel=2e-3)  # the kinks of independent noise cost a little
    return totals


def cell_counts_of_two_coefficients(factor, count, shape=None):
    x = X_2 if shape is None else 0.6 * X_2
    models = list(fits(x, Y_2, PROMISES, 1.1, count, factor, shape))
    totals = square_probabilities(models[0].grid_, shape)
    cells = np.clip(np.array([model.coef_grid_ for model in models]) + HALF, 0, 2 * HALF - 1) // (
        2 * HALF // len(totals)
    )
    observed = np.zeros_like(totals)
    np.add.at(observed, (cells[:, 0], cells[:, 1]), 1)
    return observed.ravel(), count * totals.ravel()


@few_or_many
def test_two_coefficients_with_independent_noise_follow_their_exact_density(count):
    assert p_value(*cell_counts_of_two_coefficients(1.0, count, SUM)) > FALSE_ALARM


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_independent_noise_of_another_size_is_noticed(factor):
    assert p_value(*cell_counts_of_two_coefficients(factor, 600, SUM)) < FALSE_ALARM


@few_or_many
def test_two_coefficients_follow_the_exact_density(count):
    assert p_value(*cell_counts_of_two_coefficients(1.0, count)) > FALSE_ALARM


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_two_coefficients_with_two_thirds_or_three_halves_of_the_noise_are_noticed(factor):
    assert p_value(*cell_counts_of_two_coefficients(factor, 600)) < FALSE_ALARM


# ---------------------------------------------------------------- the floating-point attack

RATE, L2, WEIGHTS = 1.5, 1.4, np.array([0.6, 0.4])
MINE, NEIGHBOUR = np.array([1.0, 0.5]), np.array([-1.0, 0.5])  # the first label is flipped


def noise_needed(signed, w):
    """Return the noise that leads to the output w, with many digits."""
    total = -mpmath.mpf(L2) * w
    for a, u in zip(WEIGHTS.tolist(), signed.tolist(), strict=True):
        total += mpmath.mpf(a) * u / (1 + mpmath.exp(w * u))
    return total


def float_noise(k, sign):
    """Return noise as float64 programs make it: from a uniform of 53 bits."""
    return sign * (2.0 / RATE) * -math.log(k * 2.0**-53)


def can_be_excluded(signed, low, high):
    """Tell whether no 53-bit uniform gives noise that leads to an output between low and high."""
    ends = sorted([noise_needed(signed, low), noise_needed(signed, high)])
    if ends[0] < 0 < ends[1]:
        return False
    sign = 1.0 if ends[0] > 0 else -1.0
    places = sorted(mpmath.exp(-abs(end) * RATE / 2) * 2**53 for end in ends)
    first, last = int(mpmath.floor(places[0])) - 8, int(mpmath.ceil(places[1])) + 8
    if last - first > 10_000:
        return False
    # The rounding of log and product: a few units either way are tried, and the noise itself compared.
    return not any(ends[0] <= float_noise(k, sign) <= ends[1] for k in range(max(first, 1), min(last, 2**53)))


def test_float64_noise_lets_the_neighbour_be_excluded():
    rng = np.random.default_rng(0)
    rows = Rows(MINE[:, None], np.ones(2), WEIGHTS, constant=False)
    excluded = 0
    with mpmath.workprec(200):
        for _ in range(100):
            noise = float_noise(int(rng.integers(1, 2**53)), float(rng.choice([-1.0, 1.0])))
            minimum = minimise(rows, L2, np.array([noise]), np.zeros(1), 1.0, 1e-25)
            w = float(minimum.high[0] + minimum.low[0])
            half = mpmath.mpf(math.ulp(w)) * 0.51
            assert not can_be_excluded(MINE, w - half, w + half)  # the truth is never excluded
            excluded += can_be_excluded(NEIGHBOUR, w - half, w + half)
    assert excluded > 30


def test_on_the_grid_the_neighbour_can_never_be_excluded():
    promises = WEIGHTS * RATE
    x, labels = np.abs(MINE)[:, None], np.array([1, 1])
    with mpmath.workprec(200):
        for model in fits(x, labels, promises, L2, 100):
            centre, half = mpmath.mpf(float(model.coef_[0, 0])), mpmath.mpf(model.grid_) / 2
            assert not can_be_excluded(MINE, centre - half, centre + half)
            assert not can_be_excluded(NEIGHBOUR, centre - half, centre + half)
            # And by how much the release speaks for one of them is what was promised.
            w = np.linspace(float(centre - half), float(centre + half), 201)
            logs = [
                np.log(np.trapezoid(np.exp(log_density(w[:, None], u[:, None], WEIGHTS, RATE, L2)), w))
                for u in (MINE, NEIGHBOUR)
            ]
            assert abs(logs[0] - logs[1]) <= promises[0]


def test_on_the_grid_of_independent_noise_the_neighbour_can_never_be_excluded():
    promises = WEIGHTS * RATE
    x, labels = np.abs(MINE)[:, None], np.array([1, 1])
    with mpmath.workprec(200):
        for model in fits(x, labels, promises, L2, 100, shape=NoiseShape([True])):
            centre, half = mpmath.mpf(float(model.coef_[0, 0])), mpmath.mpf(model.grid_) / 2
            assert not can_be_excluded(MINE, centre - half, centre + half)
            assert not can_be_excluded(NEIGHBOUR, centre - half, centre + half)
