"""How the estimator meets what people pass: rounding, pandas, familiar arguments, models to publish."""

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import Normalizer

from dpmarket import Infeasible, InvalidInput, PrivateLogisticRegression
from dpmarket.learning import Rows
from dpmarket.learning.geometry import geometry_of
from dpmarket.learning.row_bounds import clipping_scales, rounding_scales
from dpmarket.privacy import Account, NoiseShape, SeededNoise, release_cost
from dpmarket.privacy.release import ReleasePlan


def model(**settings):
    return PrivateLogisticRegression(
        classes=(0, 1), noise_source=SeededNoise(2), **{"epsilon": 1.0} | settings
    )


def records(count=60, n=3):
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (count, n))
    return x, (x[:, 0] > 0).astype(int)


# ---------------------------------------------------------------- rows too long by rounding


def as_rows(x):
    return Rows(x, np.ones(len(x)), np.ones(len(x)))


def exact_square(row, scale):
    return sum((Fraction(value) * Fraction(scale)) ** 2 for value in row.tolist())


def test_rows_of_scikit_learns_normalizer_are_taken_and_shortened_exactly():
    x = Normalizer().fit_transform(np.random.default_rng(1).normal(size=(2000, 7)))
    assert any(exact_square(row, 1) > 1 for row in x)
    scales = rounding_scales(as_rows(x))
    assert all(exact_square(row, scale) <= 1 for row, scale in zip(x, scales, strict=True))
    assert float(scales.min()) > 1.0 - 1e-14
    model().fit(x, (x[:, 0] > 0).astype(int))


@pytest.mark.parametrize("units", [1, 4])
def test_four_units_in_the_last_place_are_shortened(units):
    x = np.array([[1.0 + units * 2.0**-52, 0.0], [0.5, 0.5]])
    scales = rounding_scales(as_rows(x))
    assert exact_square(x[0], scales[0]) <= 1 < exact_square(x[0], 1)
    assert scales[1] == 1.0


def test_more_than_rounding_is_refused():
    x, y = records()
    x[3] = [1.0 + 6 * 2.0**-52, 0.0, 0.0]
    with pytest.raises(InvalidInput, match="found 1 longer"):
        model().fit(x, y)


# ---------------------------------------------------------------- rows in a noise shape

SHAPE = NoiseShape([False, True, True], 0.8)


def exact_within(row, scale, shape):
    values = [Fraction(value) * Fraction(scale) for value in row.tolist()]
    joint = sum(v * v for v, alone in zip(values, shape.separate, strict=True) if not alone)
    room = 1 - sum(abs(v) for v, alone in zip(values, shape.separate, strict=True) if alone)
    short = sum(v * v for v in values) <= Fraction(shape.euclidean_bound) ** 2
    return room >= 0 and joint <= room**2 and short


def test_rows_longer_in_either_bound_of_the_shape_are_refused():
    y = [0, 1]
    fits = [[0.0, 0.5, 0.3], [0.1, 0.0, 0.0]]
    model(noise_shape=SHAPE).fit(fits, y)
    for long in ([0.0, 0.6, 0.5], [0.0, 0.9, 0.0]):  # N = 1.1; N = 0.9, but the Euclidean norm is 0.9
        with pytest.raises(InvalidInput, match="norm at most 1 in its noise_shape, found 1 longer"):
            model(noise_shape=SHAPE).fit([fits[0], long], y)


def test_clipping_in_a_shape_keeps_both_bounds_exactly_and_shortens_in_prediction_too():
    x = np.random.default_rng(3).normal(size=(500, 3)) * np.geomspace(0.01, 100.0, 500)[:, None]
    scales = clipping_scales(as_rows(x), SHAPE)
    assert all(exact_within(row, scale, SHAPE) for row, scale in zip(x, scales, strict=True))
    assert int((scales == 1.0).sum()) == sum(exact_within(row, 1, SHAPE) for row in x)
    fitted = model(noise_shape=SHAPE, clip=True).fit(x, (x[:, 0] > 0).astype(int))
    far = fitted.decision_function([[0.0, 5.0, 0.0]])
    assert far == pytest.approx(0.8 * fitted.coef_[0, 1] + fitted.intercept_[0])


def test_rows_at_the_edge_of_a_shape_are_judged_exactly():
    edge = np.array([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25 + 2.0**-54]])
    shape = NoiseShape([False, True, True])
    assert rounding_scales(as_rows(edge[:1]), shape).size == 0
    scales = rounding_scales(as_rows(edge), shape)
    assert scales[0] == 1.0 > scales[1]
    assert exact_within(edge[1], scales[1], shape)
    assert not exact_within(edge[1], 1, shape)


def test_rows_at_the_edge_of_the_euclidean_bound_are_judged_exactly():
    shape = NoiseShape([True, True], 0.8)
    rows = np.array([[0.8, 0.0], [np.nextafter(0.8, 1.0), 0.0]])
    assert rounding_scales(as_rows(rows[:1]), shape).size == 0
    scales = rounding_scales(as_rows(rows), shape)
    assert scales[0] == 1.0 > scales[1]
    assert exact_within(rows[1], scales[1], shape)


def test_every_column_gets_the_noise_of_its_kind():
    shape = NoiseShape([True, False, True, False])
    drawn = SeededNoise(3).draw(5, 2.0, 1e-9, 3).high_low()
    found = geometry_of(4, 0.5, shape, wanted=True).noise(SeededNoise(3), 2.0, 1e-9)
    for one, placed in zip(drawn, found, strict=True):
        assert placed[[1, 3]].tolist() == one[:2].tolist()
        assert placed[[0, 2, 4]].tolist() == one[2:].tolist()  # the constant's last


def test_a_shaped_model_states_what_it_was_charged_with():
    x, y = records()
    x /= 2.0
    fitted = model(noise_shape=SHAPE, intercept_scaling=0.5).fit(x, y)
    assert (fitted.row_bound_, fitted.noise_shape_) == (1.5, SHAPE)
    assert fitted.euclidean_bound_ >= np.hypot(0.8, 0.5)
    plan = fitted.release_plan_
    assert isinstance(plan, ReleasePlan)
    cost = release_cost(
        plan,
        4,
        fitted.noise_rate_,
        fitted.l2_,
        fitted.row_bound_,
        1.0,
        euclidean_bound=fitted.euclidean_bound_,
        joint_columns=1,
    )
    assert cost == pytest.approx(fitted.numerical_epsilon_, rel=1e-6)
    assert bool((fitted.epsilons_ <= 1.0).all())
    assert float(fitted.epsilons_.min()) > 1.0 - 1e-6


def test_replacing_a_record_with_promise_zero_changes_no_shaped_model():
    x, y = records()
    x /= 2.0
    epsilons = np.r_[0.0, np.ones(59)]
    released = []
    for first in ([0.1, 0.1, 0.1], [30.0, 1.0, -7.0]):
        x[0] = first
        released.append(model(noise_shape=SHAPE).fit(x, y, epsilons=epsilons).coef_grid_.tolist())
    assert released[0] == released[1]


def test_a_euclidean_shape_is_the_model_without_one():
    x, y = records()
    plain, shaped = (model(noise_shape=shape).fit(x, y) for shape in (None, NoiseShape([False] * 3)))
    assert plain.coef_grid_.tolist() == shaped.coef_grid_.tolist()
    assert shaped.noise_shape_ is None


@pytest.mark.parametrize("shape", [NoiseShape([True] * 2), "l1", [True, True, True]])
def test_a_shape_that_does_not_fit_is_refused(shape):
    x, y = records()
    with pytest.raises(InvalidInput, match="noise_shape"):
        model(noise_shape=shape).fit(x, y)


# ---------------------------------------------------------------- pandas


def test_promises_with_another_index_than_the_records_are_refused():
    x, y = records()
    frame = pd.DataFrame(x)
    shuffled = pd.Series(np.linspace(0.1, 2.0, 60)).sample(frac=1.0, random_state=0)
    with pytest.raises(InvalidInput, match="epsilons with the index of X"):
        model().fit(frame, y, epsilons=shuffled)
    with pytest.raises(InvalidInput, match="people with the index of X"):
        model().fit(frame, y, people=pd.Series(range(60), index=range(1, 61)))
    aligned = model().fit(frame, y, epsilons=shuffled.sort_index())
    assert np.array_equal(
        aligned.coef_grid_, model().fit(x, y, epsilons=shuffled.sort_index().to_numpy()).coef_grid_
    )


# ---------------------------------------------------------------- familiar arguments


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (
            lambda x, y: model().fit(x, y, sample_weight=np.ones(60)),
            "no sample_weight: how much a record counts",
        ),
        (lambda x, y: PrivateLogisticRegression(class_weight="balanced"), "no class_weight.*threshold"),
        (lambda x, y: PrivateLogisticRegression(random_state=0), "no random_state.*SeededNoise"),
        (lambda x, y: model().fit(x, y, weights=1), "unexpected keyword argument 'weights'"),
        (lambda x, y: PrivateLogisticRegression(penalty="l1"), "unexpected keyword argument 'penalty'"),
    ],
)
def test_arguments_of_other_estimators_are_refused_with_the_reason(call, reason):
    with pytest.raises(TypeError, match=reason):
        call(*records())


# ---------------------------------------------------------------- what may leave the house


def test_a_published_model_predicts_the_same_and_tells_nobodys_promise():
    x, y = records()
    epsilons = np.linspace(0.12345, 2.0, 60)
    fitted = model().fit(x, y, epsilons=dict(enumerate(epsilons)), people=list(range(60)))
    public = fitted.published()
    for name in ("epsilons_", "loss_weights_", "people_"):
        assert hasattr(fitted, name)
        assert not hasattr(public, name)
    written = pickle.dumps(public)
    for number in (*fitted.epsilons_[:3].tolist(), *fitted.loss_weights_[:3].tolist()):
        assert np.float64(number).tobytes() not in written
        assert np.float64(number).tobytes() in pickle.dumps(fitted)
    assert np.array_equal(pickle.loads(written).predict_proba(x), fitted.predict_proba(x))


# ---------------------------------------------------------------- an account across fits


class CountingNoise(SeededNoise):
    draws = 0

    def draw(self, *arguments):
        CountingNoise.draws += 1
        return super().draw(*arguments)


def test_an_account_is_charged_what_was_spent_and_refuses_before_noise_is_drawn():
    x, y = records()
    people = [f"p{k}" for k in range(60)]
    account = Account({name: 2.5 if name == "p0" else 10.0 for name in people})
    estimator = PrivateLogisticRegression(classes=(0, 1), noise_source=CountingNoise(1), epsilon=1.0)
    for _ in range(2):
        estimator.fit(x, y, people=people, account=account)
    assert account.left(["p0", "p1"]) == pytest.approx([0.5, 8.0], abs=1e-5)
    draws, coefficients, left = CountingNoise.draws, estimator.coef_.copy(), account.left(people)
    with pytest.raises(Infeasible, match="found 1 of 60 people"):
        estimator.fit(x, y, people=people, account=account)
    assert CountingNoise.draws == draws
    assert np.array_equal(estimator.coef_, coefficients)
    assert np.array_equal(account.left(people), left)


def test_records_without_owners_are_people_numbered_from_zero():
    x, y = records()
    account = Account(np.full(60, 1.5))
    model().fit(x, y, account=account)
    assert account.left(range(60)) == pytest.approx(np.full(60, 0.5), abs=1e-5)
    with pytest.raises(InvalidInput, match="found 10 without"):
        model().fit(np.r_[x, x[:10]], np.r_[y, y[:10]], account=account)
