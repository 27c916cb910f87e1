"""The exact density: normalised, right for one seller by simulation, refused outside its range."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import kstest

from dpmarket.errors import InvalidInput
from dpmarket.privacy import log_density, log_density_ratio

ROWS_1 = np.array([[0.9], [-0.4], [0.1]])
ROWS_2 = np.array([[0.6, -0.7], [-0.2, 0.5], [0.9, 0.3]])
WEIGHTS = np.array([0.5, 0.3, 0.2])


def test_density_of_one_coefficient_integrates_to_one():
    w = np.linspace(-40.0, 40.0, 400_001)
    density = np.exp(log_density(w[:, None], ROWS_1, WEIGHTS, 3.0, 0.7))
    assert np.trapezoid(density, w) == pytest.approx(1.0, abs=1e-7)


def test_density_of_two_coefficients_integrates_to_one():
    axis = np.linspace(-25.0, 25.0, 501)
    w = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    density = np.exp(log_density(w, ROWS_2, WEIGHTS, 3.0, 0.7))
    assert np.trapezoid(np.trapezoid(density, axis), axis) == pytest.approx(1.0, abs=1e-4)


def simulated_outputs(noise_rate, count, rng):
    """Minimise the objective for sampled noise: n = 1, |b'| exponential with mean 2 / eta."""
    noise = rng.exponential(2.0 / noise_rate, count) * rng.choice([-1.0, 1.0], count)
    u = ROWS_1[:, 0]

    def gradient(w, b):
        return b + 0.7 * w - WEIGHTS @ (expit(-w * u) * u)

    return np.array([brentq(gradient, -1e3, 1e3, args=(b,), xtol=1e-12) for b in noise])


def distribution(w):
    grid = np.linspace(-60.0, 60.0, 240_001)
    density = np.exp(log_density(grid[:, None], ROWS_1, WEIGHTS, 3.0, 0.7))
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(grid)
    return np.interp(w, grid, np.concatenate([[0.0], np.cumsum(steps)]))


def test_sampled_minimisers_follow_the_density_and_wrong_noise_does_not():
    rng = np.random.default_rng(5)
    # False-alarm rate 1e-4; the seed is fixed.
    assert kstest(simulated_outputs(3.0, 3_000, rng), distribution).pvalue > 1e-4
    for wrong in (2.0, 4.5):
        assert kstest(simulated_outputs(wrong, 3_000, rng), distribution).pvalue < 1e-4


def test_ratio_is_the_difference_of_the_log_densities():
    w = np.array([[0.3, -2.0], [5.0, 1.0]])
    other = np.array([[-1.0, 0.0]])
    ratio = log_density_ratio(
        w, ROWS_2[:1], other, WEIGHTS[:1], ROWS_2[1:], WEIGHTS[1:], noise_rate=2.0, l2=0.1
    )
    replaced = np.concatenate([other, ROWS_2[1:]])
    expected = log_density(w, ROWS_2, WEIGHTS, 2.0, 0.1) - log_density(w, replaced, WEIGHTS, 2.0, 0.1)
    assert ratio == pytest.approx(expected, abs=1e-12)


def test_the_determinant_survives_a_tiny_penalty():
    # Two parallel rows and l2 = 1e-12: det = l2 * (l2 + d) with d = (0.5 + 0.5) / 4 at w = 0.
    rows = np.array([[0.6, 0.8], [0.6, 0.8]])
    found = log_density(np.zeros(2), rows, [0.5, 0.5], 2.0, 1e-12)
    noise_part = -np.log(2.0 * np.pi) - 0.5
    assert found - noise_part == pytest.approx(np.log(1e-12) + np.log(0.25), rel=1e-12)


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": [0.0, 0.0, 0.0]},
        {"outputs": [np.nan]},
        {"outputs": "text"},
        {"signed_rows": [1.0]},
        {"signed_rows": [[1.0, 2.0]]},
        {"row_weights": [0.5, 0.5]},
        {"row_weights": [-1.0]},
        {"noise_rate": 0.0},
        {"l2": np.inf},
    ],
    ids=str,
)
def test_densities_are_computed_for_sensible_arguments_only(changes):
    arguments = {
        "outputs": [0.0],
        "signed_rows": [[1.0]],
        "row_weights": [1.0],
        "noise_rate": 1.0,
        "l2": 1.0,
    }
    log_density(**arguments)
    with pytest.raises(InvalidInput):
        log_density(**arguments | changes)
