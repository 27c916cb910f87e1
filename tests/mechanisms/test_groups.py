"""Quotas, hard and soft: solved as by a convex solver, truthful, met as stated, planned with and without."""

import json
import math

import cvxpy as cp
import numpy as np
import pytest

from dpmarket.costs import Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import (
    CrossPricedMechanism,
    EpsilonCost,
    Group,
    Objective,
    OfflineMechanism,
    PaperObjective,
)
from dpmarket.mechanisms.plan import plan
from dpmarket.statistics import rebalanced

COSTS = (Uniform(1, 5), Uniform(2, 4), Uniform(1, 2))
GROUPS = tuple(
    Group(name, share, VirtualCost.of(costs))
    for name, share, costs in zip(("one", "other", "third"), (0.5, 0.3, 0.2), COSTS, strict=True)
)
TWO = (Group("one", 0.6, GROUPS[0].virtual_cost), Group("other", 0.4, GROUPS[1].virtual_cost))
PLAIN, CAPPED = Objective(0.2, 40.0, 0.02), Objective(0.2, 40.0, 0.02, weight_cap=2.0)
FEW_CHORDS = EpsilonCost([0, 0.7, 1.5, 3], [0, 0.7, 1.5, 3], [0, 0.49, 2.25, 9], "quadratic")
TERMS = {"plain": (PLAIN, None), "capped": (CAPPED, None), "quadratic": (CAPPED, FEW_CHORDS)}
MEMBERSHIP = np.array([0, 0, 0, 1, 1, 1, 2, 2])
REPORTS = np.array([1.2, 1.2, 3.4, 2.1, 2.4, 3.9, 1.1, 1.9])
PSI = np.concatenate(
    [np.asarray(GROUPS[g].virtual_cost(REPORTS[g == MEMBERSHIP])) for g in range(3)]
)  # as reports are in the order of the groups


def convex(objective, table, total, coverage):
    """Least announced objective at a total with soft quotas, and its weights, by a general convex solver."""
    m, table = REPORTS.size, EpsilonCost.identity() if table is None else table
    a, h = cp.Variable(m, nonneg=True), cp.Variable(m)
    sums = cp.hstack([cp.sum(a[g == MEMBERSHIP]) for g in range(3)])
    cap = 1.0 if objective.weight_cap is None else max(objective.weight_cap / m, 1.5 / (m - 1))
    bounds = [cp.sum(a) == 1, a <= cap]
    if table.is_identity:
        bounds.append(h == a * total)
    else:
        slopes = np.diff(table.costs) / np.diff(table.shares)
        bounds += [
            h >= c + s * (a * total - q)
            for c, s, q in zip(table.costs[:-1], slopes, table.shares[:-1], strict=True)
        ]
        bounds.append(a * total <= table.max_share)
    value = objective.sampling_error * cp.sum_squares(a) + objective.payment_weight * (PSI @ h)
    value += coverage * cp.sum_squares(sums - np.array([group.share for group in GROUPS]))
    problem = cp.Problem(cp.Minimize(value), bounds)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    return problem.value + objective.noise_error / total**2, a.value


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("coverage", [0.0, 0.02, 0.5])
def test_soft_quotas_are_solved_as_by_a_convex_solver(terms, coverage):
    objective, table = TERMS[terms]
    mechanism = OfflineMechanism(None, objective, epsilon_cost=table, groups=GROUPS, coverage=coverage)
    outcome = mechanism.run(REPORTS, MEMBERSHIP)
    value, weights = convex(objective, table, outcome.total, coverage)
    np.testing.assert_allclose(outcome.weights, weights, atol=1e-7)
    for other in (0.99, 1.01):
        if table is None or other * outcome.total < 3.0 * REPORTS.size:
            assert convex(objective, table, other * outcome.total, coverage)[0] > value * (1.0 - 1e-9)


@pytest.mark.parametrize("objective", [PLAIN, PaperObjective(1.0, 1.0, 0.05)], ids=["squared error", "paper"])
def test_a_large_weight_makes_soft_quotas_hard(objective):
    hard = OfflineMechanism(None, objective, groups=GROUPS).run(REPORTS, MEMBERSHIP)
    gaps = []
    for coverage in (1e2, 1e4, 1e6):
        soft = OfflineMechanism(None, objective, groups=GROUPS, coverage=coverage).run(REPORTS, MEMBERSHIP)
        gaps.append(np.abs(soft.weights - hard.weights).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5
    np.testing.assert_allclose(soft.payments, hard.payments, rtol=1e-4, atol=1e-5)


def test_a_weight_of_zero_is_a_market_without_groups():
    groups = [Group("one", 0.9, VirtualCost.of(COSTS[0])), Group("other", 0.1, VirtualCost.of(COSTS[0]))]
    soft = OfflineMechanism(None, CAPPED, epsilon_cost=FEW_CHORDS, groups=groups, coverage=0.0)
    alone = OfflineMechanism(COSTS[0], CAPPED, epsilon_cost=FEW_CHORDS).run(REPORTS)
    outcome = soft.run(REPORTS, MEMBERSHIP % 2)
    np.testing.assert_allclose(outcome.weights, alone.weights, atol=1e-10)
    np.testing.assert_allclose(outcome.payments, alone.payments, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("coverage", ["hard", pytest.param(0.008, marks=pytest.mark.slow)])
def test_cross_priced_shares_are_met_within_the_stated_deviation_and_exactly_once_rebalanced(coverage):
    rng = np.random.default_rng(0)
    members = rng.integers(0, 2, 300)
    costs = np.choose(members, [each.sample(300, rng) for each in COSTS[:2]])
    mechanism = CrossPricedMechanism(None, Objective.for_model(10), 225.0, groups=TWO, coverage=coverage)
    outcome, prices = mechanism.run(range(300), costs, members, salt=bytes(16))
    assert outcome.total_payment == pytest.approx(225.0, rel=0.04)
    found = np.bincount(members, outcome.weights)
    assert 0.0 < prices.share_deviations[0] < 0.1
    if coverage == "hard":
        assert abs(found[0] - 0.6) < 6.0 * prices.share_deviations[0]
    else:
        assert 0.6 + 0.02 < found[0] < 1.0  # the first group is cheaper
    used = rebalanced(outcome.epsilons, members, [0.6, 0.4])
    assert (used <= outcome.epsilons).all()
    np.testing.assert_allclose(np.bincount(members, used) / used.sum(), [0.6, 0.4], rtol=0, atol=1e-9)


def test_schedules_meet_hard_shares_on_average_and_within_what_the_plan_states():
    costs, sizes = COSTS[:2], (400, 800)
    found = plan(costs, Objective.for_model(10), sizes, 900.0, groups=TWO)
    rng, shares = np.random.default_rng(1), []
    for _ in range(200):
        sums = [
            schedule.quote(each.sample(size, rng))[0].sum()
            for schedule, each, size in zip(found.schedules, costs, sizes, strict=True)
        ]
        shares.append(sums[0] / sum(sums))
    deviation = found.share_deviations[0]
    assert abs(np.mean(shares) - 0.6) < 6.0 * deviation / math.sqrt(200)
    assert np.std(shares) == pytest.approx(deviation, rel=0.35)  # 6 standard errors and more


def test_a_plan_says_what_representativeness_costs_and_what_it_gains():
    costs, sizes = (Uniform(1, 2), Uniform(2.5, 5)), (250, 250)
    groups = [Group(name, 0.5, VirtualCost.of(each)) for name, each in zip("ab", costs, strict=True)]
    objective = Objective.for_model(31)

    def planned(coverage, difference=None):
        return plan(
            costs, objective, sizes, 500.0, groups=groups, coverage=coverage, group_difference=difference
        )

    costly, gaining, soft = planned("hard"), planned("hard", 0.3), planned(0.3)
    assert costly.quota_effect > 0.0  # nothing is known of a gain
    assert gaining.quota_effect < 0.0
    assert soft.prospect.error < gaining.prospect.error  # the optimum of the same objective
    assert 0.5 < soft.prospect.group_shares[0] < 1.0
    rules = {rule.name: rule for rule in soft.alternatives}
    assert set(rules) == {
        "without quotas", "hard quotas", "best posted price", "price that half accept", "same for all",
        "posted price per group",
    }  # fmt: skip
    assert all(rule.error > soft.prospect.error for rule in rules.values())
    assert all(rule.expected_payment == pytest.approx(500.0, rel=1e-2) for rule in rules.values())
    assert rules["hard quotas"].error == pytest.approx(gaining.prospect.error, rel=1e-4)
    assert rules["without quotas"].coverage_error == pytest.approx(0.3 * 0.5, rel=1e-6)
    assert rules["posted price per group"].error < 1.05 * gaining.prospect.error
    assert json.loads(json.dumps(gaining.to_dict()))["coverage"] == "hard"
    assert "without quotas" in repr(gaining)


def test_coverages_that_mean_nothing_are_refused():
    for wrong in ("soft", -1.0, math.nan, None):
        with pytest.raises(InvalidInput, match="coverage"):
            OfflineMechanism(None, PLAIN, groups=GROUPS, coverage=wrong)
    with pytest.raises(InvalidInput, match="each group"):
        plan(COSTS[0], PLAIN, 100, 10.0, groups=GROUPS)
