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
from dpmarket.mechanisms import Curve
from support.ratios import POPULATIONS, ratios

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
        planned = 0.4 * curve.slope, curve.cutoff, 0.4 * curve.max_epsilon
        less = Curve(dist, objective, sellers, *planned)
        wrong = ratios(less.epsilons, dist, objective, sellers, draws)
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
