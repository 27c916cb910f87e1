"""Payments of the data-dependent mechanism: no lie pays, nobody loses, three rules that fit together."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import dpmarket as dpm
from dpmarket import BuyerObjective, FromScipy, Infeasible, Mixture, Uniform
from dpmarket.costs import PiecewiseLinear
from dpmarket.mechanisms.joint import (
    BoundedCoefficients,
    EnvelopePayments,
    ExpectedPayments,
    JointMechanism,
    QuadraturePayments,
)
from dpmarket.privacy import SeededNoise
from support.joint import synthetic

UNIFORM = Uniform(1, 5)
MARKETS = {
    "convex": JointMechanism(UNIFORM, BuyerObjective(4.0, 1.0, 0.02), 1.0),
    "capped": JointMechanism(UNIFORM, BuyerObjective(2.0, 1.0, 0.05, weight_cap=1.7), 2.0),
    "bounded": JointMechanism(UNIFORM, BuyerObjective(4.0, 8.0, 0.05), 1.0, reading=BoundedCoefficients(0.2)),
    "total bounded": JointMechanism(
        UNIFORM, BuyerObjective(2.0, 1.0, 1e-3, weight_cap=2.0, max_mean_epsilon=0.5), 2.0
    ),
    "two valleys": JointMechanism(Uniform(0.01, 16.25), BuyerObjective(1.05, 1.0, 0.00187), 2.1),
    "not convex": JointMechanism(UNIFORM, BuyerObjective(0.4, 1.0, 0.05), 0.3),
    "one grid value": JointMechanism(UNIFORM, BuyerObjective(4.0, 1.0, 0.05), 1.0, mean_epsilons=[0.7]),
}
MARKETS = {
    name: dataclasses.replace(mechanism, noise_source=SeededNoise(3)) for name, mechanism in MARKETS.items()
}
each = pytest.mark.parametrize("name", MARKETS)


def instance(name, m, seed=0):
    """The market with records, and costs."""
    X, y = synthetic(m, 2, seed)
    mechanism = MARKETS[name]
    costs = mechanism.dist.sample(m, np.random.default_rng(seed + 10))
    if name == "two valleys":
        X, y, costs = np.ones((4, 1)), np.array([1.0, 1.0, -1.0, -1.0]), np.array([0.088, 0.067, 8.89, 4.018])
    return mechanism.with_records(X, y), costs


@each
def test_no_lie_pays(name):
    # Every response is a full solution of the market with that report, and its own payment.
    market, costs = instance(name, 5)
    low, high = market.mechanism.dist.support
    outcome = market.run(costs)
    for i in (0, 2):
        truth = outcome.payments[i] - costs[i] * outcome.epsilons[i]
        near = costs[i] * np.array([0.9, 0.99, 1.01, 1.1])
        for lie in (*np.linspace(low, high, 9), *near, 0.5 * low, 1.2 * high):
            answer = market.respond(costs, i, lie)
            assert answer.payment - costs[i] * answer.epsilon <= truth + 1e-8 * (1 + answer.payment)


@each
def test_a_higher_report_never_gets_a_higher_epsilon(name):
    market, costs = instance(name, 5, seed=1)
    low, high = market.mechanism.dist.support
    epsilons = [market.respond(costs, 0, z).epsilon for z in np.linspace(low, high, 12)]
    assert (np.diff(epsilons) <= 1e-8).all()
    assert epsilons[0] > epsilons[-1]


def test_paying_just_the_virtual_cost_would_make_lying_pay():
    market, costs = instance("convex", 4)
    cheap = dataclasses.replace(market.mechanism, payments=ExpectedPayments())
    X, y = synthetic(4, 2, 0)
    market = cheap.with_records(X, y)
    i = 0
    outcome = market.run(costs)
    truth = outcome.payments[i] - costs[i] * outcome.epsilons[i]
    answers = [market.respond(costs, i, z) for z in np.linspace(1, 5, 30)]
    assert max(a.payment - costs[i] * a.epsilon for a in answers) > 1.01 * truth


@each
def test_nobody_loses_by_taking_part_in_exact_arithmetic(name):
    market, costs = instance(name, 9, seed=2)
    outcome = market.run(costs)
    for cost, epsilon, payment in zip(costs, outcome.epsilons, outcome.payments, strict=True):
        assert Fraction(payment) >= Fraction(cost) * Fraction(epsilon)
        assert (payment == 0) == (epsilon == 0)


@each
def test_responding_to_the_truth_is_what_run_decides(name):
    market, costs = instance(name, 7, seed=4)
    assert isinstance(market, dpm.mechanisms.Mechanism)
    outcome = market.run(costs)
    for i in (0, 3):
        answer = market.respond(costs, i, costs[i])
        assert answer.epsilon == pytest.approx(outcome.epsilons[i], rel=1e-9, abs=1e-12)
        assert answer.payment == pytest.approx(outcome.payments[i], rel=1e-9, abs=1e-12)
        other = float(np.clip(costs[i] * 1.1, *market.mechanism.dist.support))
        moved = costs.copy()
        moved[i] = other
        again, answer = market.run(moved), market.respond(costs, i, other)
        assert answer.payment == pytest.approx(again.payments[i], rel=1e-9, abs=1e-12)
    assert market.respond(costs, 0, 1e3) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["convex", "capped", "bounded", "two valleys"])
def test_the_envelope_formula_is_the_integral_of_epsilon(name):
    # A third way: scipy's quadrature over full solutions, with nothing of either payment rule.
    market, costs = instance(name, 4, seed=5)
    outcome = market.run(costs)
    i = int(outcome.epsilons.argmax())
    top = market.mechanism.dist.support[1]
    area, _ = quad(
        lambda z: market.respond(costs, i, z).epsilon, costs[i], top, epsrel=1e-4, limit=12, full_output=1
    )[:2]
    expected = costs[i] * outcome.epsilons[i] + area
    assert outcome.payments[i] == pytest.approx(expected, rel=1e-3)
    assert outcome.payment_errors[i] < 1e-8 * outcome.payments[i]
    assert outcome.payment_rule == EnvelopePayments()


@pytest.mark.parametrize("name", ["convex", "capped", "bounded", "total bounded"])
def test_quadrature_pays_what_the_envelope_formula_pays(name):
    X, y = synthetic(4, 2, 0)
    costs = UNIFORM.sample(4, np.random.default_rng(1))
    exact = MARKETS[name].run(costs, X, y)
    by_area = dataclasses.replace(MARKETS[name], payments=QuadraturePayments(1e-6)).run(costs, X, y)
    np.testing.assert_allclose(by_area.payments, exact.payments, rtol=1e-6)
    assert by_area.payment_rule == QuadraturePayments(1e-6)
    assert by_area.to_dict()["payment_rule"]["kind"] == "quadrature"


@pytest.mark.parametrize(
    "dist",
    [
        FromScipy(stats.lognorm(s=0.5, scale=2.0), 0.5, 10),
        FromScipy(stats.expon(scale=2.0)),
        Mixture([Uniform(0.5, 1), Uniform(2, 3)], [0.5, 0.5]),
    ],
    ids=["log-normal", "no upper end", "ironed"],
)
def test_no_lie_pays_under_any_distribution(dist):
    X, y = synthetic(4, 2, 3)
    mechanism = JointMechanism(dist, BuyerObjective(3.0, 1.0, 0.1), 1.0)
    assert mechanism.payments == QuadraturePayments()
    market = dataclasses.replace(mechanism, payments=QuadraturePayments(1e-4)).with_records(X, y)
    costs = np.maximum(dist.sample(4, np.random.default_rng(2)), 0.05)
    paid = market.respond(costs, 0, costs[0])
    truth = paid.payment - costs[0] * paid.epsilon
    assert truth >= 0.0
    for lie in costs[0] * np.array([0.7, 1.5]):
        answer = market.respond(costs, 0, lie)
        assert answer.payment - costs[0] * answer.epsilon <= truth + 3e-4 * (1 + answer.payment)


def test_a_seller_who_is_needed_at_every_price_is_refused_where_costs_have_no_end():
    X, y = synthetic(3, 2)
    needed = JointMechanism(FromScipy(stats.expon()), BuyerObjective(3.0, 1.0, 0.1, weight_cap=1.0), 1.0)
    with pytest.raises(Infeasible, match="weight_cap"):
        needed.run([0.5, 1.0, 1.5], X, y)


def test_a_seller_who_is_let_in_at_no_price_once_gone_is_paid_up_to_their_last_report():
    # Two opposite records and nearly no price on uneven weights: the cheaper one alone is bought. Trained on
    # the other one alone, the model would not take it back even for nothing: it is another valley. It is the
    # deeper one up to a report that about equals the other's.
    dist = PiecewiseLinear([1.0, 3.0, 5.0], [0.3, 0.2, 0.1])
    mechanism = JointMechanism(dist, BuyerObjective(0.01, 1e-3, 1e-3), 0.05)
    outcome = mechanism.run([1.2, 1.3], [[1.0], [1.0]], [1, -1])
    assert outcome.epsilons[0] > outcome.epsilons[1] == outcome.payments[1] == 0.0
    assert 1.29 * outcome.epsilons[0] < outcome.payments[0] <= 1.3 * outcome.epsilons[0]


def test_expected_payments_are_virtual_costs_times_epsilon():
    market, costs = instance("convex", 8)
    X, y = synthetic(8, 2, 0)
    outcome = dataclasses.replace(market.mechanism, payments=ExpectedPayments()).run(costs, X, y)
    np.testing.assert_allclose(
        outcome.payments, dpm.virtual_costs(costs, UNIFORM) * outcome.epsilons, rtol=1e-14
    )
    assert outcome.payment_rule == ExpectedPayments()


def test_exact_payments_equal_expected_ones_on_average():
    # Paper, Lemma `mech design`. Over 60 markets the mean difference is within 5 standard errors: by the
    # normal limit a false alarm has probability 6e-7. Payments without their integral are lower (asserted).
    X, y = synthetic(5, 2, 6)
    market = MARKETS["convex"].with_records(X, y)
    rng = np.random.default_rng(0)
    differences, shortfalls = [], []
    for _ in range(60):
        costs = UNIFORM.sample(5, rng)
        outcome = market.run(costs)
        virtual = outcome.epsilons @ dpm.virtual_costs(costs, UNIFORM)
        differences.append(outcome.total_payment - virtual)
        shortfalls.append(outcome.epsilons @ costs - virtual)
    error = np.std(differences, ddof=1) / np.sqrt(60)
    assert abs(np.mean(differences)) < 5 * error
    assert abs(np.mean(shortfalls)) > 10 * error


def test_progress_is_told_seller_by_seller():
    market, costs = instance("convex", 5)
    seen = []
    outcome = market.run(costs, progress=lambda done, total: seen.append((done, total)))
    bought = int((outcome.epsilons > 0).sum())
    assert seen == [(k + 1, bought) for k in range(bought)]


def test_payments_tell_about_the_records_of_others():
    # Why the outcome is private data: one person's label moves what another is paid.
    X, y = np.ones((7, 1)), np.where(np.arange(7) % 2 == 0, 1.0, -1.0)
    costs = np.linspace(1.5, 4.5, 7)
    other = y.copy()
    other[2] = -1.0
    first, second = (MARKETS["not convex"].run(costs, X, labels) for labels in (y, other))
    assert np.abs(first.payments[:2] - second.payments[:2]).max() > 0.1


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan, "1"])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(dpm.InvalidInput, match="tolerance"):
        QuadraturePayments(tolerance)
