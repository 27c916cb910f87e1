"""One set of checks, one wording."""

import numpy as np
import pytest

from dpmarket import InvalidInput, checks


@pytest.mark.parametrize(
    ("check", "limits", "kind", "good", "bad"),
    [
        (checks.real, (), float, [1, -2.5, np.inf], [np.nan, "1", None, True, 1j, [1.0], np.ones(1)]),
        (checks.finite, (), float, [0, -1e300], [np.inf, -np.inf, np.nan]),
        (checks.positive, (), float, [1e-300, 5], [0, -0.5, np.inf, np.nan, "x"]),
        (checks.non_negative, (), float, [0, 0.0, 3], [-1e-300, np.inf]),
        (checks.at_least, (1.0,), float, [1, 2.5], [0.5, np.nan]),
        (checks.strictly_between, (0, 1), float, [0.5], [0.0, 1.0, np.nan]),
        (checks.whole, (), int, [np.int64(3), 0], [3.0, "3", True, -1, None, [3]]),
    ],
)
def test_checks_of_numbers_accept_the_good_and_refuse_the_bad_by_name(check, limits, kind, good, bad):
    for value in good:
        result = check("price", value, *limits)
        assert type(result) is kind
        assert result == value
    for value in bad:
        with pytest.raises(InvalidInput, match=r"^expected price to be .*got"):
            check("price", value, *limits)


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
        (checks.non_negative_vector, [-4242.5, 2, -np.inf], r"2 of 3 .*1 infinite, 1 negative.* position 0"),
        (checks.probabilities, [0.5, 3.25], r"1 of 2 .*\(1 too large\).* position 1"),
    ],
)
def test_a_message_counts_the_offenders_says_where_the_first_is_and_shows_no_element(check, values, words):
    with pytest.raises(InvalidInput, match=words) as refusal:
        check("x", values)
    assert "4242" not in str(refusal.value)
