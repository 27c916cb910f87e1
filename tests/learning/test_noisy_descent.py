"""The reference learner with noisy gradients: its accounting, and that it learns."""

import math

import numpy as np
import pytest
from scipy.special import expit

from dpmarket.errors import InvalidInput
from dpmarket.learning import Learner
from dpmarket.learning.reference import NoisyDescent
from dpmarket.learning.reference.noisy_descent import noise_of_a_step


def records(count=2_000, n=5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.001
    return x, (rng.random(count) < expit(12.0 * x[:, 0])).astype(int)


def learner(seed=0, **settings):
    usual = {"delta": 1e-5, "rng": np.random.default_rng(seed), "classes": (0, 1)}
    return NoisyDescent(**(usual | settings))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_all_steps_together_cost_the_epsilon_of_concentrated_privacy(epsilon):
    delta, steps, count, bound = 1e-6, 70, 500, 1.2
    sigma = noise_of_a_step(epsilon, delta, steps, count, bound)
    rho = steps * (2.0 * bound / count) ** 2 / (2.0 * sigma**2)
    assert rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)) == pytest.approx(epsilon, rel=1e-9)


def test_a_step_adds_the_stated_noise():
    x, y = np.zeros((50, 3)), np.tile([0, 1], 25)
    moved = [
        learner(seed, steps=1, step_size=0.25).fit(x, y, np.full(50, 1.0)).coef_[0] for seed in range(1500)
    ]
    bound = math.sqrt(1.0 + 0.5**2)
    expected = noise_of_a_step(1.0, 1e-5, 1, 50, bound) * 0.25 / (bound**2 / 4.0)
    # 4,500 normals: a standard error of 1.06 % of the deviation; five of them, rate 6e-7.
    assert np.std(moved) == pytest.approx(expected, rel=0.055)


def test_it_learns_and_more_epsilon_helps():
    x, y = records()
    scores = [
        np.mean([(learner(k).fit(x, y, np.full(2_000, eps)).predict(x) == y).mean() for k in range(5)])
        for eps in (0.03, 3.0)
    ]
    assert scores[1] > 0.85
    assert scores[0] < scores[1]


def test_records_below_the_promise_that_buys_most_are_left_out():
    x, y = records(100)
    promises = np.where(np.arange(100) < 20, 0.1, 1.0)
    first = learner().fit(x, y, promises)
    second = learner().fit(np.where(promises[:, None] < 1.0, -x, x), y, promises)
    assert (first.coef_ == second.coef_).all()
    assert first.epsilons_.tolist() == np.where(promises < 1.0, 0.0, 1.0).tolist()


def test_it_obeys_the_protocol_and_refuses_a_senseless_delta():
    assert isinstance(learner(), Learner)
    x, y = records(50)
    with pytest.raises(InvalidInput):
        learner(delta=0.0).fit(x, y, np.ones(50))
    shares = learner().fit(x, y, np.ones(50)).predict_proba(x)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
