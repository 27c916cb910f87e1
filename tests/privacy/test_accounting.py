"""What a weight costs: formula (*) against 50-digit arithmetic, its limits and its order."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmarket.errors import InvalidInput
from dpmarket.privacy import paper_privacy_loss, privacy_loss

weights = st.floats(1e-12, 1.0)
rates = st.floats(1e-3, 1e6)
penalties = st.floats(1e-8, 1e3)
bounds = st.floats(0.1, 10.0)
row_counts = st.integers(1, 20)


def loss(a, eta, l2, bound=1.0, rows=1):
    return float(privacy_loss([a], eta, l2, bound, rows)[0])


def exact_loss(a, eta, l2, bound=1.0, rows=1):
    """Formula (*) maximised by ternary search in 50 digits: the bracket is concave in s."""
    with mp.workdps(50):
        a, eta, l2, bound = (mp.mpf(v) for v in (a, eta, l2, bound))
        half = a * eta * bound / 2
        k = a * bound**2 / (rows * l2)

        def bracket(s):
            return half * s + rows * mp.log(1 + k * s * (1 - s))

        low, high = mp.mpf(0), mp.mpf(1)
        while high - low > mp.mpf(10) ** -30:
            third = (high - low) / 3
            if bracket(low + third) < bracket(high - third):
                low += third
            else:
                high -= third
        return half + max(bracket((low + high) / 2), bracket(mp.mpf(1)))


EXTREMES = [*itertools.product([1e-12, 1.0], [1e-3, 1e6], [1e-8, 1e3]), (1e-6, 1e3, 1e-3), (0.03, 1.0, 0.7)]


@pytest.mark.parametrize(("a", "eta", "l2"), EXTREMES)
def test_loss_is_never_below_the_formula_and_at_most_1e_13_above(a, eta, l2):
    ratio = mp.mpf(loss(a, eta, l2)) / exact_loss(a, eta, l2)
    assert 1 <= ratio <= 1 + mp.mpf("1e-13" if loss(a, eta, l2) < 1e3 else "1e-11")


@given(st.floats(-12, 0), st.floats(-3, 6), st.floats(-8, 3), st.floats(-1, 1), st.integers(1, 8))
@settings(max_examples=60)
def test_loss_is_rounded_up_for_all_row_bounds_and_row_counts(a, eta, l2, bound, rows):
    arguments = (10.0**a, 10.0**eta, 10.0**l2, 10.0**bound, rows)
    ratio = mp.mpf(loss(*arguments)) / exact_loss(*arguments)
    assert 1 <= ratio <= 1 + mp.mpf("1e-13")


@pytest.mark.parametrize("distance", [1e-15, 1e-12, 1e-8, 1e-4])
def test_loss_is_rounded_up_where_the_slack_is_about_to_vanish(distance):
    eta, l2 = 40.0, 0.05 * (1 - distance)
    ratio = mp.mpf(loss(0.3, eta, l2)) / exact_loss(0.3, eta, l2)
    assert 1 <= ratio <= 1 + mp.mpf("1e-13")


@given(weights, rates, bounds, row_counts)
def test_no_slack_when_noise_rate_times_l2_is_at_least_twice_the_row_bound(a, eta, bound, rows):
    l2 = 2.0 * bound / eta
    while eta * l2 < 2.0 * bound:
        l2 = np.nextafter(l2, np.inf)
    for penalty in (l2, 3.0 * l2):
        assert loss(a, eta, penalty, bound, rows) == pytest.approx(a * eta * bound, rel=1e-14)


@given(weights, rates, bounds, row_counts, st.floats(1e-6, 0.999))
def test_slack_whenever_noise_rate_times_l2_is_below_twice_the_row_bound(a, eta, bound, rows, beta):
    assert loss(a, eta, 2.0 * bound * beta / eta, bound, rows) > a * eta * bound * (1 + 1e-14)


def test_hand_worked_loss_without_noise_term():
    # eta -> 0 leaves max log(1 + a s (1 - s) / l2) = log(1 + a / (4 l2)).
    assert loss(0.4, 1e-12, 0.1) == pytest.approx(np.log(2.0), abs=1e-10)


@given(weights, rates, penalties, bounds, row_counts, st.floats(1.0, 100.0))
def test_loss_rises_with_the_weight_but_never_faster_than_in_proportion(a, eta, l2, bound, rows, factor):
    small, large = loss(a, eta, l2, bound, rows), loss(a * factor, eta, l2, bound, rows)
    assert small * (1 - 1e-13) <= large <= factor * small * (1 + 1e-13)


@given(weights, rates, penalties, bounds, row_counts, st.floats(1.0, 100.0))
def test_loss_rises_with_the_noise_rate(a, eta, l2, bound, rows, factor):
    assert loss(a, eta * factor, l2, bound, rows) >= loss(a, eta, l2, bound, rows) * (1 - 1e-13)


@given(weights, rates, penalties, bounds, row_counts, st.floats(1.0, 100.0))
def test_loss_falls_with_the_penalty(a, eta, l2, bound, rows, factor):
    assert loss(a, eta, l2 * factor, bound, rows) <= loss(a, eta, l2, bound, rows) * (1 + 1e-13)


@given(st.lists(weights, min_size=2, max_size=5), rates, penalties)
def test_joining_two_people_costs_at_most_what_they_cost_apart(parts, eta, l2):
    assert loss(sum(parts), eta, l2) <= sum(loss(a, eta, l2) for a in parts) * (1 + 1e-13)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=6), rates, penalties, st.integers(0, 4))
def test_any_split_over_at_most_r_rows_costs_at_most_the_formula_for_r(shares, eta, l2, more):
    apart = sum(loss(a, eta, l2) for a in shares)
    assert apart <= loss(sum(shares), eta, l2, rows=len(shares) + more) * (1 + 1e-13)


@given(weights, rates, penalties, bounds)
def test_rescaling_the_rows_is_the_same_as_rescaling_noise_rate_and_penalty(a, eta, l2, bound):
    assert loss(a, eta, l2, bound) == pytest.approx(loss(a, eta * bound, l2 / bound**2), rel=1e-12)


@given(weights, rates, penalties)
def test_the_paper_never_charges_less(a, eta, l2):
    assert paper_privacy_loss([a], eta, l2)[0] >= loss(a, eta, l2) * (1 - 1e-13)
    assert paper_privacy_loss([a], eta, l2, weight_cap=a)[0] >= loss(a, eta, l2) * (1 - 1e-13)


def test_the_paper_charges_even_those_without_weight():
    assert paper_privacy_loss([0.0, 1.0], 2.0, 1.0)[0] == pytest.approx(2 * np.log(2))


def test_no_weight_no_loss_and_the_smallest_weight_has_one():
    losses = privacy_loss([0.0, 5e-324, 1.0], 0.1, 1e-3)
    assert losses[0] == 0.0
    assert losses[1] > 0.0
    assert not losses.flags.writeable


BAD_VECTORS = {
    "NaN": [0.1, np.nan],
    "negative": [0.1, -0.1],
    "infinite": [0.1, np.inf],
    "text": ["a", "b"],
    "empty": [],
    "all zero": [0.0, 0.0],
    "two axes": [[0.1], [0.2]],
    "none": None,
}


@pytest.mark.parametrize("values", BAD_VECTORS.values(), ids=BAD_VECTORS)
@pytest.mark.parametrize("function", [privacy_loss, paper_privacy_loss])
def test_weights_that_are_no_weights_are_refused(function, values):
    with pytest.raises(InvalidInput, match="loss"):
        function(values, 1.0, 1.0)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", None])
@pytest.mark.parametrize("place", ["noise_rate", "l2", "row_bound"])
def test_scalars_that_make_no_sense_are_refused(place, value):
    arguments = {"noise_rate": 1.0, "l2": 1.0, "row_bound": 1.0, place: value}
    with pytest.raises(InvalidInput, match=place):
        privacy_loss([0.5, 0.5], **arguments)


@pytest.mark.parametrize("value", [0, -1, 1.5, np.nan, "1", None, True])
def test_row_counts_that_are_no_counts_are_refused(value):
    with pytest.raises(InvalidInput, match="rows_per_person"):
        privacy_loss([0.5, 0.5], 1.0, 1.0, rows_per_person=value)


@pytest.mark.parametrize(
    ("eta", "l2", "bound"), [(1e300, 1.0, 1e99), (1e-300, 1e-300, 1.0), (1e200, 1.0, 1.0)]
)
def test_products_beyond_the_range_of_floats_are_refused(eta, l2, bound):
    with pytest.raises(InvalidInput, match="noise_rate"):
        privacy_loss([1.0], eta, l2, bound)


def test_a_weight_above_the_papers_cap_is_refused():
    with pytest.raises(InvalidInput, match="weight_cap"):
        paper_privacy_loss([0.2, 0.8], 1.0, 1.0, weight_cap=1.5)
