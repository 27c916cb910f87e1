"""What every cost distribution promises, over named and random ones."""

import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from scipy import integrate

from dpmarket import InvalidInput, Mixture, virtual_costs
from dpmarket.costs import CostDistribution, distribution_from_dict, largest_cost_at, virtual_cost_density
from support import distributions

NAMED = distributions.NAMED
each = pytest.mark.parametrize("name", NAMED)
INNER = np.linspace(0.0005, 0.9995, 401)


def _smooth_costs(dist):
    """Costs at which the density is smooth: quantiles away from breakpoints."""
    costs = dist.quantile(INNER)
    walls = np.array([*dist.support, *dist.breakpoints])
    away = np.abs(costs[:, None] - walls).min(axis=1)
    return costs[(away > 1e-6 * costs) & (away > 0)]


def assert_cdf_and_quantile_are_inverse(dist):
    costs = dist.quantile(INNER)
    assert (np.diff(costs) >= 0).all()
    # One float step of the cost changes the cdf by up to pdf*spacing: no inverse can be closer.
    slack = 1e-11 + 32 * np.minimum(dist.pdf(costs), 1e300) * np.spacing(costs)
    assert (np.abs(dist.cdf(costs) - INNER) <= slack).all()


def assert_pdf_is_the_derivative_of_cdf(dist):
    costs = _smooth_costs(dist)
    walls = np.array([end for end in (*dist.support, *dist.breakpoints) if np.isfinite(end)])
    step = 1e-4 * np.minimum(
        np.abs(costs[:, None] - walls).min(axis=1), dist.quantile(0.75) - dist.quantile(0.25)
    )
    # A density from two differences, 4th order; what the cdf's rounding can do to it is allowed for.
    slope = (
        8 * (dist.cdf(costs + step) - dist.cdf(costs - step))
        - (dist.cdf(costs + 2 * step) - dist.cdf(costs - 2 * step))
    ) / (12 * step)
    rounding = 1e-14 + 4 * dist.pdf(costs) * np.spacing(costs)  # of the cdf, and of costs +- step
    assert (np.abs(slope - dist.pdf(costs)) <= 1e-6 * dist.pdf(costs) + rounding / step).all()


def assert_mean_virtual_cost_is_the_top(dist):
    low, high = dist.support
    if not np.isfinite(high):
        return
    ends = [end for i in dist.ironed_intervals for end in (i.low, i.high)]
    quantiles = dist.quantile(
        np.array([1e-9, 1e-6, 1e-3, 0.03, 0.2, 0.5, 0.8, 0.97, 0.999, 1 - 1e-6, 1 - 1e-9])
    )
    cuts = np.unique(np.clip([*dist.breakpoints, *ends, *quantiles], low, high))
    nodes, weights = np.polynomial.legendre.leggauss(160)
    t = (nodes + 1) * np.pi / 4
    # c = a + (b-a) sin^2 t makes the integrand smooth even where the density is infinite at an end.
    start, width = cuts[:-1, None], np.diff(cuts)[:, None]
    c = start + width * np.sin(t) ** 2
    f, psi = dist.pdf(c), dist.virtual_cost(c)
    with np.errstate(invalid="ignore"):
        # Where the density underflows and psi overflows, psi*f = c*f + F is F.
        integrand = np.where(np.isfinite(psi), psi * f, dist.cdf(c))
    integrand[np.isinf(f)] = 0.0  # a node that was rounded onto the very end
    total = (integrand * width * np.sin(2 * t) * weights).sum() * np.pi / 4
    assert total == pytest.approx(high, rel=1e-6)


def assert_ironed_psi_never_falls(dist):
    low, high = dist.support
    top = high if np.isfinite(high) else dist.quantile(1 - 1e-9)
    costs = np.unique(
        np.concatenate((dist.quantile(np.linspace(0, 1 - 1e-9, 5001)), np.linspace(low, top, 5001)))
    )
    psi = dist.virtual_cost(costs)
    finite = np.isfinite(psi)
    assert (np.diff(psi[finite]) >= -2e-10 * np.abs(psi[finite][1:])).all()
    assert not np.isfinite(psi[np.flatnonzero(finite)[-1] + 1 :]).any()


def assert_psi_is_only_changed_where_ironed(dist):
    costs = _smooth_costs(dist)
    with np.errstate(divide="ignore"):
        raw = costs + dist.cdf(costs) / dist.pdf(costs)
    for interval in dist.ironed_intervals:
        within = (costs > interval.low) & (costs < interval.high)
        assert (dist.virtual_cost(costs[within]) == interval.virtual_cost).all()
        raw, costs = raw[~within], costs[~within]
    np.testing.assert_allclose(dist.virtual_cost(costs), raw, rtol=1e-9)


CONTRACT = [
    assert_cdf_and_quantile_are_inverse,
    assert_pdf_is_the_derivative_of_cdf,
    assert_ironed_psi_never_falls,
    assert_psi_is_only_changed_where_ironed,
    assert_mean_virtual_cost_is_the_top,
]


@each
def test_every_distribution_keeps_the_contract(name):
    for promise in CONTRACT:
        promise(NAMED[name])


@given(distributions.ANY)
@settings(max_examples=40)
def test_random_distributions_keep_the_contract(dist):
    for promise in CONTRACT[:4]:
        promise(dist)


@given(distributions.SIMPLE)
@settings(max_examples=15)
def test_random_distributions_have_the_top_as_mean_virtual_cost(dist):
    # A density so steep at the top that floats next to it hold visible probability cannot be integrated
    # over costs to 1e-6.
    assume(1.0 - dist.cdf(dist.support[1] * (1.0 - 1e-14)) < 1e-9)
    assert_mean_virtual_cost_is_the_top(dist)


@each
def test_it_obeys_the_protocol_and_survives_pickling_and_plain_data(name):
    dist = NAMED[name]
    assert isinstance(dist, CostDistribution)
    for twin in (pickle.loads(pickle.dumps(dist)), distribution_from_dict(dist.to_dict())):
        assert twin.support == dist.support
        costs = dist.quantile(INNER)
        np.testing.assert_allclose(twin.virtual_cost(costs), dist.virtual_cost(costs), rtol=1e-13)


@each
def test_a_scalar_gives_a_scalar_and_an_array_keeps_its_shape(name):
    dist = NAMED[name]
    for function in (dist.pdf, dist.cdf, dist.quantile, dist.virtual_cost, dist.virtual_cost_slope):
        point = 0.4 if function == dist.quantile else dist.quantile(0.4)
        assert type(function(point)) is float
        grid = function(np.full((2, 3), point))
        assert grid.shape == (2, 3)
        np.testing.assert_allclose(grid, function(point), rtol=1e-9)
    assert type(virtual_costs(dist.quantile(0.4), dist)) is float


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
def test_samples_follow_the_cdf(name):
    # Kolmogorov-Smirnov at 5.0/sqrt(n): by the DKW inequality a false alarm has probability < 4e-22.
    # A mistake of 3% anywhere in the cdf is found (5/sqrt(40000) = 0.025).
    dist = NAMED[name]
    n = 40_000
    samples = np.sort(dist.sample(n, np.random.default_rng(3)))
    assert np.abs(dist.cdf(samples) - (np.arange(n) + 0.5) / n).max() < 5 / np.sqrt(n)
    assert dist.sample(0, np.random.default_rng(3)).shape == (0,)


@each
def test_the_slope_is_that_of_the_virtual_cost(name):
    dist = NAMED[name]
    costs = _smooth_costs(dist)[::20]
    walls = np.array(
        [*dist.support, *dist.breakpoints, *(e for i in dist.ironed_intervals for e in (i.low, i.high))]
    )
    room = np.minimum(np.abs(costs[:, None] - walls).min(axis=1), dist.quantile(0.75) - dist.quantile(0.25))
    costs, step = costs[room > 1e-4], 1e-3 * room[room > 1e-4]
    p = dist.virtual_cost
    slope = (8 * (p(costs + step) - p(costs - step)) - (p(costs + 2 * step) - p(costs - 2 * step))) / (
        12 * step
    )
    # The differences' own error: rounding of psi over the step.
    noise = 1e-13 * np.abs(p(costs)) / step
    assert (np.abs(dist.virtual_cost_slope(costs) - slope) <= 1e-5 * np.abs(slope) + noise).all()


@each
def test_the_inverse_of_psi_finds_the_cost(name):
    dist = NAMED[name]
    costs = dist.quantile(np.linspace(0.01, 0.99, 57))
    back = largest_cost_at(dist.virtual_cost(costs), dist)
    inside = np.zeros(len(costs), bool)
    for interval in dist.ironed_intervals:
        inside |= (costs >= interval.low) & (costs <= interval.high)
        assert largest_cost_at(interval.virtual_cost, dist) == pytest.approx(interval.high, rel=1e-6)
    np.testing.assert_allclose(back[~inside], costs[~inside], rtol=1e-7)


@each
def test_the_density_of_psi_has_the_probability_of_the_costs(name):
    dist = NAMED[name]
    if dist.ironed_intervals:
        levels = [i.virtual_cost for i in dist.ironed_intervals]
        assert np.isinf(virtual_cost_density(np.array(levels), dist)).all()
        top = min(i.low for i in dist.ironed_intervals)
        low, high = dist.quantile(0.3 * dist.cdf(top)), dist.quantile(0.6 * dist.cdf(top))
    else:
        low, high = dist.quantile(0.3), dist.quantile(0.6)
    a, b = dist.virtual_cost(low), dist.virtual_cost(high)
    x = np.linspace(a, b, 401)
    share = integrate.simpson(virtual_cost_density(x, dist), x=x)
    assert share == pytest.approx(dist.cdf(high) - dist.cdf(low), rel=2e-3)
    assert virtual_cost_density(dist.virtual_cost(dist.support[0]) * 0.5 - 1.0, dist) == 0


@pytest.mark.parametrize("name", distributions.IRREGULAR)
def test_irregular_distributions_are_really_ironed(name):
    dist = NAMED[name]
    assert not dist.is_regular
    for interval in dist.ironed_intervals:
        assert dist.cdf(interval.high) - dist.cdf(interval.low) > 0.01
        # The level keeps the mean over the interval: c*F is the integral of psi*f.
        gain = interval.high * dist.cdf(interval.high) - interval.low * dist.cdf(interval.low)
        share = dist.cdf(interval.high) - dist.cdf(interval.low)
        assert gain / share == pytest.approx(interval.virtual_cost, rel=1e-12)


@pytest.mark.parametrize("name", sorted(set(NAMED) - set(distributions.IRREGULAR) - {"empirical"}))
def test_regular_distributions_are_left_alone(name):
    assert NAMED[name].ironed_intervals == () or name == "rising beta"


@each
def test_what_is_not_a_number_and_what_is_not_a_probability_is_refused(name):
    for bad in (np.nan, [1.0, np.nan], "3", None, [1 + 1j], [[1.0], [2.0, 3.0]]):
        for function in (NAMED[name].pdf, NAMED[name].cdf, NAMED[name].virtual_cost):
            with pytest.raises(InvalidInput, match="costs"):
                function(bad)
    for bad in (-0.1, 1.1, np.nan, [0.5, 2.0]):
        with pytest.raises(InvalidInput, match="probabilities"):
            NAMED[name].quantile(bad)


def test_a_mixture_of_one_is_that_one():
    dist = NAMED["gamma"]
    costs = dist.quantile(INNER)
    single = Mixture([dist], [1.0])
    np.testing.assert_allclose(single.virtual_cost(costs), dist.virtual_cost(costs), rtol=1e-12)
    np.testing.assert_allclose(single.quantile(INNER), costs, rtol=1e-12)
