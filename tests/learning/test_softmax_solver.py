"""The solver of more than two classes: a proved bound that is true, and scikit-learn's minimiser."""

import mpmath
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from dpmarket.errors import Infeasible
from dpmarket.learning import Rows, exponentials, softmax_kernels, softmax_rounding
from dpmarket.learning.softmax_solver import softmax_minimise

ROOT_2 = 2.0**0.5


def records(count, n, classes, seed=0, strength=4.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(1.0, 1.5, (count, 1))
    scores = x @ rng.normal(size=(n, classes)) * strength
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(float)
    return x, labels, rng.dirichlet(np.ones(count))


def zeros(classes, n):
    return np.zeros((classes, n)), np.zeros((classes, n))


def exact_gradient(rows, l2, linear, high, low):
    """Return the gradient at a pair of matrices, with 300 bits."""
    with mpmath.workprec(300):
        point = [
            [mpmath.mpf(a) + b for a, b in zip(*pair, strict=True)]
            for pair in zip(high.tolist(), low.tolist(), strict=True)
        ]
        total = [
            [mpmath.mpf(a) + b + mpmath.mpf(l2) * w for a, b, w in zip(*line, strict=True)]
            for line in zip(linear[0].tolist(), linear[1].tolist(), point, strict=True)
        ]
        for i in range(len(rows.signs)):
            row = [mpmath.mpf(value) for value in rows.features[i].tolist()] + [mpmath.mpf(1)] * rows.constant
            powers = [mpmath.exp(sum(a * b for a, b in zip(row, w, strict=True))) for w in point]
            for k, power in enumerate(powers):
                factor = float(rows.weights[i]) * (power / sum(powers) - int(rows.signs[i] == k))
                total[k] = [t + factor * value for t, value in zip(total[k], row, strict=True)]
        return total


def norm(matrix):
    return mpmath.sqrt(sum(value * value for row in matrix for value in row))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("bound", [1e-3, 1e-12, 1e-17, 1e-21])
def test_the_proved_bound_is_true_and_small_enough(bound, constant):
    for seed, (count, n, classes, l2) in enumerate([(3, 1, 3, 0.3), (40, 4, 5, 1e-3), (30, 3, 3, 1e-5)]):
        x, labels, weights = records(count, n, classes, seed)
        rows = Rows(x, labels, weights, constant=constant)
        rng = np.random.default_rng(seed)
        shape = (classes, n + constant)
        linear = (rng.normal(size=shape) * 0.2, rng.normal(size=shape) * 1e-18)
        minimum = softmax_minimise(rows, classes, l2, *linear, row_bound=ROOT_2, gradient_bound=bound)
        with mpmath.workprec(300):
            found = norm(exact_gradient(rows, l2, linear, minimum.high, minimum.low))
            assert found <= minimum.gradient_bound <= bound


@pytest.mark.parametrize("accurate", [False, True])
def test_the_errors_of_the_kernels_stay_below_their_bounds(accurate):
    """At large coefficients, with scales and a chunk that is not full."""
    largest = 0.0
    for seed, (count, n, classes, size) in enumerate([(70, 3, 3, 1.0), (67, 5, 4, 60.0), (10, 2, 6, 500.0)]):
        x, labels, weights = records(count, n, classes, seed)
        rng = np.random.default_rng(seed)
        scales = 2.0 ** -rng.integers(0, 3, count).astype(float)
        high = rng.normal(size=(classes, n + 1)) * size
        low = rng.normal(size=high.shape) * np.abs(high) * 2.0**-54 * accurate
        data = (labels, weights, scales, 0, count)
        found = (
            softmax_kernels.accurate_gradient(x, high, low, *data)
            if accurate
            else softmax_kernels.gradient(x, high, *data)
        )
        rows = Rows(x * scales[:, None], labels, weights)
        exact = exact_gradient(rows, 0.0, zeros(classes, n + 1), high, low)
        with mpmath.workprec(300):
            error = norm(
                [
                    [e - mpmath.mpf(h) - r for e, h, r in zip(*line, strict=True)]
                    for line in zip(exact, found[0].tolist(), found[1].tolist(), strict=True)
                ]
            )
        bound = softmax_rounding.accurate_gradient_error if accurate else softmax_rounding.gradient_error
        limit = bound(classes, n + 1, count, float(np.linalg.norm(high)), ROOT_2, float(weights.sum()))
        assert error <= limit
        largest = max(largest, float(error / limit))
    assert largest > (1e-7 if accurate else 1e-4)  # the bounds are bounds of something


def test_the_accurate_exponential_has_the_accuracy_it_states():
    rng = np.random.default_rng(0)
    for z in np.r_[0.0, -rng.uniform(0.0, 630.0, 200), -np.exp(rng.uniform(-30.0, 0.0, 100))]:
        rest = float(z) * 2.0**-54
        high, low = exponentials.accurate_exponential(float(z), rest)
        with mpmath.workprec(300):
            exact = mpmath.exp(mpmath.mpf(float(z)) + mpmath.mpf(rest))
            assert abs((mpmath.mpf(high) + mpmath.mpf(low)) / exact - 1) <= mpmath.mpf(2) ** -87


def test_a_hessian_product_is_the_derivative_of_the_gradient():
    x, labels, weights = records(150, 3, 4)
    rng = np.random.default_rng(1)
    w, v = rng.normal(size=(2, 4, 4))
    data = (labels, weights, np.zeros(0), 0, 150)
    product = softmax_kernels.hessian_product(x, w, v, *data).sum(axis=0)
    step = 1e-5
    ahead, behind = (softmax_kernels.gradient(x, w + t * v, *data).sum(axis=0) for t in (step, -step))
    np.testing.assert_allclose(product, (ahead - behind) / (2.0 * step), atol=1e-9)


def test_the_gradients_expansion_misses_no_more_than_stated():
    rng = np.random.default_rng(2)
    largest = 0.0
    for seed in range(40):
        x, labels, weights = records(3, 2, 3, seed)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        data = (labels, weights, np.zeros(0), 0, 3)
        w, d = rng.normal(size=(2, 3, 2)) * [[[2.0]], [[0.05]]]
        missed = softmax_kernels.gradient(x, w + d, *data) - softmax_kernels.gradient(x, w, *data)
        missed = missed.sum(axis=0) - softmax_kernels.hessian_product(x, w, d, *data).sum(axis=0)
        stated = softmax_rounding.curvature_change(float(np.linalg.norm(d)), 1.0 + 1e-12, 1.0)
        largest = max(largest, float(np.linalg.norm(missed)) / stated)
    assert 0.02 < largest <= 1.0


@pytest.mark.parametrize("count", [400, 30_000])
def test_without_noise_it_agrees_with_scikit_learn(count):
    classes, l2 = 4, 0.003
    x, labels, weights = records(count, 5, classes)
    minimum = softmax_minimise(
        Rows(x, labels, weights), classes, l2, *zeros(classes, 6), row_bound=ROOT_2, gradient_bound=1e-13
    )
    peer = LogisticRegression(C=1.0 / l2, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cg")
    peer.fit(np.column_stack([x, np.ones(count)]), labels, sample_weight=weights)
    np.testing.assert_allclose(minimum.high, peer.coef_, atol=1e-6)


def test_without_noise_coefficients_add_up_to_zero_over_the_classes():
    x, labels, weights = records(200, 3, 3)
    minimum = softmax_minimise(
        Rows(x, labels, weights), 3, 0.01, *zeros(3, 4), row_bound=ROOT_2, gradient_bound=1e-20
    )
    assert np.abs((minimum.high + minimum.low).sum(axis=0)).max() < 1e-14


@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, csr_matrix, lambda x: np.repeat(x, 2, axis=0)[::2]],
    ids=["columns", "csr", "strided"],
)
def test_every_kind_of_matrix_gives_the_same_minimum(change):
    x, labels, weights = records(3_000, 4, 3)
    plain = softmax_minimise(
        Rows(x, labels, weights), 3, 0.01, *zeros(3, 5), row_bound=ROOT_2, gradient_bound=1e-20
    )
    other = softmax_minimise(
        Rows(change(x), labels, weights), 3, 0.01, *zeros(3, 5), row_bound=ROOT_2, gradient_bound=1e-20
    )
    np.testing.assert_allclose(other.high + other.low, plain.high + plain.low, atol=1e-15)


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix], ids=["dense", "csr"])
def test_rows_of_weight_zero_have_no_influence_not_even_on_rounding(kind):
    x, labels, weights = records(3_000, 3, 3)
    weights[::3] = 0.0
    other = x.copy()
    other[::3] = 1e300
    changed = np.where(weights == 0.0, 2.0, labels)
    a = softmax_minimise(
        Rows(kind(x), labels, weights), 3, 0.01, *zeros(3, 4), row_bound=ROOT_2, gradient_bound=1e-20
    )
    b = softmax_minimise(
        Rows(kind(other), changed, weights), 3, 0.01, *zeros(3, 4), row_bound=ROOT_2, gradient_bound=1e-20
    )
    assert np.array_equal(a.high, b.high)
    assert np.array_equal(a.low, b.low)


def test_separable_records_with_a_small_penalty_are_solved():
    x = np.repeat(np.eye(3), 50, axis=0)
    labels = np.repeat([0.0, 1.0, 2.0], 50)
    weights = np.full(150, 1.0 / 150)
    rows = Rows(x, labels, weights, constant=False)
    minimum = softmax_minimise(rows, 3, 1e-8, *zeros(3, 3), row_bound=1.0, gradient_bound=1e-14)
    assert minimum.gradient_bound <= 1e-14
    assert float(np.linalg.norm(minimum.high)) > 10.0


def test_what_pairs_of_floats_cannot_prove_is_refused_before_a_record_is_read():
    class Unread(np.ndarray):
        def __getitem__(self, key):
            raise AssertionError("read")

    rows = Rows(np.ones((3, 2)).view(Unread), np.zeros(3), np.full(3, 1 / 3))
    with pytest.raises(Infeasible, match="pairs of floats"):
        softmax_minimise(rows, 3, 0.1, *zeros(3, 3), row_bound=ROOT_2, gradient_bound=1e-40)
    with pytest.raises(Infeasible, match="expected l2"):
        softmax_minimise(rows, 3, 1e-13, *zeros(3, 3), row_bound=ROOT_2, gradient_bound=1e-10)
