"""Nobody loses by taking part: the audit finds a payment below cost, and shows no cost."""

import json

import numpy as np
import pytest

from dpmarket.audit import audit_participation
from dpmarket.costs import Uniform
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import Objective

QUADRATIC = EpsilonCost.identity(max_epsilon=8.0, shape="quadratic")
COSTS = Uniform(1, 5).sample(40, np.random.default_rng(2))
OUTCOME = OfflineMechanism(Uniform(1, 5), Objective(0.2, 40.0, 1e-2)).run(COSTS)


def test_the_offline_mechanism_passes_with_linear_and_with_quadratic_costs():
    assert audit_participation(OUTCOME.epsilons, OUTCOME.payments, COSTS).passed
    quadratic = OfflineMechanism(Uniform(1, 5), Objective(0.2, 40.0, 1e-2), epsilon_cost=QUADRATIC).run(COSTS)
    assert audit_participation(quadratic.epsilons, quadratic.payments, COSTS, epsilon_cost=QUADRATIC).passed
    assert not audit_participation(quadratic.epsilons, quadratic.payments, COSTS).passed
    assert audit_participation(OUTCOME.epsilons, OUTCOME.rounded_payments(0.01), COSTS).passed


def test_one_payment_a_millionth_of_a_cent_below_cost_is_caught():
    payments = OUTCOME.payments.copy()
    k = int(COSTS.argmin())
    payments[k] = COSTS[k] * OUTCOME.epsilons[k]
    assert audit_participation(OUTCOME.epsilons, payments, COSTS).passed
    payments[k] -= 1e-8
    audit = audit_participation(OUTCOME.epsilons, payments, COSTS)
    assert not audit.passed
    assert (audit.losers, audit.positions) == (1, (k,))
    assert audit.largest_loss == pytest.approx(1e-8, rel=1e-3)


def test_a_payment_covers_the_cost_to_the_cent():
    assert audit_participation([0.5], [1.0], [2.0]).passed
    assert not audit_participation([0.5], [0.99], [2.0]).passed
    assert audit_participation([0.5], [0.50], [2.0], epsilon_cost=QUADRATIC).losers == 1  # above by its chord
    assert audit_participation([0.5], [0.51], [2.0], epsilon_cost=QUADRATIC).passed


def test_no_cost_is_shown():
    audit = audit_participation(OUTCOME.epsilons, OUTCOME.payments, 10.0 * COSTS)
    assert audit.losers > 0
    shown = json.dumps(audit.to_dict(), allow_nan=False) + str(audit.summary())
    assert audit.to_dict()["schema"] == "dpmarket.audit.participation/2"
    for cost in (10.0 * COSTS).tolist():
        assert f"{cost:.4f}" not in shown


@pytest.mark.parametrize(
    ("costs", "words"),
    [([1.0], "same length"), ([np.nan] * 40, "40 NaN"), ([-1.0] * 40, "negative"), (["a"] * 40, "numbers")],
)
def test_costs_that_make_no_sense_are_refused(costs, words):
    with pytest.raises(InvalidInput, match=words):
        audit_participation(OUTCOME.epsilons, OUTCOME.payments, costs)
