"""The grid of a release: its cost bounds exact probabilities and is at most what was set aside."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.audit.density import Group, log_density
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy import NoiseNorm, Release, logistic_loss
from dpmarket.privacy.grid import round_to_grid

SIZES = st.floats(-4, 4).map(lambda e: 10.0**e)


def release_of(n, l2):
    return Release(logistic_loss(), NoiseNorm.euclidean(n), l2)


@given(
    reserve=st.floats(-9, 1).map(lambda e: 10.0**e), n=st.integers(1, 400), rate=SIZES, l2=SIZES,
    total=st.floats(0.1, 1.0),
)  # fmt: skip
def test_a_plan_costs_at_most_what_was_set_aside_and_its_grid_is_a_power_of_two(reserve, n, rate, l2, total):
    release = release_of(n, l2)
    plan = release.grid_plan(reserve, rate, total)
    with mpmath.workprec(200):
        g, rho = mpmath.mpf(plan.grid), (mpmath.mpf(plan.gradient_bound) + plan.noise_accuracy) / l2
        slope = mpmath.mpf(rate) / 2 * (l2 + mpmath.mpf(total) / 4) + min(
            mpmath.mpf(n), mpmath.mpf(total) / (6 * mpmath.sqrt(3) * l2)
        )
        cost = n * mpmath.log((g + 2 * rho) / (g - 2 * rho)) + 2 * rho * mpmath.sqrt(n) * slope
        assert cost <= plan.numerical_epsilon <= reserve
        assert cost <= release.grid_cost(plan, rate, total)
    assert release.grid_cost(plan, rate, total) == pytest.approx(plan.numerical_epsilon, rel=1e-6)
    assert math.frexp(plan.grid)[0] == 0.5
    # Most of the reserve is used: a grid or accuracy that is needlessly fine would cost time for nothing.
    assert plan.numerical_epsilon > 0.5 * min(reserve, 0.5)


def test_rounding_adds_less_than_one_per_cent_to_the_mean_square_of_the_noise():
    for n in (1, 2, 20, 200):
        plan = release_of(n, 0.03).grid_plan(1e-6, 500.0)
        smallest = 2.0 * math.sqrt(n + 1.0) / (500.0 * (0.03 + 1.0 / (4.0 * n)))
        assert plan.grid**2 / 12.0 < 0.01 * smallest**2
        assert plan.grid > smallest / 8.0


def density(w, rows, weights, rate, l2):
    return log_density(release_of(1, l2), rate, w[:, None, None], Group(rows, np.ones(len(rows)), weights))


def cell_probability(centre, half_width, rows, weights, rate, l2):
    w = np.linspace(centre - half_width, centre + half_width, 2_001)
    return np.trapezoid(np.exp(density(w, rows, weights, rate, l2)), w)


def test_the_cost_bounds_the_worst_release_of_one_coefficient():
    """The solver may be as wrong as the plan allows, always in the direction that tells most."""
    rate, l2, weights = 4.0, 0.2, np.array([0.3, 0.7])
    mine, other = np.array([[1.0], [0.4]]), np.array([[-1.0], [0.4]])
    w = np.linspace(-200.0, 200.0, 400_001)
    densities = [density(w, rows, weights, rate, l2) for rows in (mine, other)]
    exact = float((densities[0] - densities[1]).max())
    release = release_of(1, l2)
    assert exact <= release.epsilons(weights, rate)[0]
    worst = 0.0
    for reserve in (0.05, 0.8):
        plan = release.grid_plan(reserve, rate)
        rho = (plan.gradient_bound + plan.noise_accuracy) / l2
        for k in range(-60, 61):
            above = cell_probability(k * plan.grid, plan.grid / 2 + rho, mine, weights, rate, l2)
            below = cell_probability(k * plan.grid, plan.grid / 2 - rho, other, weights, rate, l2)
            ratio = math.log(above / below)
            assert ratio <= exact + plan.numerical_epsilon
            worst = max(worst, (ratio - exact) / plan.numerical_epsilon)
    assert worst > 0.5  # most of what is set aside is needed


def test_rounding_is_exact_even_where_only_the_low_part_decides():
    high = np.array([0.25, 0.25, -0.25, 1e17, 0.0])
    low = np.array([1e-40, -1e-40, -1e-40, 4.0, -0.3])
    assert round_to_grid(high, low, 0.5).tolist() == [1, 0, -1, 2 * 10**17 + 8, -1]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_senseless_plans_are_refused(place, value):
    arguments = [1e-6, 100.0, 1.0]
    arguments[place] = value
    with pytest.raises(InvalidInput):
        release_of(3, 0.1).grid_plan(*arguments)


def test_a_plan_beyond_floats_is_infeasible():
    with pytest.raises(Infeasible):
        release_of(3, 1e-45).grid_plan(1e-6, 1e-250)
    with pytest.raises(Infeasible, match="larger numerical_epsilon"):
        release_of(3, 1.0).grid_plan(1e-300, 1.0)
