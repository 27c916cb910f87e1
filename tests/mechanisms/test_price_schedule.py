"""Price schedules: truthful, individually rational, close to the exact optimum."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from dpmarket.costs import Mixture, Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.objective import Objective, PaperObjective
from dpmarket.mechanisms.price_schedule import (
    PriceSchedule,
    paper_schedule,
    population_schedule,
    posted_price,
)

UNIFORM = Uniform(1, 5)
IRREGULAR = Mixture([Uniform(1, 2), Uniform(1, 5), Uniform(3.5, 4)], [0.5, 0.2, 0.3])
QUADRATIC = EpsilonCost.identity(4.0, "quadratic")
DELTA = EpsilonCost.of_delta(1e-5, 6.0)
CAPPED = Objective.for_model(10, 1e-3, weight_cap=2.0)
SCHEDULES = {
    "population": (population_schedule(UNIFORM, Objective.for_model(10, 1e-4), 500), None),
    "paper": (population_schedule(UNIFORM, PaperObjective(1, 1, 1e-3), 500), None),
    "irregular": (population_schedule(IRREGULAR, CAPPED, 500), None),
    "quadratic": (population_schedule(UNIFORM, CAPPED, 500, epsilon_cost=QUADRATIC), QUADRATIC),
    "delta": (population_schedule(UNIFORM, CAPPED, 500, epsilon_cost=DELTA), DELTA),
    "posted price": (posted_price(3.0, 0.5, QUADRATIC), QUADRATIC),
    "Algorithm 3": (paper_schedule(VirtualCost.of(Uniform(0, 1)), PaperObjective(1, 1, 0.1), 50, 0.5), None),
}


def losses(table, epsilons):
    return epsilons if table is None else table.cost_of_epsilon(epsilons)


@pytest.mark.parametrize("name", SCHEDULES)
def test_truth_is_the_best_report_taking_part_never_loses_and_payments_are_the_identity(name):
    schedule, table = SCHEDULES[name]
    top = schedule.reserve_price
    reports = np.unique(np.concatenate((schedule.costs, np.linspace(0.0, 1.1 * top, 400))))
    epsilons, payments = schedule.quote(reports)
    utilities = payments - reports[:, None] * losses(table, epsilons)  # of each cost, each report
    truthful = np.diag(utilities)
    money = max(float(payments.max()), 1e-12)
    assert (utilities.max(axis=1) - truthful).max() <= 1e-12 * money
    assert truthful.min() >= -1e-12 * money
    assert (np.diff(epsilons) <= 1e-15).all()
    for cost in np.linspace(schedule.costs[0], top, 4):
        inner = schedule.costs[(schedule.costs > cost) & (schedule.costs < top)]
        area = sum(
            quad(lambda z: losses(table, schedule.quote([z])[0])[0], a, b, epsabs=0, epsrel=1e-12)[0]
            for a, b in pairwise([cost, *inner, top])
            if b > a
        )
        epsilon, payment = schedule.quote([cost])
        assert payment[0] == pytest.approx(cost * losses(table, epsilon)[0] + area, rel=1e-9)


@pytest.mark.parametrize("table", [EpsilonCost.identity(0.02, "quadratic"), EpsilonCost.of_delta(1e-5, 0.5)])
def test_where_the_density_jumps_chords_keep_their_knots_and_truth_stays_best(table):
    """Within a jump of the virtual cost, a piece of 1e-12 of the support, epsilon falls by many chords."""
    dist = Mixture([Uniform(1, 1.01), Uniform(1, 9)], [0.7, 0.3])
    objective = Objective(0.044, 300.0, 7.0, weight_cap=1.0)
    jumps = 0
    for sellers in (100, 200, 400):
        schedule = population_schedule(dist, objective, sellers, epsilon_cost=table)
        jumps += int(((schedule.costs > 1.01) & (schedule.costs < 1.01 + 1e-10)).sum() > 4)
        costs = np.linspace(1.0, 1.02, 21)
        reports = np.concatenate([schedule.costs, 0.5 * (schedule.costs[1:] + schedule.costs[:-1]), costs])
        (truthful, paid), (epsilons, payments) = schedule.quote(costs), schedule.quote(reports)
        utilities = paid - costs * table.cost_of_epsilon(truthful)
        others = payments - costs[:, None] * table.cost_of_epsilon(epsilons)
        assert (others - utilities[:, None]).max() <= 1e-9 * payments.max()
        np.testing.assert_allclose(table.cost_of_epsilon(epsilons), schedule.amount(reports), rtol=1e-9)
    assert jumps  # the case is the one that is meant


def test_a_menu_offers_what_reports_get_and_schedules_survive_plain_data():
    schedule, _ = SCHEDULES["population"]
    costs, epsilons, payments = schedule.menu(20)
    assert (np.array(schedule.quote(costs)) == np.array([epsilons, payments])).all()
    assert schedule.largest_payment == payments[0] == payments.max()
    assert PriceSchedule.from_dict(schedule.to_dict()) == schedule


def test_what_is_no_schedule_is_refused():
    with pytest.raises(InvalidInput, match="never rise"):
        PriceSchedule([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="rise strictly"):
        PriceSchedule([2.0, 1.0], [2.0, 1.0])
    with pytest.raises(InvalidInput, match="at most"):
        posted_price(1.0, 5.0, QUADRATIC)
