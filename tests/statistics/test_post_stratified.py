"""Post-stratified statistics: right for the population, honest intervals, no privacy beyond the groups'."""

import numpy as np
import pytest
from scipy.stats import binom

from dpmarket.errors import InvalidInput
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    group_difference,
    post_stratified,
    rebalanced,
)

SHARES = {"few": 0.7, "many": 0.3}


def released(statistic, records, epsilon, seed):
    statistic.noise_source = SeededNoise(seed)
    return statistic.fit(records, epsilons=np.full(len(records), epsilon)).release_


def test_values_weigh_groups_by_their_shares_whatever_they_sold():
    few, many = np.full(40, 3.0), np.full(900, 5.0)
    parts = {
        "few": released(PrivateMean(low=0, high=10), few, 1e4, 1),
        "many": released(PrivateMean(low=0, high=10), many, 2e4, 2),
    }
    found = post_stratified(parts, SHARES)
    assert found.values[0] == pytest.approx(0.7 * 3.0 + 0.3 * 5.0, abs=1e-3)
    assert found.lows[0] < 3.6 < found.highs[0]
    for categories, values in ((("a", "b", "c"), (0.425, 0.575, 0.0)), (("a", "b"), (0.425, 0.575))):
        cells = {
            name: released(PrivateHistogram(categories), ["a"] * 50 + ["b"] * size, 1e4, size)
            for name, size in (("few", 50), ("many", 150))
        }
        assert post_stratified(cells, SHARES).values == pytest.approx(values, abs=1e-3)


@pytest.mark.parametrize(("people", "epsilon"), [(30, 0.1), (200, 5.0)], ids=["noise", "sampling"])
def test_intervals_hold_the_populations_value_with_the_stated_confidence(people, epsilon):
    rng, missed, runs = np.random.default_rng(5), 0, 150
    for run in range(runs):
        parts = {
            name: released(PrivateShare(), rng.random(people) < chance, epsilon, 2 * run + k)
            for k, (name, chance) in enumerate((("few", 0.2), ("many", 0.6)))
        }
        found = post_stratified(parts, SHARES, confidence=0.8)
        missed += not found.lows[0] <= 0.7 * 0.2 + 0.3 * 0.6 <= found.highs[0]
    assert missed <= binom.isf(1e-6, runs, 0.2)


def test_what_does_not_fit_is_refused():
    share = released(PrivateShare(), [True] * 30, 1.0, 1)
    for parts, shares in (
        ({"few": share}, SHARES),
        ({"few": share, "many": share}, {"few": 0.7, "many": 0.7}),
        ({"few": share, "many": released(PrivateMean(low=0, high=1), [0.5] * 30, 1.0, 2)}, SHARES),
    ):
        with pytest.raises(InvalidInput, match="expected"):
            post_stratified(parts, shares)
    median = released(PrivateQuantile(0.5, candidates=[0.0, 0.5, 1.0]), [0.5] * 30, 1.0, 3)
    with pytest.raises(InvalidInput, match="mean, share or histogram"):
        post_stratified({"few": median, "many": median}, SHARES)


def test_rebalanced_epsilons_meet_shares_and_spend_no_more_than_was_sold():
    rng = np.random.default_rng(2)
    members, sold = rng.integers(0, 3, 500), rng.exponential(size=500)
    used = rebalanced(sold, members, [0.2, 0.5, 0.3])
    assert (used <= sold).all()
    np.testing.assert_allclose(np.bincount(members, used) / used.sum(), [0.2, 0.5, 0.3], rtol=0, atol=1e-12)
    assert any((used[members == g] == sold[members == g]).all() for g in range(3))
    nothing = np.where(members == 2, 0.0, sold)
    used = rebalanced(nothing, members, [0.2, 0.5, 0.3])
    np.testing.assert_allclose(np.bincount(members, used) / used.sum(), [2 / 7, 5 / 7, 0.0], atol=1e-12)
    with pytest.raises(InvalidInput, match="groups"):
        rebalanced(sold, members + 1, [0.2, 0.5, 0.3])


def test_the_difference_of_groups_is_the_variance_of_their_means_without_what_sampling_adds():
    rng = np.random.default_rng(3)
    members = np.repeat([0, 1], 60)
    means = np.array([[0.0, 1.0], [0.6, 0.2]])
    found = [group_difference(means[members] + rng.normal(size=(120, 2)), members) for _ in range(400)]
    truth = means.var(axis=0, ddof=1).sum()
    # Six standard errors; without the correction it would be 2/60 higher.
    assert np.mean(found) == pytest.approx(truth, abs=6.0 * np.std(found) / 20.0)
    assert np.mean(found) < truth + 1.0 / 60.0
    with pytest.raises(InvalidInput, match="two records"):
        group_difference([1.0, 2.0, 3.0], [0, 0, 1])
