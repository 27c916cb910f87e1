"""The table of virtual costs: exact for the uniform, ironed where needed, true to its distribution."""

import numpy as np
import pytest
from scipy import stats

from dpmarket.costs import CostDistribution, Empirical, Mixture, Uniform
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import InvalidInput

DISTRIBUTIONS = {
    "log-normal": CostDistribution(stats.lognorm(s=0.5, scale=2.0)),
    "beta that vanishes at the top": CostDistribution(stats.beta(5, 5, loc=1, scale=4)),
    "exponential from 0": CostDistribution(stats.expon()),
    "density that rises at the top": CostDistribution(stats.beta(0.5, 0.5)),
    "irregular": Mixture([Uniform(1, 2), Uniform(1, 5), Uniform(3.5, 4)], [0.5, 0.2, 0.3]),
    "gap": Mixture([Uniform(1, 2), Uniform(3, 4)], [0.5, 0.5]),
    "pilot": Empirical(np.random.default_rng(0).gamma(3, 1, 200)),
}


@pytest.mark.parametrize(("low", "high"), [(1, 5), (0, 1), (0.1, 0.3), (2.5, 1e6)])
def test_a_uniform_distribution_has_two_exact_knots(low, high):
    psi = VirtualCost.of(Uniform(low, high))
    assert psi.knots.tolist() == [low, high]
    np.testing.assert_allclose(psi.values, [low, 2 * high - low], rtol=1e-14)


def hull_slopes(dist, at, top, n=40_001):
    """Ironing by its definition: slopes of the lower convex hull of u times the quantile of u."""
    u = np.linspace(0.0, top, n)
    z = u * np.asarray(dist.quantile(u))
    hull = [0]
    for k in range(1, n):
        while len(hull) > 1 and (z[hull[-1]] - z[hull[-2]]) * (u[k] - u[hull[-1]]) >= (z[k] - z[hull[-1]]) * (
            u[hull[-1]] - u[hull[-2]]
        ):
            hull.pop()
        hull.append(k)
    middles, slopes = 0.5 * (u[hull[1:]] + u[hull[:-1]]), np.diff(z[hull]) / np.diff(u[hull])
    piece = np.clip(np.searchsorted(u[hull], at, side="right") - 1, 0, slopes.size - 1)
    flat = np.diff(u[hull])[piece] > 1.5 * top / (n - 1)
    return np.where(flat, slopes[piece], np.interp(at, middles, slopes))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_table_is_the_ironed_virtual_cost_within_its_tolerance(name):
    dist = DISTRIBUTIONS[name]
    psi = VirtualCost.of(dist)
    costs = dist.quantile(np.linspace(0.1, 0.99, 400))
    costs = costs[costs < psi.reserve_price]
    expected = hull_slopes(dist, np.asarray(dist.cdf(costs)), float(dist.cdf(psi.reserve_price)))
    off = np.abs(psi(costs) / expected - 1.0)
    assert np.quantile(off, 0.97) < 1.2e-3  # at jumps of the density the exact one has jumps
    assert (np.diff(psi.values) >= 0.0).all()
    assert psi.knots.size < 150


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_inverse_is_the_highest_cost_of_a_virtual_cost(name):
    psi = VirtualCost.of(DISTRIBUTIONS[name])
    values = np.linspace(psi.values[0], psi.values[-1], 300)
    costs = psi.inverse(values)
    np.testing.assert_allclose(psi(costs), values, rtol=1e-5, atol=1e-12)  # some pieces are steep
    above = np.minimum(costs * (1 + 1e-6) + 1e-9, psi.reserve_price)
    assert ((psi(above) > values) | (above <= costs * (1 + 1e-12))).all()
    assert np.isnan(psi.inverse(psi.values[0] - 1.0))


class Contradictory:
    """A uniform law with a density that is so many times the derivative of its cdf."""

    def __init__(self, factor):
        self.factor, self.law = factor, stats.uniform(1, 4)
        self.cdf, self.ppf, self.support = self.law.cdf, self.law.ppf, self.law.support

    def pdf(self, costs):
        return self.factor * self.law.pdf(costs)


def test_a_density_that_contradicts_its_cdf_is_refused():
    VirtualCost.of(CostDistribution(Contradictory(1.0)))
    for factor in (0.98, 1.02, 2.0):
        with pytest.raises(InvalidInput, match="derivative"):
            VirtualCost.of(CostDistribution(Contradictory(factor)))


def test_tables_survive_plain_data_and_refuse_what_is_no_table():
    psi = VirtualCost.of(DISTRIBUTIONS["irregular"])
    assert VirtualCost.from_dict(psi.to_dict()) == psi
    for knots, values in (([1], [1]), ([1, 1], [1, 2]), ([1, 2], [2, 1]), ([-1, 2], [0, 1])):
        with pytest.raises(InvalidInput):
            VirtualCost(knots, values)
