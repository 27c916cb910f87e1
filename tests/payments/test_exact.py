"""Exact payments against slow references that share nothing with the fast path but the allocation."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpmarket import (
    BuyerObjective,
    Empirical,
    FromScipy,
    Infeasible,
    Mixture,
    OfflineMechanism,
    Uniform,
    allocate,
    payment_identity,
    virtual_costs,
)
from dpmarket.costs import parse_distribution
from dpmarket.payments import exact_payments
from dpmarket.payments.kernels.alone import Alone
from dpmarket.payments.kernels.integrals import Asked, epsilons_at
from dpmarket.payments.kernels.whole import Whole
from dpmarket.payments.market import Market

DISTRIBUTIONS = {
    "uniform": Uniform(1, 5),
    "uniform from 0": Uniform(0, 1),
    "log-normal": FromScipy(stats.lognorm(s=0.5, scale=2.0), 0, 20),
    "unbounded gamma": FromScipy(stats.gamma(a=2.0)),
    "U-shaped beta": FromScipy(stats.beta(0.5, 0.5)),
    "mixture with a gap": Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]),
    "empirical": Empirical(np.random.default_rng(1).lognormal(0.0, 1.0, 200)),
}
BOUNDS = [
    {},
    {"weight_cap": 3.0},
    {"weight_cap": 2.0, "max_mean_epsilon": 0.05},
    {"weight_cap": 1.5, "max_mean_epsilon": 1e3},
]


def pay(costs, objective, dist):
    psi = virtual_costs(costs, dist)
    allocation = allocate(psi, objective)
    return allocation, exact_payments(costs, psi, allocation, objective, dist)


def by_solving_again(costs, i, objective, dist):
    """The identity, with the whole problem solved anew at every report that the quadrature asks for."""
    moved = virtual_costs(costs, dist)

    def rule(report):
        moved[i] = virtual_costs(report, dist)
        return float(allocate(moved, objective).epsilons[i])

    return payment_identity(rule, costs[i], dist.support[1]).payment


def assert_equal_to_solving_again(dist, objective, costs, rng):
    try:
        allocation, paid = pay(costs, objective, dist)
    except Infeasible:
        assert np.isinf(dist.support[1])
        return
    bought = np.flatnonzero(allocation.epsilons > 0)
    assert (paid.payments[allocation.epsilons == 0] == 0).all()
    assert (paid.errors[bought] <= 1e-9 * paid.payments[bought]).all()
    i = rng.choice(bought)
    assert paid.payments[i] == pytest.approx(by_solving_again(costs, i, objective, dist), rel=1e-9)


# Every distribution, every kind of bound; with it, one seller or many bought from, capped ones or none.
CHOSEN = [
    ("uniform", 2), ("uniform", 3), ("uniform from 0", 1), ("uniform from 0", 2), ("log-normal", 0),
    ("unbounded gamma", 0), ("unbounded gamma", 2), ("U-shaped beta", 1), ("mixture with a gap", 0),
    ("mixture with a gap", 3), ("empirical", 0), ("empirical", 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bounds"), CHOSEN)
def test_payments_equal_solving_the_whole_problem_again_at_every_report(name, bounds):
    number = 4 * list(DISTRIBUTIONS).index(name) + bounds
    rng = np.random.default_rng(number)
    concentration, sellers = (0.0, 1e-3, 1.0)[number % 3], (2, 6, 25)[number // 3 % 3]
    objective = BuyerObjective(concentration, 1.0, 10 ** rng.uniform(-3, 0.5), **BOUNDS[bounds])
    dist = DISTRIBUTIONS[name]
    assert_equal_to_solving_again(dist, objective, dist.sample(sellers, rng), rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_payments_equal_solving_again_on_many_random_markets(seed):
    rng = np.random.default_rng(seed)
    for dist in DISTRIBUTIONS.values():
        objective = BuyerObjective(
            rng.choice([0.0, 10 ** rng.uniform(-4, 1)]), 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-4, 1),
            **BOUNDS[rng.integers(len(BOUNDS))],
        )  # fmt: skip
        assert_equal_to_solving_again(dist, objective, dist.sample(int(rng.integers(1, 120)), rng), rng)


def test_one_seller_is_paid_what_pencil_and_paper_say():
    # eps(z) = sqrt(noise/(payment_weight*psi(z))) with psi = 2z - 1, up to the top.
    with mpmath.workdps(30):
        cost = mpmath.mpf("2.5")

        def epsilon(z):
            return mpmath.sqrt(2 / (mpmath.mpf("0.3") * (2 * z - 1)))

        expected = cost * epsilon(cost) + mpmath.quad(epsilon, [cost, 5])
    _, paid = pay(np.array([2.5]), BuyerObjective(1.0, 2.0, 0.3), Uniform(1, 5))
    assert paid.payments[0] == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("other", [1.4, 2.2, 3.9])
def test_two_sellers_match_an_implementation_in_high_precision(other):
    """After minimising over eta, L(a) = mu*sqrt(a^2 + (1-a)^2) + 2*sqrt(sigma*gamma*(a*x + (1-a)*y))."""
    mu, sigma, gamma, cost = 1.0, 1.0, 0.05, 1.7
    with mpmath.workdps(16):
        y = mpmath.mpf(2 * other - 1)

        def epsilon(z):
            x = 2 * z - 1

            def slope(a):
                norm = mpmath.sqrt(a * a + (1 - a) ** 2)
                return mu * (2 * a - 1) / norm + mpmath.sqrt(sigma * gamma / (a * x + (1 - a) * y)) * (x - y)

            def loss(a):
                return mu * mpmath.sqrt(a * a + (1 - a) ** 2) + 2 * mpmath.sqrt(
                    sigma * gamma * (a * x + (1 - a) * y)
                )

            # Every minimum in the open interval, and the two ends: the least of them.
            points = [mpmath.mpf(k) / 20 for k in range(21)]
            found = [points[0], points[-1]]
            for low, high in pairwise(points):
                if slope(low) < 0 < slope(high):
                    found.append(mpmath.findroot(slope, (low, high), solver="anderson", tol=1e-26))
            a = min(found, key=loss)
            return a * mpmath.sqrt(sigma / (gamma * (a * x + (1 - a) * y)))

        # Where the seller drops out: epsilon has a kink there.
        low, high = mpmath.mpf(cost), mpmath.mpf(5)
        while high - low > mpmath.mpf("1e-13"):
            middle = (low + high) / 2
            low, high = (middle, high) if epsilon(middle) > 0 else (low, middle)
        expected = mpmath.mpf(cost) * epsilon(mpmath.mpf(cost)) + mpmath.quad(
            epsilon, [cost, other, low] if cost < other < low else [cost, low]
        )
    allocation, paid = pay(np.array([cost, other]), BuyerObjective(mu, sigma, gamma), Uniform(1, 5))
    assert allocation.n_bought == 2
    assert paid.payments[0] == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("sellers", [10, 200, 3000])
def test_for_uniform_costs_the_envelope_gives_the_same_payments(sellers):
    """The minimum J has dJ/dpsi_i = payment_weight*eps_i, so two solutions replace the integral."""
    dist, rng = Uniform(1, 5), np.random.default_rng(sellers)
    objective = BuyerObjective(1.0, 1.0, 0.01, weight_cap=4.0)
    costs = dist.sample(sellers, rng)
    allocation, paid = pay(costs, objective, dist)
    for i in np.flatnonzero(allocation.epsilons > 0)[::50]:
        moved = costs.copy()
        moved[i] = 5.0
        rise = allocate(virtual_costs(moved, dist), objective).objective_value - allocation.objective_value
        expected = costs[i] * allocation.epsilons[i] + rise / (2 * objective.payment_weight)
        assert paid.payments[i] == pytest.approx(expected, rel=1e-16 * 1e5 * sellers)


def test_a_basin_that_appears_only_as_the_report_moves_is_found():
    # Virtual costs (528.535, z, 0.81056): one minimum at z = 0.0403; near z = 0.2102 another takes over.
    dist = Uniform(0, 300)
    objective = BuyerObjective(1.10505, 1.37927, 0.524756)
    costs = np.array([528.535, 0.0403, 0.81056]) / 2
    allocation, paid = pay(costs, objective, dist)
    assert len(allocation.local_minima) == 1

    def total_promise(z):
        return allocate(np.array([528.535, z, 0.81056]), objective).total_promise

    assert total_promise(0.2100) - total_promise(0.2104) > 0.3
    assert paid.payments[1] == pytest.approx(by_solving_again(costs, 1, objective, dist), rel=1e-9)


def test_quick_solutions_equal_whole_walks_wherever_they_are_trusted():
    rng = np.random.default_rng(0)
    trusted = 0
    for _ in range(60):
        sellers = int(rng.integers(30, 400))
        psi = np.sort(
            np.concatenate((rng.uniform(0, rng.uniform(0.01, 2), sellers), rng.uniform(3, 40, sellers // 2)))
        )
        objective = BuyerObjective(1.0, 1.0, 10 ** rng.uniform(-4, 0), **BOUNDS[rng.integers(len(BOUNDS))])
        allocation = allocate(psi, objective)
        case = Market(psi, allocation, objective, Uniform(0, 30)).case
        if not isinstance(case, Alone):
            continue
        trusted += 1
        for own in psi[rng.integers(0, allocation.n_bought, 4)]:
            reports = own + np.linspace(0, 2 * (allocation.cutoff - own), 15)
            quick = epsilons_at(case, own, reports)
            whole = epsilons_at(Whole(case.problem), own, reports)
            np.testing.assert_allclose(quick, whole, rtol=1e-9, atol=1e-12 * quick[0])
    assert trusted > 20


@pytest.mark.parametrize("bounds", BOUNDS[:2])
@pytest.mark.parametrize("name", ["uniform", "log-normal", "mixture with a gap"])
def test_tabulated_premiums_equal_those_integrated_one_by_one(name, bounds):
    dist, rng = DISTRIBUTIONS[name], np.random.default_rng(2)
    objective = BuyerObjective(1.0, 1.0, 1e-4, **bounds)
    costs = dist.sample(40_000, rng)
    psi = virtual_costs(costs, dist)
    allocation = allocate(psi, objective)
    bought = np.flatnonzero(allocation.epsilons > 0)
    market = Market(psi, allocation, objective, dist)
    found = market.tabulated(Asked(costs[bought], psi[bought], allocation.epsilons[bought]))
    assert found is not None
    some = rng.choice(bought.size, 100)
    others = bought[some]
    exactly, _ = market.integrated(Asked(costs[others], psi[others], allocation.epsilons[others]), 1e-12)
    per_unit = costs[others] + exactly
    np.testing.assert_allclose(costs[others] + found[0][some], per_unit, rtol=1e-9)
    assert (found[1][some] <= 1e-9 * per_unit).all()


def test_unbounded_costs_need_others_who_suffice():
    dist = FromScipy(stats.expon())
    objective = BuyerObjective(1.0, 1.0, 0.1, weight_cap=1.0)
    with pytest.raises(Infeasible, match="needed at every price"):
        pay(np.array([0.5, 1.0, 2.0]), objective, dist)


def test_sellers_with_equal_reports_are_paid_equally():
    costs = np.array([2.0, 1.5, 2.0, 3.0, 2.0])
    _, paid = pay(costs, BuyerObjective(1.0, 1.0, 0.05, weight_cap=2.0), Uniform(1, 5))
    assert paid.payments[0] == paid.payments[2] == paid.payments[4]


@pytest.mark.parametrize(
    "text",
    ["uniform(1, 5)", "lognorm(s=0.8, scale=2, low=0.5, high=20)", "0.7*uniform(0.5, 1) + 0.3*uniform(2, 3)"],
)
@pytest.mark.parametrize(("sellers", "cap"), [(2, None), (5, 1.5), (40, 3.0), (300, None)])
def test_many_reports_at_once_are_paid_as_each_alone(text, cap, sellers):
    dist = parse_distribution(text)
    mechanism = OfflineMechanism(dist, BuyerObjective(1.0, 1.0, 0.02, weight_cap=cap))
    rng = np.random.default_rng(sellers)
    costs = dist.sample(sellers, rng)
    low, high = dist.support
    reports = np.concatenate([rng.uniform(low, high, 12), costs[:3], [low, high, costs[0], 0.5 * low]])
    curve = mechanism.response_curve(costs, 0, reports)
    alone = [mechanism.respond(costs, 0, report) for report in reports.tolist()]
    np.testing.assert_allclose(curve.epsilons, [answer.epsilon for answer in alone], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(curve.payments, [answer.payment for answer in alone], rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(("sellers", "cap", "weight", "concentration", "seed"), [
    (5000, 1.5, 0.01, 0.3, 1), (5000, 5.0, 0.1, 3.0, 6), (3000, 3.0, 0.1, 3.0, 0),
])  # fmt: skip
def test_who_is_next_to_where_the_cap_begins_is_paid_exactly(sellers, cap, weight, concentration, seed):
    """The cap's edge moves over them while their report does: a table of premiums was wrong by up to 3e-6."""
    dist, objective = Uniform(1, 5), BuyerObjective(concentration, 1.0, weight, weight_cap=cap)
    costs = np.random.default_rng(seed).uniform(1, 5, sellers)
    psi = virtual_costs(costs, dist)
    allocation, found = pay(costs, objective, dist)
    near = nearest_to_the_cap(allocation, psi)
    assert_as_if_alone(near, costs, psi, allocation, objective, dist, found)
    own = int(near[0])
    assert found.payments[own] == pytest.approx(by_solving_again(costs, own, objective, dist), rel=1e-9)


def test_where_few_are_between_cap_and_cutoff_more_of_those_around_are_paid_alone():
    """Twelve sellers beyond the places over which the edge was seen to move were paid 3e-8 too little."""
    dist = FromScipy(stats.beta(2, 3))
    objective = BuyerObjective(
        1.2901423806885512, 0.013100402432354245, 0.00218681807512271, weight_cap=1.05,
        max_mean_epsilon=0.14217192919618732,
    )  # fmt: skip
    rng = np.random.default_rng((1, 13))
    rng.choice(3), rng.integers(0, 3)  # only so that the sellers are these
    costs = np.clip(rng.random(33_000) ** 2, 1e-6, 1.0)
    psi = virtual_costs(costs, dist)
    allocation, found = pay(costs, objective, dist)
    near = nearest_to_the_cap(allocation, psi)[:150]
    assert_as_if_alone(near, costs, psi, allocation, objective, dist, found)


def test_who_is_at_the_cap_below_a_gap_is_paid_exactly():
    """The dearest below a gap in which the cap ends: a table of premiums was wrong by up to 9e-5."""
    dist, objective = Uniform(1, 5), BuyerObjective(0.3, 0.3, 0.0004217, weight_cap=2.5)
    rng = np.random.default_rng(1120)
    costs = rng.permutation(np.concatenate([rng.uniform(1, 2, 300), rng.uniform(2.4, 4, 1500)]))
    psi = virtual_costs(costs, dist)
    allocation, found = pay(costs, objective, dist)
    edge = allocation.cutoff - allocation.max_weight * allocation.spread
    assert dist.virtual_cost(2.0) < edge < dist.virtual_cost(2.4)
    own = int(np.argmax(np.where(costs < 2.0, costs, 0.0)))
    assert found.payments[own] == pytest.approx(by_solving_again(costs, own, objective, dist), rel=1e-9)
    near = nearest_to_the_cap(allocation, psi)[:100]
    assert_as_if_alone(near, costs, psi, allocation, objective, dist, found)


@pytest.mark.parametrize("seed", [95, 523, 547, 558, 869, 1005, 501, 1400, 5078, 5777, 5968, 6107])
def test_nobody_is_paid_otherwise_than_alone_by_more_than_the_stated_error(seed):
    """Costs in clusters, caps between them and within; in these markets it was stated too small."""
    dist, rng = Uniform(1, 5), np.random.default_rng(seed)
    costs = np.clip(rng.choice(rng.uniform(1, 5, 4), 2500) + 0.2 * rng.uniform(-1, 1, 2500), 1, 5)
    concentration, weight, cap = (10.0 ** rng.uniform(*ends) for ends in ((-1, 2), (-6, -2), (-1.5, 0.7)))
    objective = BuyerObjective(concentration, 1.0, weight, weight_cap=1.0 + cap)
    psi = virtual_costs(costs, dist)
    allocation, found = pay(costs, objective, dist)
    bought = np.flatnonzero(allocation.epsilons > 0.0)
    asked = Asked(costs[bought], psi[bought], allocation.epsilons[bought])
    premiums, errors = Market(psi, allocation, objective, dist).integrated(asked, 1e-12)
    missed = np.abs(found.payments[bought] - asked.epsilons * (asked.costs + premiums))
    stated = found.errors[bought] + asked.epsilons * errors
    assert (missed <= stated).all()
    assert (found.errors[bought] <= 1e-9 * found.payments[bought]).all()


def nearest_to_the_cap(allocation, psi):
    """Return who is bought from, those first whose virtual cost is closest to where the cap begins."""
    bought = np.flatnonzero(allocation.epsilons > 0.0)
    edge = allocation.cutoff - allocation.max_weight * allocation.spread
    return bought[np.argsort(np.abs(psi[bought] - edge))]


def assert_as_if_alone(near, costs, psi, allocation, objective, dist, found):
    asked = Asked(costs[near], psi[near], allocation.epsilons[near])
    premiums, _ = Market(psi, allocation, objective, dist).integrated(asked, 1e-13)
    paid = asked.epsilons * (asked.costs + premiums)
    np.testing.assert_allclose(found.payments[near], paid, rtol=2e-10)


def test_if_everybody_is_next_to_the_cap_no_table_is_made(monkeypatch):
    def refuse(*_):
        raise AssertionError("a table was made")

    dist, objective = Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.01, weight_cap=3.0)
    costs = np.random.default_rng(0).uniform(1, 5, 6000)
    psi = virtual_costs(costs, dist)
    monkeypatch.setattr("dpmarket.payments.market.cap_zone", lambda case: (-np.inf, np.inf))
    monkeypatch.setattr(Market, "_premium_table", refuse)
    allocation, found = pay(costs, objective, dist)
    assert allocation.n_bought > 1024  # more than would be integrated anyway
    assert_as_if_alone(
        np.flatnonzero(allocation.epsilons)[:50], costs, psi, allocation, objective, dist, found
    )
