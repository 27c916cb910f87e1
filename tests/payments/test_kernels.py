"""Every case of a re-solved allocation alone, against direct sums and against whole solutions."""

from itertools import pairwise

import numpy as np
import pytest

from dpmarket import BuyerObjective, allocate
from dpmarket.allocation.kernels import segments, walk
from dpmarket.allocation.settings import path_settings
from dpmarket.payments.cases import case_of
from dpmarket.payments.interpolation import PiecewiseSeries
from dpmarket.payments.kernels import (
    alone,
    integrals,
    limits,
    moves,
    resolve,
    several,
    switches,
    tables,
    whole,
)
from dpmarket.payments.kernels.alone import Alone
from dpmarket.payments.kernels.limits import Limit
from dpmarket.payments.kernels.moves import CAPPED, INTERIOR, OUT, Mover, anchor_at
from dpmarket.payments.kernels.several import Several
from dpmarket.payments.kernels.whole import Whole

TIED = np.array([1.0, 1.0, 1.2, 1.3, 1.3, 1.3, 1.3, 1.5, 1.7, 1.7, 1.7, 2.0, 2.0, 2.6, 3.0])


def case_and_allocation(psi, objective):
    allocation = allocate(psi, objective)
    return case_of(psi, path_settings(objective, psi.size), objective, allocation), allocation


def epsilon_by_solving(psi, own, x, objective):
    moved = psi.copy()
    moved[np.searchsorted(psi, own)] = x
    return allocate(moved, objective).epsilons[np.searchsorted(psi, own)]


# --- sums over the others ------------------------------------------------------------------------


@pytest.mark.parametrize("j", range(TIED.size))
def test_runs_of_equal_costs_begin_and_end_where_they_do(j):
    same = np.flatnonzero(TIED[j] == TIED)
    assert moves.run_end(TIED, same[0], TIED.size) == same[-1] + 1
    assert moves.run_start(TIED, same[-1], np.int64(0)) == same[0]
    middle = (same[0] + same[-1]) // 2
    assert moves.run_end(TIED, same[0], middle + 1) == middle + 1
    assert moves.run_start(TIED, same[-1], np.int64(middle)) == middle


def assert_sums_are_those_of_the_others(others, own, reference):
    gone = np.searchsorted(TIED, own)
    held = np.delete(TIED, gone)[: others.held]
    between = [TIED[j] for j in range(others.a, others.b) if j != gone]
    assert others.held == sum(j != gone for j in range(others.a))
    assert others.n == len(between)
    assert others.S_c == pytest.approx((held - reference).sum(), abs=1e-13)
    if between:
        assert pytest.approx(np.mean(between) - reference, abs=1e-14) == others.M
        assert pytest.approx(np.var(between) * len(between), abs=1e-14) == others.V


@pytest.mark.parametrize("own", [1.0, 1.3, 1.5, 1.7])
def test_who_crosses_a_boundary_takes_all_equals_along_and_leaves_the_right_sums(own):
    anchor = anchor_at(TIED, 3, 8, 1.0)
    reference = anchor.reference
    relative = own - reference
    others = moves.others_at(anchor, relative)
    assert_sums_are_those_of_the_others(others, own, reference)
    for step in (moves.entered, moves.entered, moves.released, moves.capped, moves.capped, moves.dropped):
        before = others
        others = step(TIED, others, reference, relative)
        assert (others.a, others.b) != (before.a, before.b)
        assert_sums_are_those_of_the_others(others, own, reference)
    assert TIED[others.b] != TIED[others.b - 1]
    assert TIED[others.a] != TIED[others.a - 1]


@pytest.mark.parametrize(("status", "x"), [(INTERIOR, -0.1), (CAPPED, -0.4), (OUT, 0.3)])
def test_the_mover_is_added_where_they_stand(status, x):
    rules = walk.Rules(0.1, 10, 0.0, 1.0, 0.0)
    others = moves.Others(3, 8, 3, 5, -1.0, -0.2, 0.5)
    sums = moves.with_mover(others, x, status, rules)
    assert sums.held == 3 + (status == CAPPED)
    assert sums.n == 5 + (status == INTERIOR)
    assert sums.S_c == pytest.approx(-1.0 + x * (status == CAPPED))
    assert sums.M * sums.n == pytest.approx(-0.2 * 5 + x * (status == INTERIOR))
    assert sums.rest == pytest.approx(1 - 0.1 * sums.held)


# --- one stationary point ------------------------------------------------------------------------

OBJECTIVES = {
    "no cap": BuyerObjective(1.0, 1.0, 1.0),
    "cap": BuyerObjective(1.0, 1.0, 1.0, weight_cap=2.2),
    "plateau": BuyerObjective(1.0, 1.0, 1e5, weight_cap=2.0),
    "bound": BuyerObjective(1.0, 1.0, 1.0, weight_cap=2.2, max_mean_epsilon=0.01),
}


def smooth_costs(objective):
    sellers = 40 if objective.weight_cap == 2.0 else 41
    return np.sort(np.random.default_rng(3).uniform(1.0, 2.0, sellers))


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("start", [INTERIOR, CAPPED, OUT])
def test_a_resolved_problem_is_the_whole_problem_solved_again(name, start):
    objective = OBJECTIVES[name]
    psi = smooth_costs(objective)
    case, allocation = case_and_allocation(psi, objective)
    problem = case.problem
    assert (allocation.n_capped == allocation.n_bought) == (name == "plateau")
    assert allocation.at_bound == (name == "bound")
    minimum = allocation.local_minima[0]
    anchor = anchor_at(psi, minimum.n_capped, minimum.n_bought, minimum.spread)
    for own in psi[[0, 5, allocation.n_bought - 1]]:
        for x in own + np.array([0.0, 1e-9, 0.05, 0.3, 0.8, 2.0]):
            mover = Mover(own - anchor.reference, x - anchor.reference)
            found = resolve.resolve(problem, anchor, mover, start, 300)
            assert found.settled
            expected = epsilon_by_solving(psi, own, x, objective)
            assert resolve.epsilon_of(problem, found, mover.x) == pytest.approx(
                expected, rel=1e-12, abs=1e-15
            )


def test_a_resolve_gives_up_after_the_moves_it_is_allowed():
    psi = smooth_costs(OBJECTIVES["no cap"])
    case, allocation = case_and_allocation(psi, BuyerObjective(1.0, 1.0, 0.5))
    anchor = anchor_at(psi, 0, 3, allocation.spread)
    mover = Mover(psi[0] - anchor.reference, psi[0] - anchor.reference)
    assert resolve.resolve(case.problem, anchor, mover, INTERIOR, 100).settled
    assert not resolve.resolve(case.problem, anchor, mover, INTERIOR, 2).settled


def test_nobody_is_trusted_beyond_the_costs_that_are_known():
    psi = smooth_costs(OBJECTIVES["no cap"])
    case, allocation = case_and_allocation(psi, BuyerObjective(1.0, 1.0, 0.5))
    bought = allocation.n_bought
    problem = case.problem._replace(psi=psi[:bought], sellers=psi.size)
    anchor = anchor_at(psi, 0, bought, allocation.spread)
    mover = Mover(psi[0] - anchor.reference, psi[0] - anchor.reference)
    assert not resolve.resolve(problem, anchor, mover, INTERIOR, 100).settled
    assert resolve.resolve(problem._replace(sellers=bought), anchor, mover, INTERIOR, 100).settled


@pytest.mark.parametrize(
    ("status", "x", "expected"),
    [
        (INTERIOR, 0.5, OUT), (INTERIOR, -0.2, INTERIOR), (INTERIOR, -3.0, CAPPED),
        (CAPPED, -3.0, CAPPED), (CAPPED, -0.2, INTERIOR), (OUT, 0.5, OUT), (OUT, -0.2, INTERIOR),
    ],
)  # fmt: skip
def test_the_mover_belongs_where_cutoff_and_cap_say(status, x, expected):
    found = resolve.Solution(True, status, 1.0, 0.0, 1.0, 0.0)
    assert resolve.mover_place(found, x, 1.0, 2.0) == expected


@pytest.mark.parametrize(
    ("r", "reach", "change"), [(-0.1, 0.5, 2), (0.3, 1.0, 1), (0.1, 0.15, 4), (0.1, 0.5, 3)]
)
def test_who_is_misplaced_is_named(r, reach, change):
    anchor = anchor_at(TIED, 3, 8, 1.0)
    others = moves.others_at(anchor, 1.2 - anchor.reference)
    found = resolve.Solution(True, INTERIOR, 1.0, r, 1.0, 0.0)
    assert resolve.misplaced(TIED, others, found, (anchor.reference, -0.3), reach) == change
    assert resolve.misplaced(TIED, others, found._replace(r=0.05), (anchor.reference, -0.3), 0.3) == 0


def test_a_capped_seller_leaves_the_cap_where_the_weight_is_the_cap():
    objective = OBJECTIVES["cap"]
    psi = smooth_costs(objective)
    case, allocation = case_and_allocation(psi, objective)
    assert isinstance(case, Alone)
    assert allocation.n_capped > 0
    kink = alone.leaves_cap(case, psi[0], 3.0)
    assert psi[0] < kink < 3.0
    cap = case.problem.rules.cap
    for x, side in ((kink * (1 - 1e-9), 1), (kink * (1 + 1e-9), -1)):
        mover = Mover(psi[0] - case.anchor.reference, x - case.anchor.reference)
        found = resolve.resolve(case.problem, case.anchor, mover, INTERIOR, 300)
        assert np.sign((found.r - mover.x) / found.s - cap) == side


def test_the_secant_stays_inside_its_bracket_and_every_third_step_halves_it():
    assert alone.between(1.0, 2.0, 3.0, -1.0, 0) == 1.75
    assert alone.between(1.0, 2.0, 3.0, -1.0, 2) == 1.5
    assert alone.between(1.0, 2.0, 0.0, -1.0, 0) == 1.5


# --- limits and whole walks ----------------------------------------------------------------------


@pytest.mark.parametrize("objective", [
    BuyerObjective(0.0, 1.0, 0.3, weight_cap=2.2),
    BuyerObjective(0.0, 1.0, 0.3, weight_cap=3.0, max_mean_epsilon=0.1),
    BuyerObjective(1e3, 1e-3, 1e-250),
])  # fmt: skip
def test_epsilons_in_a_limit_are_those_of_the_whole_solution(objective):
    case, _ = case_and_allocation(TIED, objective)
    assert isinstance(case, Limit)
    for own in np.unique(TIED)[:5]:
        for x in own + np.array([0.0, 0.1, 0.2, 0.7, 5.0]):
            expected = epsilon_by_solving(TIED, own, x, objective)
            assert limits.epsilon_in_limit(case, own, x) == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(("own", "x"), [(1.3, 2.5), (1.0, 9.0), (2.0, 0.5), (1.7, 1.7), (3.0, 3.0)])
def test_moved_costs_are_sorted_costs_with_one_replaced(own, x):
    expected = TIED.copy()
    expected[np.searchsorted(TIED, own)] = x
    np.testing.assert_array_equal(whole.moved_costs(TIED, own, x), np.sort(expected))


@pytest.mark.parametrize("x", [0.1, 1.4, 99.0])
def test_a_cost_that_nobody_has_moves_nothing(x):
    assert whole.moved_costs(TIED, 1.4, x).size == 0
    case, _ = case_and_allocation(TIED, OBJECTIVES["no cap"])
    assert np.isnan(whole.epsilon_by_walking(Whole(case.problem), 1.4, x))


# --- several minima ------------------------------------------------------------------------------


def two_groups(weight=0.00414):
    """At a payment weight of 0.0041405 buying from the cheap ones and buying from all are equally good."""
    rng = np.random.default_rng(7)
    psi = np.sort(2 * np.concatenate((rng.uniform(1.0, 1.1, 30), rng.uniform(3.0, 3.2, 600))) - 1)
    return psi, BuyerObjective(1.0, 1.0, weight)


def minima_of_moved(problem, own, x):
    costs = whole.moved_costs(problem.psi, own, x)
    return walk.walk_path(costs, costs.size, problem.rules, costs.mean() * 1.1)[0]


@pytest.mark.parametrize("weight_cap", [None, 1.5, 20.0])
@pytest.mark.parametrize("mean", [None, 0.01])
def test_walking_a_stretch_finds_the_minima_of_the_moved_problem_there(weight_cap, mean):
    psi, objective = two_groups()
    objective = BuyerObjective(1.0, 1.0, objective.payment_weight, weight_cap, mean)
    case, allocation = case_and_allocation(psi, objective)
    problem = case.problem
    for own, x in ((psi[0], psi[0]), (psi[3], 1.6), (psi[10], 5.4), (psi[100], 9.0)):
        expected = minima_of_moved(problem, own, x)
        for low, high in pairwise(
            [0.2 * allocation.spread, 0.9 * allocation.spread, 1.2 * allocation.spread]
        ):
            N, bought = walk.path_points(psi, problem.rules, np.array([low]))[0, :2].astype(int)
            anchor = anchor_at(psi, N, bought, low)
            mover = Mover(own - anchor.reference, x - anchor.reference)
            settled, others, status = several.settle(problem, anchor, mover)
            assert settled
            where = (anchor.reference, low, high)
            found = several.walk_between(problem, others, mover, status, where)
            there = expected[(expected[:, segments.SPREAD] > low) & (expected[:, segments.SPREAD] < high)]
            assert found.settled == (len(there) > 0)
            if found.settled:
                best = there[segments.best_row(there)]
                assert found.value == pytest.approx(best[segments.VALUE], rel=1e-13)
                assert found.s == pytest.approx(best[segments.SPREAD], rel=1e-9)


def test_the_slope_of_a_moved_problem_is_negative_before_its_minimum_and_positive_after():
    psi, objective = two_groups()
    case, _ = case_and_allocation(psi, objective)
    own, x = psi[3], 1.7
    moved = minima_of_moved(case.problem, own, x)
    s = moved[segments.best_row(moved), segments.SPREAD]
    for spread, sign in ((0.97 * s, -1), (1.03 * s, 1)):
        N, bought = walk.path_points(psi, case.problem.rules, np.array([spread]))[0, :2].astype(int)
        anchor = anchor_at(psi, N, bought, spread)
        assert np.sign(several.slope_at(case.problem, anchor, own, x)) == sign
    bounded = case.problem._replace(rules=case.problem.rules._replace(least_rate=1e9))
    assert several.slope_at(bounded, anchor, own, x) == -1.0


def test_the_best_of_several_minima_is_taken_and_switches_are_found_to_the_last_bit():
    psi, objective = two_groups(0.004141)
    case, _ = case_and_allocation(psi, objective)
    assert isinstance(case, Several)
    line = PiecewiseSeries(np.array([1.0, 5.0]), np.array([[5.0, 4.0]]), np.array([1.0, 5.0]), True, 0.0)
    own = psi[0]
    report = switches.next_switch(case, own, line, 0.5 * (own + 1.0), 3.3)
    assert own < 2 * report - 1 < 2 * 3.3 - 1
    before, after = (
        several.answer(case, own, tables.value_at(line, z)) for z in (np.nextafter(report, 0.0), report)
    )
    assert before.stretch != after.stretch
    assert before.epsilon > 1.05 * after.epsilon
    assert before.value == pytest.approx(after.value, rel=1e-14)
    for z in (0.999 * report, 1.001 * report):
        x = tables.value_at(line, z)
        expected = whole.epsilon_by_walking(Whole(case.problem), own, x)
        assert several.point_of_several(case, own, x).epsilon == pytest.approx(expected, rel=1e-12)


# --- integrals -----------------------------------------------------------------------------------


def test_one_seller_s_integral_is_what_pencil_and_paper_say():
    # Everybody alike: the weight is 1/2, the total promise sqrt(noise/(payment_weight*mean cost)).
    case = Limit(np.array([1.0, 2.0]), limits.EQUAL, 3.0, np.empty(0), 1.0, 0, 1.0, np.inf, 1.0)
    line = PiecewiseSeries(np.array([1.0, 5.0]), np.array([[3.0, 2.0]]), np.array([1.0, 5.0]), True, 0.0)
    one = np.array([1.5])
    asked = integrals.Asked(one, np.array([1.0]), np.array([0.4]))
    values, errors = integrals.integrals(case, line, asked, 5.0, 1e-12)
    expected = 0.5 * np.sqrt(2) * 2 * (np.sqrt(5.0 + 2.0) - np.sqrt(1.5 + 2.0))
    assert values[0] == pytest.approx(expected, rel=1e-13)
    assert errors[0] < 1e-12
    assert integrals.integrals(case, line, asked, 6.0, 1e-12)[0][0] == np.inf


def test_cuts_are_the_walls_and_the_kinks_in_order():
    objective = OBJECTIVES["cap"]
    psi = smooth_costs(objective)
    case, _ = case_and_allocation(psi, objective)
    edges = np.array([1.0, 1.1, 1.5, 2.5])
    straight = PiecewiseSeries(edges, np.array([[1.05, 0.05], [1.3, 0.2], [2.0, 0.5]]), edges, False, 0.0)
    cuts = integrals.cuts_of(case, psi[0], straight, integrals.Span(psi[0], 2.4, 0.0))
    kink = alone.leaves_cap(case, psi[0], tables.value_at(straight, 2.4))
    np.testing.assert_allclose(cuts, np.sort([*edges, kink]), rtol=1e-12)
    assert integrals.cuts_of(case, psi[-20], straight, integrals.Span(psi[-20], 2.4, 0.0)).size == edges.size


@pytest.mark.parametrize("x", [1.0, 1.04, 1.1, 1.3, 2.2, 2.5])
def test_a_table_is_evaluated_and_turned_round_piece_by_piece(x):
    edges = np.array([1.0, 1.1, 1.5, 2.5])
    table = PiecewiseSeries(edges, np.array([[2.1, 0.1], [2.6, 0.4], [4.0, 1.0]]), edges, False, 0.0)
    assert tables.value_at(table, x) == pytest.approx(2 * x, rel=1e-15)
    assert tables.report_at(table, 2 * x, 1.0, 2.5) == pytest.approx(x, rel=1e-15)
    np.testing.assert_allclose(tables.evaluate(table, edges), 2 * edges)
