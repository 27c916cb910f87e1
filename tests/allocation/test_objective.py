"""The buyer's objective is a checked value, and its bounds round to the safe side."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.allocation import BuyerObjective, max_epsilon
from dpmarket.errors import InvalidInput

amounts = st.floats(1e-6, 1e6)


def test_values_are_kept_as_floats():
    objective = BuyerObjective(np.float32(1), 2, np.int64(3), weight_cap=4, max_mean_epsilon=5)
    assert objective == BuyerObjective(1.0, 2.0, 3.0, 4.0, 5.0)
    assert all(type(value) is float for value in objective.to_dict().values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concentration", -1e-9),
        ("concentration", math.inf),
        ("noise", -1.0),
        ("noise", math.nan),
        ("payment_weight", -0.5),
        ("payment_weight", "1"),
        ("weight_cap", 0.999),
        ("weight_cap", math.inf),
        ("max_mean_epsilon", 0.0),
        ("max_mean_epsilon", True),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name, value):
    values = {"concentration": 1.0, "noise": 1.0, "payment_weight": 1.0, name: value}
    with pytest.raises(InvalidInput, match=name):
        BuyerObjective(**values)


def test_zero_prices_are_valid_values():
    assert BuyerObjective(0.0, 0.0, 0.0).noise == 0.0


def test_objective_cannot_be_changed():
    objective = BuyerObjective(1.0, 1.0, 1.0)
    with pytest.raises(AttributeError):
        objective.noise = 2.0


def test_nobody_is_bounded_unless_both_bounds_are_given():
    assert max_epsilon(BuyerObjective(1, 1, 1)) == math.inf
    assert max_epsilon(BuyerObjective(1, 1, 1, weight_cap=2)) == math.inf
    assert max_epsilon(BuyerObjective(1, 1, 1, max_mean_epsilon=2)) == math.inf
    assert max_epsilon(BuyerObjective(1, 1, 1, weight_cap=3, max_mean_epsilon=2)) == 6.0


@given(weight_cap=st.floats(1.0, 1e6), mean=amounts)
def test_max_epsilon_never_exceeds_the_exact_product(weight_cap, mean):
    bound = max_epsilon(BuyerObjective(1, 1, 1, weight_cap, mean))
    exact = Fraction(weight_cap) * Fraction(mean)
    assert Fraction(bound) <= exact < Fraction(math.nextafter(bound, math.inf))


@given(weight_cap=st.floats(1.0, 1e6), wanted=amounts)
def test_wanted_bound_is_met_exactly_and_as_tightly_as_floats_allow(weight_cap, wanted):
    objective = BuyerObjective.with_max_epsilon(1, 1, 1, weight_cap=weight_cap, max_epsilon=wanted)
    assert max_epsilon(objective) <= wanted
    next_mean = math.nextafter(objective.max_mean_epsilon, math.inf)
    assert Fraction(next_mean) * Fraction(weight_cap) > Fraction(wanted)


@given(
    concentration=amounts,
    noise=amounts,
    payment_weight=amounts,
    weight_cap=st.none() | st.floats(1.0, 1e6),
    max_mean_epsilon=st.none() | amounts,
)
def test_objective_survives_the_round_trip_through_a_dictionary(**values):
    objective = BuyerObjective(**values)
    assert BuyerObjective.from_dict(objective.to_dict()) == objective


def test_dictionaries_with_unknown_or_missing_names_are_refused():
    with pytest.raises(InvalidInput, match="unknown: weightcap"):
        BuyerObjective.from_dict({"concentration": 1, "noise": 1, "payment_weight": 1, "weightcap": 2})
    with pytest.raises(InvalidInput, match="missing: noise, payment_weight"):
        BuyerObjective.from_dict({"concentration": 1})
