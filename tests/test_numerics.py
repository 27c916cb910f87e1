"""Sums that keep what rounding takes away, against exact fractions."""

from fractions import Fraction

import numpy as np

from dpmarket.numerics import exact_sum, two_sum

PAIRS = [(1.0, 2.0**-60), (2.0**-60, 1.0), (-1.0, 1.0 + 2.0**-52), (1e300, -1e284), (0.1, 0.2), (0.0, 5e-324)]


def test_a_sum_and_what_its_rounding_lost_are_exactly_the_sum():
    for a, b in PAIRS:
        total, lost = two_sum(a, b)
        assert total == a + b
        assert Fraction(total) + Fraction(lost) == Fraction(a) + Fraction(b)


def test_a_long_sum_is_rounded_once_in_every_order():
    rng = np.random.default_rng(0)
    terms = rng.normal(size=5000) * 10.0 ** rng.uniform(-12, 12, 5000)
    exact = float(sum(map(Fraction, terms.tolist())))
    assert exact_sum(terms) == exact_sum(terms[::-1]) == exact
