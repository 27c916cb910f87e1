"""Minima of the logistic loss: a proved gradient bound that is true; without noise, scikit-learn's."""

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpmarket import learning
from dpmarket.learning import LocalSums, Minimum, Rows, kernels, minimiser, rounding
from dpmarket.privacy.loss import logistic_loss

ROOT_2 = 2.0**0.5


def records(count, n, seed=0, strength=4.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(1.0, 1.5, (count, 1))
    labels = np.where(rng.random(count) < 1 / (1 + np.exp(-strength * x[:, 0] - 0.5)), 1.0, 0.0)
    return x, labels, rng.dirichlet(np.ones(count))


def minimise(rows, l2, high, low, row_bound, bound):
    sums = LocalSums(rows.active(), logistic_loss(), row_bound)
    found = learning.minimise(sums, l2, high[None], low[None], bound)
    return Minimum(found.high[0], found.low[0], found.gradient_bound)


def zeros(n):
    return np.zeros(n), np.zeros(n)


def true_gradient(rows, l2, linear, minimum):
    """Return the norm of the gradient at the returned point, with 300 bits."""
    n = rows.n_coefficients
    point = [mpmath.mpf(a) + b for a, b in zip(minimum.high.tolist(), minimum.low.tolist(), strict=True)]
    total = [
        mpmath.mpf(a) + b + mpmath.mpf(l2) * w
        for a, b, w in zip(linear[0].tolist(), linear[1].tolist(), point, strict=True)
    ]
    for i in range(len(rows.labels)):
        row = [mpmath.mpf(value) for value in rows.features[i].tolist()] + [mpmath.mpf(1)] * (
            rows.constant is not None
        )
        sign = 2.0 * float(rows.labels[i]) - 1.0
        s = 1 / (1 + mpmath.exp(sign * sum(a * b for a, b in zip(row, point, strict=True))))
        total = [t - sign * float(rows.weights[i]) * s * value for t, value in zip(total, row, strict=True)]
    assert len(total) == n
    return mpmath.sqrt(sum(t * t for t in total))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("bound", [1e-3, 1e-14, 1e-22])
def test_the_proved_bound_is_true_and_small_enough(bound, constant):
    for seed, (count, n, l2) in enumerate([(3, 1, 0.3), (40, 4, 1e-3), (60, 3, 1e-6)]):
        x, labels, weights = records(count, n, seed)
        rows = Rows(x, labels, weights, constant=1.0 if constant else None)
        rng = np.random.default_rng(seed)
        linear = (rng.normal(size=n + constant) * 0.2, rng.normal(size=n + constant) * 1e-18)
        minimum = minimise(rows, l2, *linear, ROOT_2, bound)
        with mpmath.workprec(300):
            assert true_gradient(rows, l2, linear, minimum) <= minimum.gradient_bound <= bound


def test_without_noise_a_large_problem_agrees_with_scikit_learn():
    x, labels, _ = records(50_000, 4)
    weights = np.full(50_000, 1.0 / 50_000)
    minimum = minimise(Rows(x, labels, weights, constant=None), 1e-3, *zeros(4), 1.0, 1e-13)
    peer = LogisticRegression(
        C=1e3, fit_intercept=False, tol=1e-14, max_iter=10_000, solver="newton-cholesky"
    )
    peer.fit(x, labels, sample_weight=weights)
    np.testing.assert_allclose(minimum.high, peer.coef_[0], atol=1e-8)


def test_scales_multiply_rows_but_not_the_constant():
    x, labels, weights = records(500, 3)
    scales = 2.0 ** -np.random.default_rng(0).integers(0, 5, 500).astype(float)
    a = minimise(Rows(x, labels, weights, scales), 0.01, *zeros(4), ROOT_2, 1e-20)
    b = minimise(Rows(x * scales[:, None], labels, weights), 0.01, *zeros(4), ROOT_2, 1e-20)
    np.testing.assert_allclose(a.high + a.low, b.high + b.low, atol=1e-15)


def test_the_number_of_threads_changes_nothing(monkeypatch):
    x, labels, weights = records(60_000, 6)
    results = []
    for count in (1, 3):
        monkeypatch.setattr(kernels, "thread_count", lambda count=count: count)
        results.append(minimise(Rows(x, labels, weights), 1e-3, *zeros(7), ROOT_2, 1e-20))
    for result in results[1:]:
        assert (result.high == results[0].high).all()
        assert (result.low == results[0].low).all()


def hard_cases():
    rng = np.random.default_rng(2)
    ones = np.ones((200, 1))
    yield "all rows alike", np.tile([[0.6, 0.8]], (200, 1)), np.ones(200), np.full(200, 1 / 200)
    yield "rows of zeros", np.zeros((200, 2)), np.ones(200), np.full(200, 1 / 200)
    yield (
        "separable",
        np.where(np.arange(200)[:, None] % 2, 1.0, -1.0) * ones,
        np.where(np.arange(200) % 2, 1.0, 0.0),
        np.full(200, 1 / 200),
    )
    heavy = np.full(50_000, 1e-9)
    heavy[1] = 1.0 - 5e-5
    yield "one weight above all", *records(50_000, 3)[:2], heavy
    ordered = np.sort(rng.uniform(-1, 1, (50_000, 1)), axis=0)
    yield "sorted labels", ordered, (ordered[:, 0] > 0.0).astype(float), np.full(50_000, 1 / 50_000)


@pytest.mark.parametrize("case", list(hard_cases()), ids=lambda case: case[0])
@pytest.mark.parametrize(("l2", "noise"), [(1e-9, 300.0), (1e3, 300.0)])
def test_hard_data_are_no_reason_to_give_up(case, noise, l2):
    _, x, labels, weights = case
    rows = Rows(x, labels, weights)
    n = rows.n_coefficients
    linear = (np.full(n, noise * l2), np.zeros(n))
    minimum = minimise(rows, l2, *linear, ROOT_2, 1e-17)
    assert minimum.gradient_bound <= 1e-17


def test_the_bound_after_a_correction_covers_what_the_correction_left():
    x, labels, weights = records(50, 6)
    rows = Rows(x, labels, weights)
    linear = zeros(7)
    for size in (1e-2, 1e-6):
        sums = LocalSums(rows, logistic_loss(), ROOT_2)
        objective = minimiser._Objective(sums, 0.01, np.stack(linear)[:, None, :])
        w = minimise(rows, 0.01, *linear, ROOT_2, 1e-12).high + size * np.linspace(-1, 1, 7)
        gradient = objective.accurate_gradient(w, np.zeros(7))
        bound = float(np.linalg.norm(gradient)) / 4.0
        # Without a good preconditioner the iteration ends early and leaves something.
        correction, found = minimiser._correction(objective, w, np.copy, gradient, 1e-25, bound)
        with mpmath.workprec(300):
            left = true_gradient(rows, 0.01, linear, Minimum(w, correction, found))
            assert left <= found
            assert left > found * 1e-3


def test_adding_pairs_and_exact_products_lose_nothing():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 2, 50)) * np.array([1.0, 1e-17])[:, None]
    total = rounding.add_pairs(a, b)
    factor, vector = 0.1, rng.normal(size=50)
    rest = rounding.product_rest(factor, vector, factor * vector)
    with mpmath.workprec(300):
        for k in range(50):
            exact = sum(mpmath.mpf(float(part[j, k])) for part in (a, b) for j in (0, 1))
            assert abs(mpmath.mpf(float(total[0, k])) + float(total[1, k]) - exact) <= 2.0**-102
            product = mpmath.mpf(factor) * float(vector[k])
            assert mpmath.mpf(float((factor * vector)[k])) + float(rest[k]) == product
