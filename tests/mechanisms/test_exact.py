"""The exact offline mechanism against other ways of solving: optimal, truthful, paid by the identity."""

import math

import numpy as np
import pytest
from scipy import stats

from dpmarket.costs import CostDistribution, Mixture, Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import Objective, PaperObjective
from support.announced import menu, solve_announced

UNIFORM = Uniform(1, 5)
IRREGULAR = Mixture([Uniform(1, 2), Uniform(1, 5), Uniform(3.5, 4)], [0.5, 0.2, 0.3])
BETA = CostDistribution(stats.beta(2, 3, loc=1, scale=4))
BOUNDED = Objective(0.2, 40.0, 0.02, weight_cap=2.0)
IDENTITY = EpsilonCost.identity()
DELTA = EpsilonCost.of_delta(1e-5, 6.0)
TERMS = {
    "plain": (UNIFORM, Objective(0.2, 40.0, 0.02), IDENTITY),
    "paper": (UNIFORM, PaperObjective(1.0, 1.0, 0.05), IDENTITY),
    "paper, caps": (UNIFORM, PaperObjective(1.0, 1.0, 0.01, weight_cap=2.0, max_mean_epsilon=0.7), IDENTITY),
    "cap and largest epsilon": (BETA, BOUNDED, EpsilonCost.identity(max_epsilon=3.0)),
    "mean cap": (BETA, Objective(0.2, 40.0, 0.002, max_mean_epsilon=2.0), IDENTITY),
    "irregular": (IRREGULAR, Objective(0.2, 40.0, 0.02), IDENTITY),
    "quadratic": (UNIFORM, BOUNDED, EpsilonCost.identity(2.0, "quadratic")),
    "delta": (BETA, Objective.for_descent(5, 0.01, weight_cap=2.0), DELTA),
    "quadratic delta": (
        IRREGULAR,
        Objective.for_descent(5, 0.01),
        EpsilonCost.of_delta(1e-5, 3.0, "quadratic"),
    ),
}
GROUPS = (Group("one", 0.6, VirtualCost.of(UNIFORM)), Group("other", 0.4, VirtualCost.of(Uniform(2, 4))))
THREE_GROUPS = (
    Group("one", 0.5, VirtualCost.of(UNIFORM)),
    Group("cheap", 0.3, VirtualCost.of(Uniform(1, 2))),
    Group("irregular", 0.2, VirtualCost.of(IRREGULAR)),
)
COVERAGES = ("hard", 0.0, 0.01, 0.3, 20.0)


def mechanism(name):
    dist, objective, table = TERMS[name]
    return OfflineMechanism(dist, objective, epsilon_cost=table)


def sample(name, m, seed):
    """Costs with ties, and one at the lower end of the support."""
    dist = TERMS[name][0]
    top = mechanism(name).groups[0].virtual_cost.reserve_price
    costs = np.minimum(dist.sample(m, np.random.default_rng(seed)), top)
    if m > 3:
        costs[1] = costs[0]
        costs[2] = dist.support[0]
    return costs


def announced(market, psi, low, high):
    """Solve the announced problem of a market with one group, its entries between two totals."""
    objective, table, m = market.objective, market.epsilon_cost, psi.size
    cap = 1.0
    if objective.weight_cap is not None and m > 1:
        cap = min(1.0, max(objective.weight_cap / m, 1.5 / (m - 1)))
    bounds = []
    if isinstance(objective, Objective):
        limit = m * min(table.max_share, objective.max_mean_epsilon or math.inf)
        bounds = [limit] if low <= limit <= high * 1.01 else []
        high = min(high, limit)
    entries, groups = menu(low, high, *bounds), np.zeros(m, dtype=int)
    return solve_announced(objective, table, np.ones(m), np.full(m, cap), groups, entries, psi)


def around(market, outcome, factor):
    """Entries around the decision; the paper's menu is of |a| eta."""
    centre = outcome.total
    if isinstance(market.objective, PaperObjective):
        centre *= math.sqrt(float(outcome.weights @ outcome.weights))
    return centre / factor, centre * factor


def amounts(market, epsilons):
    return np.asarray(market.epsilon_cost.cost_of_epsilon(np.asarray(epsilons)))


@pytest.mark.parametrize("name", TERMS)
def test_the_purchase_is_the_global_optimum_of_the_announced_problem(name):
    market = mechanism(name)
    for m in (1, 2, 7):
        costs = sample(name, m, seed=m)
        outcome = market.run(costs)
        psi = np.asarray(market.groups[0].virtual_cost(costs))
        value, total, weights = announced(market, psi, *around(market, outcome, 8.0))
        assert outcome.total == pytest.approx(total, rel=1e-9)
        np.testing.assert_allclose(outcome.weights, weights, atol=1e-9)
        epsilons = market.epsilon_cost.epsilon(weights * total)
        np.testing.assert_allclose(outcome.epsilons, epsilons, rtol=1e-9, atol=1e-9)
        if isinstance(market.objective, Objective):
            money = market.objective.payment_weight * float(psi @ amounts(market, outcome.epsilons))
            assert outcome.sampling_error + outcome.noise_error + money == pytest.approx(value, rel=1e-9)


def gains(market, costs, i, reports, membership=None):
    """What each report gains seller ``i`` over the true one, as a share of the money in play."""

    def utility(epsilon, payment):
        return payment - costs[i] * amounts(market, epsilon)

    outcome = market.run(costs, membership)
    truth = utility(outcome.epsilons[i], outcome.payments[i])
    assert truth >= -1e-9 * outcome.total_payment
    found = [utility(*market.respond(costs, i, report, membership)) - truth for report in reports]
    return np.array(found) / max(outcome.total_payment, 1e-12)


def misreports(rng, costs, table):
    """Reports that matter: others' costs, knots, ends, close to the truth, anything."""
    span = table.reserve_price - table.knots[0]
    return [
        float(rng.choice(costs)),
        float(rng.choice(table.knots)),
        float(table.reserve_price * rng.choice([1.0, 1.001])),
        float(np.clip(rng.choice(costs) + span * rng.normal() * 1e-3, 0.0, None)),
        float(rng.uniform(0.5 * table.knots[0], table.reserve_price)),
    ]


@pytest.mark.parametrize(
    ("pairs", "grouped"),
    [(50, 1.0), *(pytest.param(20_000, grouped, marks=pytest.mark.slow) for grouped in (0.0, 1.0))],
)
def test_no_misreport_gains(pairs, grouped):
    """All kinds of terms, with two or three groups; tests/outside/test_incentives.py has none."""
    rng = np.random.default_rng(1)
    for _ in range(pairs // 5):
        name = str(rng.choice(list(TERMS)))
        m = int(rng.integers(1, 9))
        costs = sample(name, m, int(rng.integers(1 << 30)))
        market, membership = mechanism(name), None
        if grouped:
            _, objective, table = TERMS[name]
            groups = GROUPS if rng.random() < 0.5 else THREE_GROUPS
            coverage = COVERAGES[int(rng.integers(len(COVERAGES)))]
            market = OfflineMechanism(None, objective, epsilon_cost=table, groups=groups, coverage=coverage)
            membership = rng.integers(0, len(groups), m)
        i = int(rng.integers(m))
        table = market.groups[0 if membership is None else membership[i]].virtual_cost
        costs[i] = min(costs[i], table.reserve_price)
        found = gains(market, costs, i, misreports(rng, costs, table), membership)
        assert found.max() <= 1e-9, (name, costs, i, membership)


def test_groups_meet_their_quotas_and_pay_by_the_identity_of_their_own_market():
    objective, table = Objective.for_descent(5, 0.01, weight_cap=2.0), DELTA
    market = OfflineMechanism(None, objective, epsilon_cost=table, groups=GROUPS)
    costs, membership = np.array([1.2, 2.0, 3.5, 2.1, 2.4, 3.9]), np.array([0, 0, 0, 1, 1, 1])
    outcome = market.run(costs, membership)
    assert outcome.weights[:3].sum() == pytest.approx(0.6, rel=1e-12)
    psi = np.concatenate([GROUPS[g].virtual_cost(costs[membership == g]) for g in (0, 1)])
    caps = np.where(membership == 0, max(2 / 6, 1.5 * 0.6 / 2), max(2 / 6, 1.5 * 0.4 / 2))
    quotas = np.where(membership == 0, 0.6, 0.4)
    entries = menu(outcome.total / 4, outcome.total * 4)
    problem = objective, table, quotas, caps, membership, entries
    value, total, weights = solve_announced(*problem, psi)
    assert outcome.total == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(outcome.weights, weights, atol=1e-12)
    # The rent of seller 3 on a table with one piece is a difference of two optima.
    top = psi.copy()
    top[3] = GROUPS[1].virtual_cost.values[-1]
    rent = float(solve_announced(*problem, top)[0] - value) / (objective.payment_weight * 2.0)
    amount = amounts(market, outcome.epsilons[3:4])[0]
    assert outcome.payments[3] == pytest.approx(costs[3] * amount + rent, rel=1e-9)


def test_an_empty_group_leaves_its_quota_to_the_others():
    market = OfflineMechanism(None, Objective(0.2, 40.0, 0.02), groups=GROUPS)
    alone = OfflineMechanism(UNIFORM, Objective(0.2, 40.0, 0.02))
    outcome = market.run([1.2, 2.0, 3.5, 4.5], [0, 0, 0, 1])  # the last is above its group's reserve price
    np.testing.assert_allclose(outcome.payments, [*alone.run([1.2, 2.0, 3.5]).payments, 0.0], rtol=1e-12)


def test_large_markets_pay_by_a_curve_what_each_seller_is_paid_alone():
    for name in ("paper, caps", "irregular"):
        market = mechanism(name)
        market = OfflineMechanism(market.groups[0].virtual_cost, market.objective.with_payment_weight(1e-9))
        costs = TERMS[name][0].sample(30_000, np.random.default_rng(0))
        outcome = market.run(costs)
        sold = np.flatnonzero(outcome.epsilons)
        assert sold.size > 5000
        for i in np.random.default_rng(1).choice(sold, 4):
            epsilon, payment = market.respond(costs, int(i), costs[i])
            assert outcome.epsilons[i] == epsilon
            assert outcome.payments[i] == pytest.approx(payment, rel=1e-9)
        assert outcome.weights.sum() == pytest.approx(1.0, rel=1e-11)


def test_costs_of_nothing_are_bought_up_to_a_bound():
    bounded = Objective(0.2, 40.0, 0.02, max_mean_epsilon=3.0)
    outcome = OfflineMechanism(Uniform(0, 1), bounded).run([0.0, 0.0, 0.0])
    assert outcome.total == 9.0
    assert outcome.epsilons.tolist() == pytest.approx([3.0] * 3)
    unbounded = OfflineMechanism(Uniform(0, 1), Objective(0.2, 40.0, 0.02))
    assert np.isfinite(unbounded.run([0.0, 0.5]).payments).all()


def test_a_weight_cap_that_few_sellers_cannot_meet_is_raised_by_a_published_rule():
    market = OfflineMechanism(UNIFORM, Objective(0.2, 400.0, 1e-3, weight_cap=1.0))
    costs = np.linspace(1.5, 3.0, 10)
    outcome = market.run(costs)
    assert outcome.weights.max() <= 1.5 / 9 * (1.0 + 1e-12)
    prices = outcome.payments[outcome.epsilons > 0.0] / outcome.epsilons[outcome.epsilons > 0.0]
    assert prices.max() < 4.0  # not the reserve price, as if everybody were indispensable


def test_terms_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="paper"):
        OfflineMechanism(UNIFORM, PaperObjective(1, 1, 1), epsilon_cost=EpsilonCost.identity(2.0))
    with pytest.raises(InvalidInput, match="groups"):
        OfflineMechanism(None, BOUNDED)
    with pytest.raises(InvalidInput, match="add up"):
        OfflineMechanism(None, BOUNDED, groups=GROUPS[:1])
