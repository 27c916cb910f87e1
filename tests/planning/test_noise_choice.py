"""Which noise is smaller, and what a delta would gain: the formulas, and models that were really trained."""

import math

import numpy as np
import pytest

from dpmarket.costs import Uniform
from dpmarket.errors import InvalidInput
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.planning import compare_noises, delta_gain, gaussian_error, plan_budget, plan_prices
from dpmarket.planning.error_model import estimator_error
from dpmarket.privacy import NoiseShape, SeededNoise, gaussian_weights_for

PROMISES = np.random.default_rng(0).choice([0.3, 1.0, 3.0], 500)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("features", [3, 60])
def test_the_expected_noise_is_that_of_a_model_that_was_trained(features, classes):
    rng = np.random.default_rng(features)
    x = rng.normal(size=(500, features))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.001
    y = rng.integers(0, classes, 500)
    found = compare_noises(PROMISES, features, 1e-5, n_classes=classes)
    for name, delta in (("pure", None), ("gaussian", 1e-5)):
        model = PrivateLogisticRegression(
            classes=tuple(range(classes)), delta=delta, noise_source=SeededNoise(0)
        ).fit(x, y, epsilons=PROMISES)
        # Its own public bound: the noise of all coefficients together, in units of the gradient.
        n = (features + 1) * (1 if classes == 2 else classes)
        squared = n * (model.noise_standard_error_ / model.stretch_ * model.l2_) ** 2
        assert found.errors[name].noise_part == pytest.approx(squared, rel=0.25)


def test_gaussian_noise_wins_from_about_fourteen_coefficients_on():
    best = {n: compare_noises(np.ones(1000), n, 1e-5).best for n in (2, 8, 11, 16, 20, 200)}
    assert [best[n] for n in (2, 8)] == ["pure", "pure"]
    assert [best[n] for n in (16, 20, 200)] == ["gaussian"] * 3


def test_a_shape_is_compared_on_its_own_rows():
    shape = NoiseShape([True] * 108, euclidean_bound=1.0 / math.sqrt(8.0))
    found = compare_noises(np.full(20_000, 0.1), 108, 1e-6, noise_shape=shape)
    assert set(found.errors) == {"pure", "shaped", "gaussian"}
    assert found.best == "shaped" or found.errors["gaussian"].total < found.errors["shaped"].total
    assert found.errors["shaped"].noise_part < found.errors["pure"].noise_part
    assert found.gain == found.errors["gaussian"].total / min(
        found.errors["pure"].total, found.errors["shaped"].total
    )


def test_the_sentence_says_who_wins():
    assert "gain nothing" in compare_noises([1.0] * 100, 2, 1e-5).sentence()
    assert "comes with this delta" in compare_noises([1.0] * 100, 100, 1e-5).sentence()


def test_a_plan_tells_what_a_delta_would_gain():
    plan = plan_prices(Uniform(1, 5), 456, 600.0, estimator_error(100))
    found = delta_gain(plan, 100)
    assert found.delta == 1e-5
    assert found.errors["pure"].total == pytest.approx(plan.expected_error.total)
    mu = gaussian_weights_for([plan.mean_promise], 1e-5, 1e6).noise_rate
    ratio = (plan.mean_promise / mu) ** 2 / 102.0
    assert found.errors["gaussian"].noise_part == pytest.approx(
        ratio * found.errors["pure"].noise_part, rel=0.05
    )
    told = plan_budget(Uniform(1, 5), sellers=456, budget=600.0, features=100)
    assert any("With a delta of" in line for line in told.sentences())
    assert told.to_dict()["delta"]["best"] == "gaussian"
    silent = plan_budget(Uniform(1, 5), sellers=456, budget=600.0, features=2)
    assert not any("delta" in line for line in silent.sentences())


def test_many_sellers_have_a_smaller_delta():
    plan = plan_prices(Uniform(1, 5), 100_000, 6000.0, estimator_error(30))
    assert delta_gain(plan, 30).delta == pytest.approx(1e-6)


def test_senseless_questions_are_refused():
    with pytest.raises(InvalidInput):
        compare_noises([0.0], 5, 1e-5)
    with pytest.raises(InvalidInput):
        compare_noises([1.0], 5, 0.0)
    with pytest.raises(InvalidInput):
        gaussian_error(0, 1.0)
