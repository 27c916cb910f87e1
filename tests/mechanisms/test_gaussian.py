"""Markets for promises with a delta: the price is a majorant, the purchase optimal, truth the best report."""

import json

import cvxpy
import numpy as np
import pytest
import scipy.stats

from dpmarket.audit import audit_participation, audit_truthfulness
from dpmarket.costs import FromScipy, Mixture, Uniform, virtual_costs
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms import (
    GaussianMechanism,
    GaussianObjective,
    OnlineGaussianMechanism,
    Response,
    mechanism_from_dict,
    mechanism_of,
)
from dpmarket.payments import payment_identity
from dpmarket.privacy import gaussian_weights_for
from dpmarket.privacy.gaussian import vertex_bounds

DIST = Uniform(1, 5)


def wanted(sellers=12, **settings):
    usual = {"sampling": 0.2, "noise": 40.0, "payment_weight": 3e-3, "delta": 1e-5, "ratio": 2.0}
    return GaussianObjective(**(usual | {"expected_sellers": sellers, "grid": 60, "knots": 12} | settings))


# ---------------------------------------------------------------- the price of a distance


@pytest.mark.parametrize(("delta", "ratio", "most"), [(1e-5, 2.0, 1.0), (1e-8, 0.5, 0.3), (1e-3, 30.0, 3.0)])
def test_the_chords_lie_above_bound_g_and_close_to_it(delta, ratio, most):
    price = wanted(delta=delta, ratio=ratio, max_mu=most, knots=40).price
    mu = np.geomspace(1e-5 * most, most, 700)
    own = vertex_bounds(2, 1)[0].epsilon(delta, mu, mu / ratio)
    assert (price.promise(mu) >= own * (1.0 - 1e-12)).all()
    close = mu > 2e-3 * most
    assert (price.promise(mu) <= 1.03 * own)[close].all()
    assert (np.diff(price.slopes) >= 0.0).all()
    assert price.promise(np.zeros(1))[0] == 0.0


def test_the_promises_that_were_bought_allow_the_distances_that_were_planned():
    bought = wanted(40).best(virtual_costs(np.linspace(1.0, 5.0, 40), DIST))
    l2 = 2.0 / bought.noise_rate
    weights = gaussian_weights_for(bought.epsilons, 1e-5, l2)
    assert weights.noise_rate >= bought.noise_rate * (1.0 - 1e-9)


# ---------------------------------------------------------------- the purchase


def by_cvxpy(objective, psi, eta):
    """Return the minimum at one noise rate as a quadratic program: a second implementation."""
    price = objective.price
    parts = cvxpy.Variable((len(psi), price.slopes.size), nonneg=True)
    mu = cvxpy.sum(parts, axis=1)
    error = (objective.sampling * cvxpy.sum_squares(mu) + objective.noise) / eta**2
    money = cvxpy.sum(cvxpy.multiply(psi, parts @ price.slopes))
    limits = [parts <= np.tile(price.lengths, (len(psi), 1)), cvxpy.sum(mu) == eta]
    problem = cvxpy.Problem(cvxpy.Minimize(error + objective.payment_weight * money), limits)
    problem.solve(solver=cvxpy.CLARABEL)
    return problem.value, mu.value


def test_the_purchase_is_that_of_a_quadratic_program_at_every_noise_rate():
    objective = wanted(5, grid=6, knots=8)
    psi = virtual_costs(np.array([1.1, 1.9, 2.0, 3.3, 4.6]), DIST)
    bought = objective.best(psi)
    for eta, value in zip(objective.noise_rates.tolist(), bought.values.tolist(), strict=True):
        assert value == pytest.approx(by_cvxpy(objective, psi, eta)[0], rel=1e-6)
    k = int(np.argmin(bought.values))
    assert bought.noise_rate == objective.noise_rates[k]
    np.testing.assert_allclose(bought.mu, by_cvxpy(objective, psi, bought.noise_rate)[1], atol=1e-5)
    assert bought.mu.sum() == pytest.approx(bought.noise_rate, rel=1e-12)


def test_a_finer_grid_gains_next_to_nothing():
    psi = virtual_costs(np.linspace(1.0, 5.0, 60), DIST)
    coarse, fine = (wanted(60, grid=grid).best(psi).value for grid in (400, 4000))
    assert fine <= coarse <= fine * (1.0 + 5e-4)


def test_a_noise_rate_that_nobody_can_reach_is_left_out_and_none_at_all_refused():
    objective = wanted(100, grid=50)
    psi = virtual_costs(np.linspace(1.0, 5.0, 7), DIST)
    bought = objective.best(psi)
    assert np.isinf(bought.values[-1])
    assert np.isfinite(bought.value)
    with pytest.raises(InvalidInput, match="smallest noise rate"):
        objective.best(np.full(3, np.inf))


# ---------------------------------------------------------------- truth, offline


def test_payments_are_the_integral_of_an_independent_rule():
    objective = wanted(4, grid=5, knots=5, noise=4.0)
    costs = np.array([1.4, 2.2, 2.9, 4.1])
    outcome = GaussianMechanism(DIST, objective).run(costs)

    def promise(i, report):
        moved = costs.copy()
        moved[i] = report
        psi = virtual_costs(moved, DIST)
        found = [by_cvxpy(objective, psi, eta) for eta in objective.noise_rates.tolist()]
        mu = min(found, key=lambda pair: pair[0])[1]
        return float(objective.price.promise(mu[i : i + 1])[0])

    i = 1
    reports = np.linspace(costs[i], 5.0, 61)
    promises = np.array([promise(i, z) for z in reports])
    assert outcome.epsilons[i] == pytest.approx(promises[0], rel=1e-4)
    paid = costs[i] * promises[0] + np.trapezoid(promises, reports)
    assert outcome.payments[i] == pytest.approx(paid, rel=5e-3)


@pytest.mark.parametrize("sellers", [1, 2, 12])
def test_no_seller_gains_by_any_misreport_offline(sellers):
    mechanism = GaussianMechanism(DIST, wanted(12, grid=150))
    rng = np.random.default_rng(sellers)
    for _ in range(2):
        costs = rng.uniform(1.0, 5.0, sellers)
        for i in range(min(sellers, 4)):
            reports = np.concatenate([[costs[i]], np.linspace(0.5, 5.5, 60), rng.uniform(1.0, 5.0, 40)])
            curve = mechanism.response_curve(costs, i, reports)
            worth = curve.utilities(costs[i])
            assert (worth - worth[0]).max() <= 1e-10 * max(curve.payments[0], 1e-3)
            order = np.argsort(reports)
            assert (np.diff(curve.epsilons[order]) <= 1e-12).all()


@pytest.mark.parametrize("kind", [GaussianMechanism, OnlineGaussianMechanism])
def test_the_audits_find_nothing(kind):
    mechanism = kind(DIST, wanted(8))
    rng = np.random.default_rng(0)
    assert audit_truthfulness(mechanism, DIST, 8, 3, 20, rng).passed
    costs = rng.uniform(1.0, 5.0, 8)
    assert audit_participation(mechanism.run(costs), costs).passed


def test_the_audit_catches_payments_without_the_information_rent():
    class Cheap:
        def __init__(self, inner):
            self._inner = inner

        def respond(self, reported_costs, i, report):
            epsilon, _ = self._inner.respond(reported_costs, i, report)
            return Response(epsilon, report * epsilon)

    rng = np.random.default_rng(0)
    cheap = Cheap(GaussianMechanism(DIST, wanted(8, grid=20, knots=6)))
    assert not audit_truthfulness(cheap, DIST, 8, 1, 20, rng).passed


def test_what_is_answered_is_what_is_done():
    mechanism = GaussianMechanism(DIST, wanted(12))
    costs = np.random.default_rng(3).uniform(0.5, 5.2, 12)
    outcome = mechanism.run(costs)
    for i in range(12):
        epsilon, payment = mechanism.respond(costs, i, costs[i])
        assert epsilon == pytest.approx(outcome.epsilons[i], rel=1e-9, abs=1e-12)
        assert payment == pytest.approx(outcome.payments[i], rel=1e-9, abs=1e-12)
    assert (outcome.epsilons[costs > 5.0] == 0.0).all()
    assert (outcome.payments[costs > 5.0] == 0.0).all()
    assert outcome.planned_weights.sum() == pytest.approx(1.0)


def test_a_report_below_the_support_counts_as_its_lower_end():
    mechanism = GaussianMechanism(DIST, wanted(5))
    costs = [1.0, 2.0, 3.0, 4.0, 5.0]
    low, end = mechanism.respond(costs, 0, 0.2), mechanism.respond(costs, 0, 1.0)
    assert low == end


OTHERS = {
    "bell": FromScipy(scipy.stats.truncnorm(-2, 2, 3, 1), 1, 5),
    "skew": FromScipy(scipy.stats.beta(2, 4, 1, 4), 1, 5),
    "two groups": Mixture([Uniform(1, 2), Uniform(3, 5)], [0.5, 0.5]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_for_other_costs_than_uniform_ones_no_lie_gains_more_than_the_stated_error(name):
    dist = OTHERS[name]
    mechanism = GaussianMechanism(dist, wanted(12))
    rng = np.random.default_rng(1)
    costs = np.asarray(dist.sample(12, rng))
    outcome = mechanism.run(costs)
    assert (outcome.payments >= costs * outcome.epsilons).all()
    assert (outcome.payment_errors <= 1e-3 * np.maximum(outcome.payments, 1e-9)).all()
    for i in range(3):
        reports = np.concatenate([[costs[i]], np.linspace(0.9, 5.1, 40)])
        curve = mechanism.response_curve(costs, i, reports)
        worth = curve.utilities(costs[i])
        assert (worth - worth[0]).max() <= outcome.payment_errors[i] + 1e-12
        assert curve.payments[0] == pytest.approx(outcome.payments[i], rel=1e-9)


@pytest.mark.parametrize("name", OTHERS)
def test_payments_for_other_costs_are_the_integral_of_the_promise(name):
    dist = OTHERS[name]
    mechanism = GaussianMechanism(dist, wanted(5, grid=20, knots=6))
    costs = np.asarray(dist.sample(5, np.random.default_rng(2)))
    outcome = mechanism.run(costs)
    i = int(np.argmax(outcome.epsilons))
    z = np.linspace(costs[i], 5.0, 200)
    e = mechanism.response_curve(costs, i, z).epsilons
    low = costs[i] * e[0] + float(np.minimum(e[:-1], e[1:]) @ np.diff(z))
    high = costs[i] * e[0] + float(np.maximum(e[:-1], e[1:]) @ np.diff(z))
    assert low * (1 - 1e-9) <= outcome.payments[i] <= high * (1 + 1e-9) + 2 * outcome.payment_errors[i]


def test_what_a_report_gets_does_not_depend_on_the_others_that_are_asked_with_it():
    """Virtual costs go to infinity at the top of a skewed distribution: a bound common to all fails."""
    costs = OTHERS["skew"].sample(12, np.random.default_rng(1))
    mechanism = GaussianMechanism(OTHERS["skew"], wanted(grid=20, knots=6))
    paid = mechanism.run(costs)
    for i in range(2):
        reports = np.append(costs[i], np.minimum(costs[i] + np.linspace(0.1, 4.0, 5), 5.0))
        together = mechanism.response_curve(costs, i, reports)
        alone = [mechanism.respond(costs, i, report) for report in reports]
        np.testing.assert_allclose(together.epsilons, [one.epsilon for one in alone], rtol=1e-12)
        np.testing.assert_allclose(together.payments, [one.payment for one in alone], rtol=1e-9)
        assert together.epsilons[0] == pytest.approx(paid.epsilons[i], rel=1e-12)
        assert together.payments[0] == pytest.approx(paid.payments[i], rel=1e-9)


def test_costs_without_an_upper_end_are_refused_offline():
    with pytest.raises(Infeasible, match="upper end"):
        GaussianMechanism(FromScipy(scipy.stats.expon(), 0, np.inf), wanted())


# ---------------------------------------------------------------- truth, online


def distributions():
    from scipy.stats import beta

    return [
        DIST,
        FromScipy(beta(2, 3, loc=1.0, scale=4.0), 1.0, 5.0),
        Mixture([Uniform(1, 2), Uniform(1.5, 5)], [0.3, 0.7]),
    ]


@pytest.mark.parametrize("dist", distributions(), ids=["uniform", "beta", "mixture"])
def test_online_payments_are_the_payment_identity_and_truth_is_best(dist):
    market = OnlineGaussianMechanism(dist, wanted(30, knots=6))
    for cost in (1.2, 2.5):
        epsilon, payment, error = (float(v[0]) for v in market.offers([cost]))
        expected = payment_identity(lambda z: float(market.epsilons([z])[0]), cost, 5.0)
        assert epsilon == expected.epsilon
        assert payment == pytest.approx(expected.payment, rel=1e-7)
        assert error <= 1e-6 * payment
    reports = np.linspace(1.0, 5.0, 400)
    epsilons, payments, errors = market.offers(reports)
    assert (np.diff(epsilons) <= 1e-12).all()
    for cost in reports[::40]:
        epsilon, payment, _ = (float(v[0]) for v in market.offers([cost]))
        truth = payment - cost * epsilon
        assert (payments - cost * epsilons - truth).max() <= 2.0 * float(errors.max()) + 1e-12 * payment


def test_online_nobody_above_the_support_is_bought_from():
    market = OnlineGaussianMechanism(DIST, wanted(30))
    epsilons, payments, errors = market.offers([5.0 + 1e-9, 7.0])
    assert not epsilons.any()
    assert not payments.any()
    assert not errors.any()


def test_online_buys_about_what_offline_does():
    objective = wanted(60, grid=200)
    costs = np.random.default_rng(0).uniform(1.0, 5.0, 60)
    offline, online = (
        kind(DIST, objective).run(costs) for kind in (GaussianMechanism, OnlineGaussianMechanism)
    )
    assert online.total_promise == pytest.approx(offline.total_promise, rel=0.15)
    assert online.planned_noise_rate == pytest.approx(offline.planned_noise_rate, rel=0.15)


def test_costs_without_an_upper_end_are_refused_online():
    from scipy.stats import expon

    with pytest.raises(Infeasible, match="upper end"):
        OnlineGaussianMechanism(FromScipy(expon(loc=1.0), 1.0, np.inf), wanted())


# ---------------------------------------------------------------- plain data


@pytest.mark.parametrize("kind", [GaussianMechanism, OnlineGaussianMechanism])
def test_a_mechanism_survives_being_written_down(kind):
    mechanism = kind(DIST, wanted(6))
    again = mechanism_from_dict(json.loads(json.dumps(mechanism.to_dict())))
    assert again.to_dict() == mechanism.to_dict()
    costs = [1.0, 2.0, 3.0, 4.0, 4.5, 5.0]
    outcome, second = mechanism.run(costs), again.run(costs)
    np.testing.assert_array_equal(second.epsilons, outcome.epsilons)
    np.testing.assert_array_equal(second.payments, outcome.payments)
    assert mechanism_of(outcome).to_dict() == mechanism.to_dict()


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling": 0.0},
        {"delta": 1.0},
        {"delta": 0.0},
        {"ratio": -1.0},
        {"grid": 1},
        {"payment_weight": np.nan},
    ],
)
def test_senseless_objectives_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wanted(**wrong)
