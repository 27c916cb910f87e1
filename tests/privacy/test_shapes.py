"""Noise shaped like the rows: exact densities never exceed the charge, and come close to it."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import expon, gamma, kstest

from dpmarket.errors import InvalidInput
from dpmarket.privacy import (
    NoiseShape,
    log_density,
    log_density_ratio,
    noise_power,
    privacy_loss,
    suggest_l2,
    suggest_stretch,
)
from dpmarket.privacy.grid import plan_release, release_cost
from dpmarket.privacy.noise import SecureNoise, SeededNoise
from dpmarket.privacy.shapes import l2_against_noise
from dpmarket.privacy.weights import weights_for

FALSE_ALARM = 1e-6
ETA, L2, OWN = 20.0, 1e-4, 0.05
EUCLIDEAN = 0.72  # rows with N = 1 and this Euclidean norm are nearly (1/2, 1/2)


def charge(row_bound=1.0, euclidean_bound=EUCLIDEAN, l2=L2):
    return float(privacy_loss([OWN], ETA, l2, row_bound, euclidean_bound=euclidean_bound)[0])


# ---------------------------------------------------------------- two coefficients, exactly


def two_dimensional(row_bound, euclidean_bound, separate, l2=L2):
    """Return the largest exact ratio among neighbours built to reach the charge; rows keep both bounds."""
    lengths, margins = np.geomspace(30.0, 1e4, 60), np.linspace(-14.0, 6.0, 81)
    w, own = (grid.ravel() for grid in np.meshgrid(lengths, margins, indexing="ij"))
    half = euclidean_bound / math.sqrt(2.0) * 0.999
    half = min(half, row_bound / 2.0) if separate else half
    room = math.sqrt(max(euclidean_bound**2 / 2.0 - half**2, 0.0)) * 0.999999
    far = np.minimum(room, 22.0 / (w * math.sqrt(2.0)))

    def row(side, along):
        return np.stack([side * half + along, side * half - along], axis=-1)

    mine = row(1.0, np.clip(own / (w * math.sqrt(2.0)), -room, room))
    theirs = row(-1.0, -far)
    output = np.stack([w, -w], axis=-1) / math.sqrt(2.0)
    ratios = log_density_ratio(
        output,
        mine[:, None],
        theirs[:, None],
        [OWN],
        theirs[:, None],
        [1.0 - OWN],
        noise_rate=ETA,
        l2=l2,
        separate=separate,
    )
    rows = np.concatenate([mine, theirs])
    assert float(np.abs(rows).sum(axis=1).max()) <= row_bound * (1.0 + 1e-12) or not separate
    assert float(np.linalg.norm(rows, axis=1).max()) <= euclidean_bound * (1.0 + 1e-12)
    return float(ratios.max())


def test_the_charge_is_nearly_reached_by_two_coefficients_and_never_exceeded():
    reached = two_dimensional(1.0, EUCLIDEAN, separate=2)
    assert 0.97 * charge() < reached <= charge()


def test_a_charge_with_the_wrong_bound_is_noticed():
    reached = two_dimensional(1.0, EUCLIDEAN, separate=2)
    assert reached < 0.97 * charge(1.0, 1.0)  # R1 in the place of R2: charged for more than can happen
    assert reached > charge(EUCLIDEAN, EUCLIDEAN)  # R2 in the place of R1: charged for less than happens


def test_noise_of_another_norm_than_the_rows_is_noticed():
    # Rows of Euclidean norm 1 under independent noise: their sum of absolute values is up to sqrt 2.
    assert two_dimensional(math.sqrt(2.0), 1.0 + 1e-9, separate=2) > charge(1.0, 1.0)
    # Radial noise for rows with N <= 1: what is charged for is never reached.
    assert two_dimensional(1.0, EUCLIDEAN, separate=0) < 0.97 * charge()


@pytest.mark.parametrize(("n", "separate"), [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("l2", [0.02, 0.3, 2.0])
def test_no_random_neighbours_exceed_the_charge(n, separate, l2):
    rng = np.random.default_rng([n, separate, int(100 * l2)])
    count = 20_000
    rows = rng.standard_normal((count, 4, n)) * rng.exponential(size=(count, 4, 1))
    sums, lengths = np.abs(rows).sum(axis=-1), np.linalg.norm(rows, axis=-1)
    euclidean = 1.0 if n == 1 else 0.8
    rows /= np.maximum(np.maximum(sums, lengths / euclidean), 1e-12)[..., None] * (1.0 + 1e-12)
    rows *= rng.uniform(0.0, 1.0, (count, 4, 1)) ** 0.2
    w = rng.standard_normal((count, n)) * np.exp(rng.uniform(-2.0, 6.0, (count, 1)))
    weights = np.array([0.4, 0.35, 0.25])
    for eta in (0.5, 4.0):
        ratios = log_density_ratio(
            w,
            rows[:, :1],
            rows[:, 1:2],
            weights[:1],
            rows[:, 2:],
            weights[1:],
            noise_rate=eta,
            l2=l2,
            separate=separate,
        )
        bound = privacy_loss(weights, eta, l2, 1.0, euclidean_bound=euclidean)[0]
        assert float(np.abs(ratios).max()) <= bound
        assert float(np.abs(ratios).max()) > (0.3 if n == 2 else 0.1) * bound  # the search is no empty one


def test_one_coefficient_has_only_one_shape():
    w, rows = np.linspace(-3.0, 3.0, 7)[:, None], [[0.9], [-0.4]]
    assert np.allclose(
        log_density(w, rows, [0.5, 0.5], 2.0, 0.3, separate=1), log_density(w, rows, [0.5, 0.5], 2.0, 0.3)
    )


@pytest.mark.parametrize("separate", [1, 2])
def test_the_density_of_two_coefficients_with_independent_noise_integrates_to_one(separate):
    axis = np.linspace(-60.0, 60.0, 1501)
    w = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    density = np.exp(log_density(w, [[0.5, 0.5], [-0.3, 0.6]], [0.7, 0.3], 2.0, 0.5, separate))
    assert float(density.sum()) * (axis[1] - axis[0]) ** 2 == pytest.approx(1.0, abs=1e-3)


# ---------------------------------------------------------------- the mixed norm needs three coefficients


def mixed_log_density(w, rows, weights, eta, l2):
    """Return the exact log density but for a constant: two joint coefficients, one separate."""
    low = 1.0 / (1.0 + np.exp(np.clip(np.einsum("krj,kj->kr", rows, w), -700.0, 700.0)))
    needed = np.einsum("kr,krj->kj", weights * low, rows) - l2 * w
    hessian = l2 * np.eye(3) + np.einsum("kr,krj,krm->kjm", weights * low * (1.0 - low), rows, rows)
    norm = np.linalg.norm(needed[:, :2], axis=1) + np.abs(needed[:, 2])
    return -0.5 * eta * norm + np.linalg.slogdet(hessian)[1]


def test_the_charge_of_the_mixed_norm_is_nearly_reached_and_never_exceeded():
    lengths, margins = np.geomspace(30.0, 1e5, 60), np.linspace(-14.0, 6.0, 81)
    w, own = (grid.ravel() for grid in np.meshgrid(lengths, margins, indexing="ij"))

    def row(side, along):
        along = np.clip(along, -0.2, 0.2)
        joint = 0.5 - 2.0 * along**2  # its length with `along` is at most 1/2
        return np.stack([side * joint, along, np.full_like(along, side * 0.5)], axis=-1)

    mine, theirs = row(1.0, own / w), row(-1.0, -22.0 / w)
    for one in (mine, theirs):
        assert float((np.linalg.norm(one[:, :2], axis=1) + np.abs(one[:, 2])).max()) <= 1.0
        assert float(np.linalg.norm(one, axis=1).max()) <= EUCLIDEAN
    output = np.stack([np.zeros_like(w), w, np.zeros_like(w)], axis=-1)
    weights = np.array([OWN, 1.0 - OWN])
    ratios = mixed_log_density(output, np.stack([mine, theirs], axis=1), weights, ETA, L2)
    ratios -= mixed_log_density(output, np.stack([theirs, theirs], axis=1), weights, ETA, L2)
    assert 0.97 * charge() < float(ratios.max()) <= charge()
    assert float(ratios.max()) < 0.97 * charge(1.0, 1.0)
    assert float(ratios.max()) > charge(EUCLIDEAN, EUCLIDEAN)


# ---------------------------------------------------------------- accounting


def test_equal_bounds_are_the_euclidean_accounting_to_the_bit():
    weights = [0.2, 0.8]
    assert np.array_equal(
        privacy_loss(weights, 3.0, 0.1, 1.3), privacy_loss(weights, 3.0, 0.1, 1.3, euclidean_bound=1.3)
    )


@pytest.mark.parametrize(
    ("eta", "l2", "r1", "r2"), list(itertools.product((0.7, 30.0), (1e-3, 0.4), (1.2, 1.0), (0.3, 0.9)))
)
def test_the_charge_is_the_maximum_of_its_formula(eta, l2, r1, r2):
    s = np.linspace(0.0, 1.0, 200_001)
    a = 0.1
    formula = a * eta * r1 / 2 + np.max(a * eta * r1 * s / 2 + np.log1p(a * r2**2 * s * (1 - s) / l2))
    assert privacy_loss([a], eta, l2, r1, euclidean_bound=r2)[0] == pytest.approx(formula, rel=1e-8)


def test_there_is_no_slack_exactly_where_the_formula_says():
    eta, r1, r2 = 8.0, 1.2, 0.5
    edge = 2.0 * r2**2 / r1 / eta
    assert privacy_loss([0.3], eta, edge * (1 + 1e-9), r1, euclidean_bound=r2)[0] == pytest.approx(
        0.3 * eta * r1
    )
    assert privacy_loss([0.3], eta, edge * 0.8, r1, euclidean_bound=r2)[0] > 0.3 * eta * r1 * (1 + 1e-6)


def test_the_equivalent_penalty_is_never_above_the_exact_one():
    from fractions import Fraction

    rng = np.random.default_rng(0)
    for l2, r1, r2 in rng.uniform(0.1, 2.0, (200, 3)).tolist():
        exact = Fraction(l2) * (Fraction(r1) / Fraction(r2)) ** 2
        assert Fraction(l2_against_noise(l2, r1, r2)) <= exact


@pytest.mark.parametrize("l2", [0.02, 0.5])
def test_weights_use_every_promise_fully_in_both_bounds(l2):
    promises = np.array([0.1, 0.4, 1.0, 0.0])
    weights = weights_for(promises, l2, 1.25, euclidean_bound=0.4)
    losses = weights.privacy_losses()
    assert bool((losses <= promises).all())
    assert losses == pytest.approx(promises, rel=1e-10)
    assert float(weights.loss_weights.sum()) == pytest.approx(1.0)


def test_an_l2_that_the_message_recommends_works():
    from dpmarket.errors import Infeasible

    with pytest.raises(Infeasible, match=r"euclidean_bound = 0.9.*l2 = ([0-9.e-]+) works") as caught:
        weights_for([0.01, 0.02], 0.001, 1.0, euclidean_bound=0.9)
    works = float(str(caught.value).split("l2 = ")[-1].split(" ")[0])
    weights_for([0.01, 0.02], works, 1.0, euclidean_bound=0.9)


# ---------------------------------------------------------------- sampling


def sampled(n, independent, rate, count):
    draws = (SeededNoise(seed).draw(n, rate, 1e-12, independent).high_low() for seed in range(count))
    return np.array([high + low for high, low in draws])


def test_independent_coefficients_are_laplace_and_the_others_radial():
    noise = sampled(4, 2, 3.0, 3000)
    for column in (2, 3):
        assert kstest(np.abs(noise[:, column]) * 1.5, expon.cdf).pvalue > FALSE_ALARM
        assert abs(float((noise[:, column] > 0).mean()) - 0.5) < 0.05
        assert kstest(np.abs(noise[:, column]) * 1.5 * 1.3, expon.cdf).pvalue < FALSE_ALARM
    lengths = np.linalg.norm(noise[:, :2], axis=1) * 1.5
    assert kstest(lengths, gamma(2).cdf).pvalue > FALSE_ALARM
    assert abs(float(np.corrcoef(np.abs(noise).T)[2, 3])) < 0.1
    assert abs(float(np.corrcoef(np.abs(noise).T)[0, 2])) < 0.1


def test_the_power_of_noise_is_its_mean_square():
    noise = sampled(5, 3, 2.0, 3000)
    assert float((noise**2).sum(axis=1).mean()) * 4.0 == pytest.approx(noise_power(5, 2), rel=0.1)


@pytest.mark.parametrize("independent", [1, 3, 6])
@pytest.mark.parametrize("rate", [1e-3, 50.0])
def test_a_shaped_draw_is_within_its_accuracy_of_a_much_better_one(independent, rate):
    for seed in range(20):
        coarse = SeededNoise(seed).draw(6, rate, 1e-3, independent)
        fine = SeededNoise(seed).draw(6, rate, 1e-40, independent)
        a = np.array([float(x) for x in coarse.numerators]) / 2.0**coarse.bits
        b = np.array([float(x) / 2.0**fine.bits for x in fine.numerators])
        assert float(np.linalg.norm(a - b)) <= 1e-3


def test_more_independent_coefficients_than_there_are_is_refused():
    with pytest.raises(InvalidInput, match="at most 3 independent"):
        SecureNoise().draw(3, 1.0, 1e-9, 4)


# ---------------------------------------------------------------- release


@pytest.mark.parametrize("n", [2, 40])
@pytest.mark.parametrize("joint", [0, 1])
def test_a_shaped_plan_costs_at_most_what_was_set_aside(n, joint):
    plan = plan_release(1e-6, n, 100.0, 0.01, 1.2, 1.0, euclidean_bound=0.5, joint_columns=joint)
    cost = release_cost(plan, n, 100.0, 0.01, 1.2, 1.0, euclidean_bound=0.5, joint_columns=joint)
    assert 0.9e-6 < cost <= 1e-6
    assert math.log2(plan.grid) == round(math.log2(plan.grid))
    finer = plan_release(1e-6, n, 100.0, 0.01, 1.2, 1.0, euclidean_bound=0.5, joint_columns=n)
    assert plan.grid <= finer.grid  # independent noise is the smaller one


@pytest.mark.parametrize("joint", [0, 3])
def test_the_price_of_a_shaped_release_is_its_formula(joint):
    n, eta, l2, r1, r2, total = 7, 30.0, 0.04, 1.25, 0.5, 1.1
    plan = plan_release(1e-4, n, eta, l2, r1, total, euclidean_bound=r2, joint_columns=joint)
    rho = (plan.gradient_bound + plan.noise_accuracy) / l2
    ones = math.sqrt(joint) + n - joint
    sums = min(math.sqrt(n) * r2, math.sqrt(max(joint, 1)) * r1)
    bent = math.sqrt(n) * min(n * r2, total * r2**3 / (6.0 * math.sqrt(3.0) * l2))
    price = n * math.log((plan.grid + 2 * rho) / (plan.grid - 2 * rho))
    price += 2 * rho * (eta / 2 * (l2 * ones + total / 4 * r1 * sums) + bent)
    assert release_cost(
        plan, n, eta, l2, r1, total, euclidean_bound=r2, joint_columns=joint
    ) == pytest.approx(price, rel=1e-9)


def test_the_shaped_log_density_is_nowhere_steeper_than_what_is_charged():
    rng = np.random.default_rng(3)
    eta, l2, n, euclidean = 6.0, 0.05, 2, 0.8
    count = 4000
    rows = rng.standard_normal((count, 3, n))
    sums, lengths = np.abs(rows).sum(axis=-1), np.linalg.norm(rows, axis=-1)
    rows /= np.maximum(sums, lengths / euclidean)[..., None]
    weights = np.array([0.2, 0.5, 0.3])
    w = rng.standard_normal((count, n)) * np.exp(rng.uniform(-3.0, 4.0, (count, 1)))
    step = 1e-5 * rng.choice([-1.0, 1.0], (count, n))
    change = log_density(w + step, rows, weights, eta, l2, 2) - log_density(w, rows, weights, eta, l2, 2)
    plan = plan_release(1e-3, n, eta, l2, 1.0, 1.0, euclidean_bound=euclidean, joint_columns=0)
    rho = (plan.gradient_bound + plan.noise_accuracy) / l2
    box = n * math.log((plan.grid + 2 * rho) / (plan.grid - 2 * rho))
    allowed = (release_cost(plan, n, eta, l2, 1.0, 1.0, euclidean_bound=euclidean, joint_columns=0) - box) / (
        2 * rho
    )  # per unit of a box
    steepest = float(np.abs(change).max()) / 1e-5
    assert 0.3 * allowed < steepest <= allowed


# ---------------------------------------------------------------- the value


@pytest.mark.parametrize(
    ("separate", "bound"), [([], 1.0), ([1, 0], 1.0), ([True], 1.5), ([True], 0.0), ([[True]], 1.0)]
)
def test_shapes_that_make_no_sense_are_refused(separate, bound):
    with pytest.raises(InvalidInput):
        NoiseShape(separate, bound)


def test_a_shape_survives_being_written_down():
    shape = NoiseShape([True, False], 0.7)
    assert NoiseShape.from_dict(shape.to_dict()) == shape
    assert hash(shape) == hash(NoiseShape((True, False), 0.7))
    for broken in (None, {}, shape.to_dict() | {"schema": "x"}, shape.to_dict() | {"more": 1}):
        with pytest.raises(InvalidInput):
            NoiseShape.from_dict(broken)


# ---------------------------------------------------------------- defaults


@pytest.mark.parametrize("eta", [0.5, 40.0, 1e6])
@pytest.mark.parametrize(("n", "joint", "r2"), [(3, 0, 0.9), (109, 6, 0.35), (50, 49, 0.5)])
def test_the_suggested_penalty_of_a_shape_leaves_no_slack(eta, n, joint, r2):
    r1 = 1.125
    l2 = suggest_l2(eta, n, r1, r2, joint)
    assert privacy_loss([0.25], eta, l2, r1, euclidean_bound=r2)[0] == pytest.approx(
        0.25 * eta * r1, rel=1e-12
    )
    assert suggest_stretch(eta, l2, n, r1, r2, joint) >= 1.0


def test_without_separate_coefficients_the_suggestions_are_the_euclidean_ones():
    assert suggest_l2(40.0, 9, 1.2, None, 9) == suggest_l2(40.0, 9, 1.2)
    assert suggest_stretch(40.0, 0.1, 9, 1.2, None, 9) == suggest_stretch(40.0, 0.1, 9, 1.2)
