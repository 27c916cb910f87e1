"""PrivateLogisticRegression with more than two classes."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.learning.minimiser import minimise
from dpmarket.learning.rows import Rows
from dpmarket.privacy import (
    Account,
    NoiseShape,
    SeededNoise,
    softmax_privacy_loss,
    softmax_weights_for,
    weights_for,
)
from dpmarket.privacy.loss import Softmax
from dpmarket.privacy.softmax_release import softmax_release_cost

CLASSES = ("a", "b", "c")


def records(count=300, n=4, classes=3, seed=0, strength=8.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(1.0, 1.3, (count, 1))
    scores = strength * x @ rng.normal(size=(n, classes)) + rng.gumbel(size=(count, classes))
    return x, np.array(list("abcdefgh"[:classes]))[scores.argmax(axis=1)]


def model(seed=0, **settings):
    return PrivateLogisticRegression(**({"classes": CLASSES, "noise_source": SeededNoise(seed)} | settings))


def test_a_model_has_a_row_of_coefficients_for_every_class():
    x, y = records()
    fitted = model(epsilon=3.0).fit(x, y)
    assert fitted.coef_.shape == (3, 4)
    assert fitted.intercept_.shape == (3,)
    assert fitted.coef_grid_.shape == (3, 5)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    scores = fitted.decision_function(x)
    np.testing.assert_allclose(scores, x @ fitted.coef_.T + fitted.intercept_)
    np.testing.assert_allclose(fitted.predict_proba(x), softmax(scores, axis=1))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(x)), fitted.predict_proba(x))
    assert (fitted.predict(x) == np.array(CLASSES)[scores.argmax(axis=1)]).all()


def test_two_classes_stay_the_binary_model():
    x, y = records(classes=2)
    fitted = model(epsilon=3.0, classes=("a", "b")).fit(x, y)
    assert fitted.coef_.shape == (1, 4)
    assert fitted.coef_grid_.shape == (5,)
    assert fitted.decision_function(x).shape == (300,)
    assert fitted.epsilons_ == pytest.approx(np.full(300, 3.0), rel=1e-6)
    assert fitted.noise_rate_ == pytest.approx(300 * 3.0 / fitted.row_bound_, rel=1e-6)


def test_promises_are_used_fully_and_none_is_exceeded():
    x, y = records()
    promised = np.random.default_rng(1).uniform(0.0, 4.0, 300)
    promised[:20] = 0.0
    fitted = model().fit(x, y, epsilons=promised)
    assert (fitted.epsilons_ <= promised).all()
    assert fitted.epsilons_ == pytest.approx(promised, rel=1e-4, abs=1e-5)
    losses = softmax_privacy_loss(
        fitted.loss_weights_, fitted.noise_rate_, fitted.l2_, 3, fitted.row_bound_, 1, n_coefficients=5
    )
    cost = softmax_release_cost(
        fitted.release_plan_, 3, 5, fitted.noise_rate_, fitted.l2_, fitted.row_bound_, weight_total=1.0 + 1e-9
    )
    assert fitted.numerical_epsilon_ == pytest.approx(cost, rel=1e-9)
    charged = np.where(fitted.loss_weights_ > 0.0, losses + cost, 0.0)
    assert fitted.epsilons_ == pytest.approx(charged, rel=1e-9, abs=1e-12)


def exact_minimiser(fitted, x, y, seed):
    """Return the minimiser for the model's own noise, found without its geometry, and the noise."""
    n = x.shape[1] + 1
    draw = SeededNoise(seed).draw(n, fitted.noise_rate_, fitted.release_plan_.noise_accuracy, blocks=3)
    noise = np.array(draw.numerators, dtype=object) / 2**draw.bits
    noise = noise.astype(float).reshape(3, n)
    rows = np.column_stack([x, np.full(len(x), fitted.intercept_scaling_)])
    numbers = np.searchsorted(CLASSES, y).astype(float)
    problem = Rows(rows, numbers, fitted.loss_weights_, constant=False)
    found = minimise(problem, fitted.l2_, noise, np.zeros((3, n)), fitted.row_bound_, 1e-14, loss=Softmax(3))
    return found.high, noise


def test_what_is_released_is_the_minimiser_on_the_grid_and_centred_only_then():
    x, y = records()
    fitted = model(seed=5, epsilon=2.0).fit(x, y)
    exact, noise = exact_minimiser(fitted, x, y, 5)
    assert np.array_equal(fitted.coef_grid_, np.rint(exact / fitted.grid_))
    # What classes have in common is noise alone, divided by the penalty: it is released, too.
    common = -noise.mean(axis=0) / fitted.l2_
    released = fitted.coef_grid_.mean(axis=0) * fitted.grid_
    assert np.abs(released - common).max() <= fitted.grid_
    assert np.abs(common).max() > 3.0 * fitted.grid_
    values = fitted.coef_grid_ * fitted.grid_
    values = (values - values.mean(axis=0)) * fitted.stretch_
    np.testing.assert_allclose(fitted.coef_, values[:, :4])
    np.testing.assert_allclose(fitted.intercept_, values[:, 4] * fitted.intercept_scaling_)
    assert np.abs(fitted.coef_.sum(axis=0)).max() < 1e-12


def test_the_order_of_declared_classes_does_not_matter_but_for_the_noise():
    x, y = records(count=3_000)
    a = model(epsilon=50.0).fit(x, y)
    b = model(epsilon=50.0, classes=("c", "a", "b")).fit(x, y)
    assert b.classes_.tolist() == ["c", "a", "b"]
    np.testing.assert_allclose(a.coef_, b.coef_[[1, 2, 0]], atol=1.0)
    assert (a.predict(x) == b.predict(x)).mean() > 0.97


def test_sparse_rows_give_the_same_model():
    x, y = records()
    dense, sparse = model(epsilon=2.0).fit(x, y), model(epsilon=2.0).fit(csr_matrix(x), y)
    assert np.array_equal(dense.coef_grid_, sparse.coef_grid_)
    assert np.array_equal(dense.predict(x), sparse.predict(csr_matrix(x)))


def test_without_a_constant_column_there_is_no_intercept():
    x, y = records()
    fitted = model(epsilon=2.0, fit_intercept=False).fit(x, y)
    assert fitted.coef_grid_.shape == (3, 4)
    assert (fitted.intercept_ == np.zeros(3)).all()


def test_several_rows_of_a_person_are_charged_by_their_own_bound():
    x, y = records(count=60)
    people = np.repeat(np.arange(10), 6)
    fitted = model(rows_per_person=6, l2=0.5).fit(x[:, :1], y, epsilons=np.full(10, 2.0), people=people)
    assert fitted.rows_per_person_ == 6
    charged = softmax_privacy_loss(
        fitted.loss_weights_, fitted.noise_rate_, fitted.l2_, 3, fitted.row_bound_, 6, n_coefficients=2
    )
    assert fitted.epsilons_ == pytest.approx(charged + fitted.numerical_epsilon_)
    # min(r, n) = 2 rows would be charged less: that rule is for two classes.
    less = softmax_privacy_loss(
        fitted.loss_weights_, fitted.noise_rate_, fitted.l2_, 3, fitted.row_bound_, 2, n_coefficients=2
    )
    assert (less < charged * (1.0 - 1e-6)).all()


def test_records_of_people_without_a_promise_have_no_influence():
    x, y = records()
    promised = np.where(np.arange(300) % 3 == 0, 0.0, 2.0)
    other, relabelled = x.copy(), y.copy()
    other[::3], relabelled[::3] = 0.1, "b"
    a = model().fit(x, y, epsilons=promised)
    b = model().fit(other, relabelled, epsilons=promised)
    assert np.array_equal(a.coef_grid_, b.coef_grid_)


def test_prepared_weights_are_used_as_they_are():
    x, y = records()
    weights = softmax_weights_for(np.full(300, 2.0), 0.1, 3, 5, 1.5, numerical_epsilon=1e-6)
    fitted = model().fit(x, y, epsilons=weights)
    assert fitted.l2_ == 0.1
    assert fitted.stretch_ == 1.0
    assert np.array_equal(fitted.loss_weights_, weights.loss_weights)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (weights_for(np.full(300, 2.0), 0.1, 1.5, numerical_epsilon=1e-6), "softmax_weights_for"),
        (softmax_weights_for(np.full(300, 2.0), 0.1, 4, 5, 1.5, 1, numerical_epsilon=1e-6), "of 3 classes"),
        (softmax_weights_for(np.full(300, 2.0), 0.1, 3, 4, 1.5, 1, numerical_epsilon=1e-6), "n_coefficients"),
        (softmax_weights_for(np.full(300, 2.0), 0.1, 3, 5, 1.0, 1, numerical_epsilon=1e-6), "row_bound"),
        (softmax_weights_for(np.full(300, 2.0), 0.1, 3, 5, 1.5), "numerical_epsilon"),
    ],
)
def test_weights_prepared_for_another_model_are_refused(weights, message):
    x, y = records()
    with pytest.raises(InvalidInput, match=message):
        model().fit(x, y, epsilons=weights)


def test_weights_prepared_for_more_classes_are_refused_for_two():
    x, y = records(classes=2)
    weights = softmax_weights_for(np.full(300, 2.0), 0.1, 3, 5, 1.5, numerical_epsilon=1e-6)
    with pytest.raises(InvalidInput, match="two classes"):
        model(classes=("a", "b")).fit(x, y, epsilons=weights)


def test_a_label_that_was_not_declared_is_refused_without_being_quoted():
    x, y = records(classes=4)
    with pytest.raises(InvalidInput, match="one of the classes") as refusal:
        model(epsilon=1.0).fit(x, y)
    assert "'d'" not in str(refusal.value)


def test_a_declared_class_without_a_record_is_predicted_by_nobody_but_has_a_probability():
    x, y = records()
    fitted = model(epsilon=30.0, classes=("a", "b", "c", "z")).fit(x, y)
    assert fitted.predict_proba(x).shape == (300, 4)
    assert (fitted.predict_proba(x)[:, 3] < 0.25).all()


def test_undeclared_classes_are_found_and_cannot_be_certified():
    x, y = records()
    fitted = PrivateLogisticRegression(epsilon=2.0).fit(x, y)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert not fitted.certifiable_
    assert PrivateLogisticRegression(epsilon=2.0, classes=CLASSES).fit(x, y).certifiable_


def test_other_shapes_of_noise_are_refused_until_they_are_proved():
    x, y = records()
    shape = NoiseShape([False, False, True, True])
    with pytest.raises(InvalidInput, match="more than two classes"):
        model(epsilon=1.0, noise_shape=shape).fit(x / 2.0, y)


def test_an_account_is_charged_before_noise_is_drawn():
    x, y = records()
    account = Account(dict.fromkeys(range(300), 3.0))
    fitted = model(epsilon=2.0).fit(x, y, account=account)
    assert account.left([0])[0] == pytest.approx(3.0 - fitted.epsilons_[0])
    with pytest.raises(Infeasible):
        model(epsilon=2.0).fit(x, y, account=account)


def test_long_rows_are_clipped_in_training_and_in_prediction():
    x, y = records()
    far = x * 3.0
    short = far / np.linalg.norm(far, axis=1, keepdims=True)
    a, b = model(epsilon=2.0, clip=True).fit(far, y), model(epsilon=2.0, clip=True).fit(short, y)
    assert np.array_equal(a.coef_grid_, b.coef_grid_)
    np.testing.assert_allclose(a.predict_proba(far), a.predict_proba(short), atol=1e-12)
    with pytest.raises(InvalidInput, match="norm at most 1"):
        model(epsilon=2.0).fit(far, y)


def test_a_published_model_carries_no_promises_and_predicts_the_same():
    x, y = records()
    fitted = model(epsilon=2.0).fit(x, y)
    copy = pickle.loads(pickle.dumps(fitted.published()))
    assert not hasattr(copy, "epsilons_")
    assert np.array_equal(copy.predict_proba(x), fitted.predict_proba(x))


def test_the_stated_standard_error_is_that_of_noise_alone():
    """Records that say nothing: coefficients are noise divided by the penalty, but for a small curvature."""
    x = np.zeros((30, 2))
    y = np.array(["a", "b", "c"] * 10)
    fits = [model(seed=k, epsilon=1.0, fit_intercept=False).fit(x, y) for k in range(300)]
    spread = np.sqrt(np.mean([fit.coef_**2 for fit in fits]))
    assert spread == pytest.approx(fits[0].noise_standard_error_, rel=0.15)


def test_learning_works():
    x, y = records(count=4_000, strength=15.0)
    fitted = model(epsilon=5.0).fit(x[:3_000], y[:3_000])
    assert fitted.score(x[3_000:], y[3_000:]) > 0.85


@pytest.mark.slow
def test_twenty_classes_of_five_hundred_features_need_less_than_two_gigabytes():
    """In a process of its own, whose peak is its own; a Hessian of 10,020 coefficients takes 0.8 GB."""
    import subprocess
    import sys

    script = """
import resource
import numpy as np
from dpmarket.learning import PrivateLogisticRegression
rng = np.random.default_rng(0)
x = rng.normal(size=(20_000, 500))
x /= np.linalg.norm(x, axis=1, keepdims=True) * (1 + 1e-12)
y = (x @ rng.normal(size=(500, 20)) * 30 + rng.gumbel(size=(20_000, 20))).argmax(axis=1)
model = PrivateLogisticRegression(epsilon=5.0, classes=tuple(range(20))).fit(x, y)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, model.coef_.shape)
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    peak, shape = told.split(maxsplit=1)
    assert int(peak) < 2_000_000  # kilobytes
    assert shape.strip() == "(20, 500)"


class OldSource:
    """A noise source of one's own from before models could have more than two classes or other shapes."""

    certifiable = False

    def draw(self, n_coefficients, noise_rate, accuracy):
        return SeededNoise(1).draw(n_coefficients, noise_rate, accuracy)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [({}, "blocks"), ({"classes": ("a", "b"), "noise_shape": NoiseShape([True] * 4)}, "independent")],
)
def test_a_source_that_cannot_draw_what_is_needed_is_refused_before_anybody_is_charged(settings, argument):
    x, y = records(classes=len(settings.get("classes", CLASSES)))
    account = Account(np.full(300, 5.0))
    before = account.left(range(300))
    with pytest.raises(InvalidInput, match=f"whose draw takes '{argument}'"):
        model(epsilon=3.0, clip=True, **settings | {"noise_source": OldSource()}).fit(x, y, account=account)
    assert np.array_equal(account.left(range(300)), before)
    model(epsilon=3.0, classes=("a", "b"), noise_source=OldSource()).fit(*records(classes=2), account=account)
    assert (account.left(range(300)) < 3.0).all()
