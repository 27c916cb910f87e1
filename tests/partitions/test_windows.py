"""Windows decide what everybody's costs decide: to the bit, or they refuse."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from dpmarket import BuyerObjective, FromScipy, Mixture, OfflineMechanism, Uniform
from dpmarket.allocation import allocate
from dpmarket.costs import virtual_costs
from dpmarket.errors import Infeasible
from dpmarket.partitions import BucketSums, TooClose
from dpmarket.partitions.deciding import Census, decide_from_all, decide_from_windows
from dpmarket.partitions.decisions import ByCost, ByIntegrals, ByRule
from dpmarket.partitions.windows import Gathered, at_places
from dpmarket.payments.kernels.kinks import passed


def from_windows(costs, mechanism):
    psi = virtual_costs(costs, mechanism.dist)
    finite = psi[psi < np.inf]
    distinct = np.unique(costs)
    census = Census(
        sellers=costs.size,
        finite=BucketSums.of(finite),
        zeros=int((finite == 0.0).sum()),
        cheapest=float(costs.min()),
        distinct=distinct if distinct.size <= 1024 else None,
    )

    def gather(ranges):
        inside = np.zeros(psi.size, dtype=bool)
        for low, high in ranges:
            inside |= (psi >= low) & (psi < high)
        values, which, counts = np.unique(psi[inside], return_inverse=True, return_counts=True)
        dearest = np.full(values.size, -np.inf)
        np.maximum.at(dearest, which, costs[inside])
        return [Gathered(values, counts.astype(np.int64), dearest)]

    return decide_from_windows(census, mechanism, gather)


def compared(costs, mechanism):
    """Compare windows with memory; return the market, and by how much payments differ."""
    market, memory = from_windows(costs, mechanism), mechanism.run(costs)
    allocation = allocate(virtual_costs(costs, mechanism.dist), mechanism.objective)
    assert market.total_promise == allocation.total_promise
    assert market.cutoff == allocation.cutoff
    assert (market.n_capped, market.n_bought) == (allocation.n_capped, allocation.n_bought)
    quoted = pickle.loads(pickle.dumps(market.decision)).quote(costs)
    assert np.array_equal(quoted.epsilons, memory.epsilons)
    assert (quoted.payments >= quoted.epsilons * costs).all()
    paid = memory.payments > 0.0
    return market, float(np.abs(quoted.payments[paid] / memory.payments[paid] - 1.0).max())


GAMMA = FromScipy(stats.gamma(3, scale=0.5), 0.0, 6.0)
TWO_GROUPS = Mixture([Uniform(1, 2), Uniform(4, 5)], [0.5, 0.5])  # ironed between


@pytest.mark.parametrize(
    "dist", [Uniform(1, 5), Uniform(0, 1), GAMMA, TWO_GROUPS], ids=lambda d: type(d).__name__
)
@pytest.mark.parametrize(
    ("cap", "bound"), [(None, None), (1.3, None), (4.0, None), (2.0, None), (None, 3e-5), (3.0, 2e-5)]
)
def test_total_promise_cutoff_and_counts_are_memorys_to_the_bit(dist, cap, bound):
    costs = dist.quantile(np.random.default_rng(5).random(60_000))
    objective = BuyerObjective(1.0, 1.0, 0.02, weight_cap=cap, max_mean_epsilon=bound)
    market, difference = compared(costs, OfflineMechanism(dist, objective))
    # Memory tabulates premiums to 2e-10, and here and there no table is good enough for one of the two.
    assert difference <= 2e-10
    assert market.gathered < costs.size / 4


def test_payments_agree_to_1e_12_where_many_are_bought_from():
    costs = Uniform(1, 5).quantile(np.random.default_rng(6).random(400_000))
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 2e-4, weight_cap=3.0))
    market, difference = compared(costs, mechanism)
    assert isinstance(market.decision, ByRule)
    assert difference <= 1e-12


@pytest.mark.parametrize(
    ("seed", "cap", "weight", "concentration"), [(1, 3.0, 0.1, 3.0), (5, 1.2, 0.01, 0.3), (2, 20.0, 0.1, 0.3)]
)
def test_who_is_next_to_where_a_cap_begins_is_paid_as_in_memory(seed, cap, weight, concentration):
    """There the premium is no smooth function of the cost: by the table they were paid 2e-8 more."""
    costs = np.round(np.random.default_rng(seed).uniform(1, 5, 60_000), 4)
    objective = BuyerObjective(concentration, 1.0, weight, weight_cap=cap)
    market, difference = compared(costs, OfflineMechanism(Uniform(1, 5), objective))
    assert isinstance(market.decision, ByRule)
    assert difference <= 2e-11


@pytest.mark.parametrize(("cap", "weight"), [(2.5, 7e-6), (3.0, 2e-5)])
def test_who_is_at_the_cap_below_a_gap_is_paid_as_in_memory(cap, weight):
    rng = np.random.default_rng(11)
    costs = rng.permutation(np.concatenate([rng.uniform(1, 2, 12_000), rng.uniform(2.4, 4, 60_000)]))
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(0.3, 0.3, weight, weight_cap=cap))
    allocation = allocate(virtual_costs(costs, mechanism.dist), mechanism.objective)
    assert 3.0 < allocation.cutoff - allocation.max_weight * allocation.spread < 3.8  # where nobody is
    market, difference = compared(costs, mechanism)
    assert isinstance(market.decision, ByRule)
    assert difference <= 2e-11


def test_few_different_costs_are_paid_as_in_memory():
    costs = np.round(np.random.default_rng(7).uniform(1, 5, 80_000), 2)
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.02, weight_cap=2.0))
    market, difference = compared(costs, mechanism)
    assert isinstance(market.decision, ByCost)
    assert difference <= 1e-12


def test_where_no_table_is_good_enough_every_payment_is_integrated():
    costs = GAMMA.quantile(np.random.default_rng(8).random(50_000))
    market, difference = compared(costs, OfflineMechanism(GAMMA, BuyerObjective(1.0, 1.0, 0.5)))
    assert isinstance(market.decision, ByIntegrals)
    assert difference <= 1e-12


def test_reports_beyond_the_support_get_nothing_and_count():
    costs = np.random.default_rng(9).uniform(0.5, 6.5, 50_000)
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.02, weight_cap=2.0))
    compared(costs, mechanism)


@pytest.mark.parametrize(("payment_weight", "bought"), [(0.002, 40_050), (0.005, 50)])
def test_of_two_basins_the_better_one_is_found(payment_weight, bought):
    rng = np.random.default_rng(10)
    costs = np.concatenate((rng.uniform(1.0, 1.001, 50), rng.uniform(3.0, 3.01, 40_000)))
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, payment_weight))
    minima = allocate(virtual_costs(costs, mechanism.dist), mechanism.objective).local_minima
    assert [minimum.n_bought for minimum in minima] == [50, 40_050]
    market, difference = compared(costs, mechanism)
    assert market.n_bought == bought
    assert difference <= 1e-12


def test_several_almost_equal_allocations_are_refused():
    costs = np.concatenate(([1.0], np.full(100, 3.0)))
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    with pytest.raises(TooClose, match="raise most_gathered"):
        from_windows(costs, mechanism)


def test_the_limit_of_no_concentration_is_refused():
    costs = np.random.default_rng(11).uniform(1, 5, 5000)
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(0.0, 1.0, 0.1, weight_cap=2.0))
    with pytest.raises(TooClose, match="concentration of 0"):
        from_windows(costs, mechanism)


def test_too_few_finite_virtual_costs_are_infeasible():
    costs = np.append(np.full(5, 2.0), np.full(95, 9.0))
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1, weight_cap=2.0))
    with pytest.raises(Infeasible, match="found 5 of 100"):
        from_windows(costs, mechanism)


def test_all_costs_decide_as_memory_does():
    costs = np.sort(np.round(np.random.default_rng(12).uniform(1, 5, 500), 1))
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    market, memory = decide_from_all(costs, mechanism), mechanism.run(costs)
    quoted = market.decision.quote(costs)
    assert np.array_equal(quoted.payments, memory.payments)
    assert np.array_equal(quoted.epsilons, memory.epsilons)


@pytest.mark.slow
def test_random_markets_are_memorys_to_the_bit_or_refused():
    rng = np.random.default_rng(13)
    refused = 0
    for k in range(120):
        dist = (Uniform(1, 5), GAMMA, Uniform(0, 1), TWO_GROUPS)[k % 4]
        objective = BuyerObjective(
            1.0,
            float(10 ** rng.uniform(-1, 1)),
            float(10 ** rng.uniform(-3, 0.5)),
            weight_cap=None if k % 3 == 0 else float(rng.uniform(1.05, 4.0)),
            max_mean_epsilon=None if k % 5 else float(10 ** rng.uniform(-4, -1)),
        )
        costs = dist.quantile(rng.random(int(10 ** rng.uniform(3.5, 5.3))))
        mechanism = OfflineMechanism(dist, objective)
        try:
            compared(np.round(costs, 2) + 0.01 if k % 7 == 0 else costs, mechanism)
        except TooClose:
            refused += 1
    assert refused <= 24


@pytest.mark.parametrize("pieces", [[(0, 40), (700, 1000)], [(3, 4), (5, 90)], [(613, 900)]])
def test_a_search_within_pieces_ends_where_it_would_if_all_costs_were_known(pieces):
    everybody = np.sort(np.random.default_rng(1).uniform(1.0, 5.0, 1000))
    known = [(start, everybody[start:end]) for start, end in pieces]
    costs = at_places(known, 0.9)
    for start, values in known:
        for value in values:
            assert passed(costs, value, value) == passed(everybody, value, value)
            assert np.searchsorted(costs, value) == np.searchsorted(everybody, value)
        assert np.array_equal(costs[start : start + values.size], values)


def test_sellers_who_cost_nothing_are_not_taken_for_those_who_are_not_known():
    with pytest.raises(TooClose):
        at_places([(0, np.zeros(3)), (7, np.ones(2))], 0.0)
