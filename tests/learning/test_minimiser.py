"""One minimiser over sums for every loss: a proof that is true in 60 digits, parts, limits and refusals."""

import mpmath
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from dpmarket.errors import Infeasible
from dpmarket.learning import kernels
from dpmarket.learning.minimiser import Minimum, minimise
from dpmarket.learning.rows import Rows
from dpmarket.learning.sums import LocalSums
from dpmarket.privacy.loss import Softmax, hinge_loss, log_cosh_loss, logistic_loss, quantile_loss

LOSSES = {
    "logistic": logistic_loss(),
    "hinge": hinge_loss(0.1),
    "quantile": quantile_loss(0.2, 0.05, 8.0),
    "log-cosh": log_cosh_loss(0.3, 8.0),
    "softmax": Softmax(3),
}
BOUND = 1.2


def problem(loss, count=40, n=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
    if loss.outputs > 1:
        y = rng.integers(loss.outputs, size=count).astype(float)
    elif loss.target[1]:
        y = rng.integers(2, size=count).astype(float)
    else:
        y = np.clip(rng.normal(size=count), -8.0, 8.0)
    return x, y, rng.dirichlet(np.ones(count)), rng.normal(size=(loss.outputs, n + 1)) * 0.3


def sums_of(loss, x, y, weights, scales=()):
    return LocalSums(Rows(x, y, weights, np.asarray(scales), constant=0.5).active(), loss, BOUND)


def exact_gradient(loss, x, y, weights, w, linear, l2):
    """The gradient in 60 digits, from the description of the loss alone."""
    with mpmath.workdps(60):
        total = [[l2 * w[k][j] + mpmath.mpf(linear[k][j]) for j in range(len(w[0]))] for k in range(len(w))]
        for row, label, weight in zip(x.tolist(), y.tolist(), weights.tolist(), strict=True):
            full = [mpmath.mpf(value) for value in row] + [mpmath.mpf(0.5)]
            z = [sum(a * b for a, b in zip(full, wk, strict=True)) for wk in w]
            if loss.outputs > 1:
                e = [mpmath.exp(value) for value in z]
                slopes = [e[k] / sum(e) - (k == label) for k in range(len(z))]
            else:
                shift, target = loss.shift[0] + loss.shift[1] * label, loss.target[0] + loss.target[1] * label
                s = 1 / (1 + mpmath.exp(-(mpmath.mpf(loss.slope) * z[0] + shift)))
                slopes = [mpmath.mpf(loss.scale) * (s - target)]
            for k, slope in enumerate(slopes):
                for j, value in enumerate(full):
                    total[k][j] += mpmath.mpf(weight) * slope * value
        return mpmath.sqrt(sum(value**2 for row in total for value in row))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bound", [1e-9, 1e-24])
def test_the_proved_bound_holds_in_60_digits(name, bound):
    loss = LOSSES[name]
    x, y, weights, linear = problem(loss)
    minimum = minimise(sums_of(loss, x, y, weights), 0.02, linear, np.zeros_like(linear), bound)
    with mpmath.workdps(60):
        w = [
            [mpmath.mpf(a) + mpmath.mpf(b) for a, b in zip(high, low, strict=True)]
            for high, low in zip(minimum.high.tolist(), minimum.low.tolist(), strict=True)
        ]
    found = exact_gradient(loss, x, y, weights, w, linear.tolist(), mpmath.mpf(0.02))
    assert found <= minimum.gradient_bound <= bound


@pytest.mark.parametrize("name", LOSSES)
def test_rows_of_weight_0_and_the_kind_of_matrix_change_nothing(name):
    loss = LOSSES[name]
    x, y, weights, linear = problem(loss, count=300, n=4)
    weights[::3] = 0.0
    spoiled, labels = x.copy(), y.copy()
    spoiled[::3], labels[::3] = 7.0, 0.0
    found = [
        minimise(sums_of(loss, *data, weights), 0.05, linear, 0.0 * linear, 1e-20).high
        for data in ((x, y), (spoiled, labels), (csr_array(x), y), (np.asfortranarray(x), y))
    ]
    for other in found[1:]:
        assert np.array_equal(found[0], other)


def test_many_coefficients_of_many_classes_use_the_partial_traces():
    loss = Softmax(30)
    x, y, weights, linear = problem(loss, count=400, n=20)
    sums = sums_of(loss, x, y, weights)
    minimum = minimise(sums, 0.02, linear, 0.0 * linear, 1e-16)
    between, among = sums.partial_traces(minimum.high)
    square = sums.hessian(minimum.high).reshape(30, 21, 30, 21)
    assert minimum.gradient_bound <= 1e-16
    assert np.einsum("kjmj->km", square)[np.tril_indices(30)] == pytest.approx(between[np.tril_indices(30)])
    assert np.einsum("kikj->ij", square) == pytest.approx(among)


@pytest.mark.parametrize("name", LOSSES)
def test_a_hessian_is_what_its_products_say(name):
    loss = LOSSES[name]
    x, y, weights, linear = problem(loss)
    sums = sums_of(loss, x, y, weights, scales=np.full(len(x), 0.7))
    square = np.tril(sums.hessian(linear))
    square = square + np.tril(square, -1).T
    move = np.random.default_rng(1).normal(size=linear.shape)
    assert sums.product(linear, move).ravel() == pytest.approx(square @ move.ravel())
    ends = [sums.gradient(linear + sign * 1e-6 * move).sum(axis=0) for sign in (1.0, -1.0)]
    assert ((ends[0] - ends[1]) / 2e-6).ravel() == pytest.approx(square @ move.ravel(), abs=1e-6)


@pytest.mark.parametrize(("l2", "bound"), [(1e-14, 1e-9), (0.1, 1e-40)])
def test_what_cannot_be_proved_is_refused_before_a_record_is_read(l2, bound):
    loss = logistic_loss()
    _, y, weights, linear = problem(loss)
    unreadable = np.full((40, 2), np.nan)
    with pytest.raises(Infeasible):
        minimise(sums_of(loss, unreadable, y, weights), l2, linear, 0.0 * linear, bound)


@pytest.mark.parametrize("loss", [logistic_loss(), quantile_loss(0.3, 0.2, 1.0)], ids=["target", "shift"])
def test_labels_beyond_the_losss_bounds_count_as_those_in_every_sum(loss):
    """The charge covers labels within the bounds only."""
    x, weights = np.array([[0.5], [-0.3], [0.2]]), np.full(3, 1.0 / 3.0)
    labels = np.array([-40.0, 0.7, 1e6])
    found = []
    for given in (labels, np.clip(labels, *loss.labels)):
        sums = LocalSums(Rows(x, given, weights, constant=None), loss, 1.0)
        w = np.full((1, 1), 0.4)
        found.append([sums.gradient(w), sums.accurate_gradient(w, np.zeros((1, 1))), sums.hessian(w)])
    for ours, limited in zip(*found, strict=True):
        assert np.array_equal(ours, limited)


# --- the logistic loss ------------------------------------------------------------------------------

ROOT_2 = 2.0**0.5


def records(count, n, seed=0, strength=4.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(1.0, 1.5, (count, 1))
    labels = np.where(rng.random(count) < 1 / (1 + np.exp(-strength * x[:, 0] - 0.5)), 1.0, 0.0)
    return x, labels, rng.dirichlet(np.ones(count))


def logistic_minimum(rows, l2, high, low, bound):
    found = minimise(LocalSums(rows.active(), logistic_loss(), ROOT_2), l2, high[None], low[None], bound)
    return Minimum(found.high[0], found.low[0], found.gradient_bound)


def zeros(n):
    return np.zeros(n), np.zeros(n)


def test_without_noise_a_large_problem_agrees_with_scikit_learn():
    x, labels, _ = records(50_000, 4)
    weights = np.full(50_000, 1.0 / 50_000)
    minimum = logistic_minimum(Rows(x, labels, weights, constant=None), 1e-3, *zeros(4), 1e-13)
    peer = LogisticRegression(
        C=1e3, fit_intercept=False, tol=1e-14, max_iter=10_000, solver="newton-cholesky"
    )
    peer.fit(x, labels, sample_weight=weights)
    np.testing.assert_allclose(minimum.high, peer.coef_[0], atol=1e-8)


def test_the_number_of_threads_changes_nothing(monkeypatch):
    x, labels, weights = records(60_000, 6)
    results = []
    for count in (1, 3):
        monkeypatch.setattr(kernels, "thread_count", lambda count=count: count)
        results.append(logistic_minimum(Rows(x, labels, weights), 1e-3, *zeros(7), 1e-20))
    for result in results[1:]:
        assert (result.high == results[0].high).all()
        assert (result.low == results[0].low).all()


def hard_cases():
    signs = np.where(np.arange(200)[:, None] % 2, 1.0, -1.0)
    even = np.full(200, 1 / 200)
    yield "all rows alike", np.tile([[0.6, 0.8]], (200, 1)), np.ones(200), even
    yield "rows of zeros", np.zeros((200, 2)), np.ones(200), even
    yield "separable", signs, (signs[:, 0] > 0.0).astype(float), even
    heavy = np.full(50_000, 1e-9)
    heavy[1] = 1.0 - 5e-5
    yield "one weight above all", *records(50_000, 3)[:2], heavy
    ordered = np.linspace(-1.0, 1.0, 50_000)[:, None]
    yield "sorted labels", ordered, (ordered[:, 0] > 0.0).astype(float), np.full(50_000, 1 / 50_000)


@pytest.mark.parametrize("case", list(hard_cases()), ids=lambda case: case[0])
@pytest.mark.parametrize("l2", [1e-9, 1e3])
def test_hard_data_are_no_reason_to_give_up(case, l2):
    rows = Rows(*case[1:])
    n = rows.n_coefficients
    assert logistic_minimum(rows, l2, np.full(n, 300.0 * l2), np.zeros(n), 1e-17).gradient_bound <= 1e-17
