"""Intervals cover sampling and noise together, as often as they say, and use nothing private.

Counts of simulated runs are compared with binomial limits at a false-alarm rate of 1e-6, with fixed seeds.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from dpmarket.privacy import SeededNoise
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    PrivateVectorMean,
)
from dpmarket.statistics.intervals import largest_spread, mean_tail

FALSE_ALARM = 1e-6
RUNS = 300
PROMISES = {"mostly sampling": 4.0, "mostly noise": 0.02}


def is_often_enough(covered, confidence, runs=RUNS):
    return covered >= binom.ppf(FALSE_ALARM, runs, confidence)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 5.0, 300.0])
@pytest.mark.parametrize("x", [0.5, 2.0, 6.0])
def test_the_tail_is_the_integral_over_the_noise(ratio, x):
    deviation, scale = ratio, 1.0
    here = x * max(deviation, scale)

    def integrand(z):
        beyond = min(1.0, np.exp(-0.5 * max(here - z, 0.0) ** 2 / deviation**2))
        return 0.5 * np.exp(-abs(z)) * beyond

    near = here + deviation * np.array([-8.0, -3.0, -1.0, 0.0])
    edges = np.unique(np.clip([-40.0, -5.0, 0.0, 5.0, 40.0, *near, here + 40.0], -40.0, here + 40.0))
    exact = sum(quad(integrand, *ends, epsabs=1e-16, limit=500)[0] for ends in pairwise(edges))
    assert mean_tail(here, deviation, scale) == pytest.approx(exact, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.3, 0.5, 0.5000002, 0.51, 0.8, 0.999])
def test_the_spread_bounds_how_far_answers_fall_below_their_mean_and_is_reached(mean):
    """E exp(-t (X - mean)) <= exp(v t^2 / 2) for a yes-or-no answer, with equality for some t."""
    spread = float(largest_spread(mean, mean))
    if mean == 0.0:
        assert spread < 1e-9
        return
    t = np.geomspace(1e-4, 200.0, 4_000)
    logarithms = t * mean + np.log1p(mean * np.expm1(-t))
    ratios = 2.0 * logarithms / t**2
    assert (ratios[t > 1e-2] <= spread * (1.0 + 1e-9)).all()
    assert ratios.max() >= 0.999 * spread
    assert spread <= 0.25


# What is asked, records of it from a random generator, and what holds in their population.
SHARES = [0.5, 0.4, 0.1]
ASKED = {
    "share": (PrivateShare, (), lambda rng: rng.random(150) < 0.5, 0.5),
    "rare share": (PrivateShare, (), lambda rng: rng.random(150) < 0.03, 0.03),
    "mean": (PrivateMean, (2.0, 5.0), lambda rng: rng.choice([2.0, 5.0], 150), 3.5),
    "histogram": (PrivateHistogram, ((0, 1, 2),), lambda rng: rng.choice(3, 150, p=SHARES), SHARES),
    "quantile": (PrivateQuantile, (0.3, range(0, 101, 2)), lambda rng: rng.uniform(0.0, 100.0, 400), 30.0),
}


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("name", ASKED)
def test_intervals_cover_the_population_as_often_as_they_say(name, promise):
    kind, settings, draw, truth = ASKED[name]
    rng, covered = np.random.default_rng(7), 0
    for seed in range(RUNS):
        records = draw(rng)
        epsilons = PROMISES[promise] * (
            rng.uniform(0.0, 2.0, 150) if name == "mean" else np.ones(len(records))
        )
        statistic = kind(*settings, confidence=0.8, noise_source=SeededNoise(seed))
        lows, highs = statistic.fit(records, epsilons=epsilons).interval_
        covered += bool(np.all((np.asarray(lows) <= truth) & (truth <= np.asarray(highs))))
    assert is_often_enough(covered, 0.8)
    if (name, promise) == ("share", "mostly noise"):  # whose law is known: the interval is not too wide
        assert covered <= binom.isf(FALSE_ALARM, RUNS, 0.85)


@pytest.mark.parametrize("promise", PROMISES)
def test_the_ball_around_a_vector_mean_holds_the_populations_mean(promise):
    rng, covered = np.random.default_rng(5), 0
    for seed in range(200):
        rows = rng.choice([-1.0, 1.0], (150, 1)) * [0.6, 0.8]
        mean = PrivateVectorMean(("a", "b"), 1.0, confidence=0.8, noise_source=SeededNoise(seed))
        mean.fit(rows, epsilons=np.full(150, PROMISES[promise]))
        covered += float(np.linalg.norm(mean.value_)) <= mean.release_.radius
    assert is_often_enough(covered, 0.8, 200)


def test_an_interval_of_a_quantile_is_narrow_where_much_was_promised():
    values = np.random.default_rng(0).uniform(0.0, 100.0, 20_000)
    candidates = np.linspace(0.0, 100.0, 501)
    narrow, wide, absent = (
        PrivateQuantile(0.5, candidates, share, epsilon=each, noise_source=SeededNoise(1)).fit(values)
        for share, each in ((0.5, 1.0), (0.5, 1e-4), (0.0, 1.0))
    )
    assert narrow.interval_[1] - narrow.interval_[0] < 6.0
    assert wide.interval_ == (0.0, 100.0)
    assert absent.interval_ is None
    assert absent.release_.highs is None
