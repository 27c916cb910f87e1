"""The distributions that every contract test runs over, and random ones for property tests."""

import numpy as np
from hypothesis import strategies as st
from scipy import stats

from dpmarket.costs import Empirical, FromScipy, Mixture, Uniform


def _pilot():
    return np.random.default_rng(1).lognormal(0.0, 1.0, 500)


NAMED = {
    "uniform": Uniform(1, 5),
    "uniform from 0": Uniform(0, 1),
    "exponential": FromScipy(stats.expon()),
    "log-normal, cut": FromScipy(stats.lognorm(s=0.5, scale=2.0), 0, 10),
    "heavy tail, cut": FromScipy(stats.pareto(b=0.5), 1, 1e6),
    "Cauchy, cut": FromScipy(stats.cauchy(loc=2.0), 0, 50),
    "far tail": FromScipy(stats.expon(), 10, 12),
    "gamma": FromScipy(stats.gamma(a=2.0, scale=3.0), 0, 40),
    "bell away from 0": FromScipy(stats.norm(100, 0.01), 99, 101),
    "U-shaped beta": FromScipy(stats.beta(0.5, 0.5)),
    "rising beta": FromScipy(stats.beta(5.0, 0.5), 0, 0.999),
    "empirical": Empirical(_pilot()),
    "bimodal mixture": Mixture(
        [FromScipy(stats.norm(1, 0.1), 0, 5), FromScipy(stats.norm(3, 0.2), 0, 5)], [0.6, 0.4]
    ),
    "mixture with a gap": Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]),
    "overlapping mixture": Mixture([Uniform(0, 2), Uniform(1, 4)], [0.3, 0.7]),
}
IRREGULAR = ("U-shaped beta", "bimodal mixture", "mixture with a gap", "overlapping mixture")


def _reals(low, high):
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


UNIFORMS = st.builds(lambda low, width: Uniform(low, low + width), _reals(0, 100), _reals(0.01, 100))
SCIPY = st.one_of(
    st.builds(
        lambda s, scale, high: FromScipy(stats.lognorm(s=s, scale=scale), 0, high * scale),
        _reals(0.1, 2.0),
        _reals(0.01, 100),
        _reals(1.0, 50.0),
    ),
    st.builds(lambda a, high: FromScipy(stats.gamma(a=a), 0, a + high), _reals(0.3, 20), _reals(1.0, 60.0)),
    st.builds(
        lambda a, b, scale: FromScipy(stats.beta(a=a, b=b, scale=scale)),
        _reals(0.3, 5.0),
        _reals(0.3, 5.0),
        _reals(0.1, 10.0),
    ),
    st.builds(lambda b, high: FromScipy(stats.pareto(b=b), 1, 1 + high), _reals(0.3, 3), _reals(0.5, 1e5)),
)
EMPIRICAL = st.builds(
    lambda seed, n: Empirical(np.random.default_rng(seed).gamma(1.5, size=n)),
    st.integers(0, 10**6),
    st.integers(20, 300),
)
SIMPLE = st.one_of(UNIFORMS, SCIPY, EMPIRICAL)
MIXTURES = st.builds(lambda a, b, w: Mixture([a, b], [w, 1 - w]), SIMPLE, SIMPLE, _reals(0.05, 0.95))
ANY = st.one_of(SIMPLE, MIXTURES)
