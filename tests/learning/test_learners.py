"""The contract of every learner: promises kept, records without a promise unread, bad input refused."""

import numpy as np
import pytest

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning import Learner, PrivateLogisticRegression
from dpmarket.learning.reference import (
    LargeEpsilonsOnly,
    OutputPerturbation,
    PersonalisedSampling,
)
from dpmarket.privacy import SeededNoise

CLASSES = ("no", "yes")


def ours():
    return PrivateLogisticRegression(classes=CLASSES, noise_source=SeededNoise(1))


LEARNERS = {
    "ours": ours,
    "smallest epsilon": lambda: LargeEpsilonsOnly(ours()),
    "large epsilons only": lambda: LargeEpsilonsOnly(ours(), 0.5),
    "sampling": lambda: PersonalisedSampling(0.5, CLASSES, SeededNoise(1), np.random.default_rng(1).bytes),
    "output perturbation": lambda: OutputPerturbation(None, CLASSES, SeededNoise(1)),
}
every_learner = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)


def records(count=300, n=3):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (count, n)) / np.sqrt(n)
    return (
        x,
        np.where(x[:, 0] + rng.normal(0, 0.1, count) > 0.1, "yes", "no"),
        rng.choice([0, 0.2, 1, 3], count),
    )


@every_learner
def test_a_learner_obeys_the_protocol_and_spends_no_more_than_was_promised(make):
    x, y, promises = records()
    learner = make()
    assert isinstance(learner, Learner)
    assert learner.fit(x, y, epsilons=promises) is learner
    assert (learner.epsilons_ <= promises).all()
    assert (learner.epsilons_ > 0.0).any()
    assert not learner.epsilons_.flags.writeable


@every_learner
def test_predictions_are_labels_and_probabilities_that_agree(make):
    x, y, promises = records()
    learner = make().fit(x, y, epsilons=promises * 20.0)
    chances = learner.predict_proba(x)
    assert chances.shape == (300, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (learner.predict(x) == np.array(CLASSES)[(chances[:, 1] > 0.5).astype(int)]).all()
    assert (learner.predict(x) == y).mean() > 0.8


@every_learner
def test_records_without_a_promise_have_no_influence(make):
    x, y, promises = records()
    other, flipped = x.copy(), y.copy()
    other[promises == 0.0] = 0.1
    flipped[promises == 0.0] = "no"
    a, b = (make().fit(*data, epsilons=promises) for data in ((x, y), (other, flipped)))
    np.testing.assert_array_equal(a.predict_proba(x), b.predict_proba(x))


@every_learner
def test_more_promised_to_everybody_gives_a_better_model(make):
    x, y, promises = records(2_000)
    test_x, test_y, _ = records(500)
    few = make().fit(x, y, epsilons=promises * 0.6 + 0.5).predict_proba(test_x)
    many = make().fit(x, y, epsilons=promises * 60.0 + 50.0).predict_proba(test_x)
    right = (test_y == "yes").astype(int)
    losses = [-np.log(chances[np.arange(500), right]).mean() for chances in (few, many)]
    assert losses[1] <= losses[0] + 0.02


@every_learner
def test_senseless_promises_are_refused_before_anything_is_learned(make):
    x, y, _ = records()
    vectors = ([value] * 300 for value in (np.nan, -1.0, np.inf, "1", 0.0))
    for epsilons in (*vectors, [1.0] * 299, [], [[1.0] * 300]):
        learner = make()
        with pytest.raises(InvalidInput):
            learner.fit(x, y, epsilons=epsilons)
        assert not hasattr(learner, "epsilons_")


@every_learner
@pytest.mark.parametrize("change", ["long row", "nan", "text", "vector", "labels", "short"])
def test_senseless_records_are_refused_without_quoting_them(make, change):
    x, y, _ = records()
    if change == "long row":
        x[7] = 123456789.0
    elif change == "nan":
        x[7, 0] = np.nan
    elif change == "text":
        x = x.astype(object)
        x[7, 0] = "123456789"
        x[8, 0] = "secret"
    elif change == "vector":
        x = x[:, 0]
    elif change == "labels":
        y = np.where(np.arange(300) == 7, "secret", y)
    else:
        y = y[:-1]
    learner = make()
    with pytest.raises(InvalidInput) as caught:
        learner.fit(x, y, epsilons=np.ones(300))
    assert "123456789" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert not hasattr(learner, "epsilons_")


@pytest.mark.parametrize("threshold", [0.0, -1.0, np.nan, np.inf, "1"])
@pytest.mark.parametrize("make", [lambda t: LargeEpsilonsOnly(ours(), t), PersonalisedSampling])
def test_a_senseless_threshold_is_refused(make, threshold):
    x, y, promises = records()
    with pytest.raises(InvalidInput, match="threshold"):
        make(threshold).fit(x, y, epsilons=promises)


def test_a_threshold_that_nobody_reaches_is_refused():
    x, y, promises = records()
    with pytest.raises(InvalidInput, match="at least threshold"):
        LargeEpsilonsOnly(ours(), 7.0).fit(x, y, epsilons=promises)


def test_the_learner_that_is_passed_in_stays_as_it_is():
    x, y, promises = records()
    inner = ours()
    LargeEpsilonsOnly(inner).fit(x, y, epsilons=promises)
    LargeEpsilonsOnly(inner, 0.5).fit(x, y, epsilons=promises)
    assert not hasattr(inner, "coef_")


def test_everybody_is_trained_on_at_the_smallest_promise():
    x, y, promises = records()
    spent = np.where(promises > 0.0, 0.2, 0.0)
    direct = ours().fit(x, y, epsilons=spent)
    learner = LargeEpsilonsOnly(ours()).fit(x, y, epsilons=promises)
    assert (learner.model_.coef_grid_ == direct.coef_grid_).all()


@pytest.mark.parametrize("l2", [5e-324, 1e-300, 1e300, 1e308])
def test_output_perturbation_refuses_penalties_whose_noise_is_beyond_floats(l2):
    x, y, promises = records()
    with pytest.raises(Infeasible, match="l2"):
        OutputPerturbation(l2, CLASSES, SeededNoise(1)).fit(x, y, promises)
