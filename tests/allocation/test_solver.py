"""What must be true of every allocation: limits, invariances, monotonicity, bounds, edge cases."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.allocation import BuyerObjective, allocate, max_epsilon
from dpmarket.allocation import solver as solver_module
from dpmarket.allocation.kernels import segments
from dpmarket.allocation.kernels.walk import COMPLETE, TOO_SHORT
from dpmarket.errors import Infeasible, InvalidInput

PLAIN = BuyerObjective(concentration=1.0, noise=1.0, payment_weight=0.01)

costs = st.lists(st.floats(1e-3, 1e3) | st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=20).map(
    np.array
)
prices = st.floats(1e-2, 1e2)
objectives = st.builds(
    BuyerObjective,
    concentration=prices,
    noise=prices,
    payment_weight=st.floats(1e-4, 1e2),
    weight_cap=st.none() | st.floats(1.0, 6.0) | st.sampled_from([1.0, 2.0, 4.0]),
    max_mean_epsilon=st.none() | st.floats(1e-3, 1e2),
)


# --- limits --------------------------------------------------------------------------------------


@given(cost=st.floats(1e-6, 1e6), m=st.integers(1, 120), objective=objectives)
def test_equal_costs_give_equal_epsilons(cost, m, objective):
    found = allocate(np.full(m, cost), objective)
    assert (found.epsilons == found.epsilons[0]).all()
    np.testing.assert_allclose(found.loss_weights, 1.0 / m, rtol=1e-14)
    free = math.sqrt(objective.noise / (objective.payment_weight * cost))
    bound = math.inf if objective.max_mean_epsilon is None else m * objective.max_mean_epsilon
    assert found.total_promise == pytest.approx(min(free, bound), rel=1e-13)


@given(psi=costs, objective=objectives)
def test_vanishing_payment_weight_gives_equal_weights(psi, objective):
    cheap = BuyerObjective(objective.concentration, objective.noise, 1e-18, objective.weight_cap)
    np.testing.assert_allclose(allocate(psi, cheap).loss_weights, 1.0 / psi.size, rtol=1e-4)


@pytest.mark.parametrize("payment_weight", [1e-280, 1e-300, 5e-324])
def test_the_limit_of_no_payments_is_reached_without_a_failure(payment_weight):
    found = allocate([1.0, 2.0, 6.0], BuyerObjective(1.0, 1.0, payment_weight))
    np.testing.assert_allclose(found.loss_weights, 1.0 / 3.0, rtol=1e-15)
    assert found.kkt_residual < 1e-9


@given(psi=costs, objective=objectives)
def test_vanishing_concentration_tends_to_concentration_zero(psi, objective):
    psi = np.round(psi, 2) + 1.0
    values = objective.to_dict()
    at_zero = allocate(psi, BuyerObjective(**{**values, "concentration": 0.0}))
    near_zero = allocate(psi, BuyerObjective(**{**values, "concentration": 1e-13}))
    np.testing.assert_allclose(near_zero.loss_weights, at_zero.loss_weights, atol=1e-6)
    assert near_zero.objective_value == pytest.approx(at_zero.objective_value, rel=1e-10)
    smallest = allocate(psi, BuyerObjective(**{**values, "concentration": 1e-290}))
    np.testing.assert_allclose(smallest.loss_weights, at_zero.loss_weights, atol=1e-14)


def test_concentration_zero_fills_the_cheapest_to_the_cap_and_splits_ties():
    psi = [5.0, 1.0, 3.0, 3.0, 9.0]
    capped = allocate(psi, BuyerObjective(0.0, 1.0, 0.01, weight_cap=2.0))
    np.testing.assert_allclose(capped.loss_weights, [0.0, 0.4, 0.3, 0.3, 0.0], rtol=1e-15)
    assert (capped.cutoff, capped.spread) == (3.0, 0.0)
    assert (capped.n_capped, capped.n_bought) == (1, 3)
    free = allocate(psi, BuyerObjective(0.0, 1.0, 0.01))
    np.testing.assert_array_equal(free.loss_weights, [0.0, 1.0, 0.0, 0.0, 0.0])
    assert free.total_promise == pytest.approx(10.0)
    assert capped.kkt_residual < 1e-15
    assert free.kkt_residual < 1e-15


def test_a_case_worked_by_hand():
    # One interior seller at cost 4, a second too dear: a = (1, 0), eta = sqrt(1 / (0.01 * 4)) = 5,
    # spread = 1/(0.01 * 5 * 1) = 20, cutoff 4 + 20, value 1 + 1/5 + 0.01 * 5 * 4.
    found = allocate([4.0, 30.0], PLAIN)
    np.testing.assert_array_equal(found.loss_weights, [1.0, 0.0])
    assert found.total_promise == pytest.approx(5.0, rel=1e-15)
    assert found.spread == pytest.approx(20.0, rel=1e-15)
    assert found.cutoff == pytest.approx(24.0, rel=1e-15)
    assert found.objective_value == pytest.approx(1.4, rel=1e-15)
    assert found.concentration_part == 1.0
    assert found.noise_part == pytest.approx(0.2, rel=1e-15)
    assert found.payment_part == pytest.approx(0.2, rel=1e-15)


# --- invariances ---------------------------------------------------------------------------------


@given(psi=costs, objective=objectives, factor=st.floats(1e-6, 1e6))
def test_scaling_money_changes_no_epsilon(psi, objective, factor):
    values = objective.to_dict()
    scaled = BuyerObjective(**{**values, "payment_weight": objective.payment_weight / factor})
    one, other = allocate(psi, objective), allocate(psi * factor, scaled)
    # At a tie between two minima rounding may choose either: the value decides.
    assert other.objective_value == pytest.approx(one.objective_value, rel=1e-12)
    if len(one.local_minima) == 1:
        np.testing.assert_allclose(other.epsilons, one.epsilons, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("exponent", [-900, -400, -101, 150, 700, 1000])
def test_scaling_money_by_powers_of_two_is_exact_even_at_the_ends_of_the_float_range(exponent):
    rng = np.random.default_rng(1)
    psi = rng.uniform(1.0, 9.0, 30)
    factor = math.ldexp(1.0, exponent)
    for cap, bound in [(None, None), (3.0, None), (2.5, 0.1)]:
        one = allocate(psi, BuyerObjective(1.0, 1.0, 0.01, cap, bound))
        other = allocate(psi * factor, BuyerObjective(1.0, 1.0, 0.01 / factor, cap, bound))
        np.testing.assert_array_equal(other.epsilons, one.epsilons)


@given(psi=costs, objective=objectives, seed=st.integers(0, 10**6))
def test_permuting_sellers_permutes_the_result(psi, objective, seed):
    order = np.random.default_rng(seed).permutation(psi.size)
    one, other = allocate(psi, objective), allocate(psi[order], objective)
    np.testing.assert_array_equal(other.epsilons, one.epsilons[order])
    assert other.objective_value == pytest.approx(one.objective_value, rel=1e-15)


@given(psi=costs, objective=objectives)
def test_every_allocation_is_feasible_ordered_and_stationary(psi, objective):
    found = allocate(psi, objective)
    m = psi.size
    assert found.loss_weights.sum() == pytest.approx(1.0, abs=2e-15)
    assert found.loss_weights.min() >= 0.0
    if objective.weight_cap is not None:
        assert found.loss_weights.max() <= objective.weight_cap / m
    if objective.max_mean_epsilon is not None:
        assert found.total_promise <= m * objective.max_mean_epsilon
    assert found.epsilons.max() <= max_epsilon(objective)
    np.testing.assert_allclose(found.epsilons, found.loss_weights * found.total_promise, rtol=1e-15)
    by_cost = found.epsilons[np.argsort(psi, kind="stable")]
    assert (np.diff(by_cost) <= 0.0).all()
    assert found.kkt_residual < 1e-12
    assert np.all(found.epsilons[psi > found.cutoff] == 0.0)
    assert found.n_bought == np.count_nonzero(found.epsilons)
    least = min(minimum.objective_value for minimum in found.local_minima)
    assert found.objective_value == pytest.approx(least, rel=1e-13)


@given(psi=costs, objective=objectives)
def test_the_published_numbers_reproduce_every_weight(psi, objective):
    found = allocate(psi, objective)
    again = np.clip((found.cutoff - psi) / found.spread, 0.0, found.max_weight)
    np.testing.assert_allclose(again, found.loss_weights, atol=1e-12 * (1 + found.cutoff / found.spread))


# --- truthfulness starts here --------------------------------------------------------------------


@given(psi=costs, objective=objectives, data=st.data())
def test_raising_own_cost_never_raises_epsilon(psi, objective, data):
    i = data.draw(st.integers(0, psi.size - 1))
    reports = np.geomspace(1e-3, 2e3, 25)
    responses = []
    for report in reports:
        psi[i] = report
        responses.append(allocate(psi, objective).epsilons[i])
    assert (np.diff(responses) <= 1e-12 * np.array(responses[:-1])).all()


def three_sellers(z):
    """Return the three-seller example in which a second basin takes over as z grows."""
    objective = BuyerObjective(1.10505, 1.37927, 0.524756)
    return allocate([528.535, z, 0.81056], objective)


def test_own_epsilon_falls_through_a_jump_between_two_basins():
    reports = np.r_[np.linspace(0.0403, 0.4, 300), np.linspace(0.208, 0.214, 101)]
    reports.sort()
    found = [three_sellers(z) for z in reports]
    responses = np.array([allocation.epsilons[1] for allocation in found])
    assert (np.diff(responses) <= 0.0).all()
    assert len(found[0].local_minima) == 1
    assert max(len(allocation.local_minima) for allocation in found) == 2
    before, after = three_sellers(0.2101), three_sellers(0.2103)
    assert before.total_promise == pytest.approx(3.54, abs=0.01)
    assert after.total_promise == pytest.approx(3.19, abs=0.01)


def test_following_one_basin_only_would_be_worse_and_not_the_choice():
    found = three_sellers(0.212)
    values = [minimum.objective_value for minimum in found.local_minima]
    assert len(values) == 2
    assert found.objective_value == pytest.approx(min(values), rel=1e-14)
    assert max(values) > min(values) * (1 + 1e-4)
    assert found.total_promise == found.local_minima[int(np.argmin(values))].total_promise


def test_the_objective_has_the_envelope_derivative():
    # dJ/dpsi_i = payment_weight * eps_i, which the payments are built on.
    psi = np.array([1.0, 2.0, 2.5, 7.0, 30.0])
    objective = BuyerObjective(1.0, 1.0, 0.02, weight_cap=2.2)
    found = allocate(psi, objective)
    for i in range(psi.size):
        h = 1e-4
        up, down = psi.copy(), psi.copy()
        up[i] += h
        down[i] -= h
        slope = allocate(up, objective).objective_value - allocate(down, objective).objective_value
        assert slope / (2 * h) == pytest.approx(0.02 * found.epsilons[i], rel=1e-6, abs=1e-9)


# --- edge cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3, 7, 49, 98, 103, 107, 1000])
def test_weight_cap_one_makes_everybody_equal(m):
    psi = np.random.default_rng(m).uniform(1.0, 9.0, m)
    found = allocate(psi, BuyerObjective(1.0, 1.0, 10.0, weight_cap=1.0))
    assert (found.loss_weights == found.loss_weights[0]).all()
    assert found.loss_weights[0] <= 1.0 / m
    assert found.loss_weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert found.total_promise == pytest.approx(math.sqrt(0.1 / psi.mean()), rel=1e-13)
    assert found.kkt_residual < 1e-12


@pytest.mark.parametrize("cap", [5.0, 5.5, 1e300])
def test_a_cap_of_m_or_more_is_no_cap(cap):
    psi = [1.0, 4.0, 4.0, 6.0, 9.0]
    free = allocate(psi, BuyerObjective(1.0, 1.0, 1.0))
    capped = allocate(psi, BuyerObjective(1.0, 1.0, 1.0, weight_cap=cap))
    np.testing.assert_array_equal(capped.epsilons, free.epsilons)
    assert capped.max_weight == 1.0


@pytest.mark.parametrize(("m", "slots"), [(100, 30), (49, 7), (98, 49), (103, 2), (1000, 3)])
def test_a_whole_number_of_caps_is_a_corner_whatever_floats_say(m, slots):
    psi = np.r_[np.linspace(1.0, 1.1, slots), np.linspace(50.0, 90.0, m - slots)]
    objective = BuyerObjective(1e-3, 1.0, 1.0, weight_cap=m / slots)
    found = allocate(psi, objective)
    assert found.n_bought == found.n_capped == slots
    assert found.loss_weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert found.total_promise == pytest.approx(1.0 / math.sqrt(psi[:slots].mean()), rel=1e-13)
    assert found.kkt_residual < 1e-12


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("cap", [None, 1.7, 4.0])
def test_packed_costs_far_from_zero_keep_all_their_digits(offset, cap):
    # The same problem, once far from zero and once as exact differences with the same solution: at a
    # held total promise a constant added to all costs changes no weight.
    packed = offset + 1e-9 * np.random.default_rng(7).random(40)
    differences = packed - packed.min()
    payment_weight = 1e9
    objective = BuyerObjective(1.0, 1e12 * offset, payment_weight, cap, max_mean_epsilon=0.05)
    far, near = allocate(packed, objective), allocate(differences, objective)
    assert far.at_bound
    assert near.at_bound
    np.testing.assert_allclose(far.loss_weights, near.loss_weights, rtol=1e-12, atol=1e-16)
    assert np.ptp(far.loss_weights) > 0.01
    assert far.kkt_residual < 1e-12


def test_a_far_outlier_does_not_blur_the_rest():
    # One seller nearly free, many packed at 1e6: the sum of weights is the first thing to suffer.
    psi = np.r_[1e-6, 1e6 + 1e-3 * np.random.default_rng(0).random(20_000)]
    for payment_weight in (1e-12, 1e-10, 1e-8):
        found = allocate(psi, BuyerObjective(1.0, 1.0, payment_weight))
        assert found.loss_weights.sum() == pytest.approx(1.0, abs=1e-14)
        assert found.kkt_residual < 1e-12


def test_infinite_costs_are_never_bought_and_keep_the_cap():
    psi = np.array([1.0, np.inf, 2.0, 3.0, np.inf, 2.5])
    objective = BuyerObjective(1.0, 1.0, 0.5, weight_cap=2.0, max_mean_epsilon=1.0)
    found = allocate(psi, objective)
    assert (found.epsilons[[1, 4]] == 0.0).all()
    assert found.max_weight <= 2.0 / 6.0
    assert found.loss_weights.max() <= 2.0 / 6.0
    assert found.kkt_residual < 1e-14
    large = np.where(np.isinf(psi), 1e12, psi)
    np.testing.assert_array_equal(allocate(large, objective).epsilons, found.epsilons)


def test_too_few_finite_costs_for_the_cap_are_infeasible():
    objective = BuyerObjective(1.0, 1.0, 1.0, weight_cap=1.5)
    with pytest.raises(Infeasible, match=r"at least 3 sellers .* found 2 of 4: raise weight_cap to"):
        allocate([1.0, np.inf, np.inf, 1.0], objective)
    enough = BuyerObjective(1.0, 1.0, 1.0, weight_cap=4 / 2)
    assert allocate([1.0, np.inf, np.inf, 1.0], enough).n_bought == 2
    # 7/3 is below 7/3 in floats; a last bit must not decide.
    assert allocate([1.0] * 3 + [np.inf] * 4, BuyerObjective(1, 1, 1, weight_cap=7 / 3)).n_bought == 3
    for plain in (PLAIN, objective):
        with pytest.raises(Infeasible, match="found 0 of 2"):
            allocate([np.inf, np.inf], plain)


@pytest.mark.parametrize("concentration", [0.0, 1.0])
def test_free_sellers_have_no_best_total_promise_unless_it_is_bounded(concentration):
    psi = [0.0, 0.0, 3.0]
    with pytest.raises(Infeasible, match="set max_mean_epsilon"):
        allocate(psi, BuyerObjective(concentration, 1.0, 10.0))
    bounded = allocate(psi, BuyerObjective(concentration, 1.0, 10.0, max_mean_epsilon=2.0))
    assert bounded.total_promise == 6.0
    assert bounded.at_bound
    assert bounded.kkt_residual < 1e-15
    # A cap that needs the third seller as well makes more epsilon cost something.
    capped = allocate(psi, BuyerObjective(concentration, 1.0, 10.0, weight_cap=1.2))
    assert capped.total_promise == pytest.approx(1.0 / math.sqrt(10.0 * 0.2 * 3.0))


def test_a_free_seller_is_no_obstacle_where_a_better_minimum_exists():
    # Endless epsilon from the one free seller costs concentration * 1; all hundred together cost a
    # tenth of that and very little money. The infimum at infinity is only local.
    psi = np.r_[0.0, np.full(99, 1e-6)]
    found = allocate(psi, BuyerObjective(1.0, 1.0, 1e-3))
    assert found.objective_value < 0.2
    assert found.kkt_residual < 1e-12
    reference = allocate(psi + 1e-13, BuyerObjective(1.0, 1.0, 1e-3))
    assert found.objective_value == pytest.approx(reference.objective_value, rel=1e-6)
    with pytest.raises(Infeasible, match="max_mean_epsilon"):
        allocate(np.r_[0.0, np.full(99, 1e3)], BuyerObjective(1.0, 1.0, 1e-3))


def test_at_equal_values_the_smaller_total_promise_is_taken():
    table = np.zeros((3, segments.COLUMNS))
    table[:, segments.VALUE] = [2.0, 1.0, 1.0]
    table[:, segments.RATE] = [1.0, 2.0, 3.0]
    assert segments.best_row(table) == 2


def test_sorting_only_the_cheap_part_changes_nothing(monkeypatch):
    rng = np.random.default_rng(11)
    m = solver_module.SAMPLE_FROM + 1000
    cases = {
        "uniform": rng.uniform(1.0, 9.0, m),
        "sorted": np.sort(rng.lognormal(size=m)),
        "some never": np.where(rng.random(m) < 0.1, np.inf, rng.uniform(1.0, 9.0, m)),
        # The regular sample sees cheap sellers only and guesses too low.
        "misleading": np.where(np.arange(m) % (m // solver_module._SAMPLE) == 0, 1.0, 1.0 + 1e-4),
    }
    for psi in cases.values():
        for objective in (
            BuyerObjective(1.0, 1.0, 1e-3),
            BuyerObjective(1.0, 1.0, 1.0, weight_cap=2.5),
            BuyerObjective(1.0, 1.0, 1e-3, weight_cap=4.0, max_mean_epsilon=1e-4),
        ):
            partly = allocate(psi, objective)
            with monkeypatch.context() as patch:
                patch.setattr(solver_module, "SAMPLE_FROM", 10**9)
                wholly = allocate(psi, objective)
            np.testing.assert_array_equal(partly.epsilons, wholly.epsilons)
            assert partly.local_minima == wholly.local_minima


def test_a_finite_local_minimum_above_the_infimum_at_infinity_is_not_an_answer():
    # One free seller, 99 at cost 1: a finite local minimum exists at both payment weights, below the
    # value 1 that endless epsilon from the free seller tends to at the first, above it at the second.
    psi = np.r_[0.0, np.ones(99)]
    found = allocate(psi, BuyerObjective(1.0, 1.0, 0.2))
    assert 0.9 < found.objective_value < 1.0
    with pytest.raises(Infeasible, match="max_mean_epsilon"):
        allocate(psi, BuyerObjective(1.0, 1.0, 0.25))
    generous = allocate(psi, BuyerObjective(1.0, 1.0, 0.25, max_mean_epsilon=1e6))
    assert generous.objective_value == pytest.approx(1.0, rel=1e-6)
    assert len(generous.local_minima) == 2


def test_a_sample_that_misleads_costs_time_and_nothing_else(monkeypatch):
    # Every sampled seller is cheap, nobody else is: the guess of how many to sort is far too low.
    m = solver_module.SAMPLE_FROM
    rng = np.random.default_rng(12)
    sampled = np.arange(m) % (m // solver_module._SAMPLE) == 0
    psi = np.where(sampled, rng.uniform(1.0, 1.001, m), rng.uniform(2.0, 3.0, m))
    objective = BuyerObjective(1.0, 1.0, 6900.0)
    statuses = []
    walk = solver_module._walk_sorted

    def spy(*arguments):
        outcome = walk(*arguments)
        statuses.append(outcome[3])
        return outcome

    monkeypatch.setattr(solver_module, "_walk_sorted", spy)
    misled = allocate(psi, objective)
    assert statuses == [TOO_SHORT, COMPLETE]
    monkeypatch.setattr(solver_module, "SAMPLE_FROM", 10**9)
    np.testing.assert_array_equal(misled.epsilons, allocate(psi, objective).epsilons)


def test_no_bound_is_broken_even_by_the_last_bit():
    rng = np.random.default_rng(13)
    for _ in range(400):
        m = int(rng.integers(2, 60))
        objective = BuyerObjective(
            0.01, 100.0, 0.01, rng.uniform(1.0, 0.9 * m + 0.1), 10.0 ** rng.uniform(-3.0, 0.0)
        )
        found = allocate(rng.uniform(1.0, 2.0, m), objective)
        assert found.at_bound
        heaviest = Fraction(float(found.loss_weights.max()))
        assert heaviest <= Fraction(objective.weight_cap) / m
        assert Fraction(found.total_promise) <= m * Fraction(objective.max_mean_epsilon)
        exact_bound = Fraction(objective.weight_cap) * Fraction(objective.max_mean_epsilon)
        assert heaviest * Fraction(found.total_promise) <= exact_bound
        assert Fraction(float(found.epsilons.max())) <= exact_bound
        assert found.epsilons.max() <= max_epsilon(objective)


@pytest.mark.parametrize("concentration", [1e-200, 1e-160, 1e160, 1e200])
def test_prices_at_the_ends_of_the_float_range_are_still_solved(concentration):
    # The bound keeps the two prices that decide about the weights comparable.
    psi = np.array([1.0, 1.5, 2.0, 8.0])
    plain = BuyerObjective(1.0, 1.0, 0.1, weight_cap=2.0, max_mean_epsilon=0.5)
    extreme = BuyerObjective(concentration, 1e100, 0.1 * concentration, weight_cap=2.0, max_mean_epsilon=0.5)
    noisy = BuyerObjective(1.0, 1e150, 0.1, weight_cap=2.0, max_mean_epsilon=0.5)
    for objective in (extreme, noisy):
        assert allocate(psi, objective).kkt_residual < 1e-9
    if concentration < 1.0:
        held = allocate(psi, extreme)
        assert held.at_bound
        np.testing.assert_allclose(held.loss_weights, allocate(psi, noisy).loss_weights, rtol=1e-12)
    assert allocate(psi, plain).kkt_residual < 1e-12


# --- refusals and the result ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "at least one element"),
        ([1.0, np.nan], "NaN"),
        ([1.0, -1e-300, -2.0], "found 2 of 3 .* the first at position 1"),
        ([1.0, -np.inf], ">= 0"),
        ([[1.0, 2.0]], "shape"),
        (3.0, "shape"),
        (["1.0"], "numbers"),
        ([1.0, None], "numbers"),
        ([True, False], "numbers"),
    ],
)
def test_bad_costs_are_refused(bad, message):
    with pytest.raises(InvalidInput, match=message):
        allocate(bad, PLAIN)


def test_costs_are_never_quoted_in_a_refusal():
    with pytest.raises(InvalidInput) as refusal:
        allocate([1.0, -123.456], PLAIN)
    assert "123" not in str(refusal.value)


def test_zero_noise_and_zero_payment_weight_are_refused():
    with pytest.raises(InvalidInput, match=r"objective\.noise > 0"):
        allocate([1.0], BuyerObjective(1.0, 0.0, 1.0))
    with pytest.raises(InvalidInput, match=r"objective\.payment_weight > 0"):
        allocate([1.0], BuyerObjective(1.0, 1.0, 0.0))


def test_the_result_is_read_only_and_the_costs_are_untouched():
    psi = np.array([3.0, 1.0, 2.0])
    psi.flags.writeable = False
    found = allocate(psi, PLAIN)
    for array in (found.epsilons, found.loss_weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(AttributeError):
        found.cutoff = 1.0
    np.testing.assert_array_equal(psi, [3.0, 1.0, 2.0])


def test_strided_whole_numbers_are_costs_too():
    psi = np.arange(1, 21)[::2]
    np.testing.assert_array_equal(
        allocate(psi, PLAIN).epsilons, allocate(psi.astype(float).copy(), PLAIN).epsilons
    )


def test_the_dictionary_holds_everything_and_names_its_schema():
    found = three_sellers(0.212)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["schema"] == "dpmarket.allocation/2"
    assert values["epsilons"] == found.epsilons.tolist()
    assert len(values["local_minima"]) == 2
    assert values["local_minima"][0]["total_promise"] == found.local_minima[0].total_promise
    assert set(found.__slots__) <= set(values)


@pytest.mark.parametrize("beyond", [1e100, 1e200, 1e300])
@pytest.mark.parametrize("concentration", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("bounds", [{}, {"weight_cap": 2.0, "max_mean_epsilon": 0.05}])
def test_a_cost_beyond_all_reach_counts_as_infinite(beyond, concentration, bounds):
    objective = BuyerObjective(concentration, 1.0, 0.01, **bounds)
    far = allocate(np.array([1.0, 2.0, 1.5, beyond]), objective)
    never = allocate(np.array([1.0, 2.0, 1.5, np.inf]), objective)
    np.testing.assert_allclose(far.epsilons, never.epsilons, rtol=1e-12)
    assert far.kkt_residual < 1e-9
