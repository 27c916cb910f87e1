"""The best purchase within a budget, against brute force: caps, bounds, ties, several basins."""

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

from dpmarket.allocation import project_to_capped_simplex
from dpmarket.allocation.simplex import UNCAPPED, split_cap
from dpmarket.planning.path import walk_path


@dataclass(frozen=True)
class Market:
    psi: np.ndarray
    weight_cap: float | None
    sampling: float
    noise: float
    budget: float
    most: float

    @property
    def layout(self):
        if self.weight_cap is None:
            return UNCAPPED
        return split_cap(Fraction(self.weight_cap) / self.psi.size)

    def best(self):
        path = walk_path(np.sort(self.psi), *self.layout)
        return path.best_for(self.budget, self.sampling, self.noise, self.most)

    def error(self, squared_norm, total):
        return self.sampling * squared_norm + self.noise / total**2


def random_market(seed):
    """Return a market of up to 40 sellers; every third has a few cheap people beside many dear ones."""
    rng = np.random.default_rng([25, seed])
    sellers = int(rng.integers(1, 40))
    psi = rng.gamma(2.0, 2.0, sellers)
    sampling, noise = float(np.exp(rng.normal(0.0, 2.0))), float(np.exp(rng.normal(3.0, 3.0)))
    budget = float(np.exp(rng.normal(2.0, 2.0)))
    if seed % 3 == 0:
        sellers = int(rng.integers(20, 120))
        cheap = int(rng.integers(1, 4))
        psi = np.concatenate([rng.uniform(0.01, 0.1, cheap), rng.uniform(4.0, 6.0, sellers - cheap)])
        sampling, noise, budget = (
            1.0,
            float(np.exp(rng.normal(3.0, 1.0))),
            float(np.exp(rng.normal(1.0, 1.0))),
        )
    elif seed % 5 == 0:
        psi = np.maximum(np.round(psi), 1.0)  # people name round numbers
    if seed % 7 == 0:
        psi[: psi.size // 2] = psi[0]
    cap = None
    if rng.random() < 0.6:
        cap = (
            float(rng.uniform(1.0, psi.size)) if rng.random() < 0.7 else float(rng.integers(1, psi.size + 1))
        )
    most = math.inf
    if rng.random() < 0.4:
        free = Market(psi, cap, sampling, noise, budget, math.inf).best().total_promise
        most = free * float(np.exp(rng.normal(-0.3, 0.7)))
    return Market(psi, cap, sampling, noise, budget, most)


def solved_by_another(market):
    """Return the least error by an interior-point method: in (a, 1/eta) the problem is a convex programme."""
    size, scale = market.psi.size, market.budget / market.psi.mean()
    a, u = cp.Variable(size), cp.Variable()  # u = scale / eta
    limits = [
        a >= 0,
        a <= market.layout[0],
        cp.sum(a) == 1,
        market.psi @ a * scale <= market.budget * u,
        u >= 0,
    ]
    if math.isfinite(market.most):
        limits.append(u >= scale / market.most)
    goal = market.sampling * cp.sum_squares(a) + market.noise / scale**2 * cp.square(u)
    problem = cp.Problem(cp.Minimize(goal / (market.sampling + market.noise / scale**2)), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # 1e-13 is more than it can always do; compared at 2e-5
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    return problem.value * (market.sampling + market.noise / scale**2)


def check_against_brute_force(market):
    found = market.best()
    assert found.total_promise <= market.most * (1 + 1e-12)
    assert found.price * found.total_promise <= market.budget * (1 + 1e-12)
    # The weights of the spread really have this norm and price: a projection, by other code.
    if math.isfinite(found.spread):
        a = project_to_capped_simplex(-market.psi / found.spread, market.layout[0])
        assert a @ a == pytest.approx(found.squared_norm, rel=1e-9)
        assert a @ market.psi == pytest.approx(found.price, rel=1e-9)
        assert (a > 0).sum() <= found.bought
    ours = market.error(found.squared_norm, found.total_promise)
    theirs = solved_by_another(market)
    assert ours <= theirs * (1 + 1e-9)
    assert ours == pytest.approx(theirs, rel=2e-5)  # what an interior-point method reaches


def basins(market, payment_weight):
    """Return the local minima over eta of the objective with money as a third term, by a fine grid."""
    psi, cap = market.psi, market.layout[0]

    def value(eta):
        a = project_to_capped_simplex(-payment_weight * eta * psi / (2 * market.sampling), cap)
        return market.error(a @ a, eta) + payment_weight * eta * (a @ psi)

    centre = market.best().total_promise
    etas = centre * np.geomspace(1e-3, 1e3, 1200)
    values = np.array([value(eta) for eta in etas])
    inner = (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])
    return etas[1:-1][inner], values[1:-1][inner]


CHOSEN = [0, 1, 2, 3, 5, 6, 7, 9, 10, 14, 15, 21, 30, 35, 36, 60, 105]


@pytest.mark.parametrize("seed", CHOSEN)
def test_the_best_purchase_is_that_of_another_solver(seed):
    check_against_brute_force(random_market(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in range(200) if seed not in CHOSEN])
def test_the_best_purchase_is_that_of_another_solver_on_many_markets(seed):
    check_against_brute_force(random_market(seed))


def payment_weight_at(market):
    """Return the payment weight at which the best purchase is a stationary point of the three-term form."""
    found = market.best()
    return 2 * market.sampling / (found.spread * found.total_promise)


@pytest.mark.parametrize("seed", [1, 2, 4, 8])
def test_with_one_basin_the_budget_and_its_payment_weight_agree(seed):
    # The minimum over eta of A|a|^2 + B/eta^2 + gamma*eta*<a,psi>, by a fine grid: one basin, the same eta.
    market = random_market(seed)
    market = Market(market.psi, market.weight_cap, market.sampling, market.noise, market.budget, math.inf)
    etas, _ = basins(market, payment_weight_at(market))
    assert len(etas) == 1
    assert etas[0] == pytest.approx(market.best().total_promise, rel=0.02)


def test_at_a_budget_within_a_jump_the_best_purchase_is_no_minimum_of_the_three_term_form():
    # One cheap person beside 100 dear ones: with money as a term of the objective there are two basins, one
    # below and one above what the budget buys. With money as a constraint there is the one best purchase.
    psi = np.array([0.01] + [5.0] * 100)
    market = Market(psi, None, sampling=1.0, noise=30.0, budget=5.0, most=math.inf)
    found = market.best()
    assert found.price * found.total_promise == pytest.approx(5.0)
    check_against_brute_force(market)
    etas, _ = basins(market, payment_weight_at(market))
    assert len(etas) == 2
    assert min(etas) < 0.8 * found.total_promise
    assert max(etas) > 1.2 * found.total_promise


def test_random_markets_have_caps_bounds_ties_and_several_basins():
    markets = [random_market(seed) for seed in range(200)]
    assert sum(market.weight_cap is not None for market in markets) > 80
    assert sum(math.isfinite(market.most) for market in markets) > 50
    assert sum(market.best().total_promise == market.most for market in markets) > 10
    assert sum(np.unique(market.psi).size < market.psi.size for market in markets) > 40
    free = [Market(m.psi, m.weight_cap, m.sampling, m.noise, m.budget, math.inf) for m in markets[:60:3]]
    several = sum(len(basins(market, payment_weight_at(market))[0]) > 1 for market in free)
    assert several >= 3


def test_the_best_purchase_worked_by_hand():
    # One seller: all weight, eta = P/psi. Two alike: half each.
    alone = walk_path(np.array([2.0]), *UNCAPPED).best_for(10.0, 1.0, 1.0)
    assert (alone.squared_norm, alone.total_promise, alone.price, alone.bought) == (1.0, 5.0, 2.0, 1)
    twins = walk_path(np.array([2.0, 2.0]), *UNCAPPED).best_for(10.0, 1.0, 1.0)
    assert (twins.squared_norm, twins.total_promise) == (0.5, 5.0)
    # psi = (1, 3), A = B = 1, P = 2: a = (1+t, 1-t)/2, price 2 - t; (1 + t^2)/2 + (2 - t)^2/4 is least at
    # t = 2/3.
    pair = walk_path(np.array([1.0, 3.0]), *UNCAPPED).best_for(2.0, 1.0, 1.0)
    assert pair.price == pytest.approx(4 / 3)
    assert pair.squared_norm == pytest.approx((1 + 4 / 9) / 2)
    # With a cap of 3/5 the cheaper one has 3/5.
    capped = walk_path(np.array([1.0, 3.0]), 0.6, 1, 0.4).best_for(2.0, 1.0, 1.0)
    assert capped.squared_norm == pytest.approx(0.36 + 0.16)
    assert capped.price == pytest.approx(0.6 + 1.2)
