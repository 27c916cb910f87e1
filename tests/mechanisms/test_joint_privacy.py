"""Why a joint outcome carries no certificate: the exact loss on a small example, against what is claimed."""

import dataclasses

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket import BuyerObjective, Uniform
from dpmarket.mechanisms.joint import ExpectedPayments, JointMechanism
from dpmarket.privacy import SeededNoise, log_density, privacy_loss

# Eleven people, one feature; the last one's label decides which side has the majority.
X = np.ones((11, 1))
COSTS = np.linspace(1.5, 5.0, 11)
LABELS = np.where(np.arange(11) % 2 == 0, 1.0, -1.0)
REPLACED = np.where(np.arange(11) == 10, -1.0, LABELS)
MECHANISM = JointMechanism(
    Uniform(1, 5),
    BuyerObjective(0.5, 1.0, 1e-3),
    0.5,
    payments=ExpectedPayments(),
    noise_source=SeededNoise(0),
    mean_epsilons=[10 / 11],
)


def exact_loss(mechanism, farthest):
    """The largest log density ratio over coefficients up to ``farthest``, and what the weights claim."""
    w = np.linspace(-farthest, farthest, 4001)[:, None]
    densities, claims = [], []
    for labels in (LABELS, REPLACED):
        outcome = mechanism.run(COSTS, X, labels)
        signed = labels[:, None] * X
        weights, eta = outcome.loss_weights, outcome.noise_rate
        densities.append(log_density(w, signed, weights, eta, mechanism.l2))
        claims.append(privacy_loss(weights, eta, mechanism.l2)[10])
    return float(np.abs(densities[0] - densities[1]).max()), max(claims)


def test_the_true_loss_is_several_times_the_claimed_one_even_at_a_fixed_noise_rate():
    true, claimed = exact_loss(MECHANISM, 100.0)
    assert true > 3.5 * claimed
    # Weights that stay what they were keep the claim: it is the choice that leaks.
    outcome = MECHANISM.run(COSTS, X, LABELS)
    w = np.linspace(-100.0, 100.0, 4001)[:, None]
    first, second = (
        log_density(w, labels[:, None] * X, outcome.loss_weights, 10.0, 0.5) for labels in (LABELS, REPLACED)
    )
    assert np.abs(first - second).max() <= privacy_loss(outcome.loss_weights, 10.0, 0.5)[10]


def test_the_true_loss_has_no_bound_where_the_noise_rate_is_chosen_from_the_records():
    free = dataclasses.replace(MECHANISM, mean_epsilons=None)
    losses = [exact_loss(free, farthest)[0] for farthest in (100.0, 1_000.0, 10_000.0)]
    rates = [free.run(COSTS, X, labels).noise_rate for labels in (LABELS, REPLACED)]
    assert rates[0] != pytest.approx(rates[1], rel=1e-6)
    # Far out the log ratio grows like the difference of the rates times l2/2 times |w|.
    assert losses[2] - losses[1] == pytest.approx(abs(rates[0] - rates[1]) * 0.5 / 2 * 9_000.0, rel=1e-3)
    assert losses[2] > losses[1] > losses[0] - 1e-9


def test_the_same_people_bought_by_the_offline_mechanism_get_what_is_claimed():
    # Weights from reports alone: the labels change nothing but the record itself.
    outcome = dpm.OfflineMechanism(Uniform(1, 5), BuyerObjective(0.5, 1.0, 1e-3)).run(COSTS)
    weights, eta = outcome.planned_weights, outcome.planned_noise_rate
    w = np.linspace(-100.0, 100.0, 4001)[:, None]
    first, second = (log_density(w, labels[:, None] * X, weights, eta, 0.5) for labels in (LABELS, REPLACED))
    assert np.abs(first - second).max() <= privacy_loss(weights, eta, 0.5)[10] * (1 + 1e-12)
