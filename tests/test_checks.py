"""One set of checks, one wording."""

import numpy as np
import pytest

from dpmarket import InvalidInput, checks


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks.real, [1, -2.5, np.inf, np.float32(1.0)], [np.nan, "1", None, True, 1j, [1.0], np.ones(1)]),
        (checks.finite, [0, -1e300], [np.inf, -np.inf, np.nan]),
        (checks.positive, [1e-300, 5], [0, -0.5, np.inf, np.nan, "x"]),
        (checks.non_negative, [0, 0.0, 3], [-1e-300, np.inf]),
    ],
)
def test_scalar_checks_accept_the_good_and_refuse_the_bad_by_name(check, good, bad):
    for value in good:
        result = check("price", value)
        assert type(result) is float
        assert result == value
    for value in bad:
        with pytest.raises(InvalidInput, match=r"^expected price to be .*got"):
            check("price", value)


def test_bounds_belong_to_at_least_and_not_to_strictly_between():
    assert checks.at_least("k", 1, 1.0) == 1.0
    with pytest.raises(InvalidInput, match=r"k to be finite and >= 1.0, got 0.5"):
        checks.at_least("k", 0.5, 1.0)
    assert checks.strictly_between("delta", 0.5, 0, 1) == 0.5
    for bad in (0.0, 1.0, np.nan):
        with pytest.raises(InvalidInput, match="delta"):
            checks.strictly_between("delta", bad, 0, 1)


def test_whole_numbers_are_ints_and_nothing_else():
    assert checks.whole("m", np.int64(3)) == 3
    for bad in (3.0, "3", True, -1, None, [3]):
        with pytest.raises(InvalidInput, match="m to be a whole number"):
            checks.whole("m", bad)


def test_vectors_are_float64_one_dimensional_and_not_empty():
    assert checks.vector("x", [1, 2]).dtype == np.float64
    for bad in ([], [[1.0]], 3.0, ["1"], [None], [True], np.array([1j])):
        with pytest.raises(InvalidInput, match="expected x to"):
            checks.vector("x", bad)


@pytest.mark.parametrize(
    ("check", "values", "words"),
    [
        (checks.vector, [0, np.nan, np.inf], r"1 of 3 that are not \(1 NaN\), the first at position 1"),
        (checks.finite_vector, [0, 1, np.nan, np.inf], r"2 of 4 .*\(1 NaN, 1 infinite\).* position 2"),
        (checks.non_negative_vector, [-1, 2, -np.inf], r"2 of 3 .*\(1 infinite, 1 negative\).* position 0"),
        (checks.probabilities, [0.5, 3.25], r"1 of 2 .*\(1 too large\).* position 1"),
    ],
)
def test_a_message_counts_the_offenders_and_says_where_the_first_is(check, values, words):
    with pytest.raises(InvalidInput, match=words):
        check("x", values)


def test_no_message_contains_an_element():
    with pytest.raises(InvalidInput) as refusal:
        checks.non_negative_vector("costs", [1.0, -4242.5])
    assert "4242" not in str(refusal.value)
