"""Prices from public facts alone: the least expected error for the money, and nobody gains by lying."""

import inspect
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dpmarket as dpm
from dpmarket import BuyerObjective, FromScipy, Infeasible, InvalidInput, Mixture, Uniform
from dpmarket.learning.geometry import geometry_of
from dpmarket.mechanisms import OfflineMechanism, OnlineMechanism, population_curve, posted_price_curve
from dpmarket.planning import (
    best_posted_price,
    compare_rules,
    estimator_error,
    expected_error,
    logistic_error,
    noise_advice,
    plan_payment_weight,
    plan_prices,
    suggest_prices,
    typical_purchase,
)
from dpmarket.planning.markets import population
from dpmarket.planning.rules import posted_error
from dpmarket.privacy import NoiseShape, SeededNoise, noise_power

MODEL = logistic_error(31, 1.03)
DISTRIBUTIONS = {
    "uniform": Uniform(1, 5),
    "wide": Uniform(0.1, 5),
    "uniform from 0": Uniform(0, 1),
    "log-normal": FromScipy(stats.lognorm(s=0.8, scale=2.0), 0, 30),
    "exponential": FromScipy(stats.expon()),
    "groups": Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]),
}
each = pytest.mark.parametrize("name", DISTRIBUTIONS)


def mean_error(dist, objective, sellers, draws=30, seed=5):
    """Expected error by markets that no plan has seen, and its standard error."""
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(draws):
        psi = dpm.virtual_costs(dist.sample(sellers, rng), dist)
        values.append(expected_error(dpm.allocate(psi, objective), MODEL).total)
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(draws)


def test_the_noise_of_the_error_model_is_that_of_the_estimator():
    # Mean of |b'|^2 over 8,000 draws within 5.5 standard errors (4e-8); a fifth more would be noticed.
    n, bound, total = 3, 1.25, 40.0
    draws = (SeededNoise(k).draw(n, total / bound, 1e-9).high_low()[0] for k in range(8_000))
    lengths = np.array([np.sum(noise**2) for noise in draws])
    claimed = logistic_error(n, bound).predict(1.0, total).noise_part
    error = lengths.std(ddof=1) / math.sqrt(lengths.size)
    assert abs(lengths.mean() - claimed) < 5.5 * error
    assert abs(lengths.mean() - 1.2 * claimed) > 5.5 * error


def test_the_spread_of_one_gradient_is_at_most_a_quarter_and_near_a_fifth_on_public_records():
    data = dpm.datasets.breast_cancer()
    rows = dpm.PublicScaler(data.low, data.high).fit_transform(data.features)
    rows = np.column_stack([rows, np.full(len(rows), 0.25)])
    gradients = -0.5 * data.signs[:, None] * rows
    spread = np.trace(np.cov(gradients.T))
    bound = 1.0 + 0.25**2
    assert 0.15 * bound < spread < 0.25 * bound
    assert estimator_error(30).sampling == pytest.approx(0.2 * bound)


@each
@pytest.mark.parametrize("cap", [None, 3.0])
def test_the_mechanism_comes_within_two_per_cent_of_the_least_expected_error(name, cap):
    # The typical purchase is a lower bound in the typical market; 3,000 sellers are nearly that.
    dist = DISTRIBUTIONS[name]
    best = typical_purchase(dist, 3_000, 600.0, MODEL, weight_cap=cap)
    plan = plan_prices(dist, 3_000, 600.0, MODEL, weight_cap=cap)
    assert plan.expected_payment == pytest.approx(600.0, rel=2e-3)
    assert plan.expected_error.total == pytest.approx(best.error.total, rel=0.02)
    found, error = mean_error(dist, plan.objective, 3_000)
    assert abs(found - plan.expected_error.total) < 5 * error + 0.01 * found
    for ratio in (0.3, 3.0):
        other = replace(plan.objective, concentration=ratio * plan.objective.concentration)
        worse = plan_payment_weight(dist, other, 3_000, 600.0)
        assert expected_error(worse, MODEL).total > plan.expected_error.total


def test_prices_are_the_slopes_of_the_expected_error():
    best = typical_purchase(Uniform(1, 5), 456, 600.0, MODEL)
    objective = best.objective
    norm = math.sqrt(best.error.sampling_part / MODEL.sampling)
    assert objective.concentration == pytest.approx(2 * MODEL.sampling * norm)
    assert objective.noise == pytest.approx(2 * MODEL.noise / best.total_promise)
    # BEYOND, section 1: noise/concentration at budgets 100, 600, 3000.
    for budget, ratio in ((100.0, 488), (600.0, 227), (3000.0, 143)):
        objective = typical_purchase(Uniform(1, 5), 456, budget, MODEL).objective
        assert objective.noise / objective.concentration == pytest.approx(ratio, abs=0.6)


def test_few_sellers_overspend_with_the_typical_payment_weight_and_not_with_the_planned_one():
    dist, rng = Uniform(1, 5), np.random.default_rng(8)
    markets = [dist.sample(5, rng) for _ in range(4_000)]

    def spent(objective):
        totals = [
            dpm.allocate(dpm.virtual_costs(costs, dist), objective).payment_part / objective.payment_weight
            for costs in markets
        ]
        return np.mean(totals), np.std(totals) / math.sqrt(len(totals))

    mean, error = spent(typical_purchase(dist, 5, 20.0, MODEL).objective)
    assert mean > 20.0 + 5 * error
    mean, error = spent(suggest_prices(dist, 5, 20.0, 31, 1.03))
    assert abs(mean - 20.0) < 5 * error + 0.02


def test_where_a_few_are_very_cheap_another_ratio_is_found():
    dist = Mixture([Uniform(0.01, 0.02), Uniform(5, 6)], [0.05, 0.95])
    best = typical_purchase(dist, 3_000, 600.0, MODEL)
    frozen = plan_payment_weight(dist, best.objective, 3_000, 600.0)
    assert expected_error(frozen, MODEL).total > 3 * best.error.total
    assert plan_prices(dist, 3_000, 600.0, MODEL).expected_error.total < 1.05 * best.error.total


@pytest.mark.parametrize("bounds", [{}, {"weight_cap": 4.0}, {"weight_cap": 3.0, "max_mean_epsilon": 0.5}])
def test_audits_pass_with_planned_prices(bounds):
    dist = Uniform(1, 5)
    objective = suggest_prices(dist, 30, 40.0, 6, 1.1, **bounds)
    for mechanism in (
        OfflineMechanism(dist, objective),
        OnlineMechanism(dist, population_curve(dist, objective, 30)),
    ):
        audit = dpm.audit_truthfulness(mechanism, dist, 30, 2, 60, np.random.default_rng(1))
        assert audit.passed
        costs = dist.sample(30, np.random.default_rng(2))
        outcome = mechanism.run(costs)
        assert dpm.audit_participation(outcome, costs).passed


def test_a_posted_price_is_a_curve_that_passes_the_audits():
    dist = Uniform(1, 5)
    offer = best_posted_price(dist, 30, 40.0, logistic_error(6, 1.1))
    curve = posted_price_curve(dist, suggest_prices(dist, 30, 40.0, 6, 1.1), 30, offer.epsilon, offer.price)
    mechanism = OnlineMechanism(dist, curve)
    assert dpm.audit_truthfulness(mechanism, dist, 30, 2, 60, np.random.default_rng(1)).passed
    costs = dist.sample(30, np.random.default_rng(2))
    outcome, simple = mechanism.run(costs), offer.run(costs)
    assert dpm.audit_participation(outcome, costs).passed
    assert outcome.epsilons.tolist() == simple.epsilons.tolist()
    assert outcome.payments == pytest.approx(simple.payments, rel=1e-12)
    assert mechanism.menu(points=20).epsilons.tolist() == [0.0, offer.epsilon]


def test_a_step_treats_an_ironed_interval_alike():
    dist = Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5])
    (ironed,) = dist.ironed_intervals
    objective = BuyerObjective(1.0, 1.0, 0.1)
    with pytest.raises(InvalidInput, match="outside the intervals"):
        posted_price_curve(dist, objective, 50, 0.5, 2.5)
    with pytest.raises(InvalidInput, match="lowest cost"):
        posted_price_curve(Uniform(1, 5), objective, 50, 0.5, 0.9)
    at_the_price = posted_price_curve(Uniform(1, 5), objective, 50, 0.5, 3.0).epsilons([3.0, 3.0 + 1e-12])
    assert at_the_price.tolist() == [0.5, 0.0]
    curve = posted_price_curve(dist, objective, 50, 0.5, ironed.high)
    assert curve.epsilons([0.5, 2.0, 3.0]).tolist() == [0.5, 0.5, 0.5]
    prices = []
    for budget in (1.0, 120.0, 180.0, 1000.0):
        offer = best_posted_price(dist, 50, budget, logistic_error(3, 1.1))
        step = posted_price_curve(dist, objective, 50, offer.epsilon, offer.price)
        paid = step.offers([0.0]).payments[0]
        assert paid == pytest.approx(offer.price * offer.epsilon)
        assert step.reach == pytest.approx(offer.price)
        assert 50 * float(dist.cdf(offer.price)) * paid == pytest.approx(budget)
        prices.append(offer.price)
    assert prices[0] < 1.0
    assert prices[1:] == pytest.approx([1.0, 1.0, 3.0])  # below the interval, and at its upper end


@pytest.mark.parametrize("bounds", [{}, {"weight_cap": 2.0}, {"max_mean_epsilon": 0.3}])
def test_no_other_posted_price_has_a_smaller_expected_error(bounds):
    dist, model = Uniform(1, 5), logistic_error(6, 1.1)
    offer = best_posted_price(dist, 200, 100.0, model, **bounds)
    least = posted_error(model, 200, float(dist.cdf(offer.price)), offer.epsilon).total
    for price in np.linspace(1.05, 5.0, 150):
        share = float(dist.cdf(price))
        if share < 1.0 / bounds.get("weight_cap", math.inf):
            continue
        total = min(100.0 / price, 200 * bounds.get("max_mean_epsilon", math.inf))
        assert posted_error(model, 200, share, total / (200 * share)).total > 0.9999 * least
    assert float(dist.cdf(offer.price)) >= 1.0 / bounds.get("weight_cap", math.inf)


def test_the_error_of_a_posted_price_is_that_of_its_markets():
    # 4,000 markets of 100 people of whom about 30 accept: five standard errors (6e-7) plus one per cent.
    model, dist = logistic_error(6, 1.1), Uniform(1, 5)
    offer = dpm.mechanisms.PostedPrice.for_budget(dist, 100, 50.0, 0.3)
    rng = np.random.default_rng(3)
    errors = [expected_error(offer.run(dist.sample(100, rng)), model).total for _ in range(4_000)]
    claimed = posted_error(model, 100, 0.3, offer.epsilon).total
    error = np.std(errors) / math.sqrt(len(errors))
    assert abs(np.mean(errors) - claimed) < 5 * error + 0.01 * claimed


def test_the_simpler_rule_is_recommended_only_where_it_loses_little():
    dist = Uniform(1, 5)
    close = compare_rules(dist, plan_prices(dist, 5_000, 600.0, MODEL), 600.0)
    assert (close.recommended, close.loss < 0.1) == ("posted price", True)
    assert "recommended" in close.sentence()
    far = compare_rules(dist, plan_prices(dist, 456, 100.0, MODEL), 100.0)
    assert (far.recommended, far.loss > 0.1) == ("best", True)
    assert "worth explaining" in far.sentence()
    assert far.to_dict()["recommended"] == "best"
    with pytest.raises(InvalidInput, match="error model"):
        compare_rules(dist, plan_payment_weight(dist, BuyerObjective(1.0, 1.0, 1.0), 50, 10.0), 10.0)


def test_advice_names_a_budget_and_a_number_of_features_at_which_noise_does_not_dominate():
    dist = Uniform(1, 5)
    advice = noise_advice(dist, 456, 100.0, 30)
    assert advice.ratio > 1.0
    assert noise_advice(dist, 456, 1.001 * advice.budget, 30) is None
    assert noise_advice(dist, 456, 0.999 * advice.budget, 30) is not None
    assert noise_advice(dist, 456, 100.0, advice.features) is None
    assert noise_advice(dist, 456, 100.0, advice.features + 1) is not None
    assert f"{advice.features} features" in advice.sentence()
    # Where promises are held down no budget helps; where even one feature is too many, none is named.
    held = noise_advice(dist, 100, 50.0, 30, max_mean_epsilon=0.5)
    assert (held.budget, held.features) == (None, 1)
    loose = noise_advice(dist, 100, 200.0, 30, max_mean_epsilon=10.0)
    assert loose.budget == pytest.approx(noise_advice(dist, 100, 200.0, 30).budget)  # the bound does not bind
    assert noise_advice(dist, 10, 1.0, 1).features is None
    assert "too few people" in noise_advice(dist, 3, 200.0, 3).sentence()
    assert "Ask more people" in noise_advice(dist, 10, 1.0, 3, max_mean_epsilon=0.1).sentence()


def test_prices_never_depend_on_a_report():
    # There is no argument for reports, and the same public facts give the same prices.
    for function in (suggest_prices, plan_prices, typical_purchase, best_posted_price, noise_advice):
        names = set(inspect.signature(function).parameters)
        public = {
            "dist",
            "sellers",
            "budget",
            "n_features",
            "row_bound",
            "error_model",
            "features",
            "n_classes",
        }
        assert names <= public | {
            "concentration", "noise", "weight_cap", "max_mean_epsilon", "confidence", "rng", "progress",
        }  # fmt: skip
    first, second = (suggest_prices(Uniform(1, 5), 50, 30.0, 4, 1.1) for _ in range(2))
    assert first == second


def test_the_row_bound_changes_no_promise_and_scaling_all_prices_neither():
    dist, costs = Uniform(1, 5), Uniform(1, 5).sample(40, np.random.default_rng(0))
    one, other = (
        OfflineMechanism(dist, suggest_prices(dist, 40, 30.0, 4, bound)).run(costs) for bound in (1.0, 1.25)
    )
    assert one.epsilons == pytest.approx(other.epsilons, rel=1e-6)


@pytest.mark.parametrize("cap", [None, 3.0])
def test_groups_of_people_expect_what_the_people_do(cap):
    # 20,000 people at their quantiles, one by one and in the population's 4,096 groups.
    dist, objective = Uniform(1, 5), BuyerObjective(0.5, 100.0, 0.01, weight_cap=cap)
    everybody = dpm.virtual_costs(dist.quantile((np.arange(20_000) + 0.5) / 20_000), dist)
    one_by_one = expected_error(dpm.allocate(everybody, objective), MODEL)
    grouped = expected_error(population(dist, 20_000).expect(objective), MODEL)
    assert grouped.sampling_part == pytest.approx(one_by_one.sampling_part, rel=1e-3)
    assert grouped.noise_part == pytest.approx(one_by_one.noise_part, rel=1e-3)


def test_an_expected_error_is_the_same_by_outcome_allocation_and_plan():
    dist = Uniform(1, 5)
    plan = plan_prices(dist, 2_000, 300.0, MODEL)
    costs = dist.sample(2_000, np.random.default_rng(1))
    outcome = OfflineMechanism(dist, plan.objective).run(costs)
    allocation = dpm.allocate(dpm.virtual_costs(costs, dist), plan.objective)
    by_outcome, by_allocation = expected_error(outcome, MODEL), expected_error(allocation, MODEL)
    assert by_outcome.total == pytest.approx(by_allocation.total)
    assert by_outcome.total == pytest.approx(expected_error(plan, MODEL).total, rel=0.03)
    assert by_outcome.noise_part + by_outcome.sampling_part == by_outcome.total
    nothing = dpm.mechanisms.PostedPrice(dist, 0.1, 0.5).run([2.0, 3.0])
    assert expected_error(nothing, MODEL).total == math.inf
    assert expected_error(nothing, MODEL).dominates


def test_a_plan_says_what_its_error_comes_from():
    plan = plan_prices(Uniform(1, 5), 456, 600.0, MODEL)
    rows = dict(plan.summary())
    assert rows["of it noise"] == "72%"
    assert rows["of it few people"] == "28%"
    assert "expected excess risk" not in rows
    data = plan.to_dict()
    assert data["expected_error"]["noise_share"] == pytest.approx(0.72, abs=0.005)
    assert data["error_model"] == MODEL.to_dict()
    given = plan_payment_weight(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0), 456, 600.0)
    assert given.expected_error is None
    assert "expected excess risk" in dict(given.summary())


def test_with_confidence_prices_stay_and_the_payment_weight_rises():
    dist = Uniform(1, 5)
    average = plan_prices(dist, 8, 30.0, logistic_error(3, 1.2))
    sure = plan_prices(dist, 8, 30.0, logistic_error(3, 1.2), confidence=0.9)
    assert sure.objective.concentration == average.objective.concentration
    assert sure.payment_weight > average.payment_weight
    assert sure.guarantee.fresh_share >= 0.9


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: suggest_prices("uniform", 10, 1.0, 3, 1.0), "cost distribution"),
        (lambda: suggest_prices(Uniform(1, 5), 0, 1.0, 3, 1.0), "sellers"),
        (lambda: suggest_prices(Uniform(1, 5), 10, 0.0, 3, 1.0), "budget"),
        (lambda: suggest_prices(Uniform(1, 5), 10, 1.0, 0, 1.0), "n_features"),
        (lambda: suggest_prices(Uniform(1, 5), 10, 1.0, 3, -1.0), "row_bound"),
        (lambda: suggest_prices(Uniform(1, 5), 10, 1.0, 3, 1.0, weight_cap=0.5), "weight_cap"),
        (lambda: plan_prices(Uniform(1, 5), 10, 1.0, (1.0, 2.0)), "ErrorModel"),
        (lambda: expected_error("all", MODEL), "outcome, a plan or promises"),
        (lambda: expected_error(dpm.allocate([1.0], BuyerObjective(1, 1, 1)), 3.0), "ErrorModel"),
        (lambda: dpm.planning.ErrorModel(0.0, 1.0, 1.0), "sampling"),
        (lambda: estimator_error(0), "features"),
    ],
)
def test_prices_that_make_no_sense_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_budgets_that_cannot_be_spent_and_endless_costs_are_refused():
    with pytest.raises(Infeasible, match="budget below"):
        suggest_prices(Uniform(1, 5), 10, 1000.0, 3, 1.0, max_mean_epsilon=0.1)
    with pytest.raises(Infeasible, match="upper end"):
        suggest_prices(FromScipy(stats.expon()), 1, 1.0, 3, 1.0)


def test_promises_alone_have_an_expected_error_and_a_hint_where_noise_dominates():
    many = expected_error(np.ones(2_000), estimator_error(2_000))
    assert many.dominates
    assert "about as good as guessing" in many.hint()
    few = expected_error([1.0] * 2_000, estimator_error(5))
    assert few.hint() is None


def test_a_noise_shape_has_the_error_of_its_own_noise():
    shape = NoiseShape([False] * 6 + [True] * 102, 0.34)
    shaped, plain = estimator_error(108, shape), estimator_error(108)
    geometry = geometry_of(108, None, shape, wanted=True)
    assert shaped.noise == noise_power(109, 6) * geometry.row_bound**2
    # In units of what the records have to tell, the noise is far smaller than that of the Euclidean norm.
    assert shaped.noise / shaped.signal < 0.3 * plain.noise / plain.signal
