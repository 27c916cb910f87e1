"""Audits of models with more than two classes: books by other code, and the black box."""

import numpy as np
import pytest

from dpmarket.audit import audit_privacy, audit_spending, claim_of
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import SecureNoise


def test_a_fitted_model_opens_its_books_for_many_classes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)) / 5.0
    promises = rng.uniform(0.5, 2.0, 30)
    model = PrivateLogisticRegression(classes=(0, 1, 2)).fit(x, rng.integers(0, 3, 30), epsilons=promises)
    findings = audit_spending(claim_of(model), promises)
    assert findings.passed
    assert findings.found == pytest.approx(model.epsilons_, rel=1e-9)
    plan = model.release_plan_
    assert findings.details["grid_cost"] == pytest.approx(plan.numerical_epsilon, rel=1e-6)


class TooQuiet(SecureNoise):
    """So little noise that every guess is right, whatever the pair of data sets."""

    def draw(self, n_coefficients, noise_rate, accuracy, independent=0, blocks=1):
        return super().draw(n_coefficients, 300.0 * noise_rate, accuracy, independent, blocks)


def test_the_black_box_audit_tells_little_noise_from_enough():
    """The bound of a kept epsilon is too high with probability 1e-6 at most.

    The quiet learner lets every guess be right, some 250 of them, where 200 would exceed an epsilon of 0.5.
    """
    budgets = np.array([0.5, 1.0, 2.0])
    good = PrivateLogisticRegression(classes=(0, 1, 2))
    bad = PrivateLogisticRegression(classes=(0, 1, 2), noise_source=TooQuiet())
    kept = audit_privacy(good, budgets, people=[0], fits=400, false_alarm=1e-6)
    broken = audit_privacy(bad, budgets, people=[0], fits=400, false_alarm=1e-6)
    assert kept.passed
    assert not broken.passed
