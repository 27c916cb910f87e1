"""Kinks in one seller's epsilon: how they are found, and that the stated error covers the real one."""

import numpy as np
import pytest

from dpmarket import BuyerObjective, OfflineMechanism, Uniform, allocate, virtual_costs
from dpmarket.payments.kernels import kinks, tables
from dpmarket.payments.kernels.alone import Alone, many_may_enter, point_alone
from dpmarket.payments.kernels.brackets import Bracket, guess, narrowed
from dpmarket.payments.kernels.integrals import Asked, epsilons_at
from dpmarket.payments.kernels.quadrature import NODES, rule, rule_of_few
from dpmarket.payments.market import TOLERANCE, Market

UNIFORM = Uniform(1, 5)
OBJECTIVE = BuyerObjective(1.0, 1.0, 1e-3)


def ties_above(sellers, ties, distance):
    costs = UNIFORM.sample(sellers, np.random.default_rng(7))
    cutoff = allocate(virtual_costs(costs, UNIFORM), OBJECTIVE).cutoff
    return np.concatenate((costs, np.full(ties, 0.5 * (cutoff + 1) * (1 + distance))))


def market_of(costs):
    psi = virtual_costs(costs, UNIFORM)
    allocation = allocate(psi, OBJECTIVE)
    return Market(psi, allocation, OBJECTIVE, UNIFORM), psi, allocation


def mean_of_kink(theta):
    """The mean of |x - theta| over [-1, 1]."""
    return ((1 - theta) ** 2 + (1 + theta) ** 2) / 4


@pytest.mark.parametrize("quadrature", [rule, rule_of_few])
def test_the_stated_error_covers_a_kink_wherever_it_is(quadrature):
    for theta in np.linspace(-1, 1, 4001):
        mean, missing = quadrature(np.abs(NODES - theta), 1 + theta, 1 - theta)
        assert abs(mean - mean_of_kink(theta)) <= missing + 1e-15


def test_the_stated_error_of_two_kinks_is_hardly_ever_short():
    rng = np.random.default_rng(0)
    short = 0
    for a, b, weight in zip(*rng.uniform(-1, 1, (2, 4000)), rng.normal(size=4000), strict=True):
        values = np.abs(NODES - a) + weight * np.abs(NODES - b)
        mean, missing = rule(values, 1 + a + weight * (1 + b), 1 - a + weight * (1 - b))
        short += abs(mean - mean_of_kink(a) - weight * mean_of_kink(b)) > missing
    # About 4 in expectation; two rules compared with one another are short in hundreds.
    assert short <= 20


@pytest.mark.parametrize(("quadrature", "degree"), [(rule, 22), (rule_of_few, 13)])
def test_a_rule_is_exact_for_polynomials_up_to_its_degree(quadrature, degree):
    for k in range(degree + 1):
        mean, _ = quadrature(NODES**k, (-1.0) ** k, 1.0)
        assert mean == pytest.approx(0.0 if k % 2 else 1 / (k + 1), abs=1e-15)
    assert abs(quadrature(NODES ** (2 * degree), 1.0, 1.0)[0] - 1 / (2 * degree + 1)) > 1e-9


@pytest.mark.parametrize(
    ("sellers", "ties", "distance"), [(1500, 400, 1e-6), (1500, 1200, 1e-6), (2000, 60, 1e-4)]
)
def test_payments_are_as_exact_as_they_say_where_others_enter_together(sellers, ties, distance):
    costs = ties_above(sellers, ties, distance)
    market, psi, _ = market_of(costs)
    outcome = OfflineMechanism(UNIFORM, OBJECTIVE).run(costs)
    bought = np.flatnonzero(outcome.epsilons > 0)
    bought = bought[np.argsort(costs[bought])]
    nodes, weights = np.polynomial.legendre.leggauss(5)
    for i in bought[:: bought.size // 40]:
        # Up to the cutoff without them, in thousands of short pieces: a kink then does next to nothing.
        others = np.where(np.arange(psi.size) == i, np.inf, psi)
        edges = np.linspace(costs[i], 0.5 * (allocate(others, OBJECTIVE).cutoff + 1), 4001)
        half = 0.5 * np.diff(edges)
        points = (0.5 * (edges[1:] + edges[:-1]))[:, None] + half[:, None] * nodes
        epsilons = epsilons_at(market.case, psi[i], 2 * points.reshape(-1) - 1).reshape(points.shape)
        expected = costs[i] * outcome.epsilons[i] + (epsilons @ weights) @ half
        assert abs(outcome.payments[i] - expected) <= outcome.payment_errors[i] + 2e-11 * expected


def test_a_piece_is_cut_where_the_ties_enter():
    costs = ties_above(1500, 400, 1e-6)
    market, psi, allocation = market_of(costs)
    assert isinstance(market.case, Alone)
    own = int(np.argmin(costs))
    tie = psi[-1]
    left, right = costs[own], 0.5 * (allocation.cutoff + 1)
    places = [left, *(0.5 * (left + right) + 0.5 * (right - left) * NODES), right]
    seen = np.array([point_alone(market.case, psi[own], 2 * z - 1)[1:] for z in places])
    assert (seen[:, 0] > tie).any()
    assert (seen[:, 0] < tie).any()
    cuts = np.empty(kinks.MOST)
    count = kinks.cuts_at_kinks(market.case, psi[own], market.psi, seen, (left, right), cuts)
    cutoffs = [
        point_alone(market.case, psi[own], tables.value_at(market.psi, z)).cutoff for z in cuts[:count]
    ]
    assert (np.diff(cuts[:count]) > 0).all()
    assert min(abs(cutoff - tie) for cutoff in cutoffs) <= 1e-14 * tie
    # Every cut is where the cutoff passes somebody's cost.
    assert all(np.abs(psi - cutoff).min() <= 1e-14 * cutoff for cutoff in cutoffs)


def test_a_piece_in_which_nobody_enters_is_cut_in_its_middle():
    market, psi, allocation = market_of(ties_above(1500, 400, 1e-6))
    seen = np.full((17, 2), allocation.cutoff)
    cuts = np.empty(kinks.MOST)
    assert kinks.cuts_at_kinks(market.case, psi[0], market.psi, seen, (2.0, 3.0), cuts) == 1
    assert cuts[0] == 2.5


def test_ties_count_as_close_with_a_single_seller_before_them():
    costs = ties_above(3000, 500, 1e-4)
    market, psi, allocation = market_of(costs)
    between = 0.5 * (allocation.cutoff + psi[-1])
    market, *_ = market_of(np.append(costs, 0.5 * (between + 1)))
    first = market.case.problem.psi[market.case.anchor.bought :][:2]
    assert first[0] < first[1]
    assert many_may_enter(market.case)


def test_a_bracket_closes_on_a_root_and_both_ends_move():
    def curved(x):
        return x**3 - 8.0

    bracket = Bracket(0.0, 7.0, curved(0.0), curved(7.0), 0)
    for _ in range(16):
        x = guess(bracket)
        bracket = narrowed(bracket, x, curved(x))
        assert bracket.low <= 2.0 <= bracket.high
    assert bracket.low > 1.9
    assert bracket.high < 2.1
    assert x == pytest.approx(2.0, rel=1e-9)


def test_everybody_s_integral_is_within_the_tolerance_of_a_much_finer_one():
    costs = ties_above(2000, 300, 1e-5)
    market, psi, allocation = market_of(costs)
    bought = np.flatnonzero(allocation.epsilons > 0)[::7]
    asked = Asked(costs[bought], psi[bought], allocation.epsilons[bought])
    (premiums, errors), (finer, _) = market.integrated(asked, TOLERANCE), market.integrated(asked, 1e-14)
    assert (np.abs(premiums - finer) <= errors + 1e-14 * asked.costs).all()
