"""The best weights that keep the promises: against cvxpy, a grid, and the optimality conditions."""

import json
import re

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy import best_weights, privacy_loss, weights_for


def instance(seed):
    """Random promises (some equal, some zero) and prices; every second one has a cap."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 25))
    promises = rng.lognormal(0.0, 1.0, m)
    if seed % 3 == 0:
        promises[: m // 2] = promises[0]
    cap = None if seed % 2 else float(rng.uniform(1.05, m))
    if seed % 5 == 0 and m > 4 and (cap is None or cap > 2):
        promises[-1] = 0.0
    mu, sigma = rng.lognormal(0.0, 1.2, 2)
    return promises, mu, sigma, cap


def reference_by_cvxpy(promises, mu, sigma, cap):
    """Where there is no slack a promise reads a_i <= epsilon_i / eta: a second-order cone problem."""
    a, x = cp.Variable(promises.size), cp.Variable()
    limits = [a >= 0, a <= cp.multiply(promises, x), cp.sum(a) == 1]
    if cap is not None:
        limits.append(a <= cap / promises.size)
    return cp.Problem(cp.Minimize(mu * cp.norm(a) + sigma * x), limits).solve(solver=cp.CLARABEL)


def largest_weights(promises, eta, l2, bound, rows):
    """The largest weights that keep the promises, by bisection on the accounting alone."""
    low, high = np.zeros_like(promises), np.full_like(promises, 2.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        keeps = privacy_loss(middle, eta, l2, bound, rows) <= promises
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    return low


def value_at(eta, promises, l2, mu, sigma, cap, bound, rows):
    """The best objective at one noise rate, the level by bisection; infinite if infeasible."""
    limits = np.minimum(largest_weights(promises, eta, l2, bound, rows), cap)
    if limits.sum() < 1.0:
        return np.inf
    low, high = 0.0, 1.0
    for _ in range(60):
        level = 0.5 * (low + high)
        low, high = (level, high) if np.minimum(limits, level).sum() < 1 else (low, level)
    return mu * np.linalg.norm(np.minimum(limits, high)) + sigma / eta


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6, 8, 10, 15])
def test_agrees_with_cvxpy_where_the_constraint_is_linear(seed):
    promises, mu, sigma, cap = instance(seed)
    best = best_weights(promises, 1e6, mu, sigma, cap)
    assert best.objective_value == pytest.approx(reference_by_cvxpy(promises, mu, sigma, cap), rel=1e-6)


@pytest.mark.parametrize("seed", [0, 2, 3, 5, 10])
def test_agrees_with_a_fine_grid_where_there_is_slack(seed):
    promises, mu, sigma, cap = instance(seed)
    rng = np.random.default_rng(100 + seed)
    bound, rows = float(rng.choice([0.5, 1.0, 3.0])), int(rng.choice([1, 3]))
    l2 = 2.0 * bound**2 / promises.sum() * rng.uniform(0.3, 0.9)
    best = best_weights(promises, l2, mu, sigma, cap, bound, rows_per_person=rows)
    assert best.noise_rate * l2 < 2.0 * bound * 1.5
    limit = 1.0 if cap is None else cap / promises.size
    grid = best.noise_rate * np.concatenate([np.geomspace(0.03, 30.0, 150), np.linspace(0.97, 1.0, 31)])
    values = [value_at(eta, promises, l2, mu, sigma, limit, bound, rows) for eta in grid]
    assert best.objective_value <= min(values) * (1 + 1e-12)
    assert best.objective_value >= min(values) * (1 - 1e-3)


@given(st.integers(0, 10_000), st.floats(0.2, 5.0), st.sampled_from([0.5, 1.0, 3.0]))
def test_promises_and_cap_are_kept_and_the_slope_vanishes_inside(seed, factor, bound):
    promises, mu, sigma, cap = instance(seed)
    l2 = factor * 2.0 * bound**2 / promises.sum()
    try:
        best = best_weights(promises, l2, mu, sigma, cap, bound)
    except Infeasible:
        return
    assert np.all(privacy_loss(best.loss_weights, best.noise_rate, l2, bound) <= promises)
    assert abs(best.loss_weights.sum() - 1) <= 1e-12
    if cap is not None:
        assert best.loss_weights.max() <= cap / promises.size * (1 + 1e-12)
    if best.has_least_noise:
        assert best.stationarity >= 0.0
    else:
        assert abs(best.stationarity) <= 1e-9
    kept = best.loss_weights
    value = mu * np.linalg.norm(kept) + sigma / best.noise_rate
    assert best.objective_value == pytest.approx(value, rel=1e-14)


@given(st.integers(0, 10_000), st.floats(0.2, 5.0))
def test_using_every_promise_fully_is_never_better(seed, factor):
    promises, mu, sigma, _ = instance(seed)
    l2 = factor * 2.0 / promises.sum()
    full = weights_for(promises, l2)
    value = mu * np.linalg.norm(full.loss_weights) + sigma / full.noise_rate
    assert best_weights(promises, l2, mu, sigma).objective_value <= value * (1 + 1e-12)


@pytest.mark.parametrize("factor", [3.0, 0.4])
def test_if_only_noise_costs_every_promise_is_used_fully(factor):
    promises = np.array([0.1, 0.4, 1.5])
    l2 = factor * 2.0 / promises.sum()
    full = weights_for(promises, l2)
    best = best_weights(promises, l2, concentration=0.0, noise=1.0)
    assert best.has_least_noise
    assert best.noise_rate == pytest.approx(full.noise_rate, rel=1e-12)
    assert best.loss_weights == pytest.approx(full.loss_weights, rel=1e-11)


@pytest.mark.parametrize("factor", [3.0, 0.4])
def test_if_noise_costs_almost_nothing_the_weights_are_equal(factor):
    promises = np.array([0.1, 0.4, 1.5])
    l2 = factor * 2.0 / promises.sum()
    if factor < 1:
        l2 = 1.05 / (4 * 3 * np.expm1(0.1))
    best = best_weights(promises, l2, concentration=1.0, noise=1e-9)
    assert best.loss_weights == pytest.approx(np.full(3, 1 / 3), rel=1e-3)


def test_equal_promises_get_equal_weights_and_the_least_noise():
    best = best_weights([0.5] * 8, 0.1, 1.0, 1.0)
    assert best.loss_weights == pytest.approx(np.full(8, 0.125), rel=1e-12)
    assert best.has_least_noise


@pytest.mark.parametrize("people", [7, 49, 98, 103])
def test_a_cap_of_one_over_the_people_forces_equal_weights_whatever_the_rounding(people):
    promises = np.linspace(0.5, 2.0, people)
    best = best_weights(promises, 10.0, 1.0, 1.0, weight_cap=1.0)
    assert best.loss_weights == pytest.approx(np.full(people, 1 / people), rel=1e-12)
    assert best.noise_rate == pytest.approx(0.5 * people, rel=1e-12)
    with_slack = best_weights(promises, 1.0 / people, 1.0, 1.0, weight_cap=1.0)
    assert with_slack.loss_weights == pytest.approx(np.full(people, 1 / people), rel=1e-12)
    assert with_slack.noise_rate < 0.5 * people * (1 - 1e-3)
    losses = privacy_loss(with_slack.loss_weights, with_slack.noise_rate, 1.0 / people)
    assert losses[0] == pytest.approx(0.5, rel=1e-11)


def test_what_is_set_aside_is_not_spent():
    promises = np.array([0.5, 1.0, 0.01])
    best = best_weights(promises, 0.4, 1.0, 1.0, numerical_epsilon=0.01)
    losses = privacy_loss(best.loss_weights, best.noise_rate, 0.4)
    assert best.loss_weights[2] == 0.0
    assert np.all(losses[:2] + 0.01 <= promises[:2])


@pytest.mark.parametrize("cap", [None, 1.5])
def test_infeasible_promises_are_refused_with_a_penalty_that_works(cap):
    promises = [0.1, 0.2, 0.5]
    with pytest.raises(Infeasible, match="expected sum") as caught:
        best_weights(promises, 0.05, 1.0, 1.0, cap)
    works = float(re.search(r"l2 = (\S+) works", str(caught.value))[1])
    assert best_weights(promises, works, 1.0, 1.0, cap).loss_weights.sum() == pytest.approx(1.0)


def test_a_cap_that_the_promised_people_cannot_fill_is_refused():
    with pytest.raises(Infeasible, match="raise weight_cap"):
        best_weights([0.0, 0.0, 1.0], 1.0, 1.0, 1.0, weight_cap=2.0)


def test_the_value_unpacks_and_turns_into_json():
    best = best_weights([1.0, 2.0], 2.0, 1.0, 1.0)
    loss_weights, noise_rate = best
    assert loss_weights is best.loss_weights
    assert not loss_weights.flags.writeable
    assert json.loads(json.dumps(best.to_dict()))["noise_rate"] == noise_rate


@pytest.mark.parametrize(
    "values", [[0.1, np.nan], [0.1, -1.0], [np.inf, 1.0], ["a"], [], [0.0, 0.0], None], ids=str
)
def test_promises_that_are_no_promises_are_refused(values):
    with pytest.raises(InvalidInput, match=r"epsilons|promise"):
        best_weights(values, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"l2": 0.0},
        {"concentration": -1.0},
        {"concentration": np.nan},
        {"noise": 0.0},
        {"noise": "1"},
        {"weight_cap": 0.9},
        {"weight_cap": np.inf},
        {"row_bound": 0.0},
        {"rows_per_person": 0},
        {"numerical_epsilon": 5.0},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(arguments):
    with pytest.raises(InvalidInput):
        best_weights([1.0, 2.0], **{"l2": 1.0, "concentration": 1.0, "noise": 1.0} | arguments)
