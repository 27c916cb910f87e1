"""The paper's algorithms as printed: each against an independent small computation."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaincc

import printed
from dpmarket.costs import Uniform, VirtualCost
from dpmarket.mechanisms import OfflineMechanism, PaperObjective, paper_schedule
from dpmarket.mechanisms.joint import Inner, solve_newton

TERMS = (1.3, 0.7, 0.02)


def records(count=40, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-0.5, 0.5, size=(count, 3))
    return rows, np.where(rows[:, 0] + 0.2 * rng.standard_normal(count) > 0.0, 1.0, -1.0), rng


def test_training_ends_where_a_general_solver_does():
    rows, signs, rng = records()
    weights, pull = rng.dirichlet(np.ones(40)), rng.standard_normal(3)

    def value(w):
        return weights @ np.logaddexp(0.0, -signs * (rows @ w)) + pull @ w + 0.05 * (w @ w)

    (w,) = printed.train(rows, signs, weights, pull[None, :], 0.1)
    other = minimize(value, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    assert value(w) <= other.fun + 1e-9
    assert w == pytest.approx(other.x, abs=1e-3)


@pytest.mark.parametrize(
    ("psi", "terms"),
    [
        (np.sort(np.random.default_rng(0).uniform(1, 9, 30)), TERMS),
        (np.array([0.15, 0.81056, 528.535]), (1.10505, 1.37927, 0.524756)),  # two minima nearby
        (np.array([2.0, 2.0, 2.0]), TERMS),
    ],
)
def test_the_equation_of_the_cut_off_price_gives_the_least_proxy_loss(psi, terms):
    loss, level, factor = printed.optimal_epsilons(psi, *terms)
    epsilons = factor * np.maximum(level - terms[2] * psi, 0.0)
    assert printed.proxy_loss(epsilons, psi, *terms) == pytest.approx(loss, rel=1e-9)
    rng = np.random.default_rng(2)
    near = np.maximum(epsilons * np.exp(0.1 * rng.standard_normal((300, psi.size))), 0.0)
    far = rng.exponential(epsilons.max(), (300, psi.size))
    assert loss <= min(printed.proxy_loss(other, psi, *terms) for other in (*near, *far)) + 1e-12


def test_the_package_buys_the_same_up_to_the_step_of_its_menu():
    costs = np.sort(Uniform(1, 5).sample(100, np.random.default_rng(0)))
    loss = printed.optimal_epsilons(2.0 * costs - 1.0, *TERMS)[0]
    outcome = OfflineMechanism(Uniform(1, 5), PaperObjective(*TERMS)).run(costs)
    found = printed.proxy_loss(outcome.epsilons, 2.0 * costs - 1.0, *TERMS)
    assert loss * (1.0 - 1e-12) <= found <= loss * (1.0 + 2.0 / 256**2)


def test_algorithm_2_as_printed_is_above_the_optimum_by_its_grid_alone():
    psi = np.sort(np.random.default_rng(0).uniform(1, 9, 30))
    loss = printed.optimal_epsilons(psi, *TERMS)[0]
    fine = printed.algorithm2(psi, *TERMS, np.geomspace(1.0, 30.0, 60))
    assert loss <= fine.values.min() <= loss * 1.002
    assert fine.weights.sum() == pytest.approx(1.0)


def test_algorithm_3_is_the_packages_schedule():
    schedule = paper_schedule(VirtualCost.of(Uniform(0, 1)), PaperObjective(1.0, 1.0, 1e-3), 5000, 0.5)
    costs = np.linspace(0.0, 1.0, 50)
    printed_epsilons = printed.algorithm3(2.0 * costs, 1.0, 1.0, 1e-3, 5000, 0.5)
    assert printed_epsilons == pytest.approx(schedule.quote(costs)[0], abs=1e-9)


def test_with_the_noise_drawn_the_objective_falls_without_bound_and_a_ball_ends_that():
    rows, signs, rng = records()
    psi, noise = rng.uniform(1, 9, 40), 3.0 * rng.standard_normal(3)
    inner, totals = Inner(signs[:, None] * rows, psi, noise, 1.0, 30.0, 1.0), np.geomspace(1e-3, 1.0, 4)
    free = printed.algorithm4(inner, psi, 10.0, 0.01, totals, noise)[2]
    ball = printed.algorithm4(inner, psi, 100.0, 0.01, totals, noise, radius=0.5)
    assert (np.diff(free) > 0.0).all()
    assert free[0] < -1e5
    assert (np.diff(ball[2]) < 0.0).all()
    assert np.linalg.norm(ball[1].coefficients) <= 0.5 * (1.0 + 1e-9)


def test_one_table_of_prices_serves_every_payment_weight():
    rows, signs, rng = records()
    psi = rng.uniform(1, 9, 40)
    signed, products = signs[:, None] * rows, np.array([1e-3, 1.0])
    choices = printed.JointChoices(signed, psi, 1.0, 30.0, 0.2, products)
    inner = Inner(signed, psi, np.zeros(3), 1.0, 30.0, 0.2)
    for sigma, gamma in ((10.0, 0.01), (1.0, 1.0)):
        total, _, value = choices.choose(sigma, gamma)
        totals = total * np.array([0.5, 0.9, 0.999, 1.0, 1.001, 1.1, 2.0])
        grid = printed.algorithm4(inner, psi, sigma, gamma, totals, np.zeros(3))[2]
        assert value == pytest.approx(grid[3], rel=1e-9)
        assert value <= grid.min() + 1e-9


def test_the_line_search_of_algorithm_4_ends_between_the_totals_of_its_grid():
    rows, signs, rng = records()
    psi = rng.uniform(1, 9, 40)
    inner = Inner(signs[:, None] * rows, psi, np.zeros(3), 1.0, 30.0, 0.2)
    best = printed.JointChoices(inner.rows, psi, 1.0, 30.0, 0.2, np.array([0.1])).choose(10.0, 0.01)[0]
    for totals in (best * np.array([0.3, 0.9, 2.0]), best * np.array([0.7, 1.2, 5.0])):
        total, solution, _ = printed.algorithm4(inner, psi, 10.0, 0.01, totals, np.zeros(3))
        assert total == pytest.approx(best, rel=1e-9)
        assert total**2 * 0.01 * (solution.weights @ psi) == pytest.approx(10.0, rel=1e-9)
    for totals, end in ((best * np.array([1.5, 2.0]), 0), (best * np.array([0.3, 0.5]), -1)):
        assert printed.algorithm4(inner, psi, 10.0, 0.01, totals, np.zeros(3))[0] == totals[end]


def test_projecting_onto_the_sum_alone_lets_weights_become_negative():
    rows, signs, rng = records()
    psi = rng.uniform(1, 9, 40)
    inner = Inner(signs[:, None] * rows, 0.5 * psi, np.zeros(3), 1.0, 5.0, 1.0)
    a = printed.pseudocode_descent(inner, np.zeros(3), 0.05, 300)[1]
    assert a.sum() == pytest.approx(1.0)
    assert a.min() < 0.0


def test_constants_of_the_error_bound():
    assert printed.printed_constants(1.0, 0.05, 0.05, 3, math.e)[0] == pytest.approx(9.788, abs=1e-3)
    assert printed.printed_constants(1.0, 0.05, 0.05, 3, 2.0)[0] == pytest.approx(13.483, abs=1e-3)
    assert gammaincc(3, printed.noise_quantile(0.05, 3) / 2.0) == pytest.approx(0.05)
    for beta in np.geomspace(1e-3, 1e3, 13):  # to base 2 they are at least those of the proofs
        mu, sigma = printed.printed_constants(beta, 0.01, 0.1, 3, 2.0)
        assert mu >= printed.short_constants(beta, 0.01, 0.1, 3)[0]
        assert mu >= printed.repaired_constants(beta, 0.01, 0.1, 3)[0]
        assert sigma >= printed.short_constants(beta, 0.01, 0.1, 3)[1]


def test_the_greedy_choice_for_the_naive_buyer_is_the_best_corner():
    rows, signs, rng = records(7)
    inner = Inner(signs[:, None] * rows, 0.1 * rng.uniform(1.0, 9.0, 7), np.zeros(3), 0.2, 0.0, 1 / 3)
    chosen = np.array(list(itertools.combinations(range(7), 3)))
    corners = (np.arange(7) == chosen[:, :, None]).sum(axis=1) / 3
    least = min(solve_newton(inner, np.zeros(3), weights).value for weights in corners)
    found = [printed.solve_greedy(inner, 4 * rng.standard_normal(3)).value for _ in range(20)]
    assert min(found) == pytest.approx(least, abs=1e-12)
