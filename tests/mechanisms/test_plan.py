"""Plans: the payment weight meets a budget when markets are really drawn, and figures are what happens."""

import numpy as np
import pytest

from dpmarket.costs import Uniform
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import Objective, PaperObjective
from dpmarket.mechanisms.plan import budget_for_error, plan

COSTS = Uniform(1, 5)
QUADRATIC = EpsilonCost.identity(5.0, "quadratic")


@pytest.mark.parametrize(
    ("objective", "table"),
    [
        (Objective.for_model(10), QUADRATIC),
        (PaperObjective(1.0, 1.0, 1.0), None),
        (Objective.for_descent(10, weight_cap=3.0), EpsilonCost.of_delta(1e-5, 5.0)),
    ],
    ids=["quadratic", "paper", "delta"],
)
def test_markets_drawn_from_the_costs_pay_the_budget_and_err_as_planned(objective, table):
    found = plan(COSTS, objective, sellers=1000, budget=200.0, epsilon_cost=table)
    mechanism = OfflineMechanism(COSTS, found.objective, epsilon_cost=table)
    rng = np.random.default_rng(0)
    outcomes = [mechanism.run(COSTS.sample(1000, rng)) for _ in range(12)]
    paid = [o.rounded_payments(0.01).sum() for o in outcomes]
    assert np.mean(paid) == pytest.approx(200.0, rel=0.03)
    assert found.prospect.expected_payment == pytest.approx(200.0, rel=1e-4)
    assert np.mean([o.noise_error for o in outcomes]) == pytest.approx(found.prospect.noise_error, rel=0.05)
    assert np.mean([o.sampling_error for o in outcomes]) == pytest.approx(
        found.prospect.sampling_error, rel=0.05
    )
    assert np.mean([(o.epsilons > 0).mean() for o in outcomes]) == pytest.approx(
        found.prospect.share_bought, abs=0.02
    )


def test_small_markets_meet_the_budget_on_average_and_no_simpler_rule_is_better():
    found = plan(COSTS, Objective.for_model(10), sellers=8, budget=100.0)
    mechanism = OfflineMechanism(COSTS, found.objective)
    rng = np.random.default_rng(5)
    paid = np.array([mechanism.run(COSTS.sample(8, rng)).total_payment for _ in range(100)])
    # Both the plan's markets and these are samples: five standard errors.
    error = paid.std() * np.sqrt(1 / 100 + 1 / 40)
    assert abs(paid.mean() - 100.0) < 5 * error + 0.5
    # All rules face the same simulated markets and cost the same there.
    assert len(found.alternatives) == 3
    for rule in found.alternatives:
        assert rule.error > found.prospect.error
        assert rule.expected_payment == pytest.approx(found.prospect.expected_payment, rel=1e-6)


def test_a_budget_with_a_probability_is_kept_that_often():
    found = plan(COSTS, Objective.for_model(10, weight_cap=3.0), sellers=400, budget=200.0, probability=0.9)
    rng = np.random.default_rng(1)
    totals = [found.schedules[0].quote(COSTS.sample(400, rng))[1].sum() for _ in range(2000)]
    assert np.mean(np.array(totals) <= 200.0) == pytest.approx(0.9, abs=0.04)
    assert found.prospect.expected_payment < 200.0


def test_simpler_rules_cost_the_same_and_buy_less():
    for table in (None, QUADRATIC):
        found = plan(COSTS, Objective.for_model(31), sellers=2000, budget=500.0, epsilon_cost=table)
        names = [rule.name for rule in found.alternatives]
        assert names == ["best posted price", "price that half accept", "same for all"]
        for rule in found.alternatives:
            assert rule.error > found.prospect.error
            assert rule.expected_payment == pytest.approx(found.prospect.expected_payment, rel=1e-2)
        assert found.alternatives[0].error == min(rule.error for rule in found.alternatives)
    # With quadratic costs personal prices are worth clearly more than one price.
    assert found.alternatives[0].error > 1.2 * found.prospect.error


def test_bounds_on_epsilon_may_leave_money_unspent():
    table = EpsilonCost.identity(0.5)
    found = plan(COSTS, Objective.for_model(10), sellers=200, budget=1e6, epsilon_cost=table)
    assert found.prospect.expected_payment == pytest.approx(200 * 0.5 * 5.0 + 200 * 0.005, rel=1e-3)


def test_a_plan_says_what_money_people_and_fewer_features_would_do():
    base, half = Objective.for_model(20), Objective.for_model(10)
    found = plan(COSTS, base, sellers=1000, budget=100.0, fewer_features=half)
    factors = dict(found.changes)
    for name, other in (
        ("twice the money", plan(COSTS, base, 1000, 200.0)),
        ("twice the people", plan(COSTS, base, 2000, 100.0)),
        ("half of the features", plan(COSTS, half, 1000, 100.0)),
    ):
        assert factors[name] == pytest.approx(other.prospect.error / found.prospect.error, rel=1e-3)
        assert factors[name] < 1.0
    assert found.to_dict()["changes"] == factors


@pytest.mark.parametrize(
    ("objective", "target", "table"),
    [
        (Objective.for_model(10), 1e-4, EpsilonCost.identity(1.0)),
        # Sampling alone leaves mu / sqrt(m), however little noise there is.
        (PaperObjective(1.0, 1.0, 1.0), 1.0 / np.sqrt(400), None),
    ],
    ids=["out of reach", "only endless money comes close"],
)
def test_an_error_that_no_money_reaches_is_refused(objective, target, table):
    with pytest.raises(Infeasible, match=r"any money, .*more people"):
        budget_for_error(COSTS, objective, 400, target, epsilon_cost=table)
