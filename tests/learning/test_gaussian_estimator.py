"""PrivateLogisticRegression with a delta: Gaussian noise, for two classes and for more."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from dpmarket.audit import weights_of
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.learning.minimiser import minimise
from dpmarket.learning.rows import Rows
from dpmarket.privacy import (
    Account,
    NoiseShape,
    SeededNoise,
    gaussian_delta,
    gaussian_release_cost,
    gaussian_suggest_l2,
    gaussian_weights_for,
    weights_for,
)
from dpmarket.privacy.gaussian_weights import NUMERICAL_DELTA, GaussianWeights
from dpmarket.privacy.loss import Softmax

DELTA = 1e-5


def records(count=300, n=4, classes=2, seed=0, strength=8.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(1.0, 1.3, (count, 1))
    scores = strength * x @ rng.normal(size=(n, classes)) + rng.gumbel(size=(count, classes))
    return x, scores.argmax(axis=1)


def model(seed=0, classes=2, **settings):
    usual = {"classes": tuple(range(classes)), "noise_source": SeededNoise(seed), "delta": DELTA}
    return PrivateLogisticRegression(**(usual | settings))


@pytest.mark.parametrize("classes", [2, 3])
def test_promises_are_used_fully_and_none_is_exceeded(classes):
    x, y = records(classes=classes)
    promises = np.random.default_rng(1).choice([0.0, 0.2, 1.0, 4.0], 300)
    fitted = model(classes=classes).fit(x, y, epsilons=promises)
    assert fitted.delta_ == DELTA
    assert (fitted.epsilons_ <= promises).all()
    np.testing.assert_allclose(fitted.epsilons_, promises, rtol=1e-6, atol=2e-8)
    # What the exact output and the release cost together, from public values only.
    kappa = fitted.numerical_epsilon_
    spent = fitted.epsilons_ - np.where(promises > 0.0, kappa, 0.0)
    deltas = gaussian_delta(
        np.maximum(spent, 0.0), fitted.loss_weights_, fitted.noise_rate_, fitted.l2_,
        row_bound=fitted.row_bound_, n_classes=classes,
    )  # fmt: skip
    assert float((np.exp(kappa) * deltas).max()) + NUMERICAL_DELTA <= DELTA * (1.0 + 1e-9)
    assert float(deltas.max()) >= 0.999 * DELTA


@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_released_is_the_minimiser_on_the_grid(classes):
    x, y = records(classes=classes)
    fitted = model(seed=3, classes=classes, epsilon=2.0, l2=0.4, fit_intercept=False).fit(x, y)
    size = 4 if classes == 2 else 4 * classes
    plan = fitted.release_plan_
    noise = SeededNoise(3).draw_normal(size, fitted.noise_rate_, plan.noise_accuracy).high_low()
    options = {"row_bound": fitted.row_bound_, "gradient_bound": 1e-18}
    if classes == 2:
        rows = Rows(x, (y == 1).astype(float), fitted.loss_weights_, constant=False)
        found = minimise(rows, fitted.l2_, *noise, **options).high
    else:
        rows = Rows(x, y.astype(float), fitted.loss_weights_, constant=False)
        blocks = [part.reshape(classes, -1) for part in noise]
        found = minimise(rows, fitted.l2_, *blocks, **options, loss=Softmax(classes)).high
    assert np.abs(found / plan.grid - fitted.coef_grid_).max() <= 0.5 + 1e-6
    cost = gaussian_release_cost(
        plan, 4, fitted.noise_rate_, fitted.l2_, n_classes=classes, row_bound=fitted.row_bound_
    )
    assert cost == pytest.approx(fitted.numerical_epsilon_, rel=1e-8)
    assert cost <= 1e-6


def test_the_default_penalty_is_the_suggested_one():
    x, y = records()
    fitted = model(epsilon=1.0).fit(x, y)
    usable = np.full(300, 1.0 - 1e-6)
    assert fitted.l2_ == gaussian_suggest_l2(usable, DELTA, 5, row_bound=fitted.row_bound_)
    assert fitted.stretch_ > 1.0


def test_without_a_delta_the_model_says_zero():
    x, y = records()
    assert model(delta=None, epsilon=1.0).fit(x, y).delta_ == 0.0


def test_many_coefficients_have_less_noise_with_a_delta():
    x, y = records(n=100)
    x /= 1.5
    pure, gaussian = (model(delta=delta, epsilon=1.0, l2=1.0).fit(x, y) for delta in (None, DELTA))
    assert gaussian.noise_standard_error_ < 0.5 * pure.noise_standard_error_


def test_the_stated_standard_error_is_that_of_noise_alone():
    x, y = np.zeros((10, 12)), np.tile([0, 1], 5)
    draws = [model(seed, fit_intercept=False, epsilon=3.0).fit(x, y) for seed in range(50)]
    found = np.sqrt(np.mean([fitted.coef_**2 for fitted in draws]))
    # 600 normal coefficients: the ratio's standard error is 2.9 %; five of them, rate 1e-6.
    assert found == pytest.approx(draws[0].noise_standard_error_, rel=0.15)


@pytest.mark.parametrize(("delta", "count"), [(1e-3, 101), (0.2, 3)])
def test_a_delta_that_is_large_for_so_many_people_is_refused_with_the_reason(delta, count):
    x, y = records(count)
    with pytest.raises(InvalidInput, match=r"at most 1 / \(10 \* people\) = .* publishing the records"):
        model(delta=delta, epsilon=1.0).fit(x, y)
    fitted = model(delta=1.0 / (10 * count), epsilon=1.0).fit(x, y)
    assert fitted.delta_ == 1.0 / (10 * count)


def test_people_are_counted_not_records():
    x, y = records(60)
    people = np.arange(60) // 3
    usual = {"epsilon": 1.0, "rows_per_person": 3}
    model(delta=1.0 / 200, **usual).fit(x, y, people=people)
    with pytest.raises(InvalidInput, match="for 20 people"):
        model(delta=1.01 / 200, **usual).fit(x, y, people=people)


@pytest.mark.parametrize("classes", [2, 3])
def test_several_rows_of_a_person_are_charged_by_their_own_bound(classes):
    x, y = records(90, classes=classes)
    people = np.arange(90) // 3
    fitted = model(classes=classes, epsilon=2.0, rows_per_person=3).fit(x, y, people=people)
    assert fitted.epsilons_ == pytest.approx(np.full(30, 2.0), rel=1e-6)
    alone = model(classes=classes, epsilon=2.0, l2=fitted.l2_).fit(x[:30], y[:30])
    assert fitted.noise_rate_ < alone.noise_rate_


@pytest.mark.parametrize("delta", [0.0, -1e-5, 1.0, 1e-19, float("nan"), "1e-5"])
def test_other_deltas_are_refused(delta):
    x, y = records(30)
    with pytest.raises(InvalidInput):
        model(delta=delta, epsilon=1.0).fit(x, y)


def test_an_account_is_charged_epsilon_and_delta_before_noise_is_drawn():
    x, y = records(30)
    account = Account(3.0, delta=2.5 * DELTA)
    for _ in range(2):
        model(epsilon=1.0).fit(x, y, account=account)
    with pytest.raises(Infeasible, match="limit"):
        model(epsilon=0.5).fit(x, y, account=account)
    assert account.left([0])[0] == pytest.approx(1.0, abs=1e-5)
    # Without a delta there is room for another model.
    model(delta=None, epsilon=0.5).fit(x, y, account=account)


def test_a_source_without_gaussian_noise_is_refused():
    class Radial:
        certifiable = True

        def draw(self, *arguments):
            raise AssertionError("drawn")

    x, y = records(30)
    with pytest.raises(InvalidInput, match="draw_normal"):
        model(epsilon=1.0, noise_source=Radial()).fit(x, y)


def test_prepared_weights_are_used_as_they_are():
    x, y = records(40)
    fitted = model(epsilon=1.0).fit(x, y)
    weights = gaussian_weights_for(
        np.full(40, 1.0), DELTA, fitted.l2_, row_bound=fitted.row_bound_, numerical_epsilon=1e-6
    )
    again = model(stretch=fitted.stretch_).fit(x, y, epsilons=weights)
    assert (again.coef_grid_ == fitted.coef_grid_).all()
    assert again.delta_ == DELTA


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (weights_for(np.full(40, 1.0), 1.0, 1.2, numerical_epsilon=1e-6), "gaussian_weights_for"),
        (gaussian_weights_for(np.full(40, 1.0), 1e-6, 5.0, row_bound=1.2, numerical_epsilon=1e-6), "delta"),
        (gaussian_weights_for(np.full(40, 1.0), DELTA, 5.0, numerical_epsilon=1e-6), "row_bound"),
        (gaussian_weights_for(np.full(40, 1.0), DELTA, 5.0, row_bound=1.2), "numerical_epsilon > 0"),
        (
            gaussian_weights_for(
                np.full(40, 1.0), DELTA, 5.0, row_bound=1.2, n_classes=3, numerical_epsilon=1e-6
            ),
            "n_classes",
        ),
    ],
)
def test_weights_prepared_for_another_model_are_refused(weights, message):
    x, y = records(40)
    with pytest.raises(InvalidInput, match=message):
        model().fit(x, y, epsilons=weights)


def test_weights_with_a_delta_are_refused_by_a_model_without():
    x, y = records(40)
    weights = gaussian_weights_for(np.full(40, 1.0), DELTA, 5.0, row_bound=1.2, numerical_epsilon=1e-6)
    with pytest.raises(InvalidInput, match="weights_for"):
        model(delta=None).fit(x, y, epsilons=weights)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_scaled_for_another_norm_are_charged_by_their_euclidean_bound(classes):
    rng = np.random.default_rng(0)
    x = np.zeros((200, 8))
    for group in range(4):
        x[np.arange(200), 2 * group + rng.integers(0, 2, 200)] = 0.25 * (1.0 - 2.0**-30)
    y = rng.integers(0, classes, 200)
    shape = NoiseShape([True] * 8, euclidean_bound=0.5)
    fitted = model(classes=classes, epsilon=1.0, noise_shape=shape, fit_intercept=False).fit(x, y)
    assert fitted.row_bound_ == pytest.approx(0.5)
    # Twice as long rows at four times the penalty are the same problem in another unit.
    plain = model(classes=classes, epsilon=1.0, fit_intercept=False, l2=4.0 * fitted.l2_).fit(x, y)
    assert fitted.noise_rate_ == pytest.approx(2.0 * plain.noise_rate_, rel=1e-6)
    x[0] *= 3.0
    with pytest.raises(InvalidInput, match="row"):
        model(classes=classes, epsilon=1.0, noise_shape=shape).fit(x, y)


def test_records_of_people_without_a_promise_have_no_influence():
    x, y = records(40)
    promises = np.where(np.arange(40) < 20, 1.0, 0.0)
    first = model().fit(x, y, epsilons=promises)
    second = model().fit(np.where(promises[:, None] > 0, x, -x), y, epsilons=promises)
    assert (first.coef_grid_ == second.coef_grid_).all()


def test_a_model_can_be_cloned_pickled_and_published():
    x, y = records(40)
    fitted = model(epsilon=1.0).fit(x, y)
    assert clone(fitted).delta == DELTA
    again = pickle.loads(pickle.dumps(fitted.published()))
    assert again.delta_ == DELTA
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()


def test_two_fits_differ_without_a_seed():
    x, y = records(40)
    fits = [model(epsilon=1.0, noise_source=None).fit(x, y).coef_grid_ for _ in range(2)]
    assert (fits[0] != fits[1]).any()


def test_an_audit_knows_the_weights_of_a_model_with_a_delta():
    x, y = records(40)
    weights = weights_of(model(epsilon=1.0).fit(x, y))
    assert isinstance(weights, GaussianWeights)
    assert weights.delta == DELTA
    assert not isinstance(weights_of(model(delta=None, epsilon=1.0).fit(x, y)), GaussianWeights)
