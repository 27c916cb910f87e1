"""Profitable lies: none in the project's mechanisms, one in every broken mechanism."""

import json

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket import BuyerObjective, InvalidInput, OfflineMechanism, Uniform
from dpmarket.audit import audit_truthfulness, audit_truthfulness_at
from dpmarket.mechanisms import CheapestK, PostedPrice, SameForAll
from dpmarket.mechanisms.joint import JointMechanism
from dpmarket.privacy import SeededNoise
from support.joint import synthetic
from support.markets import ALL

from .broken import PAPER_EXAMPLE, CurveFromOwnReport, LocalMinimum, WithoutIntegral

OBJECTIVE = BuyerObjective(1.0, 1.0, 0.1)
OFFLINE = OfflineMechanism(Uniform(1, 5), OBJECTIVE)
SIMPLE = {
    "posted price": PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0),
    "cheapest k": CheapestK(Uniform(1, 5), k=2, epsilon=0.5),
    "same for all": SameForAll(Uniform(1, 5), epsilon=0.5),
}


def rng():
    return np.random.default_rng(5)


def passes(mechanism, dist, sellers, misreports):
    # A mechanism that rounds payments to minor units is truthful to one of them.
    unit = 1.0 / (getattr(mechanism, "minor_units", None) or np.inf)
    audit = audit_truthfulness(mechanism, dist, sellers, 1, misreports, rng(), minor_unit=unit, pairs=0)
    assert audit.passed, audit.summary()
    assert audit.lies_tried >= 0.7 * sellers * misreports


@pytest.mark.parametrize("name", ALL)
def test_every_mechanism_of_the_project_passes(name):
    passes(ALL[name].mechanism, ALL[name].costs, 6, 30)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_mechanism_of_the_project_passes_a_longer_search(name):
    passes(ALL[name].mechanism, ALL[name].costs, 12, 100)


@pytest.mark.parametrize("name", SIMPLE)
def test_every_simple_buyer_passes(name):
    passes(SIMPLE[name], Uniform(1, 5), 6, 60)


@pytest.mark.parametrize(
    ("sellers", "misreports"), [(3, 20), pytest.param(8, 60, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_the_data_dependent_mechanism_passes_with_its_records_fixed(sellers, misreports):
    dist = Uniform(1, 5)
    mechanism = JointMechanism(dist, BuyerObjective(4.0, 1.0, 0.02), 1.0, noise_source=SeededNoise(3))
    market = mechanism.with_records(*synthetic(sellers, 2))
    costs = dist.sample(sellers, rng())
    # Its payments are computed to 1e-8 of the money in play.
    audit = audit_truthfulness_at(market, dist, costs, misreports, rng(), tolerance=1e-8, pairs=0)
    assert audit.passed, audit.summary()


def test_payments_without_their_integral_are_caught():
    audit = audit_truthfulness(WithoutIntegral(OFFLINE), Uniform(1, 5), 5, 1, 50, rng())
    assert not audit.passed
    assert audit.worst.gain > 0.01
    assert audit.worst.report > audit.worst.cost


def test_a_local_instead_of_the_global_minimum_is_caught():
    # Virtual costs (528.535, z, 0.81056): another minimum takes over at z = 0.2102.
    dist = Uniform(0, 300)
    mechanism = OfflineMechanism(dist, BuyerObjective(1.10505, 1.37927, 0.524756))
    costs = [264.2675, 0.10515, 0.40528]
    assert audit_truthfulness_at(mechanism, dist, costs, 60, rng(), pairs=0).passed
    audit = audit_truthfulness_at(LocalMinimum(mechanism), dist, costs, 60, rng(), pairs=0)
    assert not audit.passed
    assert audit.worst.seller == 1


def test_a_payment_weight_chosen_from_the_reports_is_caught():
    audit = audit_truthfulness_at(
        PAPER_EXAMPLE, Uniform(0, 1), [0.2, 0.5, 0.7], 24, rng(), tolerance=1e-4, pairs=0
    )
    assert not audit.passed
    # The example of the mathematics page: reporting .42 for .2 brings .1165 instead of .1077.
    assert audit.worst.gain > 0.008


def test_a_curve_fitted_with_the_sellers_own_report_is_caught():
    audit = audit_truthfulness(CurveFromOwnReport(), Uniform(1, 5), 6, 2, 40, rng())
    assert not audit.passed
    assert audit.worst.report > audit.worst.cost


class DisagreeingBatch:
    """Answers honestly in batches, and otherwise when asked one by one."""

    def __init__(self, mechanism):
        self.response_curve = mechanism.response_curve
        self.single = mechanism.respond

    def respond(self, reported_costs, i, report):
        epsilon, payment = self.single(reported_costs, i, report)
        return epsilon, 1.01 * payment


def test_a_batch_path_that_differs_from_respond_is_caught():
    audit = audit_truthfulness(DisagreeingBatch(OFFLINE), Uniform(1, 5), 5, 1, 40, rng())
    assert audit.disagreement > 1e-3
    assert not audit.passed


class Jump:
    """A posted price that pays a little more than it should just below one report."""

    def respond(self, reported_costs, i, report):
        if report > 3.0:
            return 0.0, 0.0
        return 1.0, 3.0 + (0.01 if 2.5 - 1e-4 < report <= 2.5 else 0.0)


def test_refinement_finds_a_bonus_on_a_ten_thousandth_of_the_support_beside_anothers_cost():
    costs = [1.2, 2.5, 2.9, 3.5]
    assert not audit_truthfulness_at(Jump(), Uniform(1, 5), costs, 60, rng()).passed


class OnePrice:
    def respond(self, reported_costs, i, report):
        return (1.0, 3.0) if report <= 3.0 else (0.0, 0.0)


def test_a_posted_price_passes_and_rounding_to_money_needs_the_minor_unit():
    assert audit_truthfulness(OnePrice(), Uniform(1, 5), 4, 2, 60, rng()).passed

    class Rounded:
        def respond(self, reported_costs, i, report):
            epsilon, payment = OFFLINE.respond(reported_costs, i, report)
            return epsilon, np.ceil(payment * 100) / 100

    strict = audit_truthfulness(Rounded(), Uniform(1, 5), 4, 1, 60, rng())
    allowed = audit_truthfulness(Rounded(), Uniform(1, 5), 4, 1, 60, rng(), minor_unit=0.01)
    assert not strict.passed
    assert allowed.passed


def test_the_worst_lie_can_be_repeated():
    mechanism = WithoutIntegral(OFFLINE)
    audit = audit_truthfulness(mechanism, Uniform(1, 5), 3, 1, 40, rng())
    costs = Uniform(1, 5).sample(3, rng())
    worst = audit.worst
    assert costs[worst.seller] == worst.cost
    assert mechanism.respond(costs, worst.seller, worst.report) == (worst.epsilon, worst.payment)
    assert audit.largest_gain >= worst.gain


def test_pairs_that_lie_together_are_information_only():
    audit = audit_truthfulness(OFFLINE, Uniform(1, 5), 3, 2, 40, rng())
    assert audit.pair_gain > 1e-4
    assert audit.passed


def test_refused_reports_are_counted_and_bring_nothing():
    dist = Uniform(0, 1)
    audit = audit_truthfulness(OfflineMechanism(dist, OBJECTIVE), dist, 3, 1, 40, rng())
    assert audit.refused > 0
    assert audit.passed

    class Refusing:
        def respond(self, reported_costs, i, report):
            raise dpm.Infeasible("no")

    with pytest.raises(dpm.Infeasible, match="refuses the truth"):
        audit_truthfulness(Refusing(), dist, 3, 1, 40, rng())


class BonusAtTheTop:
    """A posted price that refuses the highest report of seller 0, and overpays everybody else's."""

    def respond(self, reported_costs, i, report):
        if report == 5.0:
            if i == 0:
                raise dpm.Infeasible("no")
            return 0.5, 100.0
        return (1.0, 3.0) if report <= 3.0 else (0.0, 0.0)


def test_a_report_refused_for_one_seller_is_asked_about_for_the_others():
    audit = audit_truthfulness(BonusAtTheTop(), Uniform(1, 5), 4, 1, 60, rng(), pairs=0)
    assert audit.refused > 0
    assert audit.largest_gain > 90.0
    assert not audit.passed


class RefusesMostTruths:
    """Answers the truth of the dearest seller only, and everybody's lies."""

    def respond(self, reported_costs, i, report):
        if report in reported_costs and report < max(reported_costs):
            raise dpm.Infeasible("no")
        return (1.0, 3.0) if report <= 3.0 else (0.0, 0.0)


def test_a_refused_truth_beside_an_answered_lie_fails_the_audit():
    audit = audit_truthfulness(RefusesMostTruths(), Uniform(1, 5), 4, 2, 60, rng(), pairs=0)
    assert (audit.unaudited, audit.only_lies_answered) == (6, 6)
    assert not audit.passed
    assert audit.worst.gain <= 0.0  # nothing else is wrong with it
    assert dict(audit.summary())["sellers whose truth was refused"].startswith("6")
    assert audit.to_dict()["unaudited"] == 6


def test_progress_and_plain_data():
    seen = []
    audit = audit_truthfulness(OnePrice(), Uniform(1, 5), 3, 2, 40, rng(), progress=lambda *s: seen.append(s))
    assert seen[-1] == (6, 6)
    data = json.loads(json.dumps(audit.to_dict(), allow_nan=False))
    assert data["schema"] == "dpmarket.audit.truthfulness/1"
    assert data["passed"] is True
    assert len(data["gain_profile"]["distances"]) == len(data["gain_profile"]["largest"]) > 10
    assert dict(audit.summary())["verdict"] == "passed"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mechanism": object()}, "respond"),
        ({"dist": 3}, "distribution"),
        ({"sellers": 0}, "sellers"),
        ({"profiles": 1.5}, "profiles"),
        ({"misreports": 3}, "misreports"),
        ({"rng": 7}, "Generator"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"minor_unit": np.nan}, "minor_unit"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(changes, words):
    arguments = {
        "mechanism": OnePrice(),
        "dist": Uniform(1, 5),
        "sellers": 3,
        "profiles": 1,
        "misreports": 40,
        "rng": rng(),
    }
    with pytest.raises(InvalidInput, match=words):
        audit_truthfulness(**(arguments | changes))


@pytest.mark.parametrize("answer", [(np.nan, 1.0), (1.0, np.inf), (-1.0, 1.0)])
def test_answers_that_are_no_numbers_are_refused(answer):
    class Nonsense:
        def respond(self, reported_costs, i, report):
            return answer

    with pytest.raises(InvalidInput, match="finite payments"):
        audit_truthfulness(Nonsense(), Uniform(1, 5), 3, 1, 40, rng())
