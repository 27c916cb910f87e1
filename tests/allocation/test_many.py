"""Many small markets at once: the numbers of one by one, whatever the costs and bounds are."""

import numpy as np
import pytest

from dpmarket.allocation import BuyerObjective, SmallMarkets, allocate
from dpmarket.errors import Infeasible, InvalidInput

OBJECTIVES = {
    "free": BuyerObjective(1.0, 1.0, 1e-3),
    "capped": BuyerObjective(1.0, 1.0, 1e-3, weight_cap=2.5),
    "bounded": BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0, max_mean_epsilon=0.2),
    "equal weights": BuyerObjective(1.0, 1e-200, 1e-200),
    "the cheapest": BuyerObjective(0.0, 1.0, 1e-3, weight_cap=4.0),
}


def drawn(rng):
    """Return markets of many sizes with ties, zeros, infinite and round costs."""
    markets = [rng.uniform(1.0, 9.0, rng.integers(12, 60)) for _ in range(40)]
    markets += [rng.integers(1, 5, rng.integers(12, 60)).astype(float) for _ in range(20)]
    markets += [np.full(20, 3.0), np.array([0.0, *[2.0] * 19]), np.linspace(0.1, 1e9, 50)]
    for psi in markets[:10]:
        psi[rng.integers(psi.size, size=3)] = np.inf
    return markets


@pytest.mark.parametrize("name", OBJECTIVES)
def test_each_market_is_allocated_as_it_is_alone(name):
    objective, markets = OBJECTIVES[name], drawn(np.random.default_rng(5))
    found = SmallMarkets(markets).allocate(lambda sellers: objective)
    for k, psi in enumerate(markets):
        alone = allocate(psi, objective)
        told = found.concentration_parts[k], found.noise_parts[k], found.payment_parts[k]
        assert told == (alone.concentration_part, alone.noise_part, alone.payment_part)
        assert (found.cutoffs[k], found.bought[k]) == (alone.cutoff, alone.n_bought)
        assert found.squared_norms[k] == pytest.approx(alone.loss_weights @ alone.loss_weights, rel=1e-14)


def test_the_objective_may_depend_on_how_many_sellers_a_market_has():
    markets = drawn(np.random.default_rng(6))

    def objective_for(sellers):
        return BuyerObjective(1.0, 1.0, 1e-2 / sellers, weight_cap=1.0 + sellers / 50)

    found = SmallMarkets(markets).allocate(objective_for)
    alone = [allocate(psi, objective_for(psi.size)).payment_part for psi in markets]
    assert found.payment_parts.tolist() == alone


def test_what_one_market_is_refused_for_all_are():
    good = np.linspace(1.0, 2.0, 10)
    objective = OBJECTIVES["free"]
    for bad, wanted, error in (
        (np.zeros(10), objective, Infeasible),
        (np.append(1.0, np.full(9, np.inf)), BuyerObjective(1.0, 1.0, 1e-3, weight_cap=2.0), Infeasible),
        (np.array([1.0, -1.0]), objective, InvalidInput),
        (np.array([1.0, np.nan]), objective, InvalidInput),
        (good, BuyerObjective(1.0, 0.0, 1e-3), InvalidInput),
        (good, BuyerObjective(1.0, 1.0, 0.0), InvalidInput),
    ):
        with pytest.raises(error) as alone:
            allocate(bad, wanted)
        with pytest.raises(error) as together:
            SmallMarkets([good, bad]).allocate(lambda sellers, wanted=wanted: wanted)
        assert str(together.value) == str(alone.value)


def test_costs_far_from_one_are_allocated_as_alone():
    markets = [np.linspace(1.0, 2.0, 20) * 2.0**power for power in (-900, -120, 120, 900)]
    found = SmallMarkets(markets).allocate(lambda sellers: OBJECTIVES["capped"])
    alone = [allocate(psi, OBJECTIVES["capped"]).payment_part for psi in markets]
    assert found.payment_parts.tolist() == alone
