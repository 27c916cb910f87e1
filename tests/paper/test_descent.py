"""The paper's projected descent over coefficients and weights: its end, and how fast it gets there."""

import numpy as np
import pytest

from descent import descend, lipschitz
from dpmarket.mechanisms.joint import Inner, solve_newton
from support.joint import cancer

SETTINGS = {"plain": {}, "capped, noise": {"cap": 0.015, "pull": 2.0}}


def problem(spread, cap=1.0, pull=0.0):
    """150 records with 2 l2 mu that many times m, prices at random, and the noise's pull."""
    X, y = cancer(150)
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(X.shape[1])
    prices, l2 = 0.1 * rng.uniform(1.0, 9.0, y.size), 0.5 * spread
    return Inner(y[:, None] * X, prices, pull * direction / np.linalg.norm(direction), l2, 180 / spread, cap)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_descent_ends_at_the_minimum_as_fast_as_the_theorem_says(name):
    # Theorem `convexify`: the Hessian lies between those of [[l2, -x], [-x, 2 mu]] and K, so the gap falls by
    # a factor of 1 - c/K or more in each step.
    inner = problem(12.0, **SETTINGS[name])
    n = inner.rows.shape[1]
    best = solve_newton(inner, np.zeros(n))
    end, trace = descend(inner, np.ones(n), 1e-9, 100_000)
    assert trace[-1] == pytest.approx(best.value, abs=1e-8)
    np.testing.assert_allclose(end[n:], best.weights, atol=1e-7)
    assert end[n:].max() <= inner.cap
    gaps = np.array(trace) - best.value
    gaps = gaps[: np.flatnonzero(gaps > 1e-11)[-1] + 1]
    x = np.linalg.norm(inner.rows, 2)
    strength = np.linalg.eigvalsh([[inner.l2, -x], [-x, 2 * inner.mu]])[0]
    assert strength > 0
    assert len(gaps) > 20
    assert (gaps[1:] <= (1 - strength * min(1.0, 1 / lipschitz(inner))) * gaps[:-1] + 1e-14).all()
