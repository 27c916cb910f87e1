"""The joint mechanism (Algorithm 4): its minimum, its payments, and what moves neither."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from dpmarket.costs import CostDistribution, Mixture, Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.groups import weight_cap
from dpmarket.mechanisms.joint import Inner, JointMechanism, solve_newton
from dpmarket.privacy import SeededNoise
from dpmarket.privacy.noise import radial_noise
from support.joint import cancer, synthetic

UNIFORM = VirtualCost.of(Uniform(1, 5))
BASE = {
    "costs": UNIFORM, "mu": 4.0, "sigma": 1.0, "gamma": 0.02, "l2": 1.0, "noise_source": SeededNoise(3),
}  # fmt: skip
MARKETS = {
    "convex": {},
    "capped": {"mu": 2.0, "gamma": 0.05, "l2": 2.0, "weight_cap": 1.7},
    "total bounded": {"mu": 2.0, "gamma": 1e-3, "l2": 2.0, "weight_cap": 2.0, "max_mean_epsilon": 0.5},
    "not convex": {"mu": 0.4, "gamma": 0.05, "l2": 0.3},
    "log-normal": {
        "gamma": 0.1,
        "costs": VirtualCost.of(CostDistribution(stats.lognorm(s=0.5, scale=2.0), 0.5, 10), 0.02),
    },
    "ironed": {
        "gamma": 0.1, "costs": VirtualCost.of(Mixture([Uniform(0.5, 1), Uniform(2, 3)], [0.5, 0.5])),
    },
}  # fmt: skip


def instance(name, m, seed=0, **more):
    market = JointMechanism(*synthetic(m, 2, seed), **BASE | MARKETS[name] | more)
    low, high = market.costs.knots[0], market.costs.reserve_price
    return market, np.random.default_rng(seed + 10).uniform(low, high, m)


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


@pytest.mark.parametrize("name", ["total bounded", "not convex"])
def test_no_other_total_is_better(name):
    market, costs = instance(name, 9, seed=3)
    assert (market.convexity > 1.0) == (name != "not convex")
    outcome = market.run(costs)
    for factor in (*np.geomspace(0.05, 20, 13), 0.99, 0.999, 1.001, 1.01):
        total = min(factor * outcome.total, 9 * market.most)
        prices = market.gamma * total * np.asarray(market.costs(costs))
        cap = weight_cap(1.0, 9, 9, market.multiple)
        at = solve_newton(
            Inner(market.rows, prices, np.zeros(2), market.l2, market.mu, cap), outcome.coefficients
        )
        # Between two entries of the menu the minimum is lower by at most the square of its step.
        assert at.value + market.sigma / total >= outcome.objective_value * (1 - 1 / 256**2)


def test_the_noise_moves_coefficients_and_neither_epsilons_nor_payments():
    X, y = synthetic(9, 2)
    first, second = (
        JointMechanism(X, y, **BASE | {"noise_source": SeededNoise(seed)}).run(np.linspace(1, 4, 9))
        for seed in (1, 2)
    )
    assert first.payments.tolist() == second.payments.tolist()
    assert np.abs(first.coefficients - second.coefficients).max() > 0.01
    signed = y[:, None] * X
    slopes = 1 / (1 + np.exp(signed @ first.coefficients))
    needed = (first.weights * slopes) @ signed - BASE["l2"] * first.coefficients
    drawn, _ = radial_noise(SeededNoise(1).bits(), 2, first.total, 1e-14).high_low()
    np.testing.assert_allclose(needed, drawn, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", MARKETS)
def test_no_misreport_gains_nobody_loses_and_a_higher_report_never_gets_more_epsilon(name):
    market, costs = instance(name, 5)
    outcome = market.run(costs)
    assert (outcome.payments >= costs * outcome.epsilons - 1e-12).all()
    low, high = market.costs.knots[0], market.costs.reserve_price
    for i in (0, 2):
        truth = outcome.payments[i] - costs[i] * outcome.epsilons[i]
        reports = np.sort([*np.linspace(0.5 * low, 1.2 * high, 6), 0.9 * costs[i], 1.01 * costs[i]])
        epsilons, payments = np.array([market.respond(costs, i, report) for report in reports]).T
        assert (payments - costs[i] * epsilons <= truth + 1e-9 * (1 + payments)).all()
        assert (np.diff(epsilons) <= 1e-8).all()
    answer = market.respond(costs, 3, costs[3])
    np.testing.assert_allclose(answer, (outcome.epsilons[3], outcome.payments[3]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": [[0.5, np.nan]]}, "1 NaN"), ({"X": [0.5]}, "shape"), ({"X": [[0.8125, 1.0]]}, "1 longer"),
        ({"y": [0]}, "-1 or"), ({"y": [1, -1]}, "same length"), ({"costs": Uniform(1, 5)}, "VirtualCost"),
        *(({name: 0.0}, name) for name in ("mu", "sigma", "gamma", "l2", "weight_cap", "max_mean_epsilon")),
    ],
)  # fmt: skip
def test_settings_and_records_that_make_no_sense_are_refused_without_a_value(changes, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        JointMechanism(**BASE | {"X": [[0.5]], "y": [1]} | changes)
    assert "0.8125" not in str(refusal.value)
