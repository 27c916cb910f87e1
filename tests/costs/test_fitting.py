"""From a pilot's reports to a distribution."""

import numpy as np
import pytest

from dpmarket import Empirical, InvalidInput, fit_costs


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("uniform", lambda r: r.uniform(1, 5, 2000)),
        ("log-normal", lambda r: r.lognormal(0.5, 0.8, 2000)),
        ("gamma", lambda r: r.gamma(0.6, 2.0, 2000)),
        ("beta", lambda r: r.beta(5, 2, 2000)),
        ("histogram", lambda r: np.concatenate((r.normal(1, 0.05, 1200), r.normal(4, 0.1, 800)))),
    ],
)
def test_the_family_that_made_the_costs_is_found(name, draw):
    samples = draw(rng())
    fit = fit_costs(samples)
    assert fit.candidates[0].name == name
    scores = [c.log_likelihood for c in fit.candidates]
    assert scores == sorted(scores, reverse=True)
    # Kolmogorov-Smirnov distance below 5/sqrt(n) (DKW: false alarm < 4e-22), fitted parameters included.
    ordered = np.sort(samples)
    distance = np.abs(fit.distribution.cdf(ordered) - (np.arange(2000) + 0.5) / 2000).max()
    assert distance < 5 / np.sqrt(2000) / 2


def test_heavy_tails_are_not_taken_for_a_bounded_family_in_any_order():
    samples = rng().lognormal(0.0, 1.0, 150)
    fit = fit_costs(samples)
    assert fit.candidates[0].name in {"log-normal", "gamma"}
    assert fit_costs(samples[::-1]) == fit


def test_costs_of_zero_rule_out_families_that_cannot_have_them():
    samples = np.concatenate((np.zeros(3), rng().uniform(0, 1, 100)))
    fit = fit_costs(samples)
    bad = {c.name: c.log_likelihood for c in fit.candidates}
    assert bad["log-normal"] == bad["gamma"] == bad["beta"] == -np.inf
    assert fit.candidates[0].name in {"uniform", "histogram"}
    assert fit.distribution is not None


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.arange(19.0), "at least 20 samples, got 19"),
        (np.full(30, 2.5), "all equal"),
        (np.r_[np.arange(30.0), np.nan], "1 NaN"),
        (np.r_[np.arange(30.0), -1], "1 negative"),
        (["a"] * 30, "numbers"),
    ],
)
@pytest.mark.parametrize("function", [fit_costs, Empirical])
def test_pilots_that_say_nothing_are_refused(function, samples, words):
    with pytest.raises(InvalidInput, match=words):
        function(samples)


@pytest.mark.parametrize("seed", [0, 4, 19])
def test_the_empirical_density_is_positive_bounded_and_whole(seed):
    r = np.random.default_rng(seed)
    samples = np.round(r.lognormal(0, 2, 20 + 40 * seed), 1)  # many ties, three orders of magnitude
    dist = Empirical(samples)
    low, high = dist.support
    density = dist.pdf(np.linspace(low, high, 2001))
    assert 0.0 < density.min() <= density.max() < np.inf
    assert dist.cdf(high) == 1.0
    assert low <= samples.min() < samples.max() < high
