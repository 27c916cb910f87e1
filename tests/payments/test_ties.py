"""Costs that people type in: equal costs are paid once each, in every case of the payments."""

import numpy as np
import pytest
from scipy import stats

from dpmarket import BuyerObjective, FromScipy, OfflineMechanism, Uniform, allocate, virtual_costs
from dpmarket.payments import market as market_module
from dpmarket.payments.kernels.alone import Alone, many_may_enter
from dpmarket.payments.kernels.integrals import Asked, epsilons_at
from dpmarket.payments.kernels.several import ANY, NEW, ONE, Several
from dpmarket.payments.kernels.whole import Whole
from dpmarket.payments.market import TOLERANCE, Market
from dpmarket.payments.ties import distinct_costs

UNIFORM = Uniform(1, 5)


def test_distinct_costs_are_found_with_one_seller_each():
    costs = np.round(np.random.default_rng(0).uniform(1, 5, 3000), 1)
    first, which = distinct_costs(costs)
    np.testing.assert_array_equal(costs[first], np.unique(costs))
    np.testing.assert_array_equal(costs[first][which], costs)


def test_costs_that_hardly_repeat_are_left_alone():
    costs = np.random.default_rng(0).uniform(1, 5, 4 * 2048)
    assert distinct_costs(costs) is None
    # A sample full of ties may mislead: the whole has the last word.
    costs[::4] = 2.0
    assert distinct_costs(costs) is None


@pytest.mark.parametrize("cap", [None, 3.0])
@pytest.mark.parametrize("step", [0.01, 0.5, 1.0])
def test_tied_costs_are_paid_as_each_seller_alone(step, cap):
    costs = np.round(UNIFORM.sample(1500, np.random.default_rng(7)) / step) * step
    objective = BuyerObjective(1.0, 1.0, 1e-3, weight_cap=cap)
    outcome = OfflineMechanism(UNIFORM, objective).run(costs)
    psi = virtual_costs(costs, UNIFORM)
    allocation = allocate(psi, objective)
    market = Market(psi, allocation, objective, UNIFORM)
    some = np.flatnonzero(allocation.epsilons > 0)[::37]
    premiums, _ = market.integrated(Asked(costs[some], psi[some], allocation.epsilons[some]), TOLERANCE)
    expected = allocation.epsilons[some] * (costs[some] + premiums)
    np.testing.assert_allclose(outcome.payments[some], expected, rtol=1e-14)


def test_only_distinct_costs_are_integrated(monkeypatch):
    asked_for = []
    integrals = market_module.integrals

    def spy(case, table, asked, top, tolerance):
        asked_for.append(asked.costs.size)
        return integrals(case, table, asked, top, tolerance)

    monkeypatch.setattr(market_module, "integrals", spy)
    costs = np.round(UNIFORM.sample(20_000, np.random.default_rng(1)), 2)
    outcome = OfflineMechanism(UNIFORM, BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0)).run(costs)
    bought = outcome.epsilons > 0
    assert bought.sum() > 5000
    assert sum(asked_for) == np.unique(costs[bought]).size


def test_thousands_of_sellers_who_all_ask_the_same_are_paid_the_same():
    # Nothing to tabulate: the cheapest cost is the only one bought.
    costs = np.concatenate((np.full(3000, 1.5), np.full(3000, 4.5)))
    outcome = OfflineMechanism(UNIFORM, BuyerObjective(1.0, 1.0, 0.01)).run(costs)
    payments = outcome.payments[outcome.epsilons > 0]
    assert payments.size == 3000
    assert np.unique(payments).size == 1
    moved = virtual_costs(costs, UNIFORM)

    def rise(report):
        """The envelope: J(report) - J(cost) is 2 * payment_weight * the integral of epsilon between them."""
        moved[0] = virtual_costs(report, UNIFORM)
        return allocate(moved, BuyerObjective(1.0, 1.0, 0.01)).objective_value

    expected = 1.5 * outcome.epsilons[0] + (rise(5.0) - rise(1.5)) / 0.02
    assert payments[0] == pytest.approx(expected, rel=1e-8)


def test_everybody_alike_is_paid_up_to_the_top_of_any_support():
    costs = UNIFORM.sample(50, np.random.default_rng(0))
    objective = BuyerObjective(1e3, 1e-3, 1e-250)
    outcome = OfflineMechanism(UNIFORM, objective).run(costs)
    psi = 2 * costs - 1

    def total(x):
        return np.sqrt(1e-3 / (1e-250 * (psi.sum() - psi[0] + x) / 50)) / 50

    grid = np.linspace(costs[0], 5, 20_001)
    values = total(2 * grid - 1)
    integral = ((values[1:] + values[:-1]) / 2 * np.diff(grid)).sum()
    assert outcome.payments[0] == pytest.approx(costs[0] * outcome.epsilons[0] + integral, rel=1e-8)


# --- hard markets --------------------------------------------------------------------------------


def ties_above(sellers, ties, distance):
    """Equal costs right above the cutoff of the others."""
    costs = UNIFORM.sample(sellers, np.random.default_rng(0))
    objective = BuyerObjective(1.0, 1.0, 1e-3)
    cutoff = allocate(virtual_costs(costs, UNIFORM), objective).cutoff
    return np.concatenate((costs, np.full(ties, 0.5 * (cutoff + 1) * (1 + distance)))), objective


@pytest.mark.parametrize("distance", [1e-6, 1e-4])
@pytest.mark.parametrize("ties", [500, 2000])
def test_hundreds_of_ties_right_above_the_cutoff_need_no_whole_walk(ties, distance):
    costs, objective = ties_above(3000, ties, distance)
    psi = virtual_costs(costs, UNIFORM)
    allocation = allocate(psi, objective)
    market = Market(psi, allocation, objective, UNIFORM)
    assert isinstance(market.case, Alone | Several)
    bought = np.flatnonzero(allocation.epsilons > 0)
    cheapest = bought[np.argsort(costs[bought])]
    some = cheapest[[0, cheapest.size // 3, cheapest.size // 2]]
    asked = Asked(costs[some], psi[some], allocation.epsilons[some])
    quick, _ = market.integrated(asked, TOLERANCE)
    assert np.isfinite(quick).all()
    market.case = Whole(market.case.problem)
    whole, _ = market.integrated(asked, TOLERANCE)
    np.testing.assert_allclose(quick, whole, rtol=1e-12)


@pytest.mark.parametrize(
    ("ties", "distance", "expected"), [(500, 1e-6, True), (500, 0.05, False), (3, 1e-6, False)]
)
def test_ties_may_enter_where_they_are_many_and_close(ties, distance, expected):
    costs, objective = ties_above(3000, ties, distance)
    psi = virtual_costs(costs, UNIFORM)
    case = Market(psi, allocate(psi, objective), objective, UNIFORM).case
    assert isinstance(case, Alone)
    assert many_may_enter(case) == expected


def random_market(rng):
    """Groups of costs, some of them ties, with a payment weight near which two minima are equally good."""
    level, parts = rng.uniform(0.2, 2.0), []
    for group in range(int(rng.integers(2, 5))):
        count = int(10 ** (rng.uniform(0.3, 1.4) + 0.5 * group))
        part = rng.uniform(level, level * (1 + 10 ** rng.uniform(-6, -1)), count)
        parts.append((part, np.full(count, level), np.round(part, 2))[rng.integers(3)])
        level *= 1 + 10 ** rng.uniform(-0.5, 0.9)
    psi = np.sort(np.concatenate(parts))
    bounds = ({}, {"weight_cap": 1.5}, {"weight_cap": 5.0}, {"max_mean_epsilon": 0.05})[rng.integers(4)]

    def gap(weight):
        values = sorted(
            m.objective_value for m in allocate(psi, BuyerObjective(1, 1, weight, **bounds)).local_minima
        )
        return values[1] / values[0] - 1 if len(values) > 1 else np.inf

    weights = np.geomspace(1e-4, 10.0, 25)
    weight = weights[np.argmin([gap(w) for w in weights])]
    for width in (0.3, 0.1, 0.03, 0.01, 1e-3):
        near = weight * (1 + width * np.linspace(-1, 1, 5))
        weight = near[np.argmin([gap(w) for w in near])]
    return psi, BuyerObjective(1, 1, float(weight), **bounds)


def epsilons_agree_with_whole_walks(seed):
    """Compare all reports of some sellers; return the case and the kinds of its stretches."""
    rng = np.random.default_rng(seed)
    psi, objective = random_market(rng)
    allocation = allocate(psi, objective)
    case = Market(psi, allocation, objective, Uniform(0, 1e4)).case
    if isinstance(case, Whole):
        return case, set()
    top = psi[-1]
    for own in psi[rng.integers(0, allocation.n_bought, 2)]:
        near = own + np.linspace(0, 1.05, 25) * (allocation.cutoff - own)
        reports = np.concatenate((near, rng.uniform(own, top, 10), psi[psi >= own][:3]))
        quick = epsilons_at(case, own, reports)
        whole = epsilons_at(Whole(case.problem), own, reports)
        known = ~np.isnan(quick)
        assert known.mean() > 0.5
        np.testing.assert_allclose(quick[known], whole[known], rtol=1e-8, atol=1e-10 * whole.max())
    return case, set(case.stretches.kind.tolist()) if isinstance(case, Several) else set()


def test_where_several_minima_are_close_every_report_gets_what_the_whole_path_says():
    kinds, cases = set(), []
    for seed in range(40):
        case, found = epsilons_agree_with_whole_walks(seed)
        kinds |= found
        cases.append(type(case))
    assert kinds == {ONE, NEW, ANY}
    assert cases.count(Several) > 15
    assert cases.count(Whole) < 8


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 1100, 100))
def test_hundreds_of_hard_markets_get_what_the_whole_path_says(start):
    cases = [type(epsilons_agree_with_whole_walks(seed)[0]) for seed in range(start, start + 100)]
    assert cases.count(Several) > 30


def test_ties_in_cents_of_a_curved_distribution_are_paid_right():
    dist = FromScipy(stats.lognorm(s=0.5, scale=2.0), 0, 20)
    costs = np.round(dist.sample(3000, np.random.default_rng(4)), 1)
    objective = BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0)
    outcome = OfflineMechanism(dist, objective).run(costs)
    curve = OfflineMechanism(dist, objective).response_curve(costs, 5, [costs[5]])
    assert outcome.payments[5] == pytest.approx(curve.payments[0], rel=1e-9)
