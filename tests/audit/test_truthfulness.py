"""Profitable misreports: none in the project's mechanisms, one in every wrong mechanism."""

import json

import numpy as np
import pytest
from scipy import stats

from dpmarket.audit import audit_truthfulness
from dpmarket.costs import CostDistribution, Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.joint import JointMechanism
from dpmarket.mechanisms.objective import Objective, PaperObjective
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import paper_schedule, population_schedule, posted_price
from dpmarket.privacy import SeededNoise
from support.joint import synthetic

from . import broken

U = Uniform(1, 5)
OBJECTIVE, CAPPED = Objective(0.2, 40.0, 1e-2), Objective(0.2, 40.0, 1e-3, weight_cap=2.0)
QUADRATIC = EpsilonCost.identity(max_epsilon=8.0, shape="quadratic")


class ByTurns:
    """A mechanism with quotas whose sellers belong to two groups by turns."""

    def __init__(self, coverage):
        groups = [Group("one", 0.3, VirtualCost.of(U)), Group("other", 0.7, VirtualCost.of(Uniform(2, 4)))]
        self.mechanism = OfflineMechanism(None, CAPPED, groups=groups, coverage=coverage)

    def respond(self, reported_costs, i, report):
        return self.mechanism.respond(reported_costs, i, report, np.arange(len(reported_costs)) % 2)


QUADRATIC_COSTS = OfflineMechanism(U, OBJECTIVE, epsilon_cost=QUADRATIC)
UNIT, PAPER = Uniform(0, 1), PaperObjective(1.0, 1.0, 1e-3)
# The other mechanisms are searched in tests/outside/test_incentives.py.
RIGHT = {
    "hard quotas": (ByTurns("hard"), U, 3),
    "soft quotas": (ByTurns(0.1), U, 2),
    "offline": (OfflineMechanism(U, OBJECTIVE), U, 2),
    "wrong beliefs": (OfflineMechanism(Uniform(2, 4), OBJECTIVE), U, 3),
    "schedule": (population_schedule(U, OBJECTIVE, 40), U, 6),
    "posted price": (posted_price(3.0, 0.5), U, 6),
    "Algorithm 3": (paper_schedule(VirtualCost.of(UNIT), PAPER, 100, 0.5), UNIT, 6),
    "joint": (
        JointMechanism(
            *synthetic(3, 2), VirtualCost.of(U), mu=4.0, sigma=1.0, gamma=0.02, l2=1.0,
            noise_source=SeededNoise(3),
        ),
        U,
        3,
    ),
}  # fmt: skip


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("name", RIGHT)
def test_the_mechanisms_of_the_project_pass(name):
    mechanism, dist, sellers = RIGHT[name]
    audit = audit_truthfulness(mechanism, dist, sellers, 1, 24, rng())
    assert audit.passed, audit.summary()
    assert audit.misreports_tried >= 20 * sellers


@pytest.mark.parametrize("wrong", broken.WRONG)
def test_every_wrong_mechanism_is_caught_with_a_misreport_that_can_be_repeated(wrong):
    mechanism = wrong()
    audit = audit_truthfulness(mechanism, U, 3, 1, 24, rng())
    assert not audit.passed
    worst = audit.worst
    costs = U.sample(3, rng())
    assert costs[worst.seller] == worst.cost
    assert mechanism.respond(costs, worst.seller, worst.report) == (worst.epsilon, worst.payment)
    assert worst.gain > 0.0


def test_a_bonus_on_a_ten_thousandth_of_the_support_beside_anothers_cost_is_found():
    class Suspect(CostDistribution):
        def sample(self, count, rng):
            return np.array([1.2, 2.5, 2.9, 3.5])

    suspect = Suspect(stats.uniform(1, 4))
    assert not audit_truthfulness(broken.BonusBesideATie(), suspect, 4, 1, 60, rng()).passed


def test_payments_rounded_to_cents_need_the_minor_unit():
    schedule = population_schedule(U, OBJECTIVE, 40)

    class Rounded:
        def respond(self, reported_costs, i, report):
            epsilons, payments = schedule.quote([report])
            return float(epsilons[0]), float(whole_units(payments, 100)[0]) / 100

    assert not audit_truthfulness(Rounded(), U, 20, 1, 60, rng()).passed
    assert audit_truthfulness(Rounded(), U, 20, 1, 60, rng(), minor_unit=0.01).passed


class RefusesMostTruths:
    """Answers the truth of the highest-cost seller only, and everybody's misreports."""

    def respond(self, reported_costs, i, report):
        if report in reported_costs and report < max(reported_costs):
            raise Infeasible("no")
        return (1.0, 3.0) if report <= 3.0 else (0.0, 0.0)


def test_a_refused_truth_beside_an_answered_misreport_fails_the_audit():
    audit = audit_truthfulness(RefusesMostTruths(), U, 4, 2, 60, rng())
    assert audit.refused_truths == 6
    assert not audit.passed
    assert audit.worst.gain <= 0.0  # nothing else is wrong with it

    class Refusing:
        def respond(self, reported_costs, i, report):
            raise Infeasible("no")

    with pytest.raises(Infeasible, match="refuses the truth"):
        audit_truthfulness(Refusing(), U, 3, 1, 40, rng())


def test_progress_and_plain_data():
    seen = []
    audit = audit_truthfulness(posted_price(3.0, 1.0), U, 3, 2, 40, rng(), progress=lambda *s: seen.append(s))
    assert seen[-1] == (6, 6)
    data = json.loads(json.dumps(audit.to_dict(), allow_nan=False))
    assert data["schema"] == "dpmarket.audit.truthfulness/2"
    assert data["passed"] is True
    assert dict(audit.summary())["verdict"] == "passed"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mechanism": object()}, "respond"), ({"sellers": 0}, "sellers"), ({"markets": 1.5}, "markets"),
        ({"misreports": 3}, "misreports"), ({"rng": 7}, "Generator"), ({"tolerance": -1.0}, "tolerance"),
        ({"minor_unit": np.nan}, "minor_unit"),
        ({"dist": [1.0, 2.0]}, "dist to be a CostDistribution"),
    ],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(changes, words):
    arguments = {"mechanism": posted_price(3.0, 1.0), "dist": U, "sellers": 3, "markets": 1, "misreports": 40}
    with pytest.raises(InvalidInput, match=words):
        audit_truthfulness(**({**arguments, "rng": rng()} | changes))


@pytest.mark.parametrize("answer", [(np.nan, 1.0), (1.0, np.inf), (-1.0, 1.0)])
def test_answers_that_are_no_numbers_are_refused(answer):
    class Nonsense:
        def respond(self, reported_costs, i, report):
            return answer

    with pytest.raises(InvalidInput, match="finite payments"):
        audit_truthfulness(Nonsense(), U, 3, 1, 40, rng())
