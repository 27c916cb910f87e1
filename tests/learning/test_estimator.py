"""The estimator: promises kept, bad input refused before noise is drawn, nothing private in what it says."""

import os
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

from dpmarket.errors import DpmarketError, EntropyUnavailable, Infeasible, InvalidInput
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import Account, SeededNoise


class NoNoise:
    """A source that must not be asked: the refusal has to come first."""

    certifiable = True

    def draw(self, n_coefficients, noise_rate, accuracy):
        raise AssertionError("noise was drawn")


def records(count=60, n=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, n)) / np.sqrt(n)
    return x, np.where(rng.random(count) < 1 / (1 + np.exp(-4 * x[:, 0])), 1, 0)


def model(seed=1, **settings):
    return PrivateLogisticRegression(noise_source=SeededNoise(seed), **{"classes": (0, 1), **settings})


# ---------------------------------------------------------------- promises


def test_nobody_pays_more_than_promised_and_nearly_all_of_it_is_used():
    x, y = records()
    promises = np.random.default_rng(1).exponential(1.0, len(x))
    promises[:5] = [0.0, 1e-9, 1e-6, 2e-6, 40.0]
    for settings in ({}, {"l2": 0.2}, {"fit_intercept": False}, {"numerical_epsilon": 1e-3}):
        fitted = model(**settings).fit(x, y, epsilons=promises)
        assert (fitted.epsilons_ <= promises).all()
        reserve = settings.get("numerical_epsilon", 1e-6)
        assert (fitted.epsilons_[promises <= reserve] == 0.0).all()
        big = promises > reserve
        np.testing.assert_allclose(fitted.epsilons_[big], promises[big], atol=0.02 * reserve, rtol=1e-11)


def test_the_constant_is_by_default_about_as_large_as_a_feature_of_a_row_of_norm_one():
    for n, constant in ((1, 1.0), (3, 0.5), (16, 0.25)):
        assert model(epsilon=1.0).fit(*records(n=n)).intercept_scaling_ == constant


@pytest.mark.parametrize("constant", [0.0, 0.3, -0.5, np.inf, np.nan, "1", 2.0**-21, 2.0**21, True])
def test_a_constant_that_is_no_power_of_two_is_refused(constant):
    with pytest.raises(InvalidInput, match="intercept_scaling"):
        model(epsilon=1.0, intercept_scaling=constant).fit(*records())


@pytest.mark.parametrize("constant", [0.125, 0.5, 1.0, 2.0])
def test_a_constant_column_is_one_more_feature(constant):
    """The second implementation: the column written into the rows, and no intercept.

    Rows of norm at most R = sqrt(1 + c^2) divided by R, with R times the coefficients, are the same problem.
    """
    x, y = records(200)
    bound = float(np.sqrt(1.0 + constant**2)) * (1.0 + 1e-12)
    rows = np.column_stack([x, np.full(200, constant)]) / bound
    inside = model(l2=0.02 * bound**2, epsilon=2.0, intercept_scaling=constant).fit(x, y)
    beside = model(l2=0.02, epsilon=2.0, fit_intercept=False).fit(rows, y)
    grid = inside.grid_ * max(1.0, constant) + beside.grid_
    np.testing.assert_allclose(
        inside.decision_function(x), beside.decision_function(rows), atol=2.0 * grid + 1e-9
    )
    np.testing.assert_allclose(inside.epsilons_, beside.epsilons_, rtol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"clip": True}, {"l2": 0.5}, {"fit_intercept": False}])
def test_replacing_all_records_of_people_with_promise_zero_changes_nothing(settings):
    x, y = records(400)
    promises = np.where(np.arange(400) % 3 == 0, 0.0, 0.7)
    other, flipped = x.copy(), y.copy()
    other[::3] = np.random.default_rng(5).normal(size=other[::3].shape) * (
        50.0 if settings.get("clip") else 0.1
    )
    flipped[::3] = 1 - flipped[::3]
    a = model(**settings).fit(x, y, epsilons=promises)
    b = model(**settings).fit(other, flipped, epsilons=promises)
    assert vars(a).keys() == vars(b).keys()
    for name in vars(a):
        if name not in ("noise_source", "classes"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_replacing_a_record_with_a_promise_changes_the_output_on_the_grid_only():
    x, y = records(20)
    a = model(epsilon=5.0).fit(x, y)
    b = model(epsilon=5.0).fit(x, 1 - y)
    assert (a.coef_grid_ != b.coef_grid_).any()
    assert a.grid_ == b.grid_


def test_grid_and_accuracy_do_not_depend_on_the_records():
    x, y = records()
    a = model(epsilon=1.0).fit(x, y)
    b = model(epsilon=1.0).fit(-x[::-1] * 0.3, y)
    for name in ("grid_", "l2_", "noise_rate_", "release_", "release_plan_"):
        assert getattr(a, name) == getattr(b, name)


# ---------------------------------------------------------------- people


def test_a_person_with_several_records_counts_once():
    x, y = records(6)
    people = ["ann", "ann", "bob", "cyd", "cyd", "cyd"]
    promises = {"ann": 1.0, "bob": 2.0, "cyd": 0.0, "dan": 3.0}
    fitted = model(rows_per_person=3).fit(x, y, epsilons=promises, people=people)
    assert fitted.people_ == ("ann", "bob", "cyd", "dan")
    assert (fitted.epsilons_ <= [1.0, 2.0, 0.0, 3.0]).all()
    numbered = model(rows_per_person=3).fit(x, y, epsilons=[1.0, 2.0, 0.0, 3.0], people=[0, 0, 1, 2, 2, 2])
    assert (numbered.coef_grid_ == fitted.coef_grid_).all()
    assert numbered.people_ is None


def test_a_persons_weight_is_split_and_its_parts_never_exceed_it():
    from dpmarket.learning.people import read_budgets

    people = np.repeat(np.arange(40), np.arange(40))
    _, holding = read_budgets(None, np.ones(40), people, len(people), 39)
    weights = np.random.default_rng(0).random(40)
    parts = holding.record_weights(weights)
    for person in range(1, 40):
        whole = sum((Fraction(part) for part in parts[people == person].tolist()), Fraction(0))
        assert whole <= Fraction(float(weights[person]))
        assert whole >= Fraction(float(weights[person])) * (1 - Fraction(1, 2**50))


def test_a_common_epsilon_goes_to_every_owner():
    x, y = records(6)
    fitted = model(epsilon=1.0, rows_per_person=2).fit(x, y, people=["b", "a", "b", "c", "a", "d"])
    assert fitted.people_ == ("a", "b", "c", "d")
    assert len(fitted.epsilons_) == 4


def test_more_rows_per_person_cost_more_when_there_is_slack():
    x, y = records(6)
    totals = [
        model(l2=0.05, rows_per_person=rows).fit(x, y, epsilons=[2.0] * 5, people=[0, 1, 2, 3, 4, 4][:6])
        if rows > 1
        else model(l2=0.05).fit(x[:5], y[:5], epsilons=[2.0] * 5)
        for rows in (1, 2)
    ]
    assert totals[1].noise_rate_ < totals[0].noise_rate_


@pytest.mark.parametrize(
    ("epsilons", "people", "message"),
    [
        ({"a": 1.0}, None, "expected people"),
        ({"a": 1.0}, ["a", "a", "b"], "every owner"),
        ([1.0, 1.0, 1.0], [0, 1, 2], "as many as there are records"),
        ([1.0, 1.0], [0, 1, 2], "number the 2 elements"),
        ([1.0, 1.0], [0, 1, -1], "number the 2 elements"),
        ([1.0, 1.0], ["a", "b", "a"], "number the 2 elements"),
        ([1.0, 1.0], [0, 1], "one owner per record"),
        ([1.0, 1.0], [[0], [1], [0]], "one owner per record"),
        ([1.0, 1.0], [0, 0, 0], "rows_per_person = 2"),
        ({"a": 1.0, "b": 1.0}, np.array(["a", None, "b"], dtype=object), "missing"),
        ({"a": -1.0, "b": 1.0}, ["a", "a", "b"], "finite and >= 0"),
    ],
)
def test_owners_that_do_not_fit_are_refused_before_noise_is_drawn(epsilons, people, message):
    x, y = np.zeros((3, 2)), [0, 1, 1]
    estimator = PrivateLogisticRegression(noise_source=NoNoise(), rows_per_person=2)
    with pytest.raises(InvalidInput, match=message):
        estimator.fit(x, y, epsilons=epsilons, people=people)


# ---------------------------------------------------------------- prepared weights


# ---------------------------------------------------------------- refusals

BAD_PROMISES = [
    ([0.5, np.nan, 1.0], InvalidInput, "1 NaN"),
    ([0.5, -0.1, 1.0], InvalidInput, "1 negative"),
    ([0.5, np.inf, 1.0], InvalidInput, "1 infinite"),
    ([0.5, 1.0], InvalidInput, "one epsilon per record, 3, got 2"),
    (["a", "b", "c"], InvalidInput, "expected epsilons to be numbers"),
    ("text", InvalidInput, "by name to be columns of X, a data frame"),
    ([0.0, 0.0, 0.0], InvalidInput, "at least one epsilon above"),
    ([1e-6, 0.0, 1e-9], InvalidInput, "at least one epsilon above"),
    ([[0.5], [0.5], [0.5]], InvalidInput, "to be a vector"),
    (None, InvalidInput, "got neither"),
]


@pytest.mark.parametrize(("epsilons", "error", "message"), BAD_PROMISES, ids=str)
def test_bad_promises_are_refused_before_noise_is_drawn(epsilons, error, message):
    estimator = PrivateLogisticRegression(noise_source=NoNoise())
    with pytest.raises(error, match=message):
        estimator.fit(np.zeros((3, 2)), [0, 1, 1], epsilons=epsilons)
    assert not hasattr(estimator, "coef_")


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": np.nan}, {"epsilon": -1.0}, {"epsilon": np.inf}, {"epsilon": "1"}, {"epsilon": 0.0},
        {"l2": 0.0}, {"l2": np.nan}, {"l2": "1"}, {"numerical_epsilon": 0.0}, {"numerical_epsilon": np.nan},
        {"rows_per_person": 0}, {"rows_per_person": 1.5}, {"clip": 1}, {"fit_intercept": "yes"},
        {"classes": "ab"}, {"classes": (0,)}, {"classes": (0, 0)}, {"classes": (0, 1, 0)},
        {"classes": (0.0, np.nan)},
    ],
    ids=str,
)  # fmt: skip
def test_bad_settings_are_refused_before_noise_is_drawn(settings):
    estimator = PrivateLogisticRegression(**{"epsilon": 1.0, "noise_source": NoNoise(), **settings})
    with pytest.raises(InvalidInput):
        estimator.fit(np.zeros((3, 2)), [0, 1, 1])
    assert not hasattr(estimator, "coef_")


SECRET = 0.123456789


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[SECRET], [0.5], [1.0 + 1e-15]], [0, 1, 1], "found 1 longer"),
        ([[SECRET], [np.nan], [0.5]], [0, 1, 1], "NaN"),
        ([[SECRET], [np.inf], [0.5]], [0, 1, 1], "infinity"),
        ([["0.123456789x"], ["1"], ["2"]], [0, 1, 1], "found text"),
        ([SECRET, 0.5, 0.5], [0, 1, 1], "2D array"),
        ([[SECRET + 1j], [0.5], [0.5]], [0, 1, 1], "Complex"),
        ([[SECRET], [0.5], [0.5]], [0, 1, SECRET], "found 1 that are not"),
        ([[SECRET], [0.5], [0.5]], [0, 1, 123456789], "found 1 that are not"),
        ([[SECRET], [0.5], [0.5]], ["0.123456789", "a", "b"], "found 3 that are not"),
        ([[SECRET], [0.5], [0.5]], [0, 1], "inconsistent"),
        ([[SECRET], [0.5], [0.5]], None, "requires y"),
        ([[SECRET], [0.5], [0.5]], [0, 1, np.nan], "NaN"),
        ([[SECRET], [0.5, 2.0], [0.5]], [0, 1, 1], "may quote records"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_records_are_refused_before_noise_is_drawn_and_never_quoted(x, y, message):
    estimator = PrivateLogisticRegression(epsilon=1.0, classes=(0, 1), noise_source=NoNoise())
    with pytest.raises((InvalidInput, TypeError), match=message) as caught:
        estimator.fit(x, y)
    assert "123456789" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert not hasattr(estimator, "coef_")


def test_one_class_only_works_if_both_are_declared():
    x, _ = records(30)
    fitted = model(epsilon=10.0).fit(x, np.ones(30, dtype=int))
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.intercept_[0] > 0.0
    with pytest.raises(InvalidInput, match="found 1 class"):
        PrivateLogisticRegression(epsilon=1.0, noise_source=NoNoise()).fit(x, np.ones(30, dtype=int))


def test_declared_classes_keep_their_order():
    x, y = records(50)
    a = model(epsilon=1.0, classes=("no", "yes")).fit(x, np.where(y == 1, "yes", "no"))
    b = model(epsilon=1.0, classes=(0, 1)).fit(x, y)
    assert (a.coef_grid_ == b.coef_grid_).all()
    assert set(a.predict(x)) <= {"no", "yes"}
    swapped = model(epsilon=1.0, classes=(1, 0)).fit(x, 1 - y)
    assert (swapped.coef_grid_ == b.coef_grid_).all()


def test_an_l2_at_which_no_noise_keeps_the_promises_is_refused():
    x, y = records(3)
    with pytest.raises(Infeasible, match="works"):
        PrivateLogisticRegression(l2=0.1, noise_source=NoNoise()).fit(x, y, epsilons=[0.1, 0.2, 0.5])


def test_a_reserve_too_small_to_compute_with_is_refused_before_noise_is_drawn():
    x, y = records(30)
    with pytest.raises(Infeasible, match="numerical_epsilon"):
        PrivateLogisticRegression(epsilon=1.0, numerical_epsilon=1e-24, noise_source=NoNoise()).fit(x, y)


def failing(count):
    raise OSError("no entropy here")


def test_without_entropy_there_is_no_model(monkeypatch):
    x, y = records(30)
    monkeypatch.setattr(os, "urandom", failing)
    estimator = PrivateLogisticRegression(epsilon=1.0)
    with pytest.raises(EntropyUnavailable):
        estimator.fit(x, y)
    assert not hasattr(estimator, "coef_")


def test_every_refusal_is_one_kind_of_error():
    assert issubclass(EntropyUnavailable, DpmarketError)


# ---------------------------------------------------------------- what a model says


def test_a_model_says_whether_it_can_be_certified():
    x, y = records(30)
    assert PrivateLogisticRegression(epsilon=1.0, classes=(0, 1)).fit(x, y).certifiable_
    assert not PrivateLogisticRegression(epsilon=1.0).fit(x, y).certifiable_
    assert not model(epsilon=1.0).fit(x, y).certifiable_


def test_a_model_keeps_nothing_but_the_release_and_public_values():
    x, y = records(30)
    fitted = model(epsilon=1.0).fit(x, y)
    assert {name for name in vars(fitted) if name.endswith("_")} == {
        "classes_", "coef_", "intercept_", "coef_grid_", "grid_", "epsilons_", "people_", "l2_",
        "noise_rate_", "release_", "release_plan_", "description_", "intercept_scaling_",
        "shrinkage_correction_", "certifiable_", "n_features_in_", "loss_weights_", "delta_",
        "effective_people_",
    }  # fmt: skip


def test_two_fits_differ_without_a_seed():
    x, y = records(30)
    estimator = PrivateLogisticRegression(epsilon=1.0, classes=(0, 1))
    assert (estimator.fit(x, y).coef_grid_ != clone(estimator).fit(x, y).coef_grid_).any()


def test_a_model_survives_pickling():
    x, y = records(30)
    fitted = PrivateLogisticRegression(epsilon=1.0, classes=(0, 1)).fit(x, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
    assert (again.epsilons_ == fitted.epsilons_).all()


# ---------------------------------------------------------------- input kinds and prediction


def test_frames_sparse_rows_and_arrays_give_the_same_model():
    x, y = records(200)
    x[np.abs(x) < 0.2] = 0.0
    plain = model(epsilon=1.0).fit(x, y)
    frame = pl.DataFrame({f"c{j}": x[:, j] for j in range(3)})
    from_frame = model(epsilon=1.0).fit(frame, pl.Series(y), epsilons=pl.Series(np.ones(200)))
    from_sparse = model(epsilon=1.0).fit(csr_matrix(x), y)
    assert from_frame.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    for other, data in ((from_frame, frame), (from_sparse, csr_matrix(x))):
        assert (other.coef_grid_ == plain.coef_grid_).all()
        np.testing.assert_allclose(other.predict_proba(data), plain.predict_proba(x), rtol=1e-12)


def test_clipping_shortens_long_rows_in_fit_and_in_prediction():
    x, y = records(100)
    x *= np.random.default_rng(3).uniform(0.5, 5.0, (100, 1))
    norms = np.linalg.norm(x, axis=1)
    shortened = x / np.maximum(norms, 1.0)[:, None]
    clipped = model(epsilon=1.0, clip=True).fit(x, y)
    other = model(epsilon=1.0).fit(shortened * (1 - 1e-12), y)
    assert np.abs(clipped.coef_grid_ - other.coef_grid_).max() <= 1
    np.testing.assert_allclose(
        clipped.decision_function(x), shortened @ clipped.coef_[0] + clipped.intercept_, atol=1e-12
    )
    sparse = model(epsilon=1.0, clip=True).fit(csr_matrix(x), y)
    assert (sparse.coef_grid_ == clipped.coef_grid_).all()


def test_probabilities_and_classes_follow_from_the_margin():
    x, y = records(50)
    fitted = model(epsilon=5.0).fit(x, y)
    margins = x @ fitted.coef_[0] + fitted.intercept_[0]
    np.testing.assert_allclose(fitted.decision_function(x), margins)
    np.testing.assert_allclose(fitted.predict_proba(x)[:, 1], 1 / (1 + np.exp(-margins)))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(x)), fitted.predict_proba(x))
    assert (fitted.predict(x) == (margins > 0)).all()
    assert fitted.score(x, y) == np.mean((margins > 0) == y)


@pytest.mark.parametrize("classes", [(0, 1), None])
def test_a_record_without_a_budget_is_not_even_a_reason_to_refuse(classes):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-0.4, 0.4, (60, 2)), np.tile([0, 1], 30)
    epsilons = np.where(np.arange(60) % 5 == 0, 0.0, 1.0)
    model = PrivateLogisticRegression(classes=classes, noise_source=SeededNoise(1))
    first = model.fit(x, y, epsilons=epsilons).coef_grid_
    spoiled, labels = x.copy(), y.copy()
    spoiled[::5], labels[::5] = np.nan, 7
    assert np.array_equal(model.fit(spoiled, labels, epsilons=epsilons).coef_grid_, first)


@pytest.mark.parametrize("first", [{"delta": 1e-4}, {}])
def test_nothing_of_an_earlier_fit_stays_and_a_refused_one_changes_nothing(first):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.uniform(-0.5, 0.5, (40, 2)), columns=["a", "b"])
    y, settings = np.arange(40) % 2, {"epsilon": 500.0, "noise_source": SeededNoise(1)}
    other = {} if first else {"delta": 1e-4}
    model = PrivateLogisticRegression(**settings, **first).fit(x, y, intervals=0.5)
    before = vars(model).copy()
    with pytest.raises(Infeasible):
        model.fit(x.to_numpy(), np.where(y, "c", "d"), account=Account(1.0))
    assert vars(model) == before
    model.set_params(delta=other.get("delta")).fit(x.to_numpy(), y)
    fresh = PrivateLogisticRegression(**settings, **other).fit(x.to_numpy(), y)
    assert set(vars(model)) == set(vars(fresh))
