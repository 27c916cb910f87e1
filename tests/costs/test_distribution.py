"""What every cost distribution promises."""

import pickle

import numpy as np
import pytest
from scipy import stats

from dpmarket import CostDistribution, InvalidInput, Mixture, Uniform
from dpmarket.costs.text import distribution_from_dict
from support.distributions import NAMED

each = pytest.mark.parametrize("name", NAMED)
INNER = np.linspace(0.0005, 0.9995, 401)


@each
def test_cdf_quantile_and_density_fit_together(name):
    dist = NAMED[name]
    costs = dist.quantile(INNER)
    assert (np.diff(costs) >= 0).all()
    assert (np.abs(dist.cdf(costs) - INNER) <= 1e-9 + 64 * dist.pdf(costs) * np.spacing(costs)).all()
    walls = np.array(dist.breakpoints)
    room = np.abs(costs[:, None] - walls).min(axis=1, initial=np.inf)
    step = 1e-4 * np.minimum(room, dist.quantile(0.75) - dist.quantile(0.25))
    inside = room > 1e-6 * costs
    slope = (dist.cdf(costs + step) - dist.cdf(costs - step))[inside] / (2 * step[inside])
    rounding = 1e-14 / step[inside]
    np.testing.assert_array_less(np.abs(slope - dist.pdf(costs)[inside]), 1e-4 * slope + rounding + 1e-9)


@each
def test_outside_the_support_there_is_no_probability(name):
    dist = NAMED[name]
    low, high = dist.support
    if low > 0:
        assert dist.pdf(low / 2) == 0
        assert dist.cdf(low / 2) == 0
    if np.isfinite(high):
        assert dist.pdf(high * 1.01) == 0
        assert dist.cdf(high * 1.01) == 1
        assert dist.quantile(1.0) == high
    assert dist.quantile(0.0) == low


@each
def test_it_is_a_value_that_survives_pickling_and_plain_data(name):
    dist = NAMED[name]
    for twin in (pickle.loads(pickle.dumps(dist)), distribution_from_dict(dist.to_dict())):
        assert twin == dist
        assert hash(twin) == hash(dist)
        np.testing.assert_array_equal(twin.quantile(INNER), dist.quantile(INNER))
    assert dist != Uniform(1, 7)
    assert repr(dist).startswith("CostDistribution(kind=")


def test_a_scalar_gives_a_scalar_and_what_is_not_a_number_or_a_probability_is_refused():
    dist = NAMED["overlapping mixture"]
    for function in (dist.pdf, dist.cdf, dist.quantile):
        assert type(function(0.4)) is float
        assert function(np.full((2, 3), 0.4)).shape == (2, 3)
    for bad in (np.nan, [1.0, np.nan], "3", None):
        with pytest.raises(InvalidInput, match="costs"):
            dist.cdf(bad)
    for bad in (-0.1, 1.1, np.nan):
        with pytest.raises(InvalidInput, match="probabilities"):
            dist.quantile(bad)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CostDistribution(3), "scipy"),
        (lambda: CostDistribution(stats.norm()), "cut the distribution"),
        (lambda: CostDistribution(stats.lognorm(s=-1.0)), "valid"),
        (lambda: CostDistribution(stats.lognorm(s=[0.5, 1.0])), "scalar"),
        (lambda: CostDistribution(stats.expon(), 3, 2), "low < high"),
        (lambda: CostDistribution(stats.norm(), 30, 40), "probability"),
        (lambda: Uniform(5, 1), "low < high"),
        (lambda: Uniform(-1, 1), "low"),
        (lambda: Mixture([Uniform(0, 1)], [0.5]), "add up to 1"),
        (lambda: Mixture([], []), "one or more"),
    ],
)
def test_distributions_that_make_no_sense_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
