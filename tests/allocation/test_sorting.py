"""Costs sorted in buckets are those that numpy sorts, to the bit."""

import numpy as np
import pytest

from dpmarket import BuyerObjective, OfflineMechanism, Uniform
from dpmarket.allocation import sorting

RNG = np.random.default_rng(0)
COSTS = {
    "any": RNG.uniform(1, 9, 5000),
    "cents": RNG.uniform(1, 9, 5000).round(2),
    "all equal": np.full(300, 2.5),
    "one": np.array([3.0]),
    "from 0 to the largest float": np.concatenate((RNG.lognormal(0, 200, 5000), [0.0, 5e-324, 1.7e308])),
    "of both zeros": np.array([0.0, 1.0, -0.0, 2.0, 0.0]),
    "every other one": RNG.uniform(1, 9, 5000)[::2],
}


@pytest.mark.parametrize("name", COSTS)
def test_buckets_hold_what_sorting_gives_to_the_bit(name):
    costs = COSTS[name]
    before = costs.copy()
    np.testing.assert_array_equal(sorting.sorted_in_buckets(costs), np.sort(costs))
    np.testing.assert_array_equal(costs, before)


def test_few_costs_are_sorted_as_they_are_and_many_in_buckets(monkeypatch):
    asked = []
    monkeypatch.setattr(
        sorting, "sorted_in_buckets", lambda costs: asked.append(costs.size) or np.sort(costs)
    )
    sorting.sorted_costs(np.ones(sorting.SMALLEST - 1))
    sorting.sorted_costs(np.ones(sorting.SMALLEST))
    assert asked == [sorting.SMALLEST]


@pytest.mark.parametrize("cap", [None, 3.0])
def test_everything_that_follows_from_sorted_costs_is_the_same_bits(monkeypatch, cap):
    costs = Uniform(1, 5).sample(4000, np.random.default_rng(1))
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1e-3, weight_cap=cap))
    plain = mechanism.run(costs)
    monkeypatch.setattr(sorting, "SMALLEST", 2)
    bucketed = mechanism.run(costs)
    assert plain.payments.tobytes() == bucketed.payments.tobytes()
    assert plain.epsilons.tobytes() == bucketed.epsilons.tobytes()
