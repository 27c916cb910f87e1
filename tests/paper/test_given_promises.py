"""The choice of weights, noise rate and coefficients for given promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.paper.experiments.classifiers import train
from dpmarket.paper.experiments.given_promises import choose, choose_without_terms, project_below


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_the_projection_meets_its_optimality_conditions(seed, m):
    rng = np.random.default_rng(seed)
    point, limits = rng.normal(size=m), rng.uniform(0.0, 1.0, m)
    limits *= rng.uniform(1.0, 3.0) / limits.sum()
    a = project_below(point, limits)
    assert a.sum() == pytest.approx(1.0, abs=1e-9)
    assert (a >= 0.0).all()
    assert (a <= limits).all()
    # One threshold separates: what is above it is at its limit or shares it, what is below is 0.
    threshold = point - a
    inside = (a > 1e-12) & (a < limits - 1e-12)
    if inside.any():
        level = threshold[inside].mean()
        assert np.allclose(threshold[inside], level, atol=1e-9)
        assert (point[a <= 1e-12] <= level + 1e-9).all()
        assert (threshold[a >= limits - 1e-12] >= level - 1e-9).all()


def _market(seed=0, m=60, n=3):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(m, n))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    signs = np.where(rows[:, 0] > 0.0, 1.0, -1.0)
    return rows, signs, rng.uniform(0.5, 2.0, m)


def test_the_choice_keeps_the_promises_and_is_best_in_either_block():
    rows, signs, epsilons = _market()
    grid = np.geomspace(5.0, epsilons.sum() * 0.999, 8)
    found = choose(
        rows,
        signs,
        epsilons,
        concentration=20.0,
        noise=1.0,
        l2=0.5,
        weight_cap=10.0,
        grid=grid,
        starts=np.zeros((1, 3)),
    )
    a, w = found.loss_weights, found.coefficients
    assert (a * found.noise_rate <= epsilons * (1.0 + 1e-9)).all()
    assert (a <= 10.0 / signs.size + 1e-12).all()
    assert np.allclose(w, train(rows, signs, a, np.zeros(3), 0.5), atol=1e-4)
    losses = np.logaddexp(0.0, -signs * (rows @ w))
    rng = np.random.default_rng(1)
    limits = np.minimum(epsilons / found.noise_rate, 10.0 / signs.size)
    for _ in range(50):
        other = project_below(a + 0.01 * rng.normal(size=a.size), limits)
        assert other @ losses + 20.0 * other @ other >= a @ losses + 20.0 * a @ a - 1e-6


def test_without_terms_the_easiest_records_get_all_the_weight_allowed():
    rows, signs, epsilons = _market()
    grid = np.geomspace(5.0, epsilons.sum() * 0.999, 6)
    found = choose_without_terms(
        rows, signs, epsilons, l2=0.05, weight_cap=10.0, grid=grid, starts=np.zeros((1, 3))
    )
    losses = np.logaddexp(0.0, -signs * (rows @ found.coefficients))
    bought = found.loss_weights > 0.0
    assert losses[bought].max() <= losses[~bought].min() + 1e-9
    assert found.loss_weights.sum() == pytest.approx(1.0)
