"""The joint problem at one noise rate: its reduced form is right, and every solver finds its minimum."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpmarket import InvalidInput, NotConverged
from dpmarket.learning import Rows, minimise
from dpmarket.mechanisms.joint import GreedySolver, PaperDescent, ReducedSolver
from dpmarket.mechanisms.joint.newton import minimise_in_ball, on_sphere
from dpmarket.mechanisms.joint.problem import (
    FixedWeights,
    Reduced,
    cheapest_weights,
    losses,
    objective_value,
    projected_weights,
)
from dpmarket.mechanisms.joint.solvers import lipschitz
from support.joint import cancer, inner_problem, synthetic

SETTINGS = {
    "plain": {},
    "capped": {"cap": 2.0},
    "noise": {"pull": 3.0},
    "ball": {"pull": 3.0, "radius": 0.3},
    "capped, ball": {"cap": 1.5, "pull": 2.0, "radius": 0.2},
}
each = pytest.mark.parametrize("name", SETTINGS)


def convex_problem(name, X, y, l2, seed=0, share=1.2):
    """A problem with ``2*l2*mu = share*m``: strictly convex by the paper's theorem for shares above 1."""
    m = len(y)
    rng = np.random.default_rng(seed)
    return inner_problem(X, y, concentration=share * m / (2 * l2), l2=l2, rng=rng, **SETTINGS[name])


@each
def test_the_reduced_gradient_and_hessian_are_derivatives(name):
    X, y = synthetic(30, 3)
    problem = inner_problem(X, y, concentration=2.0, l2=0.3, rng=np.random.default_rng(1), **SETTINGS[name])
    function = Reduced(problem)
    rng = np.random.default_rng(2)
    for _ in range(5):
        w, step = rng.standard_normal(3), 1e-6
        moves = step * np.eye(3)
        slopes = [(function.at(w + d).value - function.at(w - d).value) / (2 * step) for d in moves]
        np.testing.assert_allclose(function.at(w).gradient, slopes, atol=1e-8)
        bends = [(function.at(w + d).gradient - function.at(w - d).gradient) / (2 * step) for d in moves]
        np.testing.assert_allclose(function.hessian(function.at(w)), bends, atol=1e-6)


@each
def test_the_best_weights_beat_all_others_and_the_solution_beats_all_neighbours(name):
    X, y = synthetic(12, 2)
    problem = convex_problem(name, X, y, l2=1.0)
    found = ReducedSolver().solve(problem, np.zeros(2))
    rng = np.random.default_rng(3)
    limit = problem.layout[0]
    for _ in range(200):
        w = found.coefficients + rng.standard_normal(2) * rng.choice([1e-3, 1e-1, 1.0])
        w *= min(1.0, problem.radius / np.linalg.norm(w))
        mix = rng.dirichlet(np.ones(12)) * rng.uniform() + found.weights * rng.uniform()
        a = mix / mix.sum()
        if a.max() <= limit:
            assert objective_value(problem, w, a) >= found.value - 1e-12
        assert objective_value(
            problem, w, projected_weights(problem, losses(problem, w) + problem.prices)
        ) >= (found.value - 1e-12)
    assert objective_value(problem, found.coefficients, found.weights) == pytest.approx(
        found.value, abs=1e-14
    )


@each
@pytest.mark.parametrize("data", ["breast cancer", "synthetic"])
def test_both_solvers_reach_the_same_objective_where_the_problem_is_convex(name, data):
    X, y = cancer() if data == "breast cancer" else synthetic()
    problem = convex_problem(name, X, y, l2=8.0)
    start = np.random.default_rng(4).standard_normal(X.shape[1])
    fast, slow = ReducedSolver().solve(problem, start), PaperDescent().solve(problem, start)
    assert fast.value == pytest.approx(slow.value, abs=1e-8)
    np.testing.assert_allclose(fast.weights, slow.weights, atol=1e-7)
    np.testing.assert_allclose(fast.coefficients, slow.coefficients, atol=1e-6)
    for found in (fast, slow):
        assert found.weights.sum() == pytest.approx(1.0)
        assert found.weights.min() >= 0.0
        assert found.weights.max() <= problem.layout[0]
        assert np.linalg.norm(found.coefficients) <= problem.radius * (1 + 1e-12)


@each
def test_the_descent_converges_at_least_as_fast_as_the_theorem_says(name):
    # Theorem `convexify`, with its constants: over the whole set the Hessian lies between those of
    # [[l2, -x], [-x, 2 mu]] and K, so that the gap falls by 1 - c/K or more in every step.
    X, y = cancer(150)
    problem = convex_problem(name, X, y, l2=6.0)
    least = ReducedSolver().solve(problem, np.zeros(X.shape[1])).value
    trace = np.array(PaperDescent().solve(problem, np.ones(X.shape[1])).trace)
    spectral = np.linalg.norm(X, 2)
    strength = np.linalg.eigvalsh([[problem.l2, -spectral], [-spectral, 2 * problem.concentration]])[0]
    factor = 1 - strength * min(1.0, 1 / lipschitz(problem))
    gaps = trace - least
    gaps = gaps[: np.flatnonzero(gaps > 1e-11)[-1] + 1]
    assert strength > 0
    assert len(gaps) > 20
    assert (gaps[1:] <= factor * gaps[:-1] + 1e-14).all()
    # A straight line in the logarithm: the second half falls as the first does, within a factor of 3.
    middle = len(gaps) // 2
    first, second = np.log(gaps[0] / gaps[middle]), np.log(gaps[middle] / gaps[-1])
    assert second > first / 3


@pytest.mark.parametrize("l2", [0.01, 1.0, 30.0])
def test_the_bound_of_the_hessian_holds(l2):
    X, y = synthetic(20, 3)
    problem = convex_problem("capped", X, y, l2=l2)
    rng = np.random.default_rng(0)
    bound = lipschitz(problem)
    for _ in range(50):
        w, a = rng.standard_normal(3) * 3, rng.dirichlet(np.ones(20))
        s = 1 / (1 + np.exp(problem.signed_rows @ w))
        top = problem.l2 * np.eye(3) + problem.signed_rows.T @ (
            (np.minimum(a, problem.layout[0]) * s * (1 - s))[:, None] * problem.signed_rows
        )
        cross = -(s[:, None] * problem.signed_rows).T
        full = np.block([[top, cross], [cross.T, 2 * problem.concentration * np.eye(20)]])
        assert np.linalg.norm(full, 2) <= bound


def test_starting_points_agree_where_the_problem_is_convex():
    X, y = cancer(120)
    problem = convex_problem("capped", X, y, l2=0.5)
    rng = np.random.default_rng(0)
    found = [ReducedSolver().solve(problem, 5 * rng.standard_normal(30)) for _ in range(5)]
    for other in found[1:]:
        assert other.value == pytest.approx(found[0].value, abs=1e-13)
        np.testing.assert_allclose(other.coefficients, found[0].coefficients, atol=1e-9)


def test_the_spectral_condition_suffices_where_the_papers_does_not_hold():
    # Rows all at right angles to most others: x^2 is far below m.
    rng = np.random.default_rng(0)
    X, y = np.tile(np.eye(10), (6, 1)), np.where(rng.random(60) < 0.5, 1.0, -1.0)
    spectral = np.linalg.norm(X, 2) ** 2
    assert spectral == pytest.approx(6.0)
    problem = inner_problem(X, y, concentration=1.05 * spectral / 2, l2=1.0, rng=rng)
    function = Reduced(problem)
    for _ in range(50):
        matrix = function.hessian(function.at(3 * rng.standard_normal(10)))
        assert np.linalg.eigvalsh(matrix)[0] > 0


def test_without_convexity_starting_points_may_disagree():
    X, y = np.ones((11, 1)), np.where(np.arange(11) % 2 == 0, 1.0, -1.0)
    problem = inner_problem(X, y, concentration=0.3, l2=0.2, rng=np.random.default_rng(0), price=0.001)
    values = {round(ReducedSolver().solve(problem, np.array([w])).value, 6) for w in (-3.0, 3.0)}
    assert len(values) == 2


def test_projecting_onto_the_sum_alone_leaves_the_constraint_set():
    # What the paper's pseudo-code prints: weights fall below 0 as soon as prices differ enough.
    X, y = synthetic(10, 2)
    problem = inner_problem(X, y, concentration=0.5, l2=1.0, rng=np.random.default_rng(0), price=1.0)
    a, w = np.full(10, 0.1), np.zeros(2)
    for _ in range(500):
        a = a - 0.5 * (losses(problem, w) + problem.prices + a)
        a += (1.0 - a.sum()) / 10
    assert a.min() < -0.1
    assert PaperDescent().solve(problem, w).weights.min() >= 0.0


def test_given_weights_train_to_the_certified_minimiser():
    X, y = cancer(100)
    rng = np.random.default_rng(0)
    problem = inner_problem(X, y, concentration=0.0, l2=0.05, rng=rng, pull=0.5, price=0.0)
    weights = rng.dirichlet(np.ones(100))
    found = minimise_in_ball(FixedWeights(problem, weights), np.zeros(30), np.inf, 1e-12, 100)
    exact = minimise(
        Rows(X, (y > 0.0).astype(float), weights, constant=False),
        0.05,
        problem.pull,
        np.zeros(30),
        1.0,
        1e-14,
    )
    np.testing.assert_allclose(found.w, exact.high, atol=1e-10)


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_the_model_in_the_ball_is_minimised_exactly(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    values, target = 10.0 ** rng.uniform(-3, 3, n), rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 2)
    radius = np.linalg.norm(target / values) * rng.uniform(1e-3, 0.999)
    u = on_sphere(values, target, radius)
    assert np.linalg.norm(u) == pytest.approx(radius, rel=1e-10)
    multiplier = (target - values * u) @ u / radius**2
    assert multiplier >= 0.0
    np.testing.assert_allclose((values + multiplier) * u, target, rtol=1e-8)


def test_a_bound_on_the_coefficients_agrees_with_a_general_solver():
    X, y = synthetic(15, 2)
    problem = convex_problem("ball", X, y, l2=1.0)
    function = Reduced(problem)
    found = ReducedSolver().solve(problem, np.zeros(2))
    assert np.linalg.norm(found.coefficients) == pytest.approx(problem.radius)
    other = minimize(
        lambda w: function.at(w).value,
        np.zeros(2),
        jac=lambda w: function.at(w).gradient,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: problem.radius**2 - w @ w},
        options={"ftol": 1e-14},
    )
    assert found.value == pytest.approx(other.fun, abs=1e-9)


def test_the_greedy_choice_is_the_best_corner():
    X, y = synthetic(7, 2)
    problem = inner_problem(X, y, concentration=0.0, l2=0.2, rng=np.random.default_rng(0), cap=7 / 3)
    limit, capped, rest = problem.layout
    assert (capped, rest) == (3, 0.0)
    corners = []
    for chosen in itertools.combinations(range(7), 3):
        weights = np.zeros(7)
        weights[list(chosen)] = limit
        corners.append(minimise_in_ball(FixedWeights(problem, weights), np.zeros(2), np.inf, 1e-11, 100))
    best = min(corner.point.value for corner in corners)
    rng = np.random.default_rng(1)
    found = [GreedySolver().solve(problem, 4 * rng.standard_normal(2)) for _ in range(20)]
    assert min(one.value for one in found) == pytest.approx(best, abs=1e-12)
    for one in found:
        # Best in either block: no other corner is cheaper at these coefficients, and the objective fell.
        scores = losses(problem, one.coefficients) + problem.prices
        assert one.weights @ scores == pytest.approx(cheapest_weights(problem, scores) @ scores)
        assert (np.diff(one.trace) <= 1e-15).all()


def test_cheapest_weights_fill_caps_and_leave_the_rest_to_the_next():
    X, y = synthetic(4, 2)
    problem = inner_problem(X, y, concentration=0.0, l2=0.2, rng=np.random.default_rng(0), cap=1.6)
    weights = cheapest_weights(problem, np.array([3.0, 1.0, 2.0, 9.0]))
    np.testing.assert_allclose(weights, [0.2, 0.4, 0.4, 0.0])


def test_solvers_refuse_what_is_not_theirs_and_say_when_they_fail():
    X, y = synthetic(10, 2)
    rng = np.random.default_rng(0)
    sharp = inner_problem(X, y, concentration=0.0, l2=0.2, rng=rng)
    smooth = inner_problem(X, y, concentration=10.0, l2=0.2, rng=rng)
    with pytest.raises(InvalidInput, match="GreedySolver"):
        ReducedSolver().solve(sharp, np.zeros(2))
    with pytest.raises(InvalidInput, match="ReducedSolver"):
        GreedySolver().solve(smooth, np.zeros(2))
    with pytest.raises(NotConverged, match="3 steps"):
        PaperDescent(max_iterations=3).solve(smooth, np.ones(2))
    with pytest.raises(NotConverged):
        ReducedSolver(max_iterations=1).solve(smooth, np.ones(2))
    for bad in ({"tolerance": 0.0}, {"max_iterations": 0}, {"max_iterations": 2.5}):
        for solver in (ReducedSolver, PaperDescent, GreedySolver):
            with pytest.raises(InvalidInput, match=next(iter(bad))):
                solver(**bad)
    for step in (0.0, 1.5, np.nan):
        with pytest.raises(InvalidInput, match="step_size"):
            PaperDescent(step_size=step)


@pytest.mark.parametrize("concentration", [1e-8, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("pull", [0.0, 1e-6, 1e4])
def test_extreme_settings_still_converge_to_stationary_points(concentration, pull):
    X, y = cancer(60)
    rng = np.random.default_rng(0)
    problem = inner_problem(X, y, concentration=concentration, l2=0.01, rng=rng, pull=pull, cap=20.0)
    found = ReducedSolver().solve(problem, np.zeros(30))
    step = 1e-5 * rng.standard_normal(30)
    value = objective_value(problem, found.coefficients, found.weights)
    moved = Reduced(problem).at(found.coefficients + step).value
    assert moved >= value - 1e-9 * abs(value)
