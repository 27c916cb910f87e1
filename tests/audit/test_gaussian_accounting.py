"""What a model with a delta spent, recomputed by other code with many digits."""

from dataclasses import replace

import numpy as np
import pytest

from dpmarket.audit import audit_accounting, audit_privacy
from dpmarket.audit.accounting import weights_of
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import GaussianWeights, gaussian_weights_for

PROMISES = np.array([0.3, 1.0, 3.0])


@pytest.mark.parametrize(
    "more", [{}, {"n_classes": 4}, {"rows_per_person": 5}, {"n_classes": 3, "rows_per_person": 2}]
)
def test_weights_keep_their_promises_and_use_nearly_all_of_them(more):
    found = audit_accounting(gaussian_weights_for(PROMISES, 1e-5, 20.0, **more), PROMISES)
    assert found.passed
    assert (found.found >= PROMISES * (1.0 - 1e-6)).all()
    assert found.details["delta"] == 1e-5


@pytest.mark.parametrize("wrong", [{"noise_rate": 1.01}, {"l2": 0.01}, {"delta": 0.9}])
def test_more_weight_less_penalty_or_a_smaller_delta_is_found(wrong):
    weights = gaussian_weights_for(PROMISES, 1e-5, 20.0)
    changed = {name: getattr(weights, name) * factor for name, factor in wrong.items()}
    assert audit_accounting(replace(weights, **changed), PROMISES).broken == 3


def test_the_share_for_rounding_is_not_dropped():
    weights = gaussian_weights_for(PROMISES, 1e-15, 20.0)  # of which 2^-60 is nearly a thousandth
    assert audit_accounting(weights, PROMISES).passed
    assert audit_accounting(replace(weights, numerical_epsilon=1e-12), PROMISES).broken == 3


def test_a_fitted_model_opens_its_books_and_its_release_is_counted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.01
    promises = rng.uniform(0.5, 2.0, 60)
    model = PrivateLogisticRegression(classes=(0, 1), delta=1e-4).fit(x, x[:, 0] > 0, epsilons=promises)
    weights = weights_of(model)
    assert isinstance(weights, GaussianWeights)
    found = audit_accounting(weights, promises, model.release_plan_, 5)
    assert found.passed
    assert np.allclose(found.found, model.epsilons_, rtol=1e-6)


@pytest.mark.slow
def test_an_audit_of_everything_leaves_out_densities_and_finds_nothing():
    learner = PrivateLogisticRegression(classes=(0, 1), fit_intercept=False, delta=0.01)
    audit = audit_privacy(learner, [0.5, 1.0, 4.0], people=[2], fits=400)
    assert audit.passed
    assert audit.exact is None
    assert audit.accounting.details["delta"] == 0.01
