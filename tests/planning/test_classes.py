"""Planning for models with more than two classes."""

import numpy as np
import pytest

from dpmarket import InvalidInput, Uniform
from dpmarket.planning import plan_prices, softmax_error, suggest_prices
from dpmarket.privacy import softmax_weights_for


@pytest.mark.parametrize(("n", "classes"), [(3, 3), (8, 5)])
def test_the_noise_of_more_classes_is_what_the_error_model_says(n, classes):
    """Of people who use their promises fully, at a penalty that costs nothing; centred over the classes."""
    bound, count = 1.2, 4_000
    promises = np.full(50, 0.4)
    weights = softmax_weights_for(promises, 1e6, classes, n, bound)
    rng = np.random.default_rng(0)
    lengths = rng.gamma(n, 2.0 / weights.noise_rate, (count, classes, 1))
    directions = rng.normal(size=(count, classes, n))
    noise = lengths * directions / np.linalg.norm(directions, axis=2, keepdims=True)
    squares = ((noise - noise.mean(axis=1, keepdims=True)) ** 2).sum(axis=(1, 2))
    claimed = softmax_error(n, bound, classes).predict(1.0, promises.sum()).noise_part
    assert abs(squares.mean() - claimed) < 5.0 * squares.std() / count**0.5


def test_a_gradient_of_more_classes_spreads_no_more_than_the_error_model_says():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5_000, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = rng.integers(0, 5, 5_000)
    gradients = ((0.2 - np.eye(5)[labels])[:, :, None] * x[:, None, :]).reshape(5_000, -1)
    spread = float(gradients.var(axis=0).sum())
    assert 0.95 * softmax_error(4, 1.0, 5).sampling < spread <= softmax_error(4, 1.0, 5).sampling


def test_suggested_prices_know_the_number_of_classes():
    dist = Uniform(1, 5)
    two = suggest_prices(dist, 456, 600.0, 31, 1.03)
    assert suggest_prices(dist, 456, 600.0, 31, 1.03, n_classes=2) == two
    ten = suggest_prices(dist, 456, 600.0, 31, 1.03, n_classes=10)
    expected = plan_prices(dist, 456, 600.0, softmax_error(31, 1.03, 10)).objective
    assert ten == expected
    assert ten.noise / ten.concentration > 2.0 * two.noise / two.concentration
    with pytest.raises(InvalidInput, match="n_classes"):
        suggest_prices(dist, 456, 600.0, 31, 1.03, n_classes=1)
