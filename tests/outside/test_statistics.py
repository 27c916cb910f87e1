"""Statistics, the cheapest k and the joint mechanism: what their public names guarantee."""

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.mechanisms import CheapestK, JointMechanism
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import (
    PrivateMean,
    PrivateQuantile,
    SeveralStatistics,
)

LARGE = 1e5  # an epsilon at which noise is far below what is compared


def test_records_of_one_person_count_as_their_mean():
    values, people = [6.0, 6.0, 6.0, 0.0], ["ada", "ada", "ada", "bob"]
    budgets = {"ada": LARGE, "bob": LARGE}
    mean = PrivateMean(0, 6, rows_per_person=3).fit(values, epsilons=budgets, people=people)
    assert mean.release_.values[0] == pytest.approx(3.0, abs=0.01)


def test_the_error_that_prices_are_planned_for_is_that_of_the_noise():
    """The variance of 500 releases; seeds are fixed, so that it never fails by luck."""
    low, high, epsilons = -2.0, 4.0, np.array([0.1, 0.2, 0.3, 0.2, 0.2]) / 4.0
    made = [
        PrivateMean(low, high, noise_source=SeededNoise(seed)).fit(np.ones(5), epsilons).release_
        for seed in range(500)
    ]
    # Whole numbers before they are brought into the public range: all of the noise is in them.
    raw = np.array([float(one.numerators[0]) / one.denominator for one in made]) * (high - low)
    expected = PrivateMean(low, high).error.noise / epsilons.sum() ** 2
    assert raw.var() == pytest.approx(expected, rel=0.35)


def test_several_statistics_share_one_promise():
    epsilons = np.full(30, 0.4)
    several = SeveralStatistics({"a": PrivateMean(0, 1), "b": PrivateMean(0, 1)}, shares={"a": 3, "b": 1})
    several.fit({"a": np.ones(30), "b": np.ones(30)}, epsilons=epsilons)
    assert (several.epsilons_ <= epsilons).all()
    spent = {name: release.total_epsilon for name, release in several.releases_.items()}
    assert spent["a"] == pytest.approx(9.0, rel=1e-3)
    assert spent["b"] == pytest.approx(3.0, rel=1e-3)
    assert sum(spent.values()) <= epsilons.sum()


def test_the_interval_of_a_quantile_is_part_of_its_promise():
    epsilons = np.full(40, 0.5)
    ages = np.linspace(20, 60, 40)
    median = PrivateQuantile(0.5, candidates=range(0, 101), interval_share=0.5).fit(ages, epsilons)
    assert (median.epsilons_ <= epsilons).all()
    assert median.release_.lows[0] <= median.release_.values[0] <= median.release_.highs[0]


def test_what_a_statistic_shows_warns_of_self_selection():
    mean = PrivateMean(0, 1).fit(np.ones(30), epsilons=np.ones(30))
    assert "biased" in mean.release_._repr_html_()


def test_the_cheapest_are_paid_the_first_report_that_is_not_bought():
    mechanism = CheapestK(k=2, epsilon=0.5, reserve_price=5.0, objective=dpm.Objective.for_model(3))
    assert mechanism.run([1.0, 2.0, 3.0, 4.0]).payments.tolist() == [1.5, 1.5, 0.0, 0.0]
    for report in np.linspace(1.0, 5.0, 41):  # what the second seller could report
        outcome = mechanism.run([1.0, report, 3.0, 4.0])
        assert outcome.payments[1] - 2.0 * outcome.epsilons[1] <= 0.5 + 1e-12


def test_the_joint_mechanism_pays_the_integral_of_its_own_rule():
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, size=(12, 2))
    y = np.where(x[:, 0] > 0, 1, -1)
    costs = rng.uniform(1, 5, 12)
    psi = dpm.VirtualCost.of(dpm.Uniform(1, 5))
    market = JointMechanism(costs=psi, mu=10.0, sigma=1.0, gamma=0.01, l2=1.0).with_records(x, y)
    outcome = market.run(costs)
    assert (outcome.payments >= costs * outcome.epsilons).all()
    i = int(outcome.epsilons.argmax())
    reports = np.linspace(costs[i], 5.0, 21)
    epsilons = [market.respond(costs, i, z)[0] for z in reports]
    paid = costs[i] * epsilons[0] + np.trapezoid(epsilons, reports)
    assert outcome.payments[i] == pytest.approx(paid, rel=5e-3)
