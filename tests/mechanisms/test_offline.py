"""The offline mechanism: truth is best, nobody loses, and the outcome can be kept and trusted."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpmarket as dpm
from dpmarket import BuyerObjective, FromScipy, InvalidInput, Mixture, OfflineMechanism, Uniform

MARKETS = {
    "uniform": OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1)),
    "capped": OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01, weight_cap=3.0)),
    "corner": OfflineMechanism(Uniform(0, 1), BuyerObjective(1e-3, 1.0, 1.0, weight_cap=2.0)),
    "cheapest": OfflineMechanism(Uniform(1, 5), BuyerObjective(0.0, 1.0, 0.1, weight_cap=2.5)),
    "bounded": OfflineMechanism(
        Uniform(1, 5), BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0, max_mean_epsilon=0.05)
    ),
    "log-normal": OfflineMechanism(
        FromScipy(stats.lognorm(s=0.8, scale=2.0), 0, 30), BuyerObjective(0.5, 1.0, 0.05)
    ),
    "ironed beta": OfflineMechanism(FromScipy(stats.beta(0.5, 0.5)), BuyerObjective(1.0, 1.0, 0.3)),
    "ironed groups": OfflineMechanism(
        Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]), BuyerObjective(0.3, 1.0, 0.1, weight_cap=4.0)
    ),
    "several minima": OfflineMechanism(
        Mixture([Uniform(0, 0.01), Uniform(5, 6)], [0.2, 0.8]), BuyerObjective(2.0, 1.0, 0.2)
    ),
}
each = pytest.mark.parametrize("name", MARKETS)


def lies(mechanism, costs, i):
    """Dense reports over and beyond the support, its ends, and just beside everybody's own report."""
    low, high = mechanism.dist.support
    beside = np.concatenate((costs * (1 - 1e-9), costs * (1 + 1e-9), costs))
    grid = np.linspace(0.5 * low, 1.1 * high, 150)
    near = costs[i] + (high - low) * np.geomspace(1e-8, 1e-2, 20)
    reports = np.concatenate((grid, beside, near, 2 * costs[i] - near, [low, high, 0.0]))
    # A virtual cost of exactly 0 leaves no best allocation where the total epsilon is unbounded.
    return reports.clip(1e-7 if low == 0.0 else 0.0)


@each
def test_no_seller_gains_by_any_misreport(name):
    mechanism = MARKETS[name]
    rng = np.random.default_rng(7)
    for sellers in (2, 6, 25):
        for _ in range(2):
            costs = mechanism.dist.sample(sellers, rng)
            outcome = mechanism.run(costs)
            for i in rng.choice(sellers, min(3, sellers), replace=False):
                truth = outcome.payments[i] - costs[i] * outcome.epsilons[i]
                curve = mechanism.response_curve(costs, int(i), lies(mechanism, costs, i))
                gain = (curve.utilities(costs[i]) - truth).max()
                scale = max(outcome.payments[i], curve.payments.max() * 1e-3)
                assert gain <= 1e-9 * scale


@each
def test_nobody_loses_by_taking_part_in_exact_arithmetic(name):
    mechanism = MARKETS[name]
    rng = np.random.default_rng(3)
    for sellers in (1, 3, 40, 1500):
        costs = mechanism.dist.sample(sellers, rng)
        outcome = mechanism.run(costs)
        minor = outcome.in_minor_units(100)
        for cost, epsilon, payment, amount in zip(
            costs, outcome.epsilons, outcome.payments, minor.amounts, strict=True
        ):
            assert Fraction(payment) >= Fraction(cost) * Fraction(epsilon)
            assert Fraction(int(amount), 100) >= Fraction(payment)
            assert (payment == 0) == (epsilon == 0)
        assert minor.total == sum(int(amount) for amount in minor.amounts)


@each
def test_a_higher_report_never_gets_a_higher_epsilon(name):
    mechanism = MARKETS[name]
    rng = np.random.default_rng(11)
    costs = mechanism.dist.sample(12, rng)
    low, high = mechanism.dist.support
    for i in range(0, 12, 4):
        curve = mechanism.response_curve(costs, i, np.linspace(max(low, 1e-7), high, 200))
        assert (np.diff(curve.epsilons) <= 1e-9 * curve.epsilons.max()).all()
        assert (np.diff(curve.payments) <= 1e-9 * curve.payments.max()).all()


@each
def test_responding_to_the_truth_is_what_run_decides(name):
    mechanism = MARKETS[name]
    costs = mechanism.dist.sample(30, np.random.default_rng(5))
    outcome = mechanism.run(costs)
    assert isinstance(mechanism, dpm.Mechanism)
    for i in (0, 7, 29):
        answer = mechanism.respond(costs, i, costs[i])
        assert answer.epsilon == pytest.approx(outcome.epsilons[i], rel=1e-9, abs=1e-12)
        assert answer.payment == pytest.approx(outcome.payments[i], rel=1e-9, abs=1e-12)
        # Another report must be what a whole run with it decides.
        other = float(np.clip(costs[i] * 1.1, *mechanism.dist.support))
        moved = costs.copy()
        moved[i] = other
        again, answer = mechanism.run(moved), mechanism.respond(costs, i, other)
        assert answer.epsilon == pytest.approx(again.epsilons[i], rel=1e-9, abs=1e-12)
        assert answer.payment == pytest.approx(again.payments[i], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["uniform", "capped", "ironed groups"])
def test_expected_payments_equal_expected_virtual_costs(name):
    # Paper, Lemma `mech design`. Over 400 markets the mean difference is within 5 standard errors: by the
    # normal limit a false alarm has probability 6e-7. Payments without their integral are 20 to 50% lower,
    # far more than 5 standard errors (asserted).
    mechanism = MARKETS[name]
    rng = np.random.default_rng(0)
    differences, scale, shortfall = [], [], []
    for _ in range(400):
        costs = mechanism.dist.sample(20, rng)
        outcome = mechanism.run(costs)
        virtual = float(outcome.epsilons @ dpm.virtual_costs(costs, mechanism.dist))
        differences.append(outcome.total_payment - virtual)
        shortfall.append(float(outcome.epsilons @ costs) - virtual)
        scale.append(virtual)
    error = np.std(differences, ddof=1) / np.sqrt(400)
    assert abs(np.mean(differences)) < 5 * error
    assert abs(np.mean(shortfall)) > 10 * error


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
        dpm.write_outcome(tmp_path / name, outcome)
        twin = dpm.read_outcome(tmp_path / name)
        assert twin.to_dict() == outcome.to_dict()
        assert twin.payments.tobytes() == outcome.payments.tobytes()
    plain = MARKETS["uniform"].run([1.5, 2.0])
    dpm.write_outcome(tmp_path / "ids.parquet", plain)
    assert dpm.read_outcome(tmp_path / "ids.parquet").seller_ids.tolist() == [0, 1]


def test_files_that_hold_no_outcome_are_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"schema": "other"}')
    with pytest.raises(InvalidInput, match="schema"):
        dpm.read_outcome(tmp_path / "a.json")
    with pytest.raises(dpm.FileProblem, match=r"\.json or \.parquet"):
        dpm.read_outcome(tmp_path / "a.csv")
    (tmp_path / "b.parquet").write_bytes(b"no")
    with pytest.raises(dpm.FileProblem, match="cannot understand"):
        dpm.read_outcome(tmp_path / "b.parquet")


def test_an_outcome_cannot_be_changed_and_adds_up():
    outcome = MARKETS["uniform"].run([1.5, 2.0, 2.5])
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.total_epsilon = 1.0
    for name in ("epsilons", "payments", "loss_weights", "payment_errors", "seller_ids"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(outcome, name)[0] = 1
    assert outcome.epsilons.sum() == pytest.approx(outcome.total_epsilon)
    assert outcome.loss_weights.sum() == pytest.approx(1.0)
    assert dict(outcome.summary())["sellers"] == "3"
    parts = outcome.concentration_part + outcome.noise_part + outcome.payment_part
    assert outcome.objective_value == parts


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


@pytest.mark.parametrize("report", [5e-324, 1e-300, 1e-100, 1e-20])
def test_a_cost_of_almost_nothing_gets_finite_numbers_or_a_refusal(report):
    mechanism = MARKETS["log-normal"]
    costs = mechanism.dist.sample(6, np.random.default_rng(1))
    costs[0] = report
    for question in (lambda: mechanism.respond(costs, 0, report), lambda: mechanism.run(costs)):
        with pytest.raises(dpm.NotConverged, match="max_mean_epsilon"):
            question()
    bounded = OfflineMechanism(mechanism.dist, BuyerObjective(0.5, 1.0, 0.05, max_mean_epsilon=10.0))
    assert np.isfinite(bounded.respond(costs, 0, report)).all()
