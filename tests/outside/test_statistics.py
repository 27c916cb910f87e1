"""The error of a mean as it is planned for, and what the cheapest k are paid."""

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.mechanisms import CheapestK
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import PrivateMean


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


def test_the_cheapest_are_paid_the_first_report_that_is_not_bought():
    mechanism = CheapestK(k=2, epsilon=0.5, reserve_price=5.0, objective=dpm.Objective.for_model(3))
    assert mechanism.run([1.0, 2.0, 3.0, 4.0]).payments.tolist() == [1.5, 1.5, 0.0, 0.0]
    for report in np.linspace(1.0, 5.0, 41):  # what the second seller could report
        outcome = mechanism.run([1.0, report, 3.0, 4.0])
        assert outcome.payments[1] - 2.0 * outcome.epsilons[1] <= 0.5 + 1e-12
