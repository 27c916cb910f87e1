"""Curves: the payment identity, the offline optimum in the limit, and what the paper's curve needs."""

import json
import math
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

import dpmarket as dpm
from dpmarket import BuyerObjective, FromScipy, Infeasible, InvalidInput, Mixture, Uniform, population_curve
from dpmarket.mechanisms import Curve, paper_curve
from support.markets import GROUPS, LOG_NORMAL, ONLINE, U_SHAPED

CURVES = {name: market.mechanism.curve for name, market in ONLINE.items()}
each = pytest.mark.parametrize("name", CURVES)
PLAIN = BuyerObjective(1.0, 1.0, 0.01)


@each
def test_payments_equal_the_payment_identity_to_1e_10(name):
    curve = CURVES[name]
    low, high = curve.dist.support
    costs = low + (curve.reach - low) * np.array([0.0, 0.3, 0.75])
    epsilons, payments, errors = curve.offers(costs)
    for cost, epsilon, payment in zip(costs, epsilons, payments, strict=True):
        exact = dpm.payment_identity(
            lambda z: float(curve.epsilons([z])[0]), cost, min(high, curve.reach * 1.01)
        )
        assert exact.epsilon == epsilon
        assert payment == pytest.approx(exact.payment, rel=1e-10)
        assert payment >= exact.payment - exact.error
    assert (errors <= 1e-10 * payments.max()).all()


def test_the_payment_for_uniform_costs_is_the_closed_form():
    # epsilon = (7 - psi)/2 with psi = 2c - 1 on U[1, 5] reaches 0 at c = 4: payment c*(4 - c) + (4 - c)^2/2.
    curve = Curve(Uniform(1, 5), PLAIN, 10, slope=0.5, cutoff=7.0)
    costs = np.linspace(1, 4, 7)
    np.testing.assert_allclose(
        curve.offers(costs).payments, costs * (4 - costs) + (4 - costs) ** 2 / 2, rtol=1e-14, atol=1e-14
    )
    # Bought from even at the top: what is still bought there is paid for at the top's price.
    wide = Curve(Uniform(1, 5), PLAIN, 10, slope=0.5, cutoff=11.0, max_epsilon=4.0)
    assert wide.offers([5.0]).payments[0] == pytest.approx(5.0)
    assert wide.offers([1.0]).payments[0] == pytest.approx(1 * 4 + 1 * 4 + 3 * (4 + 1) / 2)


@pytest.mark.parametrize("cap", [None, 3.0])
@pytest.mark.parametrize("dist", [Uniform(1, 5), LOG_NORMAL, U_SHAPED, GROUPS])
def test_at_the_mid_quantiles_the_curve_is_the_offline_optimum(dist, cap):
    objective = BuyerObjective(1.0, 1.0, 0.01, weight_cap=cap)
    curve = population_curve(dist, objective, 500)
    costs = dist.quantile((np.arange(500) + 0.5) / 500)
    best = dpm.allocate(dpm.virtual_costs(costs, dist), objective)
    np.testing.assert_allclose(curve.epsilons(costs), best.epsilons, rtol=1e-9, atol=1e-12)


def test_a_step_buys_as_much_as_planned_and_treats_an_ironed_interval_alike():
    # No concentration: everything from the cheapest 1/1.5 of people; half of them are ironed together.
    objective = BuyerObjective(0.0, 1.0, 0.1, weight_cap=1.5)
    curve = population_curve(GROUPS, objective, 400)
    costs = GROUPS.quantile((np.arange(400) + 0.5) / 400)
    best = dpm.allocate(dpm.virtual_costs(costs, GROUPS), objective)
    np.testing.assert_allclose(curve.epsilons(costs), best.epsilons, rtol=1e-9)
    steep = population_curve(Uniform(1, 5), objective, 300)
    grid = Uniform(1, 5).quantile((np.arange(300) + 0.5) / 300)
    planned = dpm.allocate(dpm.virtual_costs(grid, Uniform(1, 5)), objective).total_promise
    assert steep.epsilons(grid).sum() == pytest.approx(planned, rel=1e-9)


def test_planning_for_a_billion_sellers_is_the_continuous_limit():
    objective = BuyerObjective(1.0, 1.0, 1e-3)
    curve = population_curve(Uniform(1, 5), objective, 10**9)
    # psi is uniform on [1, 9]. With total T and cutoff 1 + w the buyer's objective is
    # 16 / sqrt(24 m w) + 1 / T + gamma T (1 + w / 3), the best T is 1 / sqrt(gamma (1 + w / 3)).
    w = brentq(lambda w: math.sqrt(1e-3 / (1 + w / 3)) / 3 - 8 / math.sqrt(24e9 * w**3), 1e-9, 8.0)
    total = 1 / math.sqrt(1e-3 * (1 + w / 3))
    assert curve.cutoff == pytest.approx(1 + w, rel=1e-3)
    assert curve.slope == pytest.approx(16 * total / (1e9 * w**2), rel=1e-2)


def test_nobody_is_ever_offered_more_than_the_objective_allows():
    objective = BuyerObjective(1.0, 1.0, 1e-4, weight_cap=3.0, max_mean_epsilon=0.05)
    for sellers in (7, 100, 3000):
        curve = population_curve(LOG_NORMAL, objective, sellers)
        assert curve.largest_epsilon <= dpm.allocation.max_epsilon(objective)
        assert (
            curve.offers(LOG_NORMAL.sample(500, np.random.default_rng(0))).payments.max()
            <= curve.largest_payment
        )


def test_the_papers_curve_is_its_formula_and_near_optimal_on_its_own_ground():
    objective, m = BuyerObjective(2.0, 3.0, 1e-3), 10_000
    curve = paper_curve(Uniform(0, 1), objective, m)
    price = math.sqrt(4.0 * 1e-3 / (3.0 * m * 0.5))
    factor = 2 * math.sqrt(3) * 1e-3**1.5 * 2.0 / (0.5**1.5 * m**1.5 * price**3.5)
    costs = np.linspace(0, 1, 50)
    np.testing.assert_allclose(
        curve.epsilons(costs), factor * np.maximum(price - 1e-3 * 2 * costs, 0), rtol=1e-12, atol=1e-15
    )
    best = population_curve(Uniform(0, 1), objective, m)
    assert curve.cutoff == pytest.approx(best.cutoff, rel=0.02)
    assert curve.slope == pytest.approx(best.slope, rel=0.02)


def test_the_papers_curve_is_refused_where_its_assumption_fails():
    for dist in (Uniform(1, 5), U_SHAPED, LOG_NORMAL, Mixture([Uniform(1, 2), Uniform(3, 4)], [0.5, 0.5])):
        with pytest.raises(InvalidInput, match="population_curve"):
            paper_curve(dist, PLAIN, 100)
    for objective in (BuyerObjective(1, 1, 1, weight_cap=2.0), BuyerObjective(1, 1, 1, max_mean_epsilon=2.0)):
        with pytest.raises(InvalidInput, match="population_curve"):
            paper_curve(Uniform(0, 1), objective, 100)


def test_on_the_papers_own_experiment_its_curve_buys_from_nobody():
    # Costs U[1, 5] with the density 1/8 that virtual costs have where they have one.
    objective = BuyerObjective(1.0, 1.0, 1e-3)
    for sellers, buys in ((1000, True), (10_000, False), (100_000, False)):
        curve = paper_curve(Uniform(1, 5), objective, sellers, density_at_zero=1 / 8)
        assert (curve.largest_epsilon > 0) is buys


def test_a_curve_survives_json_to_the_last_bit():
    for curve in CURVES.values():
        twin = Curve.from_dict(json.loads(json.dumps(curve.to_dict())))
        assert twin == curve
        assert twin.offers([1.5]).payments.tolist() == curve.offers([1.5]).payments.tolist()
    for damaged in ({}, [], {"schema": "dpmarket.curve/1"}, curve.to_dict() | {"slope": -1.0}):
        with pytest.raises(InvalidInput):
            Curve.from_dict(damaged)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"slope": 0.0}, "slope"),
        ({"slope": math.nan}, "slope"),
        ({"cutoff": -1.0}, "cutoff"),
        ({"max_epsilon": 0.0}, "max_epsilon"),
        ({"slope": math.inf}, "max_epsilon"),
        ({"cutoff": math.inf}, "cutoff"),
        ({"margin_epsilon": 0.5}, "margin"),
        ({"expected_sellers": 0}, "expected_sellers"),
        ({"expected_sellers": 10.0}, "expected_sellers"),
        ({"dist": "uniform"}, "distribution"),
        ({"objective": None}, "BuyerObjective"),
    ],
)
def test_curves_that_make_no_sense_are_refused(change, words):
    parts = {"dist": Uniform(1, 5), "objective": PLAIN, "expected_sellers": 10, "slope": 1.0, "cutoff": 3.0}
    with pytest.raises(InvalidInput, match=words):
        Curve(**(parts | change))


def test_plans_that_cannot_be_made_are_refused():
    for sellers in (0, -3, 1.5, "10", None):
        with pytest.raises(InvalidInput, match="expected_sellers"):
            population_curve(Uniform(1, 5), PLAIN, sellers)
    with pytest.raises(InvalidInput, match="payment_weight"):
        population_curve(Uniform(1, 5), BuyerObjective(1, 1, 0), 10)
    with pytest.raises(Infeasible, match="no upper end"):
        population_curve(FromScipy(stats.expon()), BuyerObjective(0, 1, 1, weight_cap=1.0), 10)


@each
def test_a_curve_that_was_used_can_be_sent_to_another_process(name):
    curve = CURVES[name]
    offers = curve.offers([1.5])
    twin = pickle.loads(pickle.dumps(curve))
    assert (twin == curve, hash(twin) == hash(curve)) == (True, True)
    assert twin.offers([1.5]).payments.tolist() == offers.payments.tolist()
