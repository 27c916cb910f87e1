"""The offline mechanism beyond the contract: its outcome can be kept and trusted."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket import BuyerObjective, InvalidInput, OfflineMechanism, Uniform
from support.markets import OFFLINE

MARKETS = {name: market.mechanism for name, market in OFFLINE.items()}


def test_a_payment_without_its_integral_would_make_lying_pay():
    mechanism = MARKETS["uniform"]
    costs = mechanism.dist.sample(10, np.random.default_rng(2))
    i = int(costs.argmin())
    curve = mechanism.response_curve(costs, i, np.linspace(1, 5, 200))
    gains = (curve.reports - costs[i]) * curve.epsilons  # paid just the reported cost
    assert gains.max() > 0.01


def test_the_order_of_sellers_does_not_matter():
    mechanism, rng = MARKETS["capped"], np.random.default_rng(1)
    costs = mechanism.dist.sample(200, rng)
    order = rng.permutation(200)
    straight, shuffled = mechanism.run(costs), mechanism.run(costs[order])
    np.testing.assert_allclose(shuffled.epsilons, straight.epsilons[order], rtol=1e-12)
    np.testing.assert_allclose(shuffled.payments, straight.payments[order], rtol=1e-9)


def test_who_is_paid_no_more_than_the_cost_is_paid_no_less_in_exact_arithmetic():
    # At the upper end of the support nothing is added to cost * epsilon, whose product floats round.
    for top in (0.7, 1.1, 2.3, 3.3, 4.9, 7.7):
        mechanism = OfflineMechanism(Uniform(0.1, top), BuyerObjective(1.0, 1.0, 0.1, weight_cap=1.0))
        outcome = mechanism.run([top] * 3)
        answer = mechanism.respond([top] * 3, 0, top)
        for epsilon, payment in ((outcome.epsilons[0], outcome.payments[0]), answer):
            assert epsilon > 0.0
            assert Fraction(payment) >= Fraction(top) * Fraction(epsilon)


def test_reports_outside_the_support_count_as_its_lower_end_or_get_nothing():
    mechanism = MARKETS["uniform"]
    inside = mechanism.run([1.0, 2.0, 3.0])
    outside = mechanism.run([0.2, 2.0, 3.0])
    assert outside.payments.tolist() == inside.payments.tolist()
    nothing = mechanism.run([1.0, 2.0, 5.5])
    assert (nothing.epsilons[2], nothing.payments[2]) == (0.0, 0.0)
    assert mechanism.respond([1.0, 2.0, 3.0], 0, 9.0) == (0.0, 0.0)


def test_an_outcome_survives_json_and_parquet_to_the_last_bit(tmp_path):
    outcome = MARKETS["capped"].run(
        MARKETS["capped"].dist.sample(50, np.random.default_rng(0)), [f"søren {k}" for k in range(50)]
    )
    for name in ("outcome.json", "outcome.parquet"):
        dpm.mechanisms.write_outcome(tmp_path / name, outcome)
        twin = dpm.mechanisms.read_outcome(tmp_path / name)
        assert twin.to_dict() == outcome.to_dict()
        assert twin.payments.tobytes() == outcome.payments.tobytes()
    plain = MARKETS["uniform"].run([1.5, 2.0])
    dpm.mechanisms.write_outcome(tmp_path / "ids.parquet", plain)
    assert dpm.mechanisms.read_outcome(tmp_path / "ids.parquet").seller_ids.tolist() == [0, 1]


def test_files_that_hold_no_outcome_are_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"schema": "other"}')
    with pytest.raises(InvalidInput, match="schema"):
        dpm.mechanisms.read_outcome(tmp_path / "a.json")
    with pytest.raises(dpm.FileProblem, match=r"\.json or \.parquet"):
        dpm.mechanisms.read_outcome(tmp_path / "a.csv")
    (tmp_path / "b.parquet").write_bytes(b"no")
    with pytest.raises(dpm.FileProblem, match="cannot understand"):
        dpm.mechanisms.read_outcome(tmp_path / "b.parquet")


def test_an_outcome_cannot_be_changed_and_adds_up():
    outcome = MARKETS["uniform"].run([1.5, 2.0, 2.5])
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.planned_noise_rate = 1.0
    for name in ("epsilons", "payments", "planned_weights", "payment_errors", "seller_ids"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(outcome, name)[0] = 1
    assert outcome.epsilons.sum() == outcome.total_promise == pytest.approx(outcome.planned_noise_rate)
    assert outcome.planned_weights.sum() == pytest.approx(1.0)
    assert dict(outcome.summary())["sellers"] == "3"
    best = outcome.optimality
    assert best.objective_value == best.concentration_part + best.noise_part + best.payment_part


def test_minor_units_round_up_and_never_down():
    outcome = MARKETS["uniform"].run([1.5, 2.0, 4.9])
    whole = outcome.in_minor_units(1)
    assert (whole.amounts >= outcome.payments).all()
    assert (whole.amounts < outcome.payments + 1 + 1e-6).all()
    with pytest.raises(InvalidInput, match="2\\^53"):
        outcome.in_minor_units(10**17)
    for bad in (0, -1, 1.5, "100"):
        with pytest.raises(InvalidInput, match="scale"):
            outcome.in_minor_units(bad)


def test_minor_units_of_many_are_those_of_each(monkeypatch):
    result = MARKETS["uniform"].run([1.5, 2.0, 4.9, 1.2, 3.3])
    together = result.in_minor_units(100)
    monkeypatch.setattr("dpmarket.mechanisms.outcome._BLOCK", 2)
    assert result.in_minor_units(100).amounts.tolist() == together.amounts.tolist()
    assert result.in_minor_units(100).total == together.total == sum(together.amounts.tolist())
    large = dataclasses.replace(result, payments=np.array([0.0, 0.0, 0.0, 0.0, 3.0]))
    with pytest.raises(InvalidInput, match=r"payments below 2\^53"):
        large.in_minor_units(2**52)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([],), "at least one"),
        (([1.0, np.nan],), "1 NaN"),
        (([1.0, -2.5],), "1 negative"),
        (([1.0, np.inf],), "1 infinite"),
        ((["1", "2"],), "numbers"),
        (([[1.0]],), "vector"),
        (([1.0, 2.0], ["a"]), "same length"),
        (([1.0, 2.0], ["a", "a"]), "1 repeated"),
        (([1.0, 2.0], [1.5, 2.5]), "texts or whole numbers"),
    ],
)
def test_reports_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        MARKETS["uniform"].run(*arguments)
    assert "2.5" not in str(refusal.value)


@pytest.mark.parametrize(("i", "report"), [(3, 2.0), (-1, 2.0), (0.0, 2.0), (0, -1.0), (0, np.nan), (0, "2")])
def test_questions_about_nobody_or_no_cost_are_refused(i, report):
    with pytest.raises(InvalidInput, match=r"i to be|report"):
        MARKETS["uniform"].respond([1.0, 2.0, 3.0], i, report)


def test_a_cost_of_almost_nothing_is_paid_what_its_reports_add_up_to():
    mechanism = MARKETS["log-normal"]
    costs = mechanism.dist.sample(6, np.random.default_rng(1))
    answers = []
    for report in (1e-20, 1e-10, 1e-6):
        costs[0] = report
        outcome = mechanism.run(costs)
        answers.append(mechanism.respond(costs, 0, report))
        assert answers[-1] == (outcome.epsilons[0], pytest.approx(outcome.payments[0], rel=1e-9))
    # Down there epsilon is K/sqrt(z), so that z*epsilon(z) plus the integral above z is const - K*sqrt(z).
    K = answers[2].epsilon * 1e-3
    rise = answers[0].payment - answers[2].payment
    assert rise == pytest.approx(K * (1e-3 - 1e-10), rel=0.02)
    assert answers[0].payment > answers[1].payment > answers[2].payment


@pytest.mark.parametrize("report", [5e-324, 1e-300])
def test_a_cost_of_almost_nothing_gets_finite_numbers_or_a_refusal(report):
    mechanism = MARKETS["log-normal"]
    costs = mechanism.dist.sample(6, np.random.default_rng(1))
    costs[0] = report
    for question in (lambda: mechanism.respond(costs, 0, report), lambda: mechanism.run(costs)):
        with pytest.raises(dpm.NotConverged, match="max_mean_epsilon"):
            question()
    bounded = OfflineMechanism(mechanism.dist, BuyerObjective(0.5, 1.0, 0.05, max_mean_epsilon=10.0))
    assert np.isfinite(bounded.respond(costs, 0, report)).all()
