"""The distributions that every contract test runs over."""

import numpy as np
from scipy import stats

from dpmarket.costs import CostDistribution, Empirical, Mixture, Uniform


def _pilot():
    return np.random.default_rng(1).lognormal(0.0, 1.0, 500)


NAMED = {
    "uniform": Uniform(1, 5),
    "uniform from 0": Uniform(0, 1),
    "exponential": CostDistribution(stats.expon()),
    "log-normal, cut": CostDistribution(stats.lognorm(s=0.5, scale=2.0), 0, 10),
    "heavy tail, cut": CostDistribution(stats.pareto(b=0.5), 1, 1e6),
    "Cauchy, cut": CostDistribution(stats.cauchy(loc=2.0), 0, 50),
    "far tail": CostDistribution(stats.expon(), 5, 7),
    "gamma": CostDistribution(stats.gamma(a=2.0, scale=3.0), 0, 40),
    "bell away from 0": CostDistribution(stats.norm(100, 0.01), 99, 101),
    "U-shaped beta": CostDistribution(stats.beta(0.5, 0.5)),
    "rising beta": CostDistribution(stats.beta(5.0, 0.5), 0, 0.999),
    "empirical": Empirical(_pilot()),
    "bimodal mixture": Mixture(
        [CostDistribution(stats.norm(1, 0.1), 0, 5), CostDistribution(stats.norm(3, 0.2), 0, 5)], [0.6, 0.4]
    ),
    "mixture with a gap": Mixture([Uniform(0, 1), Uniform(2, 3)], [0.5, 0.5]),
    "overlapping mixture": Mixture([Uniform(0, 2), Uniform(1, 4)], [0.3, 0.7]),
}
