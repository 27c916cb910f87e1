"""The kernels against arithmetic with many digits: every stated error bound holds."""

import mpmath
import numpy as np
import pytest

from dpmarket.learning import exponentials, kernels, rounding

RNG = np.random.default_rng(8)
MARGINS = np.concatenate(
    [
        RNG.normal(size=300) * 5,
        RNG.uniform(-120, 120, 300),
        [0.0, 1e-300, 699.0, -699.0, 1e4, -1e4, 0.3465735903],
    ]
)


def mp_sigmoid(z):
    return 1 / (1 + mpmath.exp(z))


def test_sigmoids_are_within_their_bound():
    with mpmath.workprec(300):
        for z, s in zip(MARGINS.tolist(), map(exponentials.sigmoid, MARGINS.tolist()), strict=True):
            assert abs(mpmath.mpf(s) - mp_sigmoid(mpmath.mpf(z))) <= 8 * mpmath.mpf(2) ** -53


def test_accurate_sigmoids_are_within_their_bound_and_use_the_low_part():
    low = MARGINS * 2.0**-54 * RNG.uniform(-1, 1, MARGINS.size)
    pairs = [
        exponentials.accurate_sigmoid(*each) for each in zip(MARGINS.tolist(), low.tolist(), strict=True)
    ]
    high, rest = zip(*pairs, strict=True)
    with mpmath.workprec(300):
        for k in range(MARGINS.size):
            exact = mp_sigmoid(mpmath.mpf(float(MARGINS[k])) + float(low[k]))
            assert abs(mpmath.mpf(float(high[k])) + float(rest[k]) - exact) <= mpmath.mpf(2) ** -88


def problem(rows, n, constant, scaled, size=1.0):
    x = RNG.normal(size=(rows, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * RNG.uniform(1.0, 2.0, (rows, 1))
    scales = RNG.uniform(0.1, 1.0, rows) if scaled else np.zeros(0)
    w = RNG.normal(size=n + constant) * size
    signs = RNG.choice([-1.0, 1.0], rows)
    return x, w, signs, RNG.dirichlet(np.ones(rows)), scales


def mp_gradient(x, w, signs, weights, scales, v=None):
    """Return the gradient, or with v the Hessian times v, with 300 bits."""
    total = [mpmath.mpf(0)] * w.size
    for i in range(len(x)):
        scale = float(scales[i]) if scales.size else 1.0
        row = [mpmath.mpf(value) * scale for value in x[i].tolist()] + [mpmath.mpf(1)] * (w.size - x.shape[1])
        margin = sum(a * b for a, b in zip(row, w.tolist(), strict=True))
        s = mp_sigmoid(float(signs[i]) * margin)
        factor = -float(signs[i]) * s * float(weights[i])
        if v is not None:
            along = sum(a * b for a, b in zip(row, v.tolist(), strict=True))
            factor = float(weights[i]) * s * (1 - s) * along
        total = [t + factor * value for t, value in zip(total, row, strict=True)]
    return total


def distance(pairs, exact):
    return mpmath.sqrt(
        sum((mpmath.mpf(h) + low - e) ** 2 for h, low, e in zip(*pairs.tolist(), exact, strict=True))
    )


CASES = [
    (rows, n, constant, scaled, size)
    for rows, n in ((1, 1), (70, 3), (130, 9))
    for constant, scaled in ((0, True), (1, False), (1, True))
    for size in (0.1, 30.0)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_within_their_bounds(case):
    x, w, signs, weights, scales = problem(*case)
    norm, bound, total = float(np.linalg.norm(w)), 2.0**0.5, float(weights.sum()) * (1 + 1e-12)
    arguments = (x, w, signs, weights, scales, 0, len(x))
    with mpmath.workprec(300):
        exact = mp_gradient(*arguments[:5])
        rough = distance(kernels.gradient(*arguments), exact)
        fine = distance(kernels.accurate_gradient(x, w, 0.0 * w, *arguments[2:]), exact)
        assert rough <= rounding.gradient_error(w.size, len(x), norm, bound, total)
        assert fine <= rounding.accurate_gradient_error(w.size, len(x), norm, bound, total)


@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_the_low_part_of_a_point_counts(case):
    x, w, signs, weights, scales = problem(*case)
    rest = w * 2.0**-54 * RNG.uniform(-1, 1, w.size)
    fine = kernels.accurate_gradient(x, w, rest, signs, weights, scales, 0, len(x))
    with mpmath.workprec(300):
        point = np.array([mpmath.mpf(a) + b for a, b in zip(w.tolist(), rest.tolist(), strict=True)])
        exact = mp_gradient(x, point, signs, weights, scales)
        limit = rounding.accurate_gradient_error(w.size, len(x), float(np.linalg.norm(w)), 2.0**0.5, 1.0)
        assert distance(fine, exact) <= limit


@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_products_and_hessians_are_within_their_bounds(case):
    x, w, signs, weights, scales = problem(*case)
    v = RNG.normal(size=w.size)
    with mpmath.workprec(300):
        exact = mp_gradient(x, w, signs, weights, scales, v)
        product = kernels.hessian_product(x, w, v, signs, weights, scales, 0, len(x))
        limit = rounding.product_error(w.size, len(x), float(np.linalg.norm(w)), 2.0**0.5, 1.0)
        assert distance(product, exact) <= limit * float(np.linalg.norm(v))
    lower = np.tril(kernels.hessian(x, w, signs, weights, scales, 0, len(x)))
    full = lower + np.tril(lower, -1).T
    np.testing.assert_allclose(full @ v, product.sum(axis=0), rtol=1e-11, atol=1e-14)


def test_a_range_of_rows_is_what_was_asked_for():
    x, w, signs, weights, scales = problem(300, 4, 1, True)
    for kernel, point in ((kernels.gradient, (w,)), (kernels.accurate_gradient, (w, 0.0 * w))):
        parts = [
            kernel(x, *point, signs, weights, scales, a, b).sum(axis=0) for a, b in ((0, 100), (100, 300))
        ]
        whole = kernel(x, *point, signs, weights, scales, 0, 300).sum(axis=0)
        np.testing.assert_allclose(parts[0] + parts[1], whole, atol=1e-15)


def test_squared_norms_are_pairs():
    x = np.array([[1.0, 2.0**-40], [3.0, 4.0]])
    assert kernels.squared_norms(x).tolist() == [[1.0, 25.0], [2.0**-80, 0.0]]
    assert kernels.rough_squared_norms(x).tolist() == [1.0, 25.0]
