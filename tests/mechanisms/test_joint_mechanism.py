"""The data-dependent mechanism: its minimum, its readings of the noise, its refusals, its outcome."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammainccinv

import dpmarket as dpm
from dpmarket import BuyerObjective, Infeasible, InvalidInput, Uniform
from dpmarket.mechanisms import Outcome
from dpmarket.mechanisms.joint import (
    AsPrinted,
    BoundedCoefficients,
    ExpectedPayments,
    InnerSolution,
    JointMechanism,
    PaperDescent,
    RandomStarts,
)
from dpmarket.mechanisms.joint.optimum import BuyableSellers, _Evaluation, solve
from dpmarket.mechanisms.joint.search import Evaluated, prove, search
from dpmarket.privacy import SeededNoise
from support.joint import cancer, synthetic

DIST = Uniform(1, 5)
CHEAP = ExpectedPayments()


def market(m=25, objective=None, l2=1.0, seed=0, dist=DIST, **options):
    """A mechanism with records, and costs; strictly convex unless told otherwise."""
    X, y = synthetic(m, 3, seed)
    objective = objective or BuyerObjective(m / l2, 1.0, 0.01)
    options = {"payments": CHEAP, "noise_source": SeededNoise(seed + 1)} | options
    costs = dist.sample(m, np.random.default_rng(seed))
    return JointMechanism(dist, objective, l2, **options), X, y, costs


def objective_at(mechanism, X, y, costs, noise_rate):
    """The minimum at one noise rate, by a grid of one value."""
    fixed = dataclasses.replace(mechanism, mean_epsilons=[noise_rate / len(y)])
    return fixed.run(costs, X, y).objective_value


READINGS = {
    "expected": (dpm.mechanisms.joint.ExpectedNoise(), 1.0),
    "bounded": (BoundedCoefficients(0.1), 5.0),
}
each_reading = pytest.mark.parametrize("name", READINGS)


@each_reading
@pytest.mark.parametrize("cap", [None, 2.0])
def test_no_noise_rate_is_better_than_the_one_chosen(name, cap):
    reading, sigma = READINGS[name]
    mechanism, X, y, costs = market(objective=BuyerObjective(25.0, sigma, 0.01, cap), reading=reading)
    outcome = mechanism.run(costs, X, y)
    assert outcome.edge == "inside"
    for factor in np.concatenate((np.geomspace(0.05, 20, 41), 1 + np.array([-1e-3, -1e-5, 1e-5, 1e-3]))):
        value = objective_at(mechanism, X, y, costs, factor * outcome.noise_rate)
        assert value >= outcome.objective_value - 1e-13
    assert (outcome.loss_weights <= (1.0 if cap is None else cap / 25)).all()


@each_reading
def test_the_covering_grid_holds_every_stationary_noise_rate(name):
    reading, sigma = READINGS[name]
    mechanism, X, y, costs = market(objective=BuyerObjective(0.5, sigma, 0.02, 3.0), reading=reading, l2=0.2)
    outcome = mechanism.run(costs, X, y)
    below = [objective_at(mechanism, X, y, costs, f * outcome.grid[0]) for f in (0.25, 0.5, 0.8, 1.0)]
    above = [objective_at(mechanism, X, y, costs, f * outcome.grid[-1]) for f in (1.0, 1.2, 2.0, 4.0)]
    assert (np.diff(below) < 0).all()
    assert (np.diff(above) > 0).all()


def test_the_objective_as_printed_falls_without_bound():
    mechanism, X, y, costs = market(reading=AsPrinted(), mean_epsilons=[0.02])
    noise = mechanism.with_records(X, y).setting.noise
    etas = np.array([0.5, 0.1, 0.01, 0.001])
    values = [objective_at(mechanism, X, y, costs, eta) for eta in etas]
    assert (np.diff(values) < 0).all()
    limit = -2 * noise @ noise / (mechanism.l2 * etas[-1] ** 2)
    assert values[-1] == pytest.approx(limit, rel=0.01)
    for finest in (1e-2, 1e-3, 1e-4):
        grid = np.geomspace(finest, 1.0, 5)
        outcome = dataclasses.replace(mechanism, mean_epsilons=grid).run(costs, X, y)
        assert outcome.edge == "lowest"
        assert outcome.noise_rate == 25 * finest
        for reading, sigma in READINGS.values():
            objective = dataclasses.replace(mechanism.objective, noise=sigma)
            sound = dataclasses.replace(
                mechanism, reading=reading, objective=objective, mean_epsilons=np.append(grid, 10.0)
            )
            assert sound.run(costs, X, y).edge == "inside"
    with pytest.raises(Infeasible, match="mean_epsilons"):
        dataclasses.replace(mechanism, mean_epsilons=None).run(costs, X, y)


def test_bounded_coefficients_need_a_price_of_noise_above_twice_its_length():
    mechanism, X, y, costs = market(reading=BoundedCoefficients(0.5))
    length = np.linalg.norm(mechanism.with_records(X, y).setting.noise)
    for factor, fails in ((0.99, True), (1.01, False)):
        objective = BuyerObjective(25.0, factor * 2 * length * 0.5, 0.01)
        tried = dataclasses.replace(mechanism, objective=objective)
        if fails:
            with pytest.raises(Infeasible, match="coef_radius") as refusal:
                tried.run(costs, X, y)
            assert f"{length:.3f}"[:4] not in str(refusal.value)
        else:
            outcome = tried.run(costs, X, y)
            assert np.linalg.norm(outcome.coefficients) <= 0.5 * (1 + 1e-12)


def test_the_papers_own_price_of_noise_is_high_enough_with_its_probability():
    # The paper's sigma is at least 2 beta v^-1(delta'), v^-1(delta') the (1 - delta')-quantile of 2|b|. With
    # delta' = 1e-8 one of these 20 draws is refused with probability below 2e-7.
    mechanism, X, y, costs = market(reading=BoundedCoefficients(0.5))
    enough = 2 * 0.5 * 2 * gammainccinv(3, 1e-8)
    for seed in range(20):
        drawn = dataclasses.replace(mechanism, noise_source=SeededNoise(seed))
        dataclasses.replace(drawn, objective=BuyerObjective(25.0, enough, 0.01)).run(costs, X, y)
    with pytest.raises(Infeasible):
        dataclasses.replace(drawn, objective=BuyerObjective(25.0, enough / 100, 0.01)).run(costs, X, y)


def test_the_noise_does_not_move_promises_or_payments_under_the_expected_reading():
    mechanism, X, y, costs = market(payments=dpm.mechanisms.joint.EnvelopePayments())
    first, second = (
        dataclasses.replace(mechanism, noise_source=SeededNoise(seed)).run(costs, X, y) for seed in (1, 2)
    )
    assert first.payments.tolist() == second.payments.tolist()
    assert first.epsilons.tolist() == second.epsilons.tolist()
    assert np.abs(first.coefficients - second.coefficients).max() > 0.01
    bounded = dataclasses.replace(
        mechanism, reading=BoundedCoefficients(0.1), objective=BuyerObjective(25.0, 5.0, 0.01)
    )
    one, other = (
        dataclasses.replace(bounded, noise_source=SeededNoise(seed)).run(costs, X, y) for seed in (1, 2)
    )
    assert np.abs(one.epsilons - other.epsilons).max() > 1e-6


@each_reading
def test_the_coefficients_are_trained_with_exactly_the_noise_that_was_drawn(name):
    reading, sigma = READINGS[name]
    mechanism, X, y, costs = market(objective=BuyerObjective(25.0, sigma, 1e-5), reading=reading)
    outcome = mechanism.run(costs, X, y)
    signed = y[:, None] * X
    slopes = 1 / (1 + np.exp(signed @ outcome.coefficients))
    needed = (outcome.loss_weights * slopes) @ signed - outcome.coefficients
    if name == "bounded":
        assert np.linalg.norm(outcome.coefficients) <= 0.1 * (1 + 1e-12)
    else:
        drawn, _ = SeededNoise(1).draw(3, outcome.noise_rate, 1e-14).high_low()
        np.testing.assert_allclose(needed, drawn, rtol=1e-8, atol=1e-11)


def test_the_two_solvers_decide_the_same():
    mechanism, X, y, costs = market(objective=BuyerObjective(15.0, 1.0, 0.01, 2.0))
    fast = mechanism.run(costs, X, y)
    slow = dataclasses.replace(mechanism, solver=PaperDescent()).run(costs, X, y)
    assert slow.objective_value == pytest.approx(fast.objective_value, abs=1e-8)
    np.testing.assert_allclose(slow.epsilons, fast.epsilons, rtol=1e-5)
    assert len(slow.trace) > 10
    assert slow.trace[-1] == pytest.approx(fast.objective_value, abs=1e-8)


@each_reading
def test_the_objective_moves_with_a_virtual_cost_as_the_envelope_theorem_says(name):
    reading, sigma = READINGS[name]
    mechanism, X, y, costs = market(objective=BuyerObjective(15.0, sigma, 0.01, 3.0), reading=reading)
    setting = mechanism.with_records(X, y).setting
    psi = dpm.virtual_costs(costs, DIST)
    base = solve(setting, psi)
    for i in (0, 5, 24):
        step = 1e-4
        sides = []
        for sign in (1, -1):
            moved = psi.copy()
            moved[i] += sign * step
            sides.append(solve(setting, moved).best.value)
        slope = (sides[0] - sides[1]) / (2 * step)
        assert slope == pytest.approx(0.01 * base.best.noise_rate * base.best.inner.weights[i], rel=1e-5)


def test_a_moved_virtual_cost_is_solved_as_well_as_from_scratch():
    # Also where nothing is convex, and where the best noise rate moves far.
    # With the last two, nobody can be done without, and the range of noise rates moves as well.
    for m, objective, l2 in (
        (6, BuyerObjective(15.0, 1.0, 0.01, 3.0), 1.0),
        (6, BuyerObjective(0.05, 1.0, 0.3), 0.3),
        (3, BuyerObjective(0.05, 1.0, 0.3, 1.2), 0.3),
        (3, BuyerObjective(5.0, 1.0, 0.3, 1.2), 1.0),
    ):
        mechanism, X, y, costs = market(m=m, objective=objective, l2=l2)
        setting = mechanism.with_records(X, y).setting
        psi = dpm.virtual_costs(costs, DIST)
        base = solve(setting, psi)
        for i in np.flatnonzero(base.best.inner.weights > 0):
            for value in (psi[i] * 1.01, 9.0, 1e4):
                moved = psi.copy()
                moved[i] = max(value, psi[i])
                again = solve(setting, moved).best.value
                assert base.moved(int(i), moved[i]).value == pytest.approx(again, abs=1e-12, rel=1e-10)


def test_several_valleys_are_compared():
    # Two sellers cost next to nothing, two a lot: buy much from the two, or less from all four. At each
    # noise rate the problem is strictly convex, and still there are two valleys.
    X, y = np.ones((4, 1)), np.array([1.0, 1.0, -1.0, -1.0])
    costs = np.array([0.088, 0.067, 8.89, 4.018])
    mechanism = JointMechanism(
        Uniform(0.01, 16.25),
        BuyerObjective(1.05, 1.0, 0.00187),
        2.1,
        payments=CHEAP,
        noise_source=SeededNoise(0),
    )
    outcome = mechanism.run(costs, X, y)
    assert outcome.strictly_convex
    assert outcome.local_minima == 2
    etas = np.geomspace(outcome.grid[0], outcome.grid[-1], 200)
    values = [objective_at(mechanism, X, y, costs, eta) for eta in etas]
    assert min(values) >= outcome.objective_value - 1e-14


def test_the_global_minimum_over_noise_rates_is_proved_where_it_can_be():
    mechanism, X, y, costs = market()
    outcome = mechanism.run(costs, X, y)
    assert outcome.optimality_gap <= 1e-10 * outcome.objective_value
    flat = dataclasses.replace(mechanism, objective=BuyerObjective(0.5, 1.0, 0.01))
    bounded = dataclasses.replace(
        mechanism, reading=BoundedCoefficients(0.1), objective=BuyerObjective(25.0, 5.0, 0.01)
    )
    for unproved in (flat, bounded):
        result = unproved.run(costs, X, y)
        assert result.optimality_gap == np.inf
        assert result.to_dict()["optimality_gap"] is None


def test_the_proof_finds_a_valley_that_the_grid_did_not_show():
    # Three points on the slopes of the worse valley: the better one lies between the first two.
    X, y = np.ones((4, 1)), np.array([1.0, 1.0, -1.0, -1.0])
    costs = np.array([0.088, 0.067, 8.89, 4.018])
    mechanism = JointMechanism(Uniform(0.01, 16.25), BuyerObjective(1.05, 1.0, 0.00187), 2.1, payments=CHEAP)
    whole = mechanism.run(costs, X, y)
    setting = mechanism.with_records(X, y).setting
    solved = solve(setting, dpm.virtual_costs(costs, mechanism.dist))
    better, worse = sorted(solved.search.minima, key=lambda trial: trial.value)
    ends = np.array([whole.grid[0], whole.grid[-1]])
    inside = np.sort(np.append(ends, worse.noise_rate * np.array([0.999, 1.001])))
    poor = search(_Evaluation(setting, solved.buyable, ()), inside, np.zeros(1))
    assert poor.best.value > better.value + 1e-3 * abs(worse.value - better.value)
    found = prove(poor, _Evaluation(setting, solved.buyable, ()), 1.0, 1e-11)
    assert found.best.value == pytest.approx(better.value, rel=1e-12)
    assert found.gap <= 1e-10


@given(st.integers(0, 10**6))
@settings(max_examples=40)
def test_a_claimed_gap_is_true(seed):
    # Any function of this kind: sigma/eta plus a minimum of affine functions, each with a slope >= 0.
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    slopes, heights = 10 ** rng.uniform(-3, 1, count), rng.uniform(0, 3, count)

    def evaluate(eta, start):
        k = int((heights + slopes * eta).argmin())
        return Evaluated(
            eta,
            1 / eta + heights[k] + slopes[k] * eta,
            slopes[k] - 1 / eta**2,
            InnerSolution(start, start, 0.0, 0.0, ()),
        )

    grid = np.geomspace(0.05, 50, int(rng.integers(2, 8)))
    found = prove(search(evaluate, grid, np.zeros(1)), evaluate, 1.0, 1e-11)
    etas = np.geomspace(0.05, 50, 20_001)
    least = (1 / etas + (heights[:, None] + slopes[:, None] * etas).min(axis=0)).min()
    assert found.best.value - found.gap <= least + 1e-12
    assert found.gap <= 1e-10 * abs(found.best.value)


def test_the_condition_for_convexity_is_reported_and_stationary_points_are_counted():
    X, y = np.ones((11, 1)), np.where(np.arange(11) % 2 == 0, 1.0, -1.0)
    costs = np.linspace(1.5, 5, 11)
    flat = JointMechanism(DIST, BuyerObjective(0.5, 1.0, 1e-3), 0.5, payments=CHEAP).run(costs, X, y)
    assert flat.paper_convexity == pytest.approx(0.5 / 11)
    assert not flat.strictly_convex
    assert flat.stationary_points >= 2
    sure = JointMechanism(DIST, BuyerObjective(11.5, 1.0, 1e-3), 0.5, payments=CHEAP).run(costs, X, y)
    assert sure.strictly_convex
    assert sure.stationary_points == 1
    alone = dataclasses.replace(
        JointMechanism(DIST, BuyerObjective(0.5, 1.0, 1e-3), 0.5, payments=CHEAP), starts=RandomStarts(0)
    )
    assert alone.run(costs, X, y).stationary_points >= 1


def test_an_optimum_at_an_end_of_the_grid_is_said_so():
    mechanism, X, y, costs = market()
    best = mechanism.run(costs, X, y).noise_rate / 25
    for grid, edge in (
        ([2 * best, 3 * best], "lowest"),
        ([0.2 * best, 0.5 * best], "highest"),
        ([0.5 * best, 2 * best], "inside"),
    ):
        assert dataclasses.replace(mechanism, mean_epsilons=grid).run(costs, X, y).edge == edge
    tight = dataclasses.replace(mechanism.objective, max_mean_epsilon=0.5 * best)
    bounded = dataclasses.replace(mechanism, objective=tight).run(costs, X, y)
    assert bounded.edge == "highest"
    assert bounded.noise_rate <= 25 * 0.5 * best


def test_nobody_exceeds_the_epsilon_that_the_two_bounds_allow():
    objective = BuyerObjective.with_max_epsilon(1.0, 1.0, 1e-6, weight_cap=2.0, max_epsilon=0.7)
    mechanism, X, y, costs = market(objective=objective, l2=0.5)
    outcome = mechanism.run(costs, X, y)
    assert outcome.edge == "highest"
    assert outcome.epsilons.max() <= 0.7


def test_the_order_of_sellers_does_not_matter():
    mechanism, X, y, costs = market(payments=dpm.mechanisms.joint.EnvelopePayments(), m=8)
    order = np.random.default_rng(5).permutation(8)
    straight, shuffled = mechanism.run(costs, X, y), mechanism.run(costs[order], X[order], y[order])
    np.testing.assert_allclose(shuffled.epsilons, straight.epsilons[order], rtol=1e-7)
    np.testing.assert_allclose(shuffled.payments, straight.payments[order], rtol=1e-7)


def test_reports_outside_the_support_count_as_its_lower_end_or_get_nothing():
    mechanism, X, y, costs = market(m=6, payments=dpm.mechanisms.joint.EnvelopePayments())
    inside, below, above = costs.copy(), costs.copy(), costs.copy()
    inside[2], below[2], above[2] = 1.0, 0.3, 5.5
    np.testing.assert_allclose(
        mechanism.run(below, X, y).payments, mechanism.run(inside, X, y).payments, rtol=1e-12
    )
    outcome = mechanism.run(above, X, y)
    assert (outcome.epsilons[2], outcome.payments[2], outcome.loss_weights[2]) == (0.0, 0.0, 0.0)
    assert outcome.loss_weights.sum() == pytest.approx(1.0)
    with pytest.raises(Infeasible, match="0 of 6"):
        mechanism.run(np.full(6, 7.0), X, y)
    tight = dataclasses.replace(mechanism, objective=BuyerObjective(6.0, 1.0, 0.01, weight_cap=1.0))
    with pytest.raises(Infeasible, match="weight_cap"):
        tight.run(above, X, y)


def test_costs_of_nothing_need_a_bound_on_the_noise_rate():
    X, y = synthetic(4, 2)
    free = JointMechanism(Uniform(0, 1), BuyerObjective(4.0, 1.0, 0.1), 1.0, payments=CHEAP)
    with pytest.raises(Infeasible, match="max_mean_epsilon"):
        free.run(np.zeros(4), X, y)
    bounded = dataclasses.replace(free, objective=BuyerObjective(4.0, 1.0, 0.1, max_mean_epsilon=2.0))
    assert bounded.run(np.zeros(4), X, y).noise_rate == 8.0


def test_a_buyer_who_pays_nothing_for_noise_takes_the_lowest_noise_rate():
    X, y = cancer(60)
    costs = DIST.sample(60, np.random.default_rng(0))
    for lowest in (0.01, 0.1):
        buyer = dpm.mechanisms.joint.naive_buyer(DIST, 0.01, 0.1, np.geomspace(lowest, 5, 6), weight_cap=3.0)
        outcome = buyer.run(costs, X, y)
        assert outcome.edge == "lowest"
        assert outcome.noise_rate == pytest.approx(60 * lowest)
        assert (np.diff(outcome.grid_values) > 0).all()
        assert np.count_nonzero(outcome.loss_weights) == 20
        assert isinstance(outcome.payment_rule, ExpectedPayments)
    with pytest.raises(Infeasible, match="mean_epsilons"):
        JointMechanism(DIST, BuyerObjective(1.0, 0.0, 0.01), 1.0).run(costs, X, y)


def test_the_same_input_gives_the_same_outcome():
    mechanism, X, y, costs = market(objective=BuyerObjective(0.2, 1.0, 0.05), l2=0.2)
    assert mechanism.run(costs, X, y).to_dict() == mechanism.run(costs, X, y).to_dict()


def test_an_outcome_cannot_be_changed_adds_up_and_can_be_written_as_json():
    mechanism, X, y, costs = market(m=6, payments=None)
    outcome = mechanism.run(costs, X, y, seller_ids=list("abcdef"))
    for field in dataclasses.fields(outcome):
        if isinstance(getattr(outcome, field.name), np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                getattr(outcome, field.name)[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.noise_rate = 1.0
    assert outcome.epsilons.sum() == pytest.approx(outcome.noise_rate)
    assert outcome.objective_value == pytest.approx(outcome.trace[-1], abs=1e-14)
    assert outcome.payment_part == pytest.approx(0.01 * outcome.epsilons @ dpm.virtual_costs(costs, DIST))
    plain = json.loads(json.dumps(outcome.to_dict(), allow_nan=False))
    assert plain["schema"] == "dpmarket.joint-outcome/2"
    assert plain["certifiable"] is False
    assert plain["payment_rule"] == {"kind": "envelope"}
    assert dict(outcome.summary())["privacy certificate"].startswith("none")


def test_nothing_downstream_takes_a_joint_outcome_for_a_certified_one(tmp_path):
    mechanism, X, y, costs = market(m=6)
    outcome = mechanism.run(costs, X, y)
    assert not isinstance(outcome, Outcome)
    assert not dpm.mechanisms.joint.JointOutcome.certifiable
    for name in ("outcome.json", "outcome.parquet"):
        with pytest.raises(InvalidInput, match="JointOutcome"):
            dpm.mechanisms.write_outcome(tmp_path / name, outcome)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInput, match="schema"):
        Outcome.from_dict(outcome.to_dict())
    assert not hasattr(outcome, "in_minor_units")


GOOD = {"X": [[0.5, 0.1], [0.2, -0.3], [-0.4, 0.4]], "y": [1, -1, 1], "reported_costs": [1.5, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reported_costs": []}, "at least one"),
        ({"reported_costs": [1.0, np.nan, 2.0]}, "1 NaN"),
        ({"reported_costs": [1.0, -2.75, 2.0]}, "1 negative"),
        ({"reported_costs": [1.0, np.inf, 2.0]}, "1 infinite"),
        ({"reported_costs": ["1", "2", "3"]}, "numbers"),
        ({"reported_costs": [[1.0]]}, "vector"),
        ({"reported_costs": [1.0, 2.0]}, "same length"),
        ({"seller_ids": ["a"]}, "same length"),
        ({"seller_ids": ["a", "a", "b"]}, "1 repeated"),
        ({"X": [[0.5, np.nan], [0.2, 0.3], [0.1, 0.1]]}, "1 NaN"),
        ({"X": [[0.5, np.inf], [0.2, 0.3], [0.1, 0.1]]}, "1 infinite"),
        ({"X": [[0.8125, 0.9375], [0.2, 0.3], [0.1, 0.1]]}, "norm at most 1, found 1"),
        ({"X": [[1e200, 0.0], [0.2, 0.3], [0.1, 0.1]]}, "1e150"),
        ({"X": [0.5, 0.2, 0.1]}, "shape"),
        ({"X": np.zeros((3, 0))}, "shape"),
        ({"X": [[0.5], [0.2, 0.3], [0.1]]}, "ragged"),
        ({"X": [["a"], ["b"], ["c"]]}, "numbers"),
        ({"X": GOOD["X"][:2]}, "same length"),
        ({"y": [1, -1]}, "same length"),
        ({"y": [1, 0, 1]}, "found 1"),
        ({"y": ["yes", "no", "yes"]}, "numbers"),
        ({"y": [1, np.nan, 1]}, "1 NaN"),
    ],
)
def test_reports_and_records_that_make_no_sense_are_refused(changes, words):
    mechanism = JointMechanism(DIST, BuyerObjective(3.0, 1.0, 0.01), 1.0)
    with pytest.raises(InvalidInput, match=words) as refusal:
        mechanism.run(**(GOOD | changes))
    for secret in ("2.75", "0.8125", "0.9375", "1e200"):
        assert secret not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dist": "uniform"}, "dist"),
        ({"objective": 3}, "BuyerObjective"),
        ({"objective": BuyerObjective(1.0, 1.0, 0.0)}, "payment_weight"),
        ({"l2": 0.0}, "l2"),
        ({"l2": np.nan}, "l2"),
        ({"reading": "expected"}, "reading"),
        ({"reading": BoundedCoefficients}, "reading"),
        ({"solver": "descent"}, "solver"),
        ({"payments": True}, "payments"),
        ({"mean_epsilons": []}, "mean_epsilons"),
        ({"mean_epsilons": [0.0, 1.0]}, "mean_epsilons"),
        ({"mean_epsilons": [2.0, 1.0]}, "mean_epsilons"),
        ({"mean_epsilons": [np.nan]}, "mean_epsilons"),
        ({"objective": BuyerObjective(1, 1, 1, None, 0.5), "mean_epsilons": [0.1, 0.6]}, "max_mean_epsilon"),
        ({"starts": 5}, "starts"),
        ({"noise_source": 3}, "noise_source"),
        (
            {
                "dist": dpm.FromScipy(stats.lognorm(s=0.5), 0, 9),
                "payments": dpm.mechanisms.joint.EnvelopePayments(),
            },
            "QuadraturePayments",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(InvalidInput, match=words):
        JointMechanism(**({"dist": DIST, "objective": BuyerObjective(1.0, 1.0, 0.01), "l2": 1.0} | changes))


@pytest.mark.parametrize("radius", [0.0, -1.0, np.inf, np.nan, "1"])
def test_a_radius_that_is_none_is_refused(radius):
    with pytest.raises(InvalidInput, match="coef_radius"):
        BoundedCoefficients(radius)


@pytest.mark.parametrize(
    ("i", "report"), [(3, 2.0), (-1, 2.0), (0.0, 2.0), (0, -1.5), (0, np.nan), (0, "2"), (0, [2.0])]
)
def test_questions_about_nobody_or_no_cost_are_refused(i, report):
    mechanism = JointMechanism(DIST, BuyerObjective(3.0, 1.0, 0.01), 1.0)
    with pytest.raises(InvalidInput, match=r"i to be|report") as refusal:
        mechanism.with_records(GOOD["X"], GOOD["y"]).respond(GOOD["reported_costs"], i, report)
    assert "1.5" not in str(refusal.value)


def test_nothing_shows_a_record_when_printed():
    # Error reports of other libraries print arguments.
    market = JointMechanism(DIST, BuyerObjective(3.0, 1.0, 0.01), 1.0).with_records(GOOD["X"], GOOD["y"])
    outcome = market.run(GOOD["reported_costs"])
    solved = solve(market.setting, np.array([1.5, 2.0, 3.0]))
    problem = market.setting.problem(solved.buyable, 1.0)
    shown = repr((market, market.setting, outcome, solved, solved.buyable, problem, solved.best.inner))
    for row in GOOD["X"]:
        for value in row:
            assert str(abs(value)) not in shown


def test_the_feasible_sellers_are_those_with_finite_virtual_costs():
    mechanism, X, y, _ = market(m=6)
    setting = mechanism.with_records(X, y).setting
    psi = np.array([1.0, np.inf, 2.0, 3.0, np.inf, 4.0])
    assert BuyableSellers.of(setting, psi).positions.tolist() == [0, 2, 3, 5]
