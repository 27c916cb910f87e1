"""Softmax accounting: exact densities never exceed the charge and come close; weights, release, constants."""

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy import (
    privacy_loss,
    softmax_log_density,
    softmax_plan_release,
    softmax_privacy_loss,
    softmax_release_cost,
    softmax_weights_for,
)
from dpmarket.privacy.charge import bounds_of
from dpmarket.privacy.loss import Softmax
from dpmarket.privacy.softmax_density import trusted_softmax_log_density

ETA, OWN = 20.0, 0.05


def formula(a, eta, l2, classes, bound=1.0, rows=1, n=None):
    """Return the charge as a second implementation: the formulas as they are written, maximised on a grid."""
    alpha, c = a * eta * bound, a * bound**2 / l2

    def by_rows(s):
        q = np.log1p(c / rows * s * (1 - s) * classes / (classes - 1))
        return alpha * s + rows * (q + (classes - 2) * np.log1p(c / rows * s / (classes - 1)))

    def by_trace(s):
        size = n * (classes - 1)
        return alpha * s + size * np.log1p(c * (2 * s - s**2 * classes / (classes - 1)) / size)

    s = np.linspace(0.0, 1.0, 200_001)
    found = [by_rows(s).max()] + ([by_trace(s).max()] if n is not None else [])
    return alpha + min(found)


# ---------------------------------------------------------------- the charge


@pytest.mark.parametrize("classes", [2, 3, 5, 20])
@pytest.mark.parametrize("l2", [1e-5, 0.01, 0.1, 1.0, 30.0])
@pytest.mark.parametrize(("rows", "n"), [(1, None), (1, 3), (4, 2), (7, None), (40, 3)])
def test_the_charge_is_the_formula_rounded_up(classes, l2, rows, n):
    for a in (1e-9, 0.003, 0.4):
        found = float(softmax_privacy_loss([a], 2.5, l2, classes, 1.3, rows, n_coefficients=n)[0])
        expected = formula(a, 2.5, l2, classes, 1.3, rows, n)
        assert expected * (1.0 - 1e-12) <= found <= expected * (1.0 + 1e-9)


def test_the_charge_is_never_below_the_value_in_exact_arithmetic():
    rng = np.random.default_rng(0)
    with mpmath.workdps(50):
        for _ in range(40):
            a, eta, l2 = (float(v) for v in np.exp(rng.uniform(-6.0, [0.0, 5.0, 3.0])))
            classes = int(rng.integers(2, 8))
            found = float(softmax_privacy_loss([a], eta, l2, classes)[0])
            alpha, c = mpmath.mpf(a) * mpmath.mpf(eta), mpmath.mpf(a) / mpmath.mpf(l2)

            def value(s, alpha=alpha, c=c, classes=classes):
                inner = mpmath.log(1 + c * s * (1 - s) * classes / (classes - 1))
                return alpha * s + inner + (classes - 2) * mpmath.log(1 + c * s / (classes - 1))

            low, high = mpmath.mpf(1) / 2, mpmath.mpf(1)
            for _ in range(100):  # thirds: the function is concave
                third = (high - low) / 3
                if value(low + third) < value(high - third):
                    low += third
                else:
                    high -= third
            best = max(value(low), value(mpmath.mpf(1)))
            assert mpmath.mpf(found) >= alpha + best
            assert found <= float(alpha + best) * (1.0 + 1e-12)


def test_more_noise_more_penalty_and_less_weight_cost_less():
    loss = float(softmax_privacy_loss([0.1], 3.0, 0.02, 4)[0])
    assert float(softmax_privacy_loss([0.1], 2.0, 0.02, 4)[0]) < loss
    assert float(softmax_privacy_loss([0.1], 3.0, 0.05, 4)[0]) < loss
    assert float(softmax_privacy_loss([0.05], 3.0, 0.02, 4)[0]) < loss
    assert float(softmax_privacy_loss([0.1], 3.0, 0.02, 3)[0]) < loss
    assert float(softmax_privacy_loss([0.1], 3.0, 0.02, 4, rows_per_person=2)[0]) > loss
    assert softmax_privacy_loss([0.0, 0.1], 3.0, 0.02, 4)[0] == 0.0


def test_a_large_penalty_leaves_the_noise_alone():
    a, eta, classes = 0.1, 3.0, 4
    found = float(softmax_privacy_loss([a], eta, 1e9, classes)[0])
    assert found == pytest.approx(2.0 * a * eta, rel=1e-8)
    # Two blocks of noise cost twice what the one of two classes does.
    assert found == pytest.approx(2.0 * float(privacy_loss([a], eta, 1e9)[0]), rel=1e-8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss_weights": [-0.1]},
        {"loss_weights": [0.0]},
        {"loss_weights": [math.nan]},
        {"noise_rate": 0.0},
        {"l2": -1.0},
        {"l2": 1e-120},
        {"n_classes": 1},
        {"n_classes": 2.5},
        {"row_bound": 0.0},
        {"rows_per_person": 0},
        {"n_coefficients": 0},
    ],
)
def test_other_values_are_refused(wrong):
    usual = {"loss_weights": [0.5], "noise_rate": 1.0, "l2": 1.0, "n_classes": 3}
    with pytest.raises(InvalidInput):
        softmax_privacy_loss(**(usual | wrong))


# ---------------------------------------------------------------- against exact densities


def far_apart(classes, l2, length, s):
    """Return an output and rows of two coefficients on which the charge is nearly reached.

    The person's row is the second axis, where the output's probabilities are 1 - s and equal ones. Everybody
    else's, and what replaces the person's, points the other way, with a small part along the first axis, so
    that one wrong class is certain there: full noise in the same direction, no curvature. What is added to
    the coefficients of all classes changes no probability, and lets the penalty turn the other blocks' noise.
    """
    p = np.full(classes, s / (classes - 1))
    p[0] = 1.0 - s
    steps = np.arange(classes) / (classes - 1.0)
    w = np.stack([length * (steps - steps.mean()), np.log(p) - 1.1 * OWN * p[1] / l2], axis=1)
    angle = 40.0 * (classes - 1) / length
    return w, np.array([0.0, 1.0]), np.array([math.sin(angle), -math.cos(angle)])


def reached(classes, l2):
    """Return the largest exact log ratio over lengths of the output and s, rows of norm 1."""
    best, zero = -math.inf, np.zeros(2, dtype=np.int64)
    weights = np.array([OWN, 1.0 - OWN])
    for length in np.geomspace(1e3, 1e5, 7):
        for s in 1.0 - np.geomspace(1e-3, 0.5, 25):
            w, own, other = far_apart(classes, l2, length, s)
            first = softmax_log_density(w, np.stack([own, other]), zero, weights, ETA, l2)
            second = softmax_log_density(w, np.stack([other, other]), zero, weights, ETA, l2)
            best = max(best, float(first - second))
    return best


@pytest.mark.parametrize("classes", [3, 4, 5])
def test_the_charge_is_nearly_reached_and_never_exceeded(classes):
    l2 = 1e-7
    found = reached(classes, l2)
    charge = float(softmax_privacy_loss([OWN], ETA, l2, classes)[0])
    assert 0.99 * charge < found <= charge
    # Without the factor K / (K - 1) of the determinant what happens would exceed what is charged.
    assert found > charge_without_factor(classes, l2)


def charge_without_factor(classes, l2):
    alpha, c = OWN * ETA, OWN / l2
    s = np.linspace(0.0, 1.0, 100_001)
    inner = np.log1p(c * s * (1 - s)) + (classes - 2) * np.log1p(c * s / (classes - 1))
    return alpha + float((alpha * s + inner).max())


@pytest.mark.parametrize("classes", [3, 4, 5])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("l2", [1e-3, 0.3])
def test_no_search_over_neighbours_exceeds_the_charge(classes, rows, l2):
    """Rows of one person have labels of their own; outputs, rows and replacements are climbed from random."""
    rng = np.random.default_rng([classes, rows, int(1e3 * l2)])
    own, eta = 0.4, 4.0
    weights = np.r_[np.full(rows, own / rows), 1.0 - own]
    charge = float(softmax_privacy_loss([own], eta, l2, classes, 1.0, rows, n_coefficients=2)[0])

    def unpacked(v):
        w = v[: 2 * classes].reshape(classes, 2)
        angles = v[2 * classes :]
        x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return w, x[: rows + 1], np.concatenate([x[rows + 1 :], x[rows : rows + 1]])

    best = 0.0
    for _ in range(3):
        labels = rng.integers(0, classes, (2, rows + 1))
        labels[1, -1] = labels[0, -1]

        def ratio(v, labels=labels):
            w, mine, theirs = unpacked(v)
            first = trusted_softmax_log_density(w, mine, labels[0], weights, eta, l2)
            return float(trusted_softmax_log_density(w, theirs, labels[1], weights, eta, l2) - first)

        start = np.r_[rng.normal(size=2 * classes) * 3.0, rng.uniform(0.0, 2.0 * math.pi, 2 * rows + 1)]
        found = minimize(ratio, start, method="Nelder-Mead", options={"maxfev": 400})
        best = max(best, -found.fun)
    assert 0.2 * charge < best <= charge


def test_the_density_knows_two_classes():
    """Two classes with the noise of both: the difference of the rows is what the binary model fits."""
    w = np.array([[0.3, -1.0], [0.7, 0.4]])
    x = np.array([[0.6, 0.2], [-0.1, 0.9]])
    margins = x @ (w[1] - w[0])
    s = 1.0 / (1.0 + np.exp(-margins))
    signs, a, eta, l2 = np.array([1.0, 0.0]), np.array([0.7, 0.3]), 3.0, 0.2
    gradient = (a * (s - signs)) @ x
    lengths = np.linalg.norm(l2 * w[1] + gradient) + np.linalg.norm(l2 * w[0] - gradient)
    half = np.einsum("i,in,im->nm", a * s * (1 - s), x, x)
    hessian = np.block([[half, -half], [-half, half]]) + l2 * np.eye(4)
    expected = -eta / 2.0 * lengths + np.linalg.slogdet(hessian)[1] + 2.0 * math.log(eta**2 / (8.0 * math.pi))
    assert float(softmax_log_density(w, x, [1, 0], a, eta, l2)) == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------- several rows


def determinants(rng, classes, n, rows):
    """Return the logarithm of a determinant for rows with labels of their own, its c and its mean s."""
    c = float(np.exp(rng.uniform(-2.0, 7.0)))
    scores = rng.normal(size=(rows, classes)) * np.exp(rng.uniform(-1.0, 2.0))
    labels = rng.integers(0, classes, rows)
    scores[np.arange(rows), labels] -= rng.choice([0.0, 3.0, 30.0])  # s near 1 is where labels matter
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    x = rng.normal(size=(rows, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    spread = p[:, :, None] * np.eye(classes) - p[:, :, None] * p[:, None, :]
    total = np.einsum("ikl,in,im->knlm", spread, x, x).reshape(classes * n, classes * n) / rows
    s = float(np.mean(1.0 - p[np.arange(rows), labels]))
    return np.linalg.slogdet(np.eye(classes * n) + c * total)[1], c, s


def log_determinant(classes, rows, n, c, s):
    """The bound by rows, or with n by the trace."""
    loss = Softmax(classes)
    terms = bounds_of(loss.terms, loss.rank, rows, n)[-1]
    return sum(m * math.log1p(c * (p * (1 - s) + q * s + v * s * (1 - s))) for m, p, q, v in terms)


def test_the_determinant_of_several_rows_never_exceeds_either_bound():
    rng = np.random.default_rng(3)
    false = 0
    for _ in range(2_000):
        classes, n, rows = int(rng.integers(3, 6)), int(rng.integers(1, 3)), int(rng.integers(1, 6))
        found, c, s = determinants(rng, classes, n, rows)
        assert found <= log_determinant(classes, rows, None, c, s) * (1 + 1e-9) + 1e-9
        assert found <= log_determinant(classes, n + 1, n, c, s) * (1 + 1e-9) + 1e-9
        false += found > log_determinant(classes, min(rows, n), None, c, s) + 1e-6
    assert false > 20  # with min(r, n) rows, which is right for two classes, the bound is no bound


def test_three_labels_in_one_direction_exceed_the_bound_of_one_row():
    """By hand: K = 3, n = 1, every label once with p_y = 0: the mean covariance is 1/4 in two directions."""
    c = 12.0
    p = (np.ones((3, 3)) - np.eye(3)) / 2.0
    spread = np.mean([np.diag(row) - np.outer(row, row) for row in p], axis=0)
    found = np.linalg.slogdet(np.eye(3) + c * spread)[1]
    assert found == pytest.approx(2.0 * math.log(1.0 + c / 4.0))
    assert log_determinant(3, 1, None, c, 1.0) == pytest.approx(math.log(1.0 + c / 2.0))
    assert log_determinant(3, 2, 1, c, 1.0) == pytest.approx(found)
    assert found < log_determinant(3, 3, None, c, 1.0)


def test_many_rows_are_charged_by_the_smaller_bound():
    few = float(softmax_privacy_loss([0.3], 2.0, 0.01, 3, 1.0, 2, n_coefficients=2)[0])
    many = [
        float(softmax_privacy_loss([0.3], 2.0, 0.01, 3, 1.0, r, n_coefficients=2)[0]) for r in (3, 10, 10**6)
    ]
    assert few < many[0] <= many[1] == many[2]
    assert many[2] < float(softmax_privacy_loss([0.3], 2.0, 0.01, 3, 1.0, 10**6)[0])
    # Not what two rows would be charged, although there are two coefficients.
    assert many[0] > float(softmax_privacy_loss([0.3], 2.0, 0.01, 3, 1.0, 2)[0])


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("l2", [0.003, 0.05, 2.0])
@pytest.mark.parametrize(("rows", "n"), [(1, 4), (3, 4), (50, 2)])
def test_weights_use_every_promise_fully_and_exceed_none(classes, l2, rows, n):
    rng = np.random.default_rng(5)
    promises = np.r_[rng.uniform(0.05, 3.0, 400), 0.0, 1e-7, 1.0, 1.0]
    weights = softmax_weights_for(promises, l2, classes, n, 1.2, rows, numerical_epsilon=1e-6)
    usable = np.maximum(promises - 1e-6, 0.0)
    losses = weights.privacy_losses()
    assert (losses <= usable).all()
    assert losses == pytest.approx(usable, rel=1e-11)
    assert float(weights.loss_weights.sum()) == pytest.approx(1.0, abs=1e-11)
    assert (weights.loss_weights[[400, 401]] == 0.0).all()


def test_without_slack_the_weights_have_a_closed_form_to_first_order():
    """For many people log(1 + x) is x: a = eps / sum, eta = (sum / R - R (K - 2) / ((K - 1) l2)) / 2."""
    promises = np.linspace(0.5, 1.5, 5_000)
    total, l2, classes = promises.sum(), 0.01, 5
    loss_weights, eta = softmax_weights_for(promises, l2, classes, 3)
    assert eta == pytest.approx((total - (classes - 2) / ((classes - 1) * l2)) / 2.0, rel=1e-3)
    assert loss_weights == pytest.approx(promises / total, rel=1e-2)


def test_promises_are_refused_exactly_where_no_noise_keeps_them():
    promises, classes, n = np.array([0.1, 0.2, 0.5]), 4, 3
    limit = 1.0 / (classes * np.expm1(promises / (classes - 1)).sum())
    with pytest.raises(Infeasible, match="works") as refusal:
        softmax_weights_for(promises, limit * 0.999, classes, n)
    works = float(str(refusal.value).split("l2 = ")[-1].split()[0])
    for l2 in (limit * 1.001, works):
        assert (softmax_weights_for(promises, l2, classes, n).privacy_losses() <= promises).all()


def test_a_hundred_thousand_distinct_promises_are_kept():
    promises = np.random.default_rng(1).uniform(0.1, 2.0, 100_000)
    weights = softmax_weights_for(promises, 2e-4, 10, 20)
    assert (weights.privacy_losses() <= promises).all()
    assert float(weights.loss_weights.sum()) == pytest.approx(1.0, abs=1e-10)


# ---------------------------------------------------------------- release


@pytest.mark.parametrize(("classes", "n"), [(2, 1), (3, 4), (10, 65)])
@pytest.mark.parametrize("l2", [1e-4, 0.3])
def test_a_plan_costs_what_it_says_and_not_more_than_asked(classes, n, l2):
    asked, eta = 1e-6, 500.0
    plan = softmax_plan_release(asked, classes, n, eta, l2, 1.4, weight_total=1.0)
    rho = (plan.gradient_bound + plan.noise_accuracy) / l2
    by_rank, by_size = 2 * (classes - 1) * n * 1.4, 2 * (1 - 1 / classes) * 1.4**3 / l2
    expected = classes * n * math.log((plan.grid + 2 * rho) / (plan.grid - 2 * rho))
    expected += 2 * rho * math.sqrt(n) * (eta / 2 * (classes * l2 + 1.4**2) + min(by_rank, by_size))
    assert plan.numerical_epsilon == pytest.approx(expected, rel=1e-6)
    assert softmax_release_cost(plan, classes, n, eta, l2, 1.4) == pytest.approx(expected, rel=1e-6)
    assert 0.98 * asked < plan.numerical_epsilon <= 0.99 * asked
    assert math.frexp(plan.grid)[0] == 0.5


def test_the_log_density_is_no_steeper_than_the_release_counts_on():
    """Moving every coordinate by h changes the exact log density by at most h times the slope."""
    rng = np.random.default_rng(8)
    classes, n, eta, l2, h = 3, 2, 3.0, 0.05, 1e-4
    labels, weights = np.array([0, 1, 2, 1]), np.array([0.4, 0.3, 0.2, 0.1])
    slope = math.sqrt(n) * (
        eta / 2 * (classes * l2 + 1.0) + min(2 * (classes - 1) * n, 2 * (1 - 1 / classes) / l2)
    )
    steepest = 0.0
    for _ in range(400):
        x = rng.normal(size=(4, n))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        w = rng.normal(size=(classes, n)) * np.exp(rng.uniform(-2.0, 2.0))
        moved = w + h * rng.choice([-1.0, 1.0], size=w.shape)
        change = softmax_log_density(moved, x, labels, weights, eta, l2)
        change = abs(float(change - softmax_log_density(w, x, labels, weights, eta, l2)))
        steepest = max(steepest, change / h)
    assert 0.15 * slope < steepest <= slope
