"""Prices for promises with a delta, planned from a budget before anybody reports."""

import numpy as np
import pytest

from dpmarket.costs import FromScipy, Uniform
from dpmarket.errors import Infeasible
from dpmarket.mechanisms import GaussianMechanism, OnlineGaussianMechanism
from dpmarket.planning import (
    GaussianTask,
    gaussian_error,
    gaussian_prices,
    plan_gaussian,
    plan_gaussian_market,
)

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

DIST = Uniform(1, 5)


def task(sellers=80, coefficients=21, **more):
    return GaussianTask(DIST, sellers, gaussian_error(coefficients, 1.03), 1e-5, coefficients, 1.03, **more)


def test_the_curve_of_a_plan_pays_the_budget_on_average_and_not_more():
    plan = plan_gaussian(task(), 120.0)
    assert 0.93 * 120.0 <= plan.expected_payment <= 120.0
    costs = DIST.quantile((np.arange(2000) + 0.5) / 2000)
    paid = OnlineGaussianMechanism(DIST, plan.objective).offers(costs).payments.mean() * 80
    assert paid == pytest.approx(plan.expected_payment, rel=0.03)


def test_all_at_once_drawn_markets_pay_about_the_budget():
    plan = plan_gaussian_market(task(40), 60.0)
    rng = np.random.default_rng(7)
    mechanism = GaussianMechanism(DIST, plan.objective)
    totals = [mechanism.run(rng.uniform(1.0, 5.0, 40)).total_payment for _ in range(12)]
    # Totals of so few sellers spread by a seventh or less: six standard errors.
    assert np.mean(totals) == pytest.approx(60.0, rel=0.3)


def test_rounding_up_is_in_the_plan():
    coarse = plan_gaussian(task(), 120.0, minor_units=1)
    offers = OnlineGaussianMechanism(DIST, coarse.objective).offers_in_minor_units(
        DIST.quantile((np.arange(2000) + 0.5) / 2000), 1
    )
    assert offers[1].mean() * 80 <= 120.0 * 1.03


def test_nobody_is_promised_more_than_the_limit_whatever_the_reports():
    plan = plan_gaussian(task(max_epsilon=0.7), 10.0)
    assert 0.69 <= plan.objective.ceiling <= 0.7
    assert GaussianMechanism(DIST, plan.objective).run(np.full(80, 1.0)).epsilons.max() <= 0.7


def test_more_money_buys_less_error_and_a_payment_weight_does_what_its_plan_says():
    few, more = (plan_gaussian(task(), money) for money in (40.0, 160.0))
    assert more.error.total < few.error.total
    again = gaussian_prices(task(), more.payment_weight)
    assert again.expected_payment == pytest.approx(more.expected_payment, rel=0.1)


def test_what_cannot_be_spent_and_costs_without_an_end_are_refused():
    with pytest.raises(Infeasible, match="max_epsilon"):
        plan_gaussian(task(3, max_epsilon=0.01), 1e6)
    with pytest.raises(Infeasible, match="rounded up"):
        plan_gaussian(task(3), 0.001, minor_units=100)
    from scipy.stats import expon

    with pytest.raises(Infeasible, match="upper end"):
        GaussianTask(FromScipy(expon(loc=1.0), 1.0, np.inf), 5, gaussian_error(3, 1.0), 1e-5, 3, 1.0)
