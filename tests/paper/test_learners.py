"""Other learners for comparison keep every epsilon: tested on exact densities and exact minimisers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmarket.audit.density import Group, log_density
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.learning.minimiser import minimise
from dpmarket.learning.rows import Rows
from dpmarket.learning.sums import LocalSums
from dpmarket.privacy import NoiseNorm, Release, SeededNoise, logistic_loss
from dpmarket.privacy.release import default_l2
from learners import LargeEpsilonsOnly, OutputPerturbation, PersonalisedSampling, keep_probabilities

PEOPLE = 100_000
CLASSES = ("no", "yes")
LEARNERS = {
    "smallest epsilon": lambda noise: LargeEpsilonsOnly(
        PrivateLogisticRegression(CLASSES, noise_source=noise)
    ),
    "sampling": lambda noise: PersonalisedSampling(0.5, CLASSES, noise, np.random.default_rng().bytes),
    "output perturbation": lambda noise: OutputPerturbation(CLASSES, noise),
}


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_a_learner_spends_no_more_than_each_epsilon_and_learns(make):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2_000, 3)) / 3**0.5
    y, epsilons = np.where(x[:, 0] > 0.0, "yes", "no"), rng.choice([0.0, 0.2, 1.0, 3.0], 2_000)
    learner = make(SeededNoise(1)).fit(x, y, epsilons)
    assert (learner.epsilons_ <= epsilons).all()
    assert (learner.epsilons_ > 0.0).any()
    assert (learner.predict(x) == y).mean() > 0.8
    assert (learner.predict(x) == np.array(CLASSES)[(learner.predict_proba(x)[:, 1] > 0.5).astype(int)]).all()


def log_densities(threshold, records):
    """Exact log densities at many outputs if the last person's signed row is each of ``records``.

    The others, half of the weight in one row, pull the noise along the direction in which the last person's
    row and its replacement differ, at outputs for which both are fitted badly: there a record costs most.
    """
    up = np.array([0.03, np.sqrt(1.0 - 0.03**2)])
    outputs = np.concatenate([-np.logspace(0.0, 4.0, 200), np.linspace(-1.0, 1.0, 21)])
    outputs = np.column_stack([outputs, np.zeros(len(outputs))])[:, None, :]
    norm, rate, weights = NoiseNorm.euclidean(2), PEOPLE * threshold, np.array([0.5, 1.0 / PEOPLE])
    release = Release(logistic_loss(), norm, default_l2(logistic_loss(), norm, rate))
    groups = [Group(np.stack([up, np.asarray(record) * up]), np.ones(2), weights) for record in records]
    return [log_density(release, rate, outputs, group) for group in groups]


@pytest.mark.parametrize(("share", "threshold"), [(0.05, 4.0), (0.4, 0.2), (0.9, 1.0), (0.9, 4.0)])
def test_a_sampled_record_costs_no_more_than_its_promise_and_nearly_all_of_it(threshold, share):
    epsilon = share * threshold
    kept = keep_probabilities([epsilon], threshold)[0]
    up, down, none = log_densities(threshold, ((1.0, 1.0), (1.0, -1.0), (0.0, 0.0)))
    mixed = [np.logaddexp(np.log1p(-kept) + none, np.log(kept) + one) for one in (up, down)]
    worst = float(np.abs(mixed[0] - mixed[1]).max())
    assert 0.95 * epsilon <= worst <= epsilon  # a larger probability would break the promise
    # Leaving a record out costs half of replacing it; so the probability is above the published one.
    assert 0.475 * threshold <= np.abs(up - none).max() <= 0.5 * threshold
    assert np.expm1(epsilon) / np.expm1(threshold) <= kept <= 1.0


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2.0), st.sampled_from([0.1, 1.0, 20.0]))
def test_a_weighted_minimiser_moves_no_further_than_the_noise_was_made_for(seed, l2, strength):
    """The rate of the noise times the distance between neighbours' minimisers is at most the promise."""
    rng = np.random.default_rng(seed)
    count, n = int(rng.integers(1, 6)), 2
    promises = rng.exponential(strength, count) + 1e-3
    bound = 2.0**0.5
    rows = rng.normal(size=(count, n))
    rows *= bound / np.linalg.norm(rows, axis=1, keepdims=True) * (1 - 1e-12)
    other = rows.copy()
    other[0] = -rows[0] if rng.random() < 0.5 else rng.uniform(-0.9, 0.9, n)
    weights = promises / promises.sum()

    def minimiser(x):
        none = np.zeros((1, n))
        sums = LocalSums(Rows(x, np.ones(count), weights, constant=None), logistic_loss(), bound)
        return minimise(sums, l2, none, none, 1e-13).high

    rate = l2 * promises.sum() / (2.0 * bound)
    assert rate * np.linalg.norm(minimiser(rows) - minimiser(other)) <= promises[0] * (1.0 + 1e-9)
