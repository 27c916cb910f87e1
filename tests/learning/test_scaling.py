"""Public scaling: rows of norm at most 1 as a fact, and nothing read from the data."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from dpmarket.errors import InvalidInput
from dpmarket.learning import PublicScaler
from dpmarket.learning.rows import Rows, row_scales
from dpmarket.privacy.noise_norm import NoiseNorm


def exact_square(row):
    return sum(Fraction(value) ** 2 for value in row)


def as_rows(x, weights=None):
    return Rows(x, np.ones(x.shape[0]), np.ones(x.shape[0]) if weights is None else weights)


@given(arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6)), st.floats(0.01, 10.0))
def test_scaled_rows_have_norm_at_most_one_exactly(x, radius):
    for scaled in (
        PublicScaler(-1e5, 1e5, radius).fit_transform(x),
        PublicScaler([-1.0, -2.0, 0.0], [5.0, 7.0, 1e-3]).fit_transform(x),
        PublicScaler([-1.0, -2.0, 0.0], [5.0, 7.0, 1e-3], None).fit_transform(x),
    ):
        assert all(exact_square(row) <= 1 for row in scaled.tolist())
        assert row_scales(as_rows(scaled)).size == 0


@given(arrays(np.float64, (5, 4), elements=st.floats(-1e140, 1e140)))
def test_clipped_rows_have_norm_at_most_one_exactly(x):
    scales = row_scales(as_rows(x), clip=True)
    for row, scale in zip(x.tolist(), (scales if scales.size else np.ones(5)).tolist(), strict=True):
        square = exact_square(row)
        assert square * Fraction(scale) ** 2 <= 1
        assert square * Fraction(scale) ** 2 >= min(square, 1 - Fraction(1, 10**12))


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix], ids=["dense", "csr"])
def test_rows_at_the_edge_are_shortened_below_it_and_only_once(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2_000, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x = np.concatenate([x, [[1.0, 2.0**-60, 0, 0, 0], [np.nextafter(1.0, 2.0), 0, 0, 0, 0]]])
    for clip in (False, True):
        found = row_scales(as_rows(kind(x)), clip=clip)
        assert all(
            exact_square(row) * Fraction(scale) ** 2 <= 1
            for row, scale in zip(x.tolist(), found.tolist(), strict=True)
        )
        assert row_scales(as_rows(kind(x * found[:, None])), clip=clip).size == 0


def test_by_how_much_a_row_is_clipped_follows_from_that_row_alone():
    """Products of matrices round the rows at the end of a block differently."""
    rng = np.random.default_rng(0)
    for n in (17, 100, 9_001):
        x = rng.normal(size=(401, n))
        for norm in (None, NoiseNorm([k % 2 == 1 for k in range(n)], 0.9)):
            together = row_scales(as_rows(x), norm, clip=True)
            for first in (1, 2, 200, 400):
                assert (row_scales(as_rows(x[first:]), norm, clip=True) == together[first:]).all()


def test_long_rows_without_weight_do_not_matter():
    x = np.array([[5.0], [0.5], [7.0], [2.0]])
    weights = np.array([0.0, 0.5, 0.0, 0.5])
    with pytest.raises(InvalidInput, match="found 1 longer"):
        row_scales(as_rows(x, weights))
    row_scales(as_rows(x[:3], weights[:3]))
    scales = row_scales(as_rows(x, weights), clip=True)
    assert scales[:3].tolist() == [1.0, 1.0, 1.0]
    assert scales[3] == pytest.approx(0.5)


def test_numbers_too_large_to_measure_are_refused():
    with pytest.raises(InvalidInput, match="1e150"):
        row_scales(as_rows(np.array([[1e200, 0.0]])), clip=True)


def test_without_a_radius_no_row_is_shortened():
    scaled = PublicScaler(0.0, 1.0, None).fit_transform(np.ones((1, 4)))
    np.testing.assert_allclose(scaled, np.full((1, 4), 0.5), rtol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"low": 1.0, "high": 1.0}, {"low": 2.0, "high": 1.0}, {"low": np.nan}, {"high": np.inf},
        {"low": "a"}, {"low": [0.0, 0.0]}, {"low": [[0.0]]}, {"radius": 0.0}, {"radius": np.nan},
        {"low": -1e308, "high": 1e308}, {"low": 0.0, "high": 5e-324},
    ],
    ids=str,
)  # fmt: skip
def test_senseless_bounds_are_refused(settings):
    with pytest.raises(InvalidInput):
        PublicScaler(**settings).fit(np.zeros((2, 3)))
