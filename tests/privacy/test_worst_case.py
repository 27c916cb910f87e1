"""The bound against the exact mechanism: never exceeded, nearly reached, and every mutant caught.

A mutant is a wrong mechanism with the right claim, or the right mechanism with a wrong claim. The search
catches it if it finds neighbours whose exact log density ratio exceeds the claim.
"""

import functools

import numpy as np
import pytest

from dpmarket.errors import InvalidInput
from dpmarket.privacy import (
    closed_form_case,
    find_worst_case,
    log_density,
    log_density_ratio,
    privacy_loss,
    weights_for,
)


@functools.lru_cache
def found(a, eta, l2, bound=1.0, rows=1, n=2):
    return find_worst_case([a, (1 - a) / 2, (1 - a) / 2], 0, eta, l2, bound, rows, n_features=n)


def claimed(a, eta, l2, bound=1.0, rows=1):
    return float(privacy_loss([a], eta, l2, bound, rows)[0])


def claim_with_determinant_factor(a, eta, bound, factor):
    """Formula (*) with another factor of s (1 - s) in the determinant, on a fine grid."""
    s = np.linspace(0.0, 1.0, 100_001)
    return a * eta * bound / 2 + np.max(a * eta * bound * s / 2 + np.log1p(factor * s * (1 - s)))


CONFIGURATIONS = [
    (0.05, 20.0, 1e-4),
    (0.1, 10.0, 0.05),
    (0.5, 2.0, 0.5),
    (1e-5, 1e5, 1e-4),
    (0.2, 4.0, 0.1, 5.0),
    (0.2, 4.0, 0.1, 0.3),
    (0.05, 20.0, 1e-4, 1.0, 2),
    (0.05, 20.0, 1e-4, 1.0, 1, 1),
    (0.3, 5.0, 0.4, 2.0, 2, 1),
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_the_worst_ratio_found_never_exceeds_the_bound(configuration):
    worst = found(*configuration)
    assert 0.0 < worst.log_ratio <= claimed(*configuration[:5])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_the_worst_ratio_found_never_exceeds_the_bound_at_random(seed):
    rng = np.random.default_rng(seed)
    a, eta, l2 = 10.0 ** rng.uniform([-4, -2, -6], [-0.01, 4, 1])
    bound, rows, n = 10.0 ** rng.uniform(-1, 1), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    assert found(a, eta, l2, bound, rows, n).log_ratio <= claimed(a, eta, l2, bound, min(rows, n))


@pytest.mark.parametrize(
    "configuration",
    [(0.05, 20.0, 1e-4), (1e-5, 1e5, 1e-4), (0.05, 20.0, 1e-3, 5.0)],
    ids=["mostly slack", "no slack", "rows up to 5"],
)
def test_the_bound_is_reached_to_one_percent(configuration):
    assert found(*configuration).log_ratio >= 0.99 * claimed(*configuration)


def test_at_the_textbook_configuration_the_bound_is_reached_to_three_hundredths_of_a_percent():
    assert found(0.05, 20.0, 1e-4).log_ratio >= 0.9997 * claimed(0.05, 20.0, 1e-4)


def test_the_closed_form_approaches_the_bound_as_the_penalty_falls():
    shares = [
        closed_form_case([0.05, 0.95], 0, 20.0, l2).log_ratio / claimed(0.05, 20.0, l2)
        for l2 in (1e-2, 1e-4, 1e-6, 1e-8)
    ]
    assert shares == sorted(shares)
    assert 0.999 <= shares[-1] <= 1.0


def test_a_configuration_is_valid_and_its_value_can_be_recomputed():
    worst = found(0.05, 20.0, 1e-3, 5.0, 2)
    rows = np.concatenate([worst.own_rows, worst.replaced_rows, worst.other_rows])
    assert np.all(np.linalg.norm(rows, axis=1) <= 5.0)
    assert worst.own_weights.sum() == pytest.approx(0.05)
    assert worst.other_weights.sum() == pytest.approx(0.95)
    value = log_density_ratio(
        worst.output,
        worst.own_rows,
        worst.replaced_rows,
        worst.own_weights,
        worst.other_rows,
        worst.other_weights,
        noise_rate=20.0,
        l2=1e-3,
    )
    assert float(value) == pytest.approx(worst.log_ratio, rel=1e-12)


def test_every_person_of_a_small_market_keeps_the_promise():
    promises = np.array([0.3, 1.0, 2.0])
    weights = weights_for(promises, 0.1)
    for person, promise in enumerate(promises):
        worst = find_worst_case(weights.loss_weights, person, weights.noise_rate, 0.1)
        assert 0.5 * promise < worst.log_ratio <= promise


def test_nobody_learns_anything_about_a_person_without_weight():
    assert find_worst_case([0.0, 0.4, 0.6], 0, 5.0, 0.1).log_ratio == pytest.approx(0.0, abs=1e-12)


def test_more_rows_than_features_cost_no_more_than_as_many_rows_as_features():
    assert found(0.05, 20.0, 1e-4, 1.0, 3).log_ratio <= claimed(0.05, 20.0, 1e-4, 1.0, 2)


def test_mutant_noise_halved_is_caught():
    # Half the noise is twice the rate: the mechanism runs at 2 eta, the claim is for eta.
    for a, eta, l2 in ((1e-5, 1e5, 1e-4), (0.05, 20.0, 1e-4)):
        assert found(a, 2 * eta, l2).log_ratio > claimed(a, eta, l2)


def test_mutant_slack_dropped_is_caught():
    for a, eta, l2 in ((0.05, 20.0, 1e-4), (0.01, 100.0, 1e-3), (0.1, 10.0, 0.05)):
        assert eta * l2 < 2.0
        assert found(a, eta, l2).log_ratio > a * eta


def test_mutant_slack_dropped_for_long_rows_is_caught():
    # eta * l2 >= 2, but not 2 * row_bound: there is slack.
    a, eta, l2, bound = 1e-3, 200.0, 0.0101, 50.0
    assert 2.0 <= eta * l2 < 2.0 * bound
    assert found(a, eta, l2, bound).log_ratio > a * eta * bound


def test_mutant_row_bound_once_instead_of_squared_is_caught():
    a, eta, l2, bound = 0.05, 20.0, 1e-3, 5.0
    mutant = claim_with_determinant_factor(a, eta, bound, a * bound / l2)
    right = claim_with_determinant_factor(a, eta, bound, a * bound**2 / l2)
    assert right == pytest.approx(claimed(a, eta, l2, bound), rel=1e-6)
    assert mutant < found(a, eta, l2, bound).log_ratio <= right


def test_mutant_row_bound_ignored_in_the_noise_term_is_caught():
    a, eta, l2, bound = 1e-5, 1e5, 1e-3, 5.0
    mutant = claim_with_determinant_factor(a, eta, 1.0, a * bound**2 / l2)
    assert found(a, eta, l2, bound).log_ratio > mutant


def test_mutant_weights_not_applied_is_caught():
    # Promises for weights .02 and .98, but training weighs both people equally.
    claims = privacy_loss([0.02, 0.98], 20.0, 1e-4)
    worst = find_worst_case([0.5, 0.5], 0, 20.0, 1e-4)
    assert worst.log_ratio > claims[0]


def test_mutant_rows_of_a_person_ignored_is_caught():
    assert found(0.05, 20.0, 1e-4, 1.0, 2).log_ratio > claimed(0.05, 20.0, 1e-4, 1.0, 1)


def test_mutant_weights_that_look_at_the_records_are_caught():
    # The person always has weight .1; whether the others weigh equally depends on the person's record.
    rows, replaced = np.array([[1.0], [1.0], [-1.0]]), np.array([[-1.0], [1.0], [-1.0]])
    w = np.linspace(-60.0, 60.0, 2_401)[:, None]
    ratio = log_density(w, rows, [0.1, 0.45, 0.45], 20.0, 0.1) - log_density(
        w, replaced, [0.1, 0.05, 0.85], 20.0, 0.1
    )
    assert np.abs(ratio).max() > 2.0 * claimed(0.1, 20.0, 0.1)


@pytest.mark.parametrize(
    "arguments",
    [
        ([1.0], 0, 1.0, 1.0),
        ([0.5, 0.5], 2, 1.0, 1.0),
        ([0.5, 0.5], -1, 1.0, 1.0),
        ([0.5, np.nan], 0, 1.0, 1.0),
        ([0.5, 0.5], 0, 0.0, 1.0),
        ([0.5, 0.5], 0, 1.0, 1.0, 1.0, 1, 3),
    ],
    ids=str,
)
def test_a_search_is_made_for_sensible_arguments_only(arguments):
    with pytest.raises(InvalidInput):
        find_worst_case(*arguments[:6], n_features=arguments[6] if len(arguments) > 6 else 2)
