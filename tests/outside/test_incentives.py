"""Incentives of every mechanism: truthful, individually rational, monotone, and paid by the Myerson identity.

Everything is seen through ``run``, ``respond`` and ``quote``; the second implementation is a quadrature.
``mechanisms/test_exact.py`` compares what is bought with another solver.
"""

import numpy as np
import pytest
from scipy import stats

import dpmarket as dpm
from dpmarket import (
    CostDistribution,
    EpsilonCost,
    Mixture,
    Objective,
    OfflineMechanism,
    PaperObjective,
    Uniform,
)
from dpmarket.mechanisms import CheapestK

U = Uniform(1, 5)
U_SHAPED = CostDistribution(stats.beta(0.5, 0.5))
GROUPS = Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5])
LOG_NORMAL = CostDistribution(stats.lognorm(s=0.8, scale=2.0), 0, 30)
ERROR = Objective(0.2, 40.0, 1e-2)
PAPER = PaperObjective(1.0, 1.0, 0.1)
QUADRATIC, DELTA = EpsilonCost.identity(8.0, "quadratic"), EpsilonCost.of_delta(1e-5, 4.0)
MECHANISMS = {
    "offline": (OfflineMechanism(U, ERROR), U),
    "offline, paper": (OfflineMechanism(U, PAPER), U),
    "offline, capped": (OfflineMechanism(U, Objective(0.2, 40.0, 1e-3, weight_cap=3.0)), U),
    "offline, bounded": (OfflineMechanism(U, PaperObjective(1.0, 1.0, 1e-3, 3.0, 0.05)), U),
    "offline, beta": (OfflineMechanism(U_SHAPED, ERROR), U_SHAPED),
    "offline, mixture": (OfflineMechanism(GROUPS, Objective(0.2, 40.0, 1e-2, 4.0, 5.0)), GROUPS),
    "offline, log-normal": (
        OfflineMechanism(dpm.VirtualCost.of(LOG_NORMAL, tolerance=0.02), ERROR),
        LOG_NORMAL,
    ),
    "offline, quadratic": (OfflineMechanism(U, ERROR, epsilon_cost=QUADRATIC), U),
    "offline, delta": (OfflineMechanism(U, ERROR, epsilon_cost=DELTA), U),
    "offline, quadratic delta": (
        OfflineMechanism(U, ERROR, epsilon_cost=EpsilonCost.of_delta(1e-5, 4.0, "quadratic")),
        U,
    ),
    "cheapest k": (CheapestK(3, 0.7, 5.0, ERROR), U),
}
each = pytest.mark.parametrize("name", MECHANISMS)


def market(name, sellers=6, seed=0):
    """Return a mechanism, costs with a tie, and what a seller with cost c loses per unit of it."""
    mechanism, dist = MECHANISMS[name]
    costs = np.asarray(dist.sample(sellers, np.random.default_rng(seed)))
    costs[3] = costs[1]
    table = mechanism.epsilon_cost
    return mechanism, costs, lambda epsilon: float(table.cost_of_epsilon(np.array([epsilon]))[0])


@each
def test_no_misreport_gains_no_seller_loses_and_epsilon_never_rises(name):
    mechanism, costs, amount = market(name)
    low, high = costs.min() * 0.5, min(costs.max() * 1.5, 20.0)
    reports = np.sort(np.r_[np.linspace(low, high, 10), costs, np.nextafter(costs, 0), 0.0])
    for i in (0, 1):
        epsilon, payment = mechanism.respond(costs, i, costs[i])
        truth = payment - costs[i] * amount(epsilon)
        assert truth >= -1e-12 * payment
        answers = [mechanism.respond(costs, i, report) for report in reports]
        for epsilon, other in answers:
            assert other - costs[i] * amount(epsilon) <= truth + 1e-9 * (other + payment)
        epsilons = np.array([epsilon for epsilon, _ in answers])
        assert (np.diff(epsilons) <= 1e-12 * epsilons.max()).all()
    assert mechanism.respond(costs, 0, 1e6) == (0.0, 0.0)


@each
def test_answers_to_single_reports_are_those_of_the_market_that_is_run(name):
    mechanism, costs, _ = market(name, seed=1)
    outcome = mechanism.run(costs)
    for i in (0, 3):
        np.testing.assert_allclose(
            mechanism.respond(costs, i, costs[i]), (outcome.epsilons[i], outcome.payments[i]), rtol=1e-9
        )
    if name != "cheapest k":  # equal reports are treated equally
        assert outcome.epsilons[1] == pytest.approx(outcome.epsilons[3], rel=1e-12)
        assert outcome.payments[1] == pytest.approx(outcome.payments[3], rel=1e-9)


@pytest.mark.parametrize("name", ["offline, paper", "offline, delta"])
def test_payments_are_an_independent_quadrature_of_the_announced_rule(name):
    """The Myerson payment c H(c) + integral of H from c to the top, by trapezoids with Richardson's step."""
    mechanism, costs, amount = market(name, sellers=5)
    i = int(costs.argsort()[1])
    reports = np.linspace(costs[i], 5.0, 97)
    amounts = np.array([amount(mechanism.respond(costs, i, z)[0]) for z in reports])
    fine, coarse = np.trapezoid(amounts, reports), np.trapezoid(amounts[::2], reports[::2])
    paid = costs[i] * amounts[0] + fine + (fine - coarse) / 3.0
    assert amounts[0] > 0.0
    # Kinks, and jumps from total to total of the menu, are what trapezoids miss.
    assert mechanism.respond(costs, i, costs[i])[1] == pytest.approx(paid, rel=2e-3)


def test_bounds_on_weights_and_epsilons_hold_and_nonsense_is_refused():
    mechanism = OfflineMechanism(U, Objective(1e-3, 40.0, 1e-4, weight_cap=2.0, max_mean_epsilon=0.3))
    outcome = mechanism.run(np.linspace(1.0, 5.0, 20))
    assert outcome.weights.max() <= 2.0 / 20 * (1.0 + 1e-12)
    assert outcome.epsilons.max() <= 0.6 * (1.0 + 1e-12)
    assert outcome.epsilons.sum() <= 20 * 0.3 * (1.0 + 1e-12)
    for reports in ([-1.0], [np.nan], [[1.0]], ["a"]):
        with pytest.raises(dpm.InvalidInput):
            mechanism.run(reports)


# --- schedules ---


@pytest.mark.parametrize("dist", [U, U_SHAPED, GROUPS], ids=["uniform", "beta", "mixture"])
def test_expected_payments_of_a_schedule_are_the_expected_virtual_costs(dist):
    """The revenue identity: E[payment] = E[psi(c) eps(c)], both by quadrature."""
    schedule = dpm.population_schedule(dist, ERROR, 40)
    psi = dpm.VirtualCost.of(dist)
    costs = dist.quantile((np.arange(20_000) + 0.5) / 20_000)
    costs = costs[costs <= psi.reserve_price]
    epsilons, payments = schedule.quote(costs)
    assert payments.mean() == pytest.approx((psi(costs) * epsilons).mean(), rel=5e-3)
