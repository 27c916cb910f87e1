"""What arriving one by one costs the buyer, against knowing all sellers beforehand.

The mean ratio of online to offline objective is at least 1 and shrinks with the number of sellers bought
from. The quick tests take few draws: their bound is the aim plus 5 standard errors as measured, which a
right implementation fails with a probability below 3e-7 by the normal limit, while a curve that buys
40% too much or too little is refused (asserted).
"""

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket import BuyerObjective, Uniform, population_curve
from dpmarket.mechanisms import AdaptiveMechanism
from support.ratios import POPULATIONS, objective_value, ratios

AIMS = {100: 1.05, 1000: 1.01, 10_000: 1.003}
each = pytest.mark.parametrize("name", POPULATIONS)
weights = pytest.mark.parametrize("payment_weight", [1e-3, 1e-1])


@each
@weights
def test_the_fixed_curve_is_near_the_offline_optimum(name, payment_weight):
    dist, objective = POPULATIONS[name], BuyerObjective(1.0, 1.0, payment_weight)
    for sellers, draws in ((100, 20), (1000, 10)):
        curve = population_curve(dist, objective, sellers)
        found = ratios(curve.epsilons, dist, objective, sellers, draws)
        assert found.min() >= 1.0 - 1e-12
        error = found.std(ddof=1) / np.sqrt(draws)
        assert found.mean() <= AIMS[sellers] + 5 * error
        wrong = ratios(curve.scaled(0.4).epsilons, dist, objective, sellers, draws)
        assert wrong.mean() > AIMS[sellers] + 5 * wrong.std(ddof=1) / np.sqrt(draws)


@pytest.mark.slow
@each
@weights
@pytest.mark.parametrize("sellers", AIMS)
def test_the_fixed_curve_reaches_its_aims_over_200_draws(name, payment_weight, sellers):
    dist, objective = POPULATIONS[name], BuyerObjective(1.0, 1.0, payment_weight)
    curve = population_curve(dist, objective, sellers)
    assert ratios(curve.epsilons, dist, objective, sellers, 200).mean() <= AIMS[sellers]


def test_the_offline_loss_falls_as_the_fourth_root_of_the_number_of_sellers():
    objective, sizes = BuyerObjective(1.0, 1.0, 1e-1), np.array([1000, 4000, 16_000, 64_000])
    losses = []
    for sellers in sizes.tolist():
        rng = np.random.default_rng(sellers)
        draws = [
            dpm.allocate(dpm.virtual_costs(rng.random(sellers), Uniform(0, 1)), objective).objective_value
            for _ in range(12)
        ]
        losses.append(np.mean(draws))
    slope = np.polyfit(np.log(sizes), np.log(losses), 1)[0]
    assert slope == pytest.approx(-0.25, abs=0.02)


def adaptive(dist, objective, sellers, **options):
    """Return the promises of an adaptive market that knows the support only."""
    market = AdaptiveMechanism(Uniform(*dist.support), objective, sellers, **options)
    return lambda costs: market.run(costs).epsilons


@pytest.mark.parametrize("name", ["U[0,1]", "log-normal", "two groups"])
def test_learning_the_distribution_costs_little(name):
    dist, objective = POPULATIONS[name], BuyerObjective(1.0, 1.0, 1e-1)
    found = ratios(adaptive(dist, objective, 1000), dist, objective, 1000, 4)
    assert found.mean() <= 1.05 + 5 * found.std(ddof=1) / 2


@pytest.mark.slow
@each
@weights
@pytest.mark.parametrize(("sellers", "aim"), [(1000, 1.05), (10_000, 1.02)])
def test_learning_the_distribution_reaches_its_aims_over_40_draws(name, payment_weight, sellers, aim):
    dist, objective = POPULATIONS[name], BuyerObjective(1.0, 1.0, payment_weight)
    assert ratios(adaptive(dist, objective, sellers), dist, objective, sellers, 40).mean() <= aim


@pytest.mark.parametrize("name", ["U[1,5]", "log-normal"])
def test_where_half_the_sellers_come_planning_again_loses_less_than_the_fixed_curve(name):
    # The market learns after a fifth of the expected sellers that only half of them will come.
    dist, objective, sellers = POPULATIONS[name], BuyerObjective(1.0, 1.0, 1e-2), 1000
    fixed = population_curve(dist, objective, sellers)
    rng = np.random.default_rng(0)
    better = []
    for _ in range(8):
        costs = dist.sample(sellers // 2, rng)
        psi = dpm.virtual_costs(costs, dist)
        market = AdaptiveMechanism(Uniform(*dist.support), objective, sellers)
        first = market.quote_many(costs[: sellers // 5])
        market.expect(sellers // 2 - sellers // 5)
        rest = market.quote_many(costs[sellers // 5 :])
        promised = np.concatenate((first.epsilons, rest.epsilons))
        better.append(
            objective_value(fixed.epsilons(costs), psi, objective) - objective_value(promised, psi, objective)
        )
    assert np.mean(better) > 3 * np.std(better, ddof=1) / np.sqrt(8)
