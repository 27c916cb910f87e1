"""Gaussian accounting: adversaries never exceed the charge and come close; weights, release, penalty."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy import (
    gaussian_delta,
    gaussian_plan_release,
    gaussian_privacy_loss,
    gaussian_release_cost,
    gaussian_suggest_l2,
    gaussian_suggest_stretch,
    gaussian_weights_for,
    suggest_l2,
    suggest_stretch,
)
from dpmarket.privacy.gaussian import vertex_bounds
from dpmarket.privacy.gaussian_curve import VertexBound, gaussian_delta_upper, many_steps
from dpmarket.privacy.gaussian_weights import NUMERICAL_DELTA, exact_delta

DELTA = 1e-5


def exact_gaussian(epsilon, mu):
    """Return delta of the Gaussian mechanism from its definition, in many digits."""
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    near, far = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    return mpmath.ncdf(near) - mpmath.exp(epsilon) * mpmath.ncdf(far)


def written(epsilon, mu, c, classes=2):
    """Return the bounds as they are written, the smaller one: a second implementation."""

    def plain(e, m):
        return norm.cdf(-e / m + m / 2) - math.exp(e) * norm.cdf(-e / m - m / 2)

    found = [1.0]
    if classes == 2 and c <= epsilon:
        found.append(plain(epsilon, mu) + plain(epsilon, mu / 2) + plain(epsilon - c, mu / 2))
    share = math.log1p(c / 4) if classes == 2 else (classes - 1) * math.log1p(c / classes)
    left = epsilon - share
    if left >= 0 and classes == 2:
        found.append(plain(left, mu) + 2 * plain(left, mu / 2))
    elif left >= 0:
        wrong = classes - 1
        middle = wrong * (wrong - 1) * plain(left, mu * math.sqrt(3) / 2)
        found.append(wrong * plain(left, mu) + middle + 2 * wrong * plain(left, mu / 2))
    return min(found)


# ---------------------------------------------------------------- the formulas


def test_delta_of_the_mechanism_is_never_below_the_exact_value_and_hardly_above():
    rng = np.random.default_rng(0)
    with mpmath.workdps(60):
        for _ in range(400):
            mu, x = 10.0 ** rng.uniform(-5.0, 2.0), rng.uniform(-6.0, 12.0)
            epsilon = max(mu * (x + mu / 2), 0.0)
            found = float(gaussian_delta_upper(np.array([epsilon]), np.array([mu]))[0])
            exact = exact_gaussian(epsilon, mu)
            assert mpmath.mpf(found) >= exact
            assert found <= float(exact) * (1.0 + 1e-11 * (mu + 1.0 / mu)) + 1e-290


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_the_charge_is_the_formula_rounded_up(classes):
    rng = np.random.default_rng(classes)
    for _ in range(200):
        eta, l2, bound = np.exp(rng.uniform([-1.0, -3.0, -0.5], [1.0, 3.0, 0.5]))
        a, epsilon = rng.uniform(0.05, 1.0), np.exp(rng.uniform(-2.0, 1.0))
        mu, c = a * eta * bound * (1.0 if classes == 2 else math.sqrt(2.0)), a * bound**2 / l2
        expected = written(epsilon, mu, c, classes)
        found = float(gaussian_delta([epsilon], [a], eta, l2, row_bound=bound, n_classes=classes)[0])
        assert (
            min(expected, 1.0) * (1.0 - 1e-11) - 1e-15 <= found <= min(expected, 1.0) * (1.0 + 1e-10) + 1e-13
        )


@pytest.mark.parametrize("options", [{}, {"rows_per_person": 3}, {"n_classes": 4}])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.05])
def test_epsilon_and_delta_are_inverse_to_each_other(options, delta):
    weights = np.array([1e-6, 0.01, 0.2, 0.79])
    losses = gaussian_privacy_loss(weights, 1.5, 0.7, delta, **options)
    assert (gaussian_delta(losses, weights, 1.5, 0.7, **options) <= delta).all()
    noisy = losses > 1.05 * np.array([0.25, 1.0, 1.0, 1.0])[0] * weights / 0.7
    lower = gaussian_delta(losses * (1.0 - 1e-9), weights, 1.5, 0.7, **options)
    assert (lower > delta)[noisy].all()
    assert noisy[-1]


def test_more_noise_more_penalty_and_less_weight_cost_less():
    loss = float(gaussian_privacy_loss([0.1], 3.0, 0.2, DELTA)[0])
    assert float(gaussian_privacy_loss([0.1], 2.0, 0.2, DELTA)[0]) < loss
    assert float(gaussian_privacy_loss([0.1], 3.0, 0.5, DELTA)[0]) < loss
    assert float(gaussian_privacy_loss([0.05], 3.0, 0.2, DELTA)[0]) < loss
    assert float(gaussian_privacy_loss([0.1], 3.0, 0.2, 1e-4)[0]) < loss
    assert float(gaussian_privacy_loss([0.1], 3.0, 0.2, DELTA, row_bound=1.1)[0]) > loss
    assert float(gaussian_privacy_loss([0.1], 3.0, 0.2, DELTA, rows_per_person=2)[0]) > loss
    assert float(gaussian_privacy_loss([0.1], 3.0, 0.2, DELTA, n_classes=3)[0]) > loss
    assert gaussian_privacy_loss([0.0, 0.1], 3.0, 0.2, DELTA)[0] == 0.0


def test_any_number_of_rows_costs_the_same_and_hardly_more_than_one():
    one = float(gaussian_privacy_loss([0.1], 3.0, 5.0, DELTA)[0])
    two = float(gaussian_privacy_loss([0.1], 3.0, 5.0, DELTA, rows_per_person=2)[0])
    assert two == float(gaussian_privacy_loss([0.1], 3.0, 5.0, DELTA, rows_per_person=1000)[0])
    assert one < two < 1.01 * one


def test_many_steps_are_the_limit_of_ever_more_steps_and_above_all_of_them():
    epsilon, mu = 1.2, 0.3
    limit = float(many_steps(*(np.array([v]) for v in (epsilon, epsilon, mu)))[0])
    with mpmath.workdps(60):
        last = mpmath.mpf(0)
        for steps in (2, 10, 100, 10_000):
            h = mpmath.mpf(1) / steps
            factor = (mpmath.exp(epsilon) - 1) / (mpmath.exp(epsilon * h) - 1)
            delta = factor * exact_gaussian(epsilon * h, mu * h)
            assert last < delta < limit
            last = delta
        assert float(last) == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss_weights": [-0.1]},
        {"loss_weights": [0.0]},
        {"noise_rate": 0.0},
        {"noise_rate": math.inf},
        {"l2": -1.0},
        {"l2": 1e-120},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": math.nan},
        {"row_bound": 0.0},
        {"rows_per_person": 0},
        {"n_classes": 1},
    ],
)
def test_other_values_are_refused(wrong):
    usual = {"loss_weights": [0.5], "noise_rate": 1.0, "l2": 1.0, "delta": DELTA}
    with pytest.raises(InvalidInput):
        gaussian_privacy_loss(**(usual | wrong))


# ---------------------------------------------------------------- an adversary who sees the noise


def adversary(epsilon, mu, c):
    """Return delta of one who sees the noise and then picks both sigmoids, rows opposite to each other.

    The noise along the rows is normal, its loss ``z v + v^2 / 2`` with ``v = mu (s + s') / 2`` and the
    determinant's ``log(1 + c s (1 - s))``. Largest at s' = 0 or 1; s on a fine grid.
    """
    z = np.linspace(-12.0, 14.0, 26_001)
    s = np.linspace(0.0, 1.0, 401)
    v = 0.5 * mu * np.concatenate([s, s + 1.0])
    fixed = 0.5 * v**2 + np.tile(np.log1p(c * s * (1.0 - s)), 2)
    # In parts that stay in the processor's cache.
    parts = np.array_split(z, 1000)
    loss = np.concatenate([(np.multiply.outer(part, v) + fixed).max(axis=1) for part in parts])
    return float(np.trapezoid(norm.pdf(z) * np.maximum(-np.expm1(epsilon - loss), 0.0), z))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("ratio", [0.5, 2.0, 10.0, 200.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_who_picks_the_sigmoids_after_seeing_the_noise_never_exceeds_delta(epsilon, ratio, delta):
    mu = max(
        float(b.largest_mu(np.array([epsilon]), np.array([delta]), ratio)[0]) for b in vertex_bounds(2, 1)
    )
    assert adversary(epsilon, mu, mu / ratio) <= delta * (1.0 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-4])
def test_with_little_of_the_determinant_the_adversary_reaches_nearly_all_of_delta(epsilon, delta):
    bound = vertex_bounds(2, 1)[0]
    mu = float(bound.largest_mu(np.array([epsilon]), np.array([delta]), 20.0)[0])
    assert adversary(epsilon, mu, mu / 20.0) >= 0.95 * delta


@pytest.mark.parametrize(
    ("mutant", "epsilon", "ratio", "delta"),
    [
        # Half the distance: mu counted as what one of the two records moves.
        (VertexBound((1.0, 1.0, 1.0), (0.5, 0.25, 0.25), (False, False, True)), 1.0, 20.0, 1e-5),
        # No vertex for both records.
        (VertexBound((1.0, 1.0), (0.5, 0.5), (False, True)), 1.0, 20.0, 1e-5),
        # The determinant forgotten at the only vertex that has it.
        (VertexBound((1.0, 1.0, 1.0), (1.0, 0.5, 0.5), (False, False, False)), 1.0, 0.303, 5.4e-5),
        # That vertex left out altogether.
        (VertexBound((1.0, 1.0), (1.0, 0.5), (False, False)), 1.0, 0.303, 5.4e-5),
    ],
)
def test_a_bound_with_a_fault_is_exceeded_by_the_adversary(mutant, epsilon, ratio, delta):
    mu = float(mutant.largest_mu(np.array([epsilon]), np.array([delta]), ratio)[0])
    assert adversary(epsilon, mu, mu / ratio) > 1.02 * delta


# ---------------------------------------------------------------- exact outputs of one coefficient


def exact_delta_of_outputs(epsilon, rows, others, a, nu, l2):
    """Return delta between two data sets of one coefficient, by quadrature over the output.

    ``rows`` are the signed records of the person before and after, each a list that shares the weight ``a``;
    ``others`` has the rest of the weight.
    """
    w = np.linspace(-1.0, 1.0, 100_001)  # four times as many change no delta by 1e-5 of itself
    w = np.sinh(12.0 * w) / np.sinh(12.0) * 40.0 * (1.0 + 8.0 * nu) / l2

    def slope_and_curvature(records, weight):
        s = [expit(-w * u) for u in records]
        slope = sum(weight * each * u for each, u in zip(s, records, strict=True))
        return slope, sum(weight * u * u * each * (1.0 - each) for each, u in zip(s, records, strict=True))

    by_others = slope_and_curvature(others, (1.0 - a) / len(others))

    def density(own):
        slope, curvature = slope_and_curvature(own, a / len(own))
        noise = slope + by_others[0] - l2 * w
        return norm.pdf(noise, scale=nu) * (curvature + by_others[1] + l2)

    before, after = density(rows[0]), density(rows[1])
    assert np.trapezoid(before, w) == pytest.approx(1.0, rel=1e-4)
    return float(np.trapezoid(np.maximum(before - math.exp(epsilon) * after, 0.0), w))


@pytest.mark.parametrize("row_count", [1, 3])
def test_outputs_of_sampled_worst_cases_never_exceed_delta(row_count):
    rng = np.random.default_rng(row_count)
    largest = 0.0
    for case in range(60):
        epsilon, delta = np.exp(rng.uniform(-1.5, 1.0)), 10.0 ** rng.uniform(-6.0, -1.0)
        l2 = np.exp(rng.uniform(-1.0, 2.0))
        promises = [epsilon, np.exp(rng.uniform(-2.0, 1.0))]
        try:
            a, eta = gaussian_weights_for(promises, delta, l2, rows_per_person=row_count)
        except Infeasible:
            continue
        signs = rng.choice([-1.0, 1.0], (2, row_count)) if case % 2 else np.array([[1.0], [-1.0]])
        found = exact_delta_of_outputs(epsilon, signs, rng.uniform(-1.0, 1.0, 3), float(a[0]), 2.0 / eta, l2)
        largest = max(largest, found / delta)
        assert found <= delta * (1.0 + 1e-4)
    assert largest > 0.01  # some cases come near enough to tell


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize(
    "options", [{}, {"rows_per_person": 4}, {"n_classes": 5}, {"n_classes": 3, "rows_per_person": 2}]
)
@pytest.mark.parametrize("l2", [0.6, 5.0, 500.0])
@pytest.mark.parametrize("reserve", [0.0, 1e-6])
def test_weights_use_every_promise_fully_and_exceed_none(options, l2, reserve):
    promises = np.array([0.0, 0.5, 1.0, 1.0, 2.5, 1e-3, 7.0])
    weights = gaussian_weights_for(promises, DELTA, l2, row_bound=1.2, numerical_epsilon=reserve, **options)
    usable = np.maximum(promises - reserve, 0.0)
    losses = weights.privacy_losses()
    assert (losses <= usable).all()
    np.testing.assert_allclose(losses, usable, rtol=1e-8)
    assert weights.loss_weights[0] == 0.0
    assert float(weights.loss_weights.sum()) == pytest.approx(1.0, abs=1e-12)


def test_many_different_promises_are_kept_as_well():
    promises = np.exp(np.random.default_rng(0).uniform(-4.0, 2.0, 5_000))
    weights = gaussian_weights_for(promises, 1e-6, 0.05)
    losses = weights.privacy_losses()
    assert (losses <= promises).all()
    np.testing.assert_allclose(losses, promises, rtol=1e-8)


def test_weights_exist_exactly_where_promises_outweigh_the_penalty():
    promises = [0.5, 1.0]
    least = 1.0 / (4.0 * float(np.expm1(promises).sum()))
    with pytest.raises(Infeasible, match=r"l2 = 66\.67 works"):
        gaussian_weights_for(promises, DELTA, least * 0.999)
    weights = gaussian_weights_for(promises, DELTA, least * 1.01)
    assert (weights.privacy_losses() <= promises).all()
    assert (gaussian_weights_for(promises, DELTA, 66.67).privacy_losses() <= promises).all()


def test_the_release_is_paid_out_of_epsilon_and_delta():
    weights = gaussian_weights_for([1.0], DELTA, 5.0, numerical_epsilon=1e-3)
    kept = math.exp(1e-3) * weights.exact_delta + NUMERICAL_DELTA
    assert kept <= DELTA
    assert kept == pytest.approx(DELTA, rel=1e-12)
    assert weights.exact_delta == exact_delta(DELTA, 1e-3)
    assert exact_delta(2.0 * NUMERICAL_DELTA, 1e-9) == pytest.approx(NUMERICAL_DELTA, rel=1e-8)
    loss = gaussian_privacy_loss(weights.loss_weights, weights.noise_rate, 5.0, weights.exact_delta)
    assert float(loss[0]) + 1e-3 <= 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilons": [-1.0]},
        {"epsilons": [0.0]},
        {"epsilons": [1e-7], "numerical_epsilon": 1e-6},
        {"delta": 1e-19},
        {"delta": 1.5},
        {"l2": 0.0},
        {"numerical_epsilon": 2.0},
        {"rows_per_person": 1.5},
    ],
)
def test_promises_that_cannot_be_kept_are_refused(wrong):
    with pytest.raises(InvalidInput):
        gaussian_weights_for(**({"epsilons": [1.0], "delta": DELTA, "l2": 1.0} | wrong))


# ---------------------------------------------------------------- release


@pytest.mark.parametrize("classes", [2, 4])
def test_a_plan_costs_no_more_than_was_asked_for_and_uses_it(classes):
    for eta, l2, n in ((10.0, 0.5, 3), (1000.0, 0.01, 101), (0.3, 7.0, 1)):
        plan = gaussian_plan_release(1e-6, n, eta, l2, n_classes=classes, row_bound=1.3)
        cost = gaussian_release_cost(plan, n, eta, l2, n_classes=classes, row_bound=1.3)
        assert 0.95e-6 < cost == plan.numerical_epsilon <= 0.991e-6
        assert math.log2(plan.grid) == round(math.log2(plan.grid))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_price_of_the_release_is_the_formula(classes):
    n, eta, l2, bound, total = 5, 20.0, 0.1, 1.3, 0.9
    options = {"n_classes": classes, "row_bound": bound, "weight_total": total}
    plan = gaussian_plan_release(1e-4, n, eta, l2, **options)
    rho, g, nu = (plan.gradient_bound + plan.noise_accuracy) / l2, plan.grid, 2.0 / eta
    size = n if classes == 2 else classes * n
    steepest = l2 + total * bound**2 / (4.0 if classes == 2 else 2.0)
    if classes == 2:
        determinant = min(n * bound, total * bound**3 / (6.0 * math.sqrt(3.0) * l2))
    else:
        determinant = min(2 * (classes - 1) * n * bound, 2 * (1 - 1 / classes) * total * bound**3 / l2)
    short = nu * (math.sqrt(size) + math.sqrt(2.0 * 60.0 * math.log(2.0)))
    longest = short + 2.0 * steepest * math.sqrt(size) * (g / 2.0 + rho)
    expected = size * math.log((g + 2 * rho) / (g - 2 * rho))
    expected += 2 * rho * (math.sqrt(size) * steepest * longest / nu**2 + math.sqrt(n) * determinant)
    assert gaussian_release_cost(plan, n, eta, l2, **options) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [1, 7])
def test_noise_is_longer_than_the_cut_with_the_stated_probability_at_most(n):
    # Checked where it can be counted: at 1e-3 in the place of 2^-60, by the chi distribution.
    from scipy.stats import chi

    longest = math.sqrt(n) + math.sqrt(2.0 * math.log(1e3))
    assert chi.sf(longest, n) <= 1e-3


# ---------------------------------------------------------------- penalty


def test_the_penalty_is_that_of_as_much_noise_without_a_delta():
    promises = np.full(1000, 0.5)
    mu = gaussian_weights_for(promises, DELTA, 1e6).noise_rate
    found = gaussian_suggest_l2(promises, DELTA, 40)
    assert found == pytest.approx(suggest_l2(math.sqrt(41.0) * mu, 40), rel=1e-6)
    assert gaussian_suggest_stretch(mu, found, 40) == suggest_stretch(mu * math.sqrt(41.0), found, 40)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_suggested_penalty_lets_the_hessian_take_a_small_share_of_every_promise(classes):
    for promises in ([0.01, 5.0, 3.0], [1.0] * 50):
        l2 = gaussian_suggest_l2(promises, DELTA, 2, n_classes=classes)
        weights = gaussian_weights_for(promises, DELTA, l2, n_classes=classes)
        share = weights.loss_weights / l2 / np.asarray(promises)
        assert (share <= (0.26 if classes == 2 else 0.06)).all()
        most = gaussian_weights_for(promises, DELTA, 1e9, n_classes=classes).noise_rate
        assert weights.noise_rate >= 0.93 * most
