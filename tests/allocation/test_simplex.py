"""The projection onto the capped simplex is the nearest point, and exact where floats set traps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.allocation import project_to_capped_simplex
from dpmarket.errors import Infeasible, InvalidInput


def by_bisection(point, cap):
    """Find the shift by bisection: slow, and nothing in common with a walk over sorted values."""
    low, high = point.min() - 1.0, point.max()
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.clip(point - middle, 0.0, cap).sum() > 1.0:
            low = middle
        else:
            high = middle
    return np.clip(point - high, 0.0, cap)


@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 40),
    size=st.floats(-3.0, 1.0),
    slack=st.one_of(st.none(), st.floats(1.0, 4.0)),
    digits=st.sampled_from([1, 20]),
)
def test_projection_agrees_with_bisection(seed, m, size, slack, digits):
    point = np.round(np.random.default_rng(seed).normal(size=m) * 10.0**size, digits)  # one digit: ties
    cap = 1.0 if slack is None else max(1.0 / m, slack / m)
    weights = project_to_capped_simplex(point, cap)
    np.testing.assert_allclose(weights, by_bisection(point, cap), atol=2e-14)
    assert weights.sum() == pytest.approx(1.0, abs=4e-16 * m)
    assert weights.min() >= 0.0
    assert weights.max() <= cap


@given(
    points=st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=12),
    slack=st.floats(1.0, 5.0),
    seed=st.integers(0, 10**6),
)
def test_no_feasible_point_makes_an_acute_angle(points, slack, seed):
    # The variational inequality <point - p, b - p> <= 0 for all feasible b characterises the projection.
    point = np.array(points)
    cap = slack / point.size
    p = project_to_capped_simplex(point, cap)
    b = project_to_capped_simplex(np.random.default_rng(seed).normal(size=point.size), cap)
    assert (point - p) @ (b - p) <= 1e-13


@pytest.mark.parametrize("m", [1, 2, 3, 49, 98, 103, 107, 1000])
def test_the_smallest_cap_leaves_only_equal_weights(m):
    weights = project_to_capped_simplex(np.linspace(-3.0, 7.0, m), 1.0 / m)
    assert (weights == weights[0]).all()
    assert weights[0] <= 1.0 / m
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)


def test_points_far_from_the_origin_lose_nothing():
    near = np.array([0.0, 0.125, 0.25, -0.5])
    exact = project_to_capped_simplex(near, 0.5)
    np.testing.assert_array_equal(project_to_capped_simplex(near + 2.0**40, 0.5), exact)
    np.testing.assert_array_equal(project_to_capped_simplex(near - 2.0**40, 0.5), exact)


def test_points_of_the_set_are_left_alone_and_order_is_kept():
    rng = np.random.default_rng(5)
    inside = project_to_capped_simplex(rng.normal(size=50), 0.1)
    np.testing.assert_allclose(project_to_capped_simplex(inside, 0.1), inside, atol=1e-16)
    point = rng.normal(size=50)
    order = rng.permutation(50)
    np.testing.assert_array_equal(
        project_to_capped_simplex(point[order], 0.1), project_to_capped_simplex(point, 0.1)[order]
    )


def test_the_callers_array_is_not_changed_and_may_be_read_only():
    point = np.array([0.3, 0.9, 0.1])
    point.flags.writeable = False
    project_to_capped_simplex(point)
    np.testing.assert_array_equal(point, [0.3, 0.9, 0.1])


def test_too_small_a_cap_and_bad_numbers_are_refused():
    with pytest.raises(Infeasible, match="cap >= 1/4"):
        project_to_capped_simplex([0.1, 0.2, 0.3, 0.4], 0.24)
    for bad in ([], [np.nan], [np.inf, 0.0], [[1.0]], ["a"]):
        with pytest.raises(InvalidInput, match="point"):
            project_to_capped_simplex(bad)
    with pytest.raises(InvalidInput, match="cap"):
        project_to_capped_simplex([1.0], 0.0)
