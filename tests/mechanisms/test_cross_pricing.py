"""Cross-pricing: no report moves its own prices, and the budget is met whatever costs really are."""

import numpy as np
import pytest

from dpmarket.costs import Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.cross_pricing import PARTS, CrossPricedMechanism, split
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import Objective

ANNOUNCED = Uniform(1, 5)
SALT = bytes(range(16))
TERMS = {
    "linear": (Objective.for_model(10, 1e-5), EpsilonCost.identity()),
    "cap": (Objective.for_model(10, 1e-5, weight_cap=3.0), EpsilonCost.identity(5.0)),
    "quadratic": (Objective.for_model(10, 1e-5), EpsilonCost.identity(5.0, "quadratic")),
    "delta": (Objective.for_descent(10, 1e-5), EpsilonCost.of_delta(1e-5, 5.0)),
}


@pytest.mark.parametrize(
    ("name", "wrong"), [("linear", 0.8), ("cap", 1.25), ("quadratic", 0.8), ("delta", 1.25)]
)
def test_a_thousand_sellers_cost_the_budget_though_announced_costs_are_a_quarter_wrong(name, wrong):
    objective, table = TERMS[name]
    mechanism = CrossPricedMechanism(ANNOUNCED, objective, 600.0, epsilon_cost=table, minor_unit=0.01)
    costs = ANNOUNCED.sample(1000, np.random.default_rng(3)) * wrong
    outcome, _ = mechanism.run(range(1000), costs, salt=SALT)
    assert outcome.rounded_payments(0.01).sum() == pytest.approx(600.0, rel=0.01)
    assert outcome.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("coverage", ["hard", 0.05])
def test_a_budget_below_what_rounding_up_costs_is_refused_in_one_sentence(coverage):
    """With so low a cap nearly everybody sells, and is paid a whole unit at any payment weight."""
    groups = [
        Group("low", 0.7, VirtualCost.of(Uniform(0, 1))),
        Group("high", 0.3, VirtualCost.of(Uniform(1, 5))),
    ]
    objective, table = Objective.for_model(10, weight_cap=1.0), EpsilonCost.identity(5.0)
    mechanism = CrossPricedMechanism(
        None, objective, 2.0, epsilon_cost=table, groups=groups, coverage=coverage, minor_unit=0.1
    )
    costs = np.concatenate([Uniform(0, 1).sample(70, np.random.default_rng(1)),
                            ANNOUNCED.sample(30, np.random.default_rng(2))])  # fmt: skip
    with pytest.raises(Infeasible, match="raise it"):
        mechanism.run(range(100), costs, np.repeat([0, 1], [70, 30]), salt=SALT)


def test_the_objective_is_close_to_the_exact_optimum():
    objective = Objective.for_model(10, weight_cap=3.0)
    costs = ANNOUNCED.sample(1000, np.random.default_rng(5))
    outcome, prices = CrossPricedMechanism(ANNOUNCED, objective, 600.0).run(range(1000), costs, salt=SALT)
    planned = objective.with_payment_weight(float(np.mean(prices.payment_weights)))
    exact = OfflineMechanism(ANNOUNCED, planned).run(costs)
    psi = np.asarray(VirtualCost.of(ANNOUNCED)(costs))

    def value(o):
        return o.sampling_error + o.noise_error + planned.payment_weight * float(psi @ o.epsilons)

    # Shares of the realised total may exceed the cap a little, so either may be lower.
    assert value(outcome) == pytest.approx(value(exact), rel=0.005)


def test_no_report_moves_the_prices_of_its_own_part():
    objective, table = TERMS["delta"]
    mechanism = CrossPricedMechanism(ANNOUNCED, objective, 300.0, epsilon_cost=table)
    costs = ANNOUNCED.sample(60, np.random.default_rng(2))
    parts = split([str(i) for i in range(60)], SALT)
    _, prices = mechanism.run(range(60), costs, salt=SALT)
    costs[7] = 0.1
    _, others = mechanism.run(range(60), costs, salt=SALT)
    assert others.schedules[parts[7]] == prices.schedules[parts[7]]
    assert any(others.schedules[p] != prices.schedules[p] for p in range(PARTS))


def test_a_part_without_sellers_is_no_obstacle():
    names = [str(k) for k in range(50)]
    salts = (k.to_bytes(16, "big") for k in range(10_000))
    salt = next(salt for salt in salts if len(set(split(names, salt))) < PARTS)
    costs = ANNOUNCED.sample(50, np.random.default_rng(0))
    outcome, _ = CrossPricedMechanism(ANNOUNCED, Objective.for_model(10), 100.0).run(names, costs, salt=salt)
    assert outcome.total_payment == pytest.approx(100.0, rel=0.5)


def test_conditions_are_enforced():
    mechanism = CrossPricedMechanism(ANNOUNCED, Objective.for_model(10), 100.0)
    costs = ANNOUNCED.sample(60, np.random.default_rng(2))
    with pytest.raises(InvalidInput, match="one report per id"):
        mechanism.run([*range(59), 3], costs)
    with pytest.raises(Infeasible, match="at least 50"):
        mechanism.run(range(49), costs[:49])
    with pytest.raises(InvalidInput, match="salt"):
        mechanism.run(range(60), costs, salt=b"known")
    assert mechanism.run(range(60), costs)[1].salt != mechanism.run(range(60), costs)[1].salt
