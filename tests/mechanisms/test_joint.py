"""The joint mechanism (Algorithm 4): its minimum, its payments, and why it is not private."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize

from dpmarket.audit.density import Group, log_density
from dpmarket.costs import CostDistribution, Mixture, Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.groups import weight_cap
from dpmarket.mechanisms.joint import Inner, JointMechanism, solve_newton
from dpmarket.numerics import project_to_capped_simplex
from dpmarket.privacy import NoiseNorm, Release, SeededNoise, logistic_loss
from dpmarket.privacy.noise import radial_noise
from support.joint import cancer, synthetic


def charged(weights, rate, l2):
    return Release(logistic_loss(), NoiseNorm.euclidean(1), l2).epsilons(weights, rate)


UNIFORM = VirtualCost.of(Uniform(1, 5))
BASE = JointMechanism(costs=UNIFORM, mu=4.0, sigma=1.0, gamma=0.02, l2=1.0, noise_source=SeededNoise(3))
MARKETS = {
    "convex": BASE,
    "capped": dataclasses.replace(BASE, mu=2.0, gamma=0.05, l2=2.0, weight_cap=1.7),
    "total bounded": dataclasses.replace(
        BASE, mu=2.0, gamma=1e-3, l2=2.0, weight_cap=2.0, max_mean_epsilon=0.5
    ),
    "not convex": dataclasses.replace(BASE, mu=0.4, gamma=0.05, l2=0.3),
    "log-normal": dataclasses.replace(
        BASE,
        gamma=0.1,
        costs=VirtualCost.of(CostDistribution(stats.lognorm(s=0.5, scale=2.0), 0.5, 10), None, 0.02),
    ),
    "ironed": dataclasses.replace(
        BASE, gamma=0.1, costs=VirtualCost.of(Mixture([Uniform(0.5, 1), Uniform(2, 3)], [0.5, 0.5]))
    ),
}


def instance(name, m, seed=0):
    X, y = synthetic(m, 2, seed)
    mechanism = MARKETS[name]
    low, high = mechanism.costs.knots[0], mechanism.costs.reserve_price
    return mechanism.with_records(X, y), np.random.default_rng(seed + 10).uniform(low, high, m)


def test_the_minimum_is_that_of_a_general_solver():
    X, y = synthetic(12, 2)
    rng = np.random.default_rng(0)
    inner = Inner(y[:, None] * X, 0.1 * rng.uniform(1.0, 9.0, 12), rng.standard_normal(2), 1.0, 2.0, 0.15)
    found = solve_newton(inner, np.zeros(2))
    other = minimize(
        lambda v: inner.value(v[:2], v[2:]),
        np.r_[np.zeros(2), np.full(12, 1 / 12)],
        method="SLSQP",
        bounds=[(None, None)] * 2 + [(0, 0.15)] * 12,
        constraints=[{"type": "eq", "fun": lambda v: v[2:].sum() - 1.0}],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.value == pytest.approx(other.fun, abs=1e-8)
    assert found.weights.max() == 0.15  # the cap binds


def test_a_solution_whose_value_no_longer_falls_is_taken():
    # A gradient of about 1e-7 cannot be lowered there: a step changes the value by less than its rounding.
    X, y = cancer(341)
    rng = np.random.default_rng(4)
    psi, noise = rng.uniform(0.018, 0.16, y.size), rng.standard_normal(X.shape[1])
    for total in 341.0 * np.geomspace(0.05, 30.0, 12)[:4]:
        inner = Inner(y[:, None] * X, 1e-3 * total * psi, 10.0 * noise / total, 1.0, 100.0, 1.0)
        found = solve_newton(inner, np.zeros(X.shape[1]))
        assert np.linalg.norm(inner.gradient(found.coefficients, found.weights)) <= 1e-6 * inner.scale


def test_the_projection_is_the_nearest_point_of_the_capped_simplex():
    rng = np.random.default_rng(0)
    for _ in range(10):
        point, cap = rng.standard_normal(8), rng.choice([0.13, 0.3, 1.0])
        found = project_to_capped_simplex(point, cap)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
        assert 0 <= found.min() <= found.max() <= cap
        for _ in range(40):
            other = project_to_capped_simplex(found + 0.1 * rng.standard_normal(8), cap)
            assert (point - found) @ (other - found) <= 1e-12


@pytest.mark.parametrize("name", ["total bounded", "not convex"])
def test_no_other_total_is_better(name):
    market, costs = instance(name, 9, seed=3)
    outcome = market.run(costs)
    m = market.mechanism
    top = np.inf if m.max_mean_epsilon is None else 9 * m.max_mean_epsilon
    for factor in (*np.geomspace(0.05, 20, 13), 0.99, 0.999, 1.001, 1.01):
        total = min(factor * outcome.total, top)
        prices, cap = m.gamma * total * np.asarray(m.costs(costs)), weight_cap(1.0, 9, 9, m.weight_cap)
        at = solve_newton(Inner(market.rows, prices, np.zeros(2), m.l2, m.mu, cap), outcome.coefficients)
        # Between two entries of the menu the minimum is lower by at most the square of its step.
        assert at.value + m.sigma / total >= outcome.objective_value * (1 - 1 / 256**2)


def test_the_noise_moves_coefficients_and_neither_epsilons_nor_payments():
    X, y = synthetic(9, 2)
    first, second = (
        dataclasses.replace(BASE, noise_source=SeededNoise(seed)).with_records(X, y).run(np.linspace(1, 4, 9))
        for seed in (1, 2)
    )
    assert first.payments.tolist() == second.payments.tolist()
    assert np.abs(first.coefficients - second.coefficients).max() > 0.01
    signed = y[:, None] * X
    slopes = 1 / (1 + np.exp(signed @ first.coefficients))
    needed = (first.weights * slopes) @ signed - BASE.l2 * first.coefficients
    drawn, _ = radial_noise(SeededNoise(1).bits(), 2, first.total, 1e-14).high_low()
    np.testing.assert_allclose(needed, drawn, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", MARKETS)
def test_no_misreport_gains_nobody_loses_and_a_higher_report_never_gets_more_epsilon(name):
    market, costs = instance(name, 5)
    outcome = market.run(costs)
    assert (outcome.payments >= costs * outcome.epsilons - 1e-12).all()
    low, high = market.mechanism.costs.knots[0], market.mechanism.costs.reserve_price
    for i in (0, 2):
        truth = outcome.payments[i] - costs[i] * outcome.epsilons[i]
        reports = np.sort([*np.linspace(0.5 * low, 1.2 * high, 6), 0.9 * costs[i], 1.01 * costs[i]])
        epsilons, payments = np.array([market.respond(costs, i, report) for report in reports]).T
        assert (payments - costs[i] * epsilons <= truth + 1e-9 * (1 + payments)).all()
        assert (np.diff(epsilons) <= 1e-8).all()
    answer = market.respond(costs, 3, costs[3])
    np.testing.assert_allclose(answer, (outcome.epsilons[3], outcome.payments[3]), rtol=1e-9, atol=1e-12)


def test_the_rent_is_the_integral_of_epsilon():
    market, costs = instance("capped", 4, seed=5)
    outcome = market.run(costs)
    i = int(outcome.epsilons.argmax())
    top = market.mechanism.costs.reserve_price
    area = quad(lambda z: market.respond(costs, i, z)[0], costs[i], top, epsrel=1e-3, limit=4, full_output=1)
    assert outcome.payments[i] == pytest.approx(costs[i] * outcome.epsilons[i] + area[0], rel=5e-3)


# Eleven people, one feature; the last one's label decides which side has the majority.
ONES, REPORTS = np.ones((11, 1)), np.linspace(1.5, 5.0, 11)
LABELS = np.where(np.arange(11) % 2 == 0, 1.0, -1.0)
REPLACED = np.where(np.arange(11) == 10, -1.0, LABELS)
SMALL = dataclasses.replace(BASE, mu=0.5, gamma=1e-3, l2=0.5, max_mean_epsilon=10 / 11)


def density(w, labels, weights, rate):
    release = Release(logistic_loss(), NoiseNorm.euclidean(1), SMALL.l2)
    return log_density(release, rate, w[:, None, :], Group(ONES, (labels > 0.0).astype(float), weights))


def test_weights_chosen_from_records_lose_several_times_the_privacy_that_they_claim():
    w = np.linspace(-100.0, 100.0, 4001)[:, None]
    densities, claims = [], []
    for labels in (LABELS, REPLACED):
        outcome = SMALL.with_records(ONES, labels).run(REPORTS)
        densities.append(density(w, labels, outcome.weights, outcome.total))
        claims.append(charged(outcome.weights, outcome.total, SMALL.l2)[10])
        fixed = outcome.weights
    assert np.abs(densities[0] - densities[1]).max() > 3.5 * max(claims)
    # Weights that stay what they were keep the claim: it is the choice that leaks.
    first, second = (density(w, labels, fixed, 10.0) for labels in (LABELS, REPLACED))
    assert np.abs(first - second).max() <= charged(fixed, 10.0, 0.5)[10]


def test_convexity_is_reported_and_stationary_points_are_counted():
    flat = dataclasses.replace(SMALL, max_mean_epsilon=None).with_records(ONES, LABELS).run(REPORTS)
    assert flat.convexity < 1.0
    assert flat.stationary_points >= 2
    sure = dataclasses.replace(SMALL, mu=11.5).with_records(ONES, LABELS).run(REPORTS)
    assert sure.convexity > 1.0
    assert sure.stationary_points == 1
    assert "not private" in repr(sure)


def test_settings_out_of_range_are_refused():
    for name, wrong in {
        "costs": Uniform(1, 5), "mu": 0.0, "gamma": 0.0, "l2": 0.0, "sigma": 0.0, "max_mean_epsilon": -1.0,
        "weight_cap": 0.5, "starts": -1,
    }.items():  # fmt: skip
        with pytest.raises(InvalidInput, match="VirtualCost" if name == "costs" else name):
            dataclasses.replace(BASE, **{name: wrong})


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[0.5, np.nan]], [1], "1 NaN"), ([0.5], [1], "shape"), ([[0.8125, 0.9375]], [1], "found 1 longer"),
        ([[0.5]], [0], "-1 or"), ([[0.5]], [1, -1], "same length"),
    ],
)  # fmt: skip
def test_records_that_make_no_sense_are_refused_without_a_value(X, y, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        BASE.with_records(X, y)
    assert "0.8125" not in str(refusal.value)
