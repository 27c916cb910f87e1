"""Audits of models with more than two classes: books by other code, exact densities, and the black box."""

import numpy as np
import pytest

from dpmarket.audit import audit_accounting, audit_privacy_exact, audit_privacy_sampled
from dpmarket.audit.accounting import weights_of
from dpmarket.errors import InvalidInput
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import SecureNoise, SoftmaxWeights, softmax_privacy_loss, softmax_weights_for

PROMISES = np.array([0.3, 1.0, 2.5])


def lowered(weights, factor):
    """Return the same weights with a noise rate that is this much too high: too little noise."""
    return SoftmaxWeights(
        weights.loss_weights,
        weights.noise_rate * factor,
        weights.l2,
        weights.n_classes,
        weights.n_coefficients,
        weights.row_bound,
        weights.rows_per_person,
        weights.numerical_epsilon,
    )


@pytest.mark.parametrize("classes", [3, 6])
@pytest.mark.parametrize(("rows", "l2"), [(1, 0.7), (1, 5.0), (9, 0.7)])
def test_the_books_of_many_classes_balance_and_no_more_than_that(classes, rows, l2):
    weights = softmax_weights_for(PROMISES, l2, classes, 4, 1.2, rows)
    findings = audit_accounting(weights, PROMISES)
    assert findings.passed
    assert findings.found == pytest.approx(PROMISES, rel=1e-10)
    assert not audit_accounting(lowered(weights, 1.0 + 1e-6), PROMISES).passed


def test_a_charge_with_min_of_rows_and_coefficients_does_not_balance():
    """Weights for two rows, used for nine of a person: with two classes and two coefficients that is fine."""
    made = softmax_weights_for(PROMISES, 0.2, 3, 2, 1.0, 2)
    used = SoftmaxWeights(made.loss_weights, made.noise_rate, made.l2, 3, 2, 1.0, rows_per_person=9)
    assert audit_accounting(made, PROMISES).passed
    assert not audit_accounting(used, PROMISES).passed


def test_the_exact_audit_comes_close_to_the_promise_and_not_above():
    weights = softmax_weights_for(PROMISES, 0.15, 3, 2)
    findings = audit_privacy_exact(weights, PROMISES, people=[2])
    assert findings.passed
    assert 0.8 * PROMISES[2] < findings.found[0] <= PROMISES[2]


def test_the_exact_audit_catches_half_the_noise():
    weights = softmax_weights_for(PROMISES, 0.15, 3, 2)
    assert not audit_privacy_exact(lowered(weights, 2.0), PROMISES, people=[2]).passed


def test_the_exact_audit_of_many_classes_wants_two_coefficients():
    with pytest.raises(InvalidInput, match="n_features = 2"):
        audit_privacy_exact(softmax_weights_for(PROMISES, 0.3, 3, 2), PROMISES, n_features=1)


def test_a_fitted_model_opens_its_books_for_many_classes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)) / 5.0
    promises = rng.uniform(0.5, 2.0, 30)
    model = PrivateLogisticRegression(classes=(0, 1, 2)).fit(x, rng.integers(0, 3, 30), epsilons=promises)
    weights = weights_of(model)
    assert (weights.n_classes, weights.n_coefficients) == (3, 3)
    findings = audit_accounting(weights, promises, model.release_plan_)
    assert findings.passed
    assert findings.found == pytest.approx(model.epsilons_, rel=1e-9)
    assert findings.details["release_cost"] == pytest.approx(model.numerical_epsilon_, rel=1e-6)
    losses = softmax_privacy_loss(
        model.loss_weights_, model.noise_rate_, model.l2_, 3, model.row_bound_, 1, n_coefficients=3
    )
    assert findings.found == pytest.approx(losses + model.numerical_epsilon_, rel=1e-9)


class TooQuiet(SecureNoise):
    """A thirtieth of the noise of every class."""

    def draw(self, n_coefficients, noise_rate, accuracy, independent=0, blocks=1):
        return super().draw(n_coefficients, 30.0 * noise_rate, accuracy, independent, blocks)


def test_the_black_box_audit_tells_little_noise_from_enough():
    """The lower bound of a kept promise is too high with probability 1e-6 at most."""
    promises = np.array([0.5, 1.0, 2.0])
    good = PrivateLogisticRegression(classes=(0, 1, 2))
    bad = PrivateLogisticRegression(classes=(0, 1, 2), noise_source=TooQuiet())
    kept = audit_privacy_sampled(good, promises, people=[2], fits=400, false_alarm=1e-6)
    broken = audit_privacy_sampled(bad, promises, people=[2], fits=800, false_alarm=1e-6)
    assert kept.passed
    assert not broken.passed
