"""The estimator as its users meet it: scikit-learn's contract, frames, people, and every refusal."""

import os

import numpy as np
import pandas
import polars
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpmarket as dpm
from dpmarket.privacy import Account, SeededNoise

Model = dpm.PrivateLogisticRegression
SEEDED = Model(epsilon=10.0, clip=True, noise_source=SeededNoise(0))
WITH_DELTA = Model(epsilon=50.0, delta=1e-5, clip=True, noise_source=SeededNoise(0))


@parametrize_with_checks([SEEDED, WITH_DELTA, dpm.PublicScaler()])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def records(count=60, features=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (count, features)) / np.sqrt(features)
    return x, np.clip(((x[:, 0] * np.sqrt(features) + 1.0) / 2.0 * classes).astype(int), 0, classes - 1)


def seeded(seed=1, **settings):
    return Model(noise_source=SeededNoise(seed), **{"classes": (0, 1), **settings})


def same(one, other):
    return one.description_ == other.description_


# --- repeating, copying, storing ---


def test_seeded_noise_repeats_is_marked_and_real_noise_does_neither():
    x, y = records()
    assert same(seeded(epsilon=1.0).fit(x, y), seeded(epsilon=1.0).fit(x, y))
    assert not same(seeded(1, epsilon=1.0).fit(x, y), seeded(2, epsilon=1.0).fit(x, y))
    assert seeded(epsilon=1.0).fit(x, y).certifiable_ is False
    real = [Model(epsilon=1.0, classes=(0, 1)).fit(x, y) for _ in range(2)]
    assert not same(*real)
    assert [model.certifiable_ for model in real] == [True, True]
    assert Model(epsilon=1.0).fit(x, y).certifiable_ is False  # the set of labels was read from the data


def test_the_published_copy_predicts_alike_and_holds_nothing_about_single_people():
    x, y = records(40)
    promises = np.linspace(0.512345678, 2.0, 40)
    fitted = seeded().fit(x, y, epsilons=promises)
    public = fitted.published()
    assert (public.predict_proba(x) == fitted.predict_proba(x)).all()
    held = [value for value in vars(public).values() if isinstance(value, np.ndarray)]
    assert all(len(promises) not in value.shape for value in held)
    assert hasattr(fitted, "epsilons_")


# --- what rows come in ---


@pytest.mark.parametrize(
    "frame",
    [
        lambda x: pandas.DataFrame(x, columns=["age", "height", "weight"]),
        lambda x: polars.DataFrame(x, schema=["age", "height", "weight"]),
        csr_array,
        lambda x: x.tolist(),
        np.asfortranarray,
    ],
    ids=["pandas", "polars", "sparse", "lists", "columns first"],
)
@pytest.mark.parametrize("settings", [{}, {"classes": (0, 1, 2)}, {"delta": 1e-5}], ids=str)
def test_every_kind_of_table_gives_the_model_of_its_array(frame, settings):
    x, y = records(classes=len(settings.get("classes", (0, 1))))
    from_array = seeded(epsilon=2.0, **settings).fit(x, y)
    from_frame = seeded(epsilon=2.0, **settings).fit(frame(x), y)
    assert same(from_array, from_frame)
    np.testing.assert_allclose(
        from_frame.predict_proba(frame(x)), from_array.predict_proba(x), rtol=1e-12, atol=1e-15
    )


def test_labels_may_be_words_and_the_declared_order_decides_the_sign():
    x, y = records(300)
    words = np.array(["no", "yes"])[y]
    forward = seeded(epsilon=5.0, classes=("no", "yes")).fit(x, words)
    backward = seeded(epsilon=5.0, classes=("yes", "no")).fit(x, words)
    assert forward.classes_.tolist() == ["no", "yes"]
    assert same(forward, seeded(epsilon=5.0).fit(x, y))
    assert not same(forward, backward)
    for fitted in (forward, backward):
        assert (fitted.predict(x) == words).mean() > 0.8
        chosen = fitted.classes_[fitted.predict_proba(x).argmax(axis=1)]
        assert (chosen == fitted.predict(x)).all()


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_several_classes_have_probabilities_that_add_up_and_coefficients_that_cancel(delta):
    x, y = records(600, classes=3)
    ways = np.array(["bus", "car", "train"])[y]
    fitted = Model(epsilon=20.0, classes=("bus", "car", "train"), delta=delta).fit(x, ways)
    assert fitted.coef_.shape == (3, 3)
    np.testing.assert_allclose(fitted.coef_.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(x).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(x)), fitted.predict_proba(x), rtol=1e-9)
    assert (fitted.predict(x) == ways).mean() > 0.55


# --- pipelines ---


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def pipeline():
    asking = seeded().set_fit_request(epsilons=True, people=True)
    return make_pipeline(dpm.PublicScaler(0.0, 100.0), asking)


def test_promises_reach_the_estimator_through_a_pipeline_and_every_fold_gets_its_own(routing):
    x, y = records(120)
    x = 50.0 * (x + 1.0)
    promises = np.where(np.arange(120) % 2, 3.0, 0.5)
    direct = seeded().fit(dpm.PublicScaler(0.0, 100.0).fit_transform(x), y, epsilons=promises)
    assert same(pipeline().fit(x, y, epsilons=promises)[-1], direct)
    done = cross_validate(
        pipeline(), x, y, params={"epsilons": promises}, return_estimator=True, return_indices=True
    )
    for fitted, train in zip(done["estimator"], done["indices"]["train"], strict=True):
        np.testing.assert_allclose(fitted[-1].epsilons_, promises[train], rtol=1e-4)


# --- people and promises ---


@pytest.mark.parametrize(
    "settings",
    [{}, {"l2": 0.2}, {"fit_intercept": False}, {"classes": (0, 1, 2)}, {"delta": 1e-5},
     {"delta": 1e-5, "classes": (0, 1, 2)}],
    ids=str,
)  # fmt: skip
def test_nobody_is_charged_more_than_promised_and_nearly_all_of_it_is_used(settings):
    x, y = records(80, classes=len(settings.get("classes", (0, 1))))
    promises = np.random.default_rng(1).exponential(1.0, 80)
    promises[:4] = [0.0, 1e-9, 40.0, 5e-6]
    fitted = seeded(**settings).fit(x, y, epsilons=promises)
    assert (fitted.epsilons_ <= promises).all()
    unread = 1 if "delta" in settings else 2  # without a delta a part is set aside for the grid
    assert (fitted.epsilons_[:unread] == 0.0).all()
    assert (fitted.loss_weights_[:unread] == 0.0).all()
    big = promises > 0.01
    assert (fitted.epsilons_[big] >= 0.97 * promises[big]).all()
    assert fitted.delta_ == settings.get("delta", 0.0)


def test_what_is_charged_covers_the_weights_used_by_a_second_formula():
    """a R eta/2 + max over s of a R eta s/2 + log(1 + a R^2 s (1 - s) / l2), on a fine grid of s."""
    x, y = records()
    promises = np.random.default_rng(2).exponential(1.0, 60)
    s = np.linspace(0.0, 1.0, 20_001)
    for l2 in (0.02, 0.3, None):
        fitted = seeded(l2=l2).fit(x, y, epsilons=promises)
        bound, eta = fitted.release_.norm.row_bound, fitted.noise_rate_
        assert fitted.loss_weights_.sum() == pytest.approx(1.0)
        for weight, charged in zip(fitted.loss_weights_, fitted.epsilons_, strict=True):
            half = weight * bound * eta / 2.0
            loss = half + (half * s + np.log1p(weight * bound**2 * s * (1.0 - s) / fitted.l2_)).max()
            assert loss <= charged or weight == 0.0
            assert charged <= loss * (1.0 + 1e-6) + 1.1e-6


@pytest.mark.parametrize(
    "settings",
    [{}, {"clip": True}, {"classes": (0, 1, 2)}, {"classes": None}, {"delta": 1e-5}, {"l2": 0.5}],
    ids=str,
)
def test_records_with_epsilon_zero_are_unread_and_no_reason_to_refuse(settings):
    classes = len(settings.get("classes") or (0, 1))
    x, y = records(120, classes=classes)
    promises = np.where(np.arange(120) % 3 == 0, 0.0, 0.7)
    other, moved = x.copy(), y.copy()
    other[::3], moved[::3] = np.nan, 7
    one = seeded(**settings).fit(x, y, epsilons=promises)
    two = seeded(**settings).fit(other, moved, epsilons=promises)
    assert same(one, two)
    assert (one.epsilons_ == two.epsilons_).all()
    other[1::3] = -other[1::3]
    assert not same(one, seeded(**settings).fit(other, moved, epsilons=promises))


@pytest.mark.parametrize("settings", [{}, {"classes": (0, 1, 2)}, {"delta": 1e-5}], ids=str)
def test_several_rows_of_a_person_are_one_promise(settings):
    x, y = records(6, classes=len(settings.get("classes", (0, 1))))
    people = ["ann", "ann", "bob", "cyd", "cyd", "cyd"]
    promises = {"ann": 1.0, "bob": 2.0, "cyd": 0.0, "dan": 3.0}
    named = seeded(rows_per_person=3, **settings).fit(x, y, epsilons=promises, people=people)
    assert named.people_ == ("ann", "bob", "cyd", "dan")
    assert (named.epsilons_ <= [1.0, 2.0, 0.0, 3.0]).all()
    assert named.epsilons_[1] > 1.9
    numbered = seeded(rows_per_person=3, **settings).fit(
        x, y, epsilons=[1.0, 2.0, 0.0, 3.0], people=[0, 0, 1, 2, 2, 2]
    )
    assert same(named, numbered)
    seeded(rows_per_person=2, **settings).fit(x, y, epsilons=promises, people=people)  # cyd's are not read
    if "delta" in settings:
        return  # rows of a person are averaged: any number of them
    with pytest.raises(dpm.InvalidInput, match="rows_per_person"):
        seeded(rows_per_person=1, **settings).fit(x, y, epsilons=promises, people=people)


def test_an_account_is_charged_once_for_every_model_and_stops_before_noise_is_drawn():
    x, y = records(4)
    account = Account([1.0, 1.0, 1.0, 5.0], delta=1e-5)
    fitted = seeded(epsilon=0.6).fit(x, y, account=account)
    left = np.asarray(account.left([0, 1, 2, 3]))
    np.testing.assert_allclose(left + fitted.epsilons_, [1.0, 1.0, 1.0, 5.0], rtol=1e-12)
    with pytest.raises(dpm.Infeasible, match="limit"):
        Model(epsilon=0.6, classes=(0, 1), noise_source=NoNoise()).fit(x, y, account=account)
    assert (np.asarray(account.left([0, 1, 2, 3])) == left).all()
    # 0.4 is left; distances add up as squares, so that more than 4 models of 0.1 fit.
    for _ in range(10):
        seeded(delta=1e-5).fit(x, y, epsilons=[0.1] * 4, account=account)
    with pytest.raises(dpm.Infeasible, match="delta"):
        seeded(delta=1e-5).fit(x, y, epsilons=[0.35] * 4, account=account)


# --- refusals, all before noise is drawn ---


class NoNoise:
    """A source that must not be asked: the refusal has to come first."""

    certifiable = True

    def bits(self):
        raise AssertionError("noise was drawn")


X3, Y3 = np.full((3, 2), 0.1), [0, 1, 1]
REFUSED = {
    "a promise that is NaN": ({}, X3, Y3, [0.5, np.nan, 1.0], "NaN"),
    "a promise below 0": ({}, X3, Y3, [0.5, -0.1, 1.0], "negative"),
    "an infinite promise": ({}, X3, Y3, [0.5, np.inf, 1.0], "infinite"),
    "too few promises": ({}, X3, Y3, [0.5, 1.0], "epsilon"),
    "promises in words": ({}, X3, Y3, ["a", "b", "c"], "numbers"),
    "no promise above 0": ({}, X3, Y3, [0.0] * 3, "epsilon"),
    "a row beyond the bound": ({"epsilon": 1.0}, [[0.1, 0.1], [0.8, 0.8], [0, 0]], Y3, None, "norm|1"),
    "a label that is not declared": ({"epsilon": 1.0}, X3, [0, 1, 2], None, "class|label"),
    "a delta too large for so few people": ({"epsilon": 1.0, "delta": 0.05}, X3, Y3, None, "delta"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_before_noise_is_drawn(name):
    settings, x, y, promises, word = REFUSED[name]
    with pytest.raises((dpm.DpmarketError, ValueError), match=word):
        Model(**{"classes": (0, 1), "noise_source": NoNoise(), **settings}).fit(x, y, epsilons=promises)


def test_promises_that_no_noise_keeps_at_this_penalty_are_refused():
    """4 l2 sum(e^epsilon - 1) must exceed 1: 0.1, 0.2 and 0.5 fail at a penalty of .2 and not at .3."""
    x, y = records(3)
    terms = {"fit_intercept": False, "numerical_epsilon": 1e-4}
    with pytest.raises(dpm.Infeasible, match="l2"):
        seeded(l2=0.2, **terms).fit(x, y, epsilons=[0.1, 0.2, 0.5])
    seeded(l2=0.3, **terms).fit(x, y, epsilons=[0.1, 0.2, 0.5])


def test_without_entropy_nothing_is_released(monkeypatch):
    def none(count):
        raise NotImplementedError

    monkeypatch.setattr(os, "urandom", none)
    model = Model(epsilon=1.0, classes=(0, 1))
    with pytest.raises(dpm.EntropyUnavailable):
        model.fit(*records())
    assert not hasattr(model, "coef_")
