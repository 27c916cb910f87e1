"""Sums that keep what rounding takes away, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from dpmarket.numerics import add, fast_two_sum, two_sum

PAIRS = [(1.0, 2.0**-60), (2.0**-60, 1.0), (-1.0, 1.0 + 2.0**-52), (1e300, -1e284), (0.1, 0.2), (0.0, 5e-324)]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_a_sum_and_what_its_rounding_lost_are_exactly_the_sum(a, b):
    total, lost = two_sum(a, b)
    assert total == a + b
    assert Fraction(total) + Fraction(lost) == Fraction(a) + Fraction(b)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_fast_sum_is_the_same_where_the_larger_comes_first(a, b):
    larger, smaller = sorted((a, b), key=abs, reverse=True)
    assert fast_two_sum(larger, smaller) == two_sum(larger, smaller)


def test_a_running_sum_keeps_what_floats_cancel():
    high = low = 0.0
    for term in (1e16, 1.0, 1.0, 1.0, -1e16):
        high, low = add(high, low, term)
    assert high + low == 3.0
    assert sum((1e16, 1.0, 1.0, 1.0, -1e16)) != 3.0


def test_a_long_running_sum_is_right_to_the_last_bit():
    terms = np.random.default_rng(0).normal(size=5000) * 10.0 ** np.random.default_rng(1).uniform(
        -12, 12, 5000
    )
    high = low = 0.0
    for term in terms.tolist():
        high, low = add(high, low, term)
    assert high + low == float(sum(map(Fraction, terms.tolist())))
