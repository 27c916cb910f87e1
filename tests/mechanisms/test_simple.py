"""Simple buyers: truth is best, nobody loses, and each spends its budget in expectation."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import dpmarket as dpm
from dpmarket import FromScipy, Infeasible, InvalidInput, Uniform
from dpmarket.mechanisms import CheapestK, PostedPrice, SameForAll
from dpmarket.mechanisms.simple import expected_price
from support.markets import GROUPS, LOG_NORMAL, SIMPLE

each = pytest.mark.parametrize("name", SIMPLE)


def markets(dist, rng):
    """Markets of several sizes, one of them with ties and reports outside the support."""
    low, high = dist.support
    for sellers in (1, 2, 6, 25):
        yield dist.sample(sellers, rng)
    yield np.concatenate((np.repeat(dist.sample(3, rng), 4), [low, high, 0.5 * low, 1.2 * high]))


@each
def test_no_seller_gains_by_any_misreport(name):
    buyer, rng = SIMPLE[name], np.random.default_rng(7)
    low, high = buyer.dist.support
    for reported in markets(buyer.dist, rng):
        outcome = buyer.run(reported)
        for i in range(0, reported.size, 3):
            cost = np.clip(reported[i], low, high)  # a true cost lies in the support
            truth = buyer.respond(reported, i, cost)
            gain = truth.payment - cost * truth.epsilon
            assert gain >= 0.0
            if cost == reported[i]:
                assert truth == (outcome.epsilons[i], outcome.payments[i])
            beside = np.concatenate((reported, reported * (1 - 1e-12), reported * (1 + 1e-12)))
            lies = np.concatenate((np.linspace(0.0, 1.2 * high, 200), beside))
            best = buyer.response_curve(reported, i, lies).utilities(cost).max()
            assert best - gain <= 1e-12 * high * buyer.epsilon


@each
def test_every_report_gets_what_a_whole_run_with_it_decides(name):
    buyer, rng = SIMPLE[name], np.random.default_rng(1)
    assert isinstance(buyer, dpm.mechanisms.Mechanism)
    for reported in markets(buyer.dist, rng):
        for i in range(0, reported.size, 4):
            for lie in (*reported[:8], *buyer.dist.support, 0.0):
                moved = reported.copy()
                moved[i] = lie
                outcome = buyer.run(moved)
                assert buyer.respond(reported, i, lie) == (outcome.epsilons[i], outcome.payments[i])


@each
def test_nobody_loses_by_taking_part_in_exact_arithmetic(name):
    buyer, rng = SIMPLE[name], np.random.default_rng(3)
    for reported in markets(buyer.dist, rng):
        outcome = buyer.run(reported)
        for cost, epsilon, payment in zip(reported, outcome.epsilons, outcome.payments, strict=True):
            assert Fraction(payment) >= Fraction(cost) * Fraction(epsilon)
            assert (payment == 0) == (epsilon == 0)


@each
def test_an_outcome_adds_up_and_survives_a_file(name, tmp_path):
    buyer = SIMPLE[name]
    outcome = buyer.run(buyer.dist.sample(30, np.random.default_rng(0)), [f"s{k}" for k in range(30)])
    assert outcome.planned_weights.sum() == pytest.approx(1.0)
    assert outcome.epsilons.sum() == outcome.total_promise == pytest.approx(outcome.planned_noise_rate)
    np.testing.assert_allclose(outcome.planned_weights * outcome.planned_noise_rate, outcome.epsilons)
    dpm.mechanisms.write_outcome(tmp_path / "outcome.json", outcome)
    assert dpm.mechanisms.read_outcome(tmp_path / "outcome.json").to_dict() == outcome.to_dict()
    with pytest.raises(dataclasses.FrozenInstanceError):
        buyer.epsilon = 1.0


@each
def test_who_minimised_nothing_shows_no_optimality_anywhere(name):
    outcome = SIMPLE[name].run([1.2, 1.4, 2.5])
    assert outcome.optimality is None
    assert not {"optimality", "cutoff", "kkt_residual"} & outcome.to_dict().keys()
    assert not any("objective" in row or "residual" in row or "cutoff" in row for row, _ in outcome.summary())


def test_a_price_that_nobody_accepts_buys_nothing():
    outcome = PostedPrice(Uniform(1, 5), epsilon=0.3, price=0.5).run([1.0, 2.0])
    assert outcome.total_payment == outcome.planned_noise_rate == 0.0
    assert outcome.planned_weights.tolist() == [0.0, 0.0]


def test_exactly_k_are_bought_from_at_the_next_price_even_among_equals():
    costs = np.array([2.0, 1.5, 2.0, 2.0, 1.5, 3.0])
    for k, price in ((1, 1.5), (2, 2.0), (3, 2.0), (4, 2.0), (5, 3.0), (6, 5.0), (9, 5.0)):
        outcome = CheapestK(Uniform(1, 5), k, 0.5).run(costs)
        assert (outcome.epsilons > 0).sum() == min(k, 6)
        assert set(outcome.payments[outcome.epsilons > 0]) == {price * 0.5}
    assert CheapestK(Uniform(1, 5), 3, 0.5).run(costs).epsilons.tolist() == [0.5, 0.5, 0, 0, 0.5, 0]


SIZED = {
    "posted price": lambda dist, m, budget: PostedPrice.for_budget(dist, m, budget, share=0.3),
    "posted price for everybody": lambda dist, m, budget: PostedPrice.for_budget(dist, m, budget, share=1.0),
    "cheapest k": lambda dist, m, budget: CheapestK.for_budget(dist, m, budget, k=m // 3),
    "cheapest k of fewer": lambda dist, m, budget: CheapestK.for_budget(dist, m, budget, k=2 * m),
    "same for all": SameForAll.for_budget,
}


@pytest.mark.parametrize("dist", [Uniform(1, 5), LOG_NORMAL, GROUPS], ids=["uniform", "log-normal", "groups"])
@pytest.mark.parametrize("name", SIZED)
def test_a_buyer_sized_for_a_budget_spends_it_in_expectation(name, dist):
    # Mean of 400 markets within 5 standard errors: false alarms below 1e-6 by the normal limit; a tenth more
    # money would be noticed (asserted).
    rng = np.random.default_rng(5)
    buyer = SIZED[name](dist, 30, 12.0)
    totals = [buyer.run(dist.sample(30, rng)).total_payment for _ in range(400)]
    error = np.std(totals, ddof=1) / np.sqrt(400)
    assert abs(np.mean(totals) - 12.0) <= 5 * error + 1e-9
    assert 5 * error < 0.1 * 12.0


def test_the_expected_price_of_uniform_costs_is_the_order_statistics_mean():
    for sellers, k in ((1, 1), (5, 2), (100, 30), (10**6, 1000)):
        worked = 1 + 4 * min((k + 1) / (sellers + 1), 1.0)
        assert expected_price(Uniform(1, 5), sellers, k) == pytest.approx(worked, rel=1e-9)


@pytest.mark.parametrize(
    "dist", [stats.lognorm(s=2.0), stats.expon(), stats.pareto(3.0), stats.beta(0.5, 0.5)]
)
def test_the_expected_price_counts_the_tail(dist):
    # A second way: the mean of a positive number is the integral of the chance to exceed each level.
    for sellers, k in ((2, 1), (30, 29), (30, 3)):
        mean = quad(
            lambda t, m=sellers, k=k: stats.binom.cdf(k, m, dist.cdf(np.exp(t))) * np.exp(t),
            -40.0, 40.0, points=[0.0, 5.0], limit=500, epsabs=0.0, epsrel=1e-9,
        )[0]  # fmt: skip
        assert expected_price(FromScipy(dist), sellers, k) == pytest.approx(mean, rel=1e-6)


def test_the_expected_price_counts_gaps_between_groups():
    # Of two costs the higher: a uniform's from 0 to 1 if both are below 1, else from 2 to 3.
    assert expected_price(GROUPS, 2, 1) == pytest.approx(0.25 * 2 / 3 + 0.5 * 2.5 + 0.25 * (2 + 2 / 3))


def test_costs_without_an_upper_end_are_refused_where_somebody_must_be_paid_whatever_it_costs():
    endless = FromScipy(stats.expon())
    for refused in (
        lambda: SameForAll(endless, 0.1),
        lambda: PostedPrice.for_budget(endless, 10, 1.0, share=1.0),
        lambda: CheapestK.for_budget(endless, 10, 1.0, k=10),
        lambda: CheapestK(endless, 3, 0.1).run([1.0, 2.0, 3.0]),
        lambda: CheapestK(endless, 3, 0.1).respond([1.0, 2.0, 3.0], 0, 1.0),
    ):
        with pytest.raises(Infeasible, match="upper end"):
            refused()
    assert CheapestK(endless, 2, 0.1).run([1.0, 2.0, 9.0]).total_payment == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PostedPrice("uniform", 0.1, 1.0), "cost distribution"),
        (lambda: PostedPrice(Uniform(1, 5), 0.0, 1.0), "epsilon"),
        (lambda: PostedPrice(Uniform(1, 5), 0.1, -1.0), "price"),
        (lambda: PostedPrice(Uniform(1, 5), 0.1, np.inf), "price"),
        (lambda: CheapestK(Uniform(1, 5), 0, 0.1), "k to be"),
        (lambda: CheapestK(Uniform(1, 5), 1.5, 0.1), "k to be"),
        (lambda: SameForAll(Uniform(1, 5), np.nan), "epsilon"),
        (lambda: SameForAll.for_budget(Uniform(1, 5), 0, 1.0), "sellers"),
        (lambda: SameForAll.for_budget(Uniform(1, 5), 10, 0.0), "budget"),
        (lambda: PostedPrice.for_budget(Uniform(1, 5), 10, 1.0, share=1.5), "share"),
        (lambda: PostedPrice.for_budget(Uniform(1, 5), 10, 1.0, share=0.0), "share"),
    ],
)
def test_buyers_that_make_no_sense_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


@pytest.mark.parametrize("name", ["posted price", "cheapest one", "same for all"])
def test_reports_and_questions_that_make_no_sense_are_refused(name):
    buyer = SIMPLE[name]
    for bad in ([], [1.0, np.nan], [1.0, -2.5], [1.0, np.inf], ["1"], [[1.0]]):
        with pytest.raises(InvalidInput, match="reported_costs") as refusal:
            buyer.run(bad)
        assert "2.5" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="repeated"):
        buyer.run([1.0, 2.0], ["a", "a"])
    for i, report in ((3, 2.0), (-1, 2.0), (0.0, 2.0), (0, -1.0), (0, np.nan), (0, "2"), (0, [2.0])):
        with pytest.raises(InvalidInput, match=r"i to be|report"):
            buyer.respond([1.0, 2.0, 3.0], i, report)
